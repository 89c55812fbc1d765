"""TensorBoard and logging: the readings of an optimizer, and a run that goes on after a stop.

python examples/tensorboard_readings.py
"""

import logging
import sys
import tempfile

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import colangevin as cl
from colangevin.integrations import to_logging, to_tensorboard, watch

STEPS = 400


def make() -> tuple[nn.Module, cl.CoLA]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    groups = cl.constrain_(model, {"0.weight": cl.Orthogonal()})
    return model, cl.CoLA(groups, step_size=0.2, friction=1.0, temperature=1e-3, seed=0)


def train(model: nn.Module, optimizer: cl.CoLA, steps: int) -> float:
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(inputs).squeeze(1) - inputs[:, 0] * inputs[:, 1]).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> None:
    logger = logging.getLogger("training")
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.StreamHandler(sys.stdout))
    model, optimizer = make()
    last = train(model, optimizer, STEPS)

    model, optimizer = make()
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            watch(optimizer, to_tensorboard(writer), every=20)
            train(model, optimizer, STEPS // 2)
        saved = model.state_dict(), optimizer.state_dict()

        model, optimizer = make()
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        with SummaryWriter(folder) as writer:
            watch(optimizer, to_tensorboard(writer), every=20)
            watch(optimizer, to_logging(logger), every=STEPS)
            again = train(model, optimizer, STEPS // 2)
        events = EventAccumulator(folder).Reload()
        steps = [event.step for event in events.Scalars("violation/0.weight")]
        kinetic = [event.value for event in events.Scalars("kinetic_temperature/0.weight")]
    print(f"loss {last:.4f}, resumed at step {STEPS // 2}: {again:.4f}, the same: {again == last}")
    print(f"in TensorBoard: {len(steps)} readings, from step {steps[0]} to {steps[-1]}")
    print(f"mean kinetic temperature {sum(kinetic) / len(kinetic):.4f}, set: 0.0010")


if __name__ == "__main__":
    main()
