"""PEFT: LoRA adapters with an orthogonal factor A and a bounded factor B, saved and resumed.

python examples/peft_lora.py
"""

import logging
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

import colangevin as cl
from colangevin.integrations.peft import adapter_groups

logging.getLogger("colangevin").setLevel(logging.ERROR)
STEPS = 200


def pretrained() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )


def optimizer_of(model: nn.Module) -> cl.CoLA:
    groups = adapter_groups(model, a=cl.Orthogonal(), b=cl.Circle(radius=0.2))
    return cl.CoLA(groups, lr=0.1, momentum=0.9, temperature=1e-7, seed=0)


def train(model: nn.Module, optimizer: cl.CoLA, steps: int) -> float:
    inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(inputs).squeeze(1) - inputs.sum(dim=1).sin()).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> None:
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["0", "2"])
    base, model = pretrained(), get_peft_model(pretrained(), config)
    optimizer = optimizer_of(model)
    start = train(model, optimizer, 1)
    train(model, optimizer, STEPS // 2 - 1)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        torch.save(optimizer.state_dict(), Path(folder) / "optimizer.pt")
        last = train(model, optimizer, STEPS // 2)

        resumed = PeftModel.from_pretrained(pretrained(), folder, is_trainable=True)
        continued = optimizer_of(resumed)
        continued.load_state_dict(torch.load(Path(folder) / "optimizer.pt", weights_only=True))
    again = train(resumed, continued, STEPS // 2)
    print(f"loss {start:.3f} -> {last:.3f}")
    print(f"resumed after {STEPS // 2} of {STEPS} steps: {again:.3f}, the same: {again == last}")
    for group, violation in zip(optimizer.param_groups, optimizer.violation(), strict=True):
        sizes = [tuple(parameter.shape) for parameter in group["params"]]
        print(f"{group['name']} {sizes}: holds to 1e-6: {violation.residual < 1e-6}")
    kept = torch.equal(model.base_model.model[0].base_layer.weight, base[0].weight)
    print(f"the pretrained weights are as they were: {kept}")


if __name__ == "__main__":
    main()
