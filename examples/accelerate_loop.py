"""Accelerate, in one process or several: a loop, a checkpoint, a resumption.

python examples/accelerate_loop.py
torchrun --nproc-per-node 2 examples/accelerate_loop.py
"""

import logging
import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import colangevin as cl
from colangevin.integrations import unwrap

logging.getLogger("colangevin").setLevel(logging.ERROR)
EPOCHS = 20


class Run:
    """A model, and all that trains it."""

    def __init__(self, accelerator: Accelerator) -> None:
        # Every process has its own global seed, which is common. Noise and weights still agree.
        set_seed(1, device_specific=True)
        inputs = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
        loader = DataLoader(TensorDataset(inputs, inputs.prod(dim=1).sign()), batch_size=32)
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        model = accelerator.prepare(model)
        rules = {"0.weight": cl.Orthogonal(), "2.weight": cl.Circle(radius=1.0)}
        groups = cl.parameter_groups(accelerator.unwrap_model(model), rules)
        optimizer = cl.CoLA(groups, lr=0.05, momentum=0.9, temperature=1e-4, seed=0)
        cooling = cl.TemperatureScheduler(optimizer, cl.annealing(EPOCHS * len(loader)))
        self.accelerator, self.model = accelerator, model
        self.optimizer, self.loader, self.cooling = accelerator.prepare(optimizer, loader, cooling)

    def train(self, epochs: int) -> float:
        total = torch.zeros(1)
        for _ in range(epochs):
            total.zero_()
            for inputs, targets in self.loader:
                loss = nn.functional.soft_margin_loss(self.model(inputs).squeeze(1), targets)
                self.accelerator.backward(loss)
                self.optimizer.step()
                self.cooling.step()
                self.optimizer.zero_grad()
                total += loss.detach() / len(self.loader)
        return float(self.accelerator.reduce(total, "mean"))


def main() -> None:
    accelerator = Accelerator(cpu=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(broadcast_object_list([name])[0])
        first = Run(accelerator)
        start = first.train(EPOCHS // 2)
        accelerator.save_state(folder)
        last = first.train(EPOCHS // 2)
        accelerator.free_memory()
        second = Run(accelerator)
        accelerator.load_state(folder)
        again = second.train(EPOCHS // 2)
        accelerator.wait_for_everyone()
    weights = torch.cat([p.detach().flatten() for p in second.model.parameters()])
    copies = accelerator.gather(weights[None])
    worst = max(violation.residual for violation in unwrap(second.optimizer).violation())
    accelerator.print(f"processes: {accelerator.num_processes}")
    accelerator.print(f"loss after {EPOCHS // 2} epochs {start:.3f}, after {EPOCHS} {last:.3f}")
    accelerator.print(f"resumed at {EPOCHS // 2}: {again:.3f}, the same: {again == last}")
    accelerator.print(f"all processes have the same weights: {bool((copies == weights).all())}")
    accelerator.print(f"constraints hold to 1e-6: {worst < 1e-6}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
