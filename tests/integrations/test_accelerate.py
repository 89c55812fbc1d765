"""Accelerate in one process; two processes are in the example."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import colangevin as cl
from colangevin.integrations import readings, unwrap
from integrations.small import KINDS, data, loss_of, network, optimizer_for


class Run:
    def __init__(self, kind: str, accelerator: Accelerator) -> None:
        model = network()
        optimizer = optimizer_for(model, KINDS[kind])
        cooling = cl.TemperatureScheduler(optimizer, cl.annealing(12, shape="linear"))
        loader = DataLoader(TensorDataset(*data()), batch_size=8)
        self.plain, self.accelerator = optimizer, accelerator
        self.model, self.optimizer, self.loader, self.cooling = accelerator.prepare(
            model, optimizer, loader, cooling
        )

    def epoch(self) -> list[float]:
        found = []
        for inputs, targets in self.loader:
            with self.accelerator.accumulate(self.model):
                loss = loss_of(self.model, inputs, targets)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.cooling.step()
                self.optimizer.zero_grad()
                found.append(float(loss.detach()))
        return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_losses_of_a_whole_one(kind: str, tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    run = Run(kind, accelerator)
    run.epoch()
    accelerator.save_state(tmp_path)
    temperature = run.plain.param_groups[0]["temperature"]
    whole = run.epoch()
    accelerator.free_memory()
    again = Run(kind, accelerator)
    torch.manual_seed(99)
    accelerator.load_state(tmp_path)
    assert again.plain.param_groups[0]["temperature"] == temperature == pytest.approx(0.75e-4)
    assert again.epoch() == whole
    # Three steps of six batches: the schedule has waited for the accumulated gradients.
    assert again.plain.param_groups[0]["temperature"] == pytest.approx(0.5e-4)
    assert again.plain.param_groups[0]["lr"] == 0.02


def test_the_optimizer_in_its_wrapper() -> None:
    run = Run("orthogonal", Accelerator(cpu=True))
    run.epoch()
    assert not hasattr(run.optimizer, "violation")
    assert unwrap(run.optimizer) is run.plain
    assert readings(run.optimizer) == readings(run.plain)
    assert unwrap(run.optimizer).violation()[0].residual < 1e-6
