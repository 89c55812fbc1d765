"""Lightning: the callback, the temperature schedule, Multirate, averages, precision."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging, LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import colangevin as cl
from colangevin.integrations import unwrap
from colangevin.integrations.lightning import Monitor
from integrations.small import KINDS, data, loss_of, multirate_for, network, optimizer_for

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


class Module(LightningModule):
    def __init__(self, kind: str = "orthogonal", make: Any = None, cool: bool = True) -> None:
        super().__init__()
        self.net, self.kind, self.make, self.cool = network(), kind, make, cool
        self.losses: list[float] = []

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        loss = loss_of(self.net, *batch)
        self.losses.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: list[Tensor], index: int) -> None:
        self.log("val_loss", loss_of(self.net, *batch))

    def configure_optimizers(self) -> Any:
        if self.make is not None:
            return self.make(self.net)
        optimizer = optimizer_for(self.net, KINDS[self.kind])
        if not self.cool:
            return optimizer
        scheduler = cl.TemperatureScheduler(optimizer, cl.annealing(12, shape="linear"))
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def loader() -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(*data()), batch_size=16)


def trainer(epochs: int, **options: Any) -> Trainer:
    settings = {"logger": False, "callbacks": [], "accelerator": "cpu", **options}
    return Trainer(
        max_epochs=epochs,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        **settings,
    )


def rows(logger: CSVLogger) -> list[dict[str, str]]:
    with (Path(logger.log_dir) / "metrics.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column(logger: CSVLogger, name: str) -> list[float]:
    return [float(row[name]) for row in rows(logger) if row.get(name)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_losses_of_a_whole_one(kind: str, tmp_path: Path) -> None:
    whole = Module(kind)
    trainer(4).fit(whole, loader())
    half, first = Module(kind), trainer(2)
    first.fit(half, loader())
    first.save_checkpoint(tmp_path / "half.ckpt")
    torch.manual_seed(99)
    resumed, second = Module(kind), trainer(4)
    second.fit(resumed, loader(), ckpt_path=tmp_path / "half.ckpt")
    assert half.losses + resumed.losses == whole.losses
    assert second.optimizers[0].param_groups[0]["temperature"] == 0.0  # cooled down
    assert second.optimizers[0].param_groups[0]["lr"] == 0.02


def test_the_monitor_logs_what_the_optimizer_reads(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path)
    module = Module()
    made = trainer(2, callbacks=[Monitor(every=2), LearningRateMonitor()], logger=logger)
    made.fit(module, loader())
    temperatures = column(logger, "temperature/0.weight")
    # The schedule has made its step when the batch ends.
    assert temperatures == pytest.approx([1e-4 * (1 - n / 12) for n in (2, 4, 6)])
    last = unwrap(made.optimizers[0])
    violations = column(logger, "violation/0.weight")
    assert violations[-1] == pytest.approx(last.violation()[0].residual, rel=1e-3)
    assert max(violations) < 1e-6


def test_several_optimizers_and_foreign_ones(tmp_path: Path) -> None:
    class Manual(Module):
        automatic_optimization = False

        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: list[Tensor], index: int) -> None:
            ours, theirs = self.optimizers()
            loss = loss_of(self.net, *batch)
            self.manual_backward(loss)
            ours.step()
            theirs.step()

        def configure_optimizers(self) -> Any:
            own = cl.CoLA(self.net[0].parameters(), lr=0.01, constraint=None)
            return [own, torch.optim.SGD(self.net[2].parameters(), lr=0.01)]

    logger = CSVLogger(tmp_path)
    trainer(1, callbacks=[Monitor()], logger=logger).fit(Manual(), loader())
    assert column(logger, "0/temperature/group0")
    assert not any(name.startswith("1/") for name in rows(logger)[0])


def test_multirate_is_released_after_the_fit() -> None:
    module = Module(make=multirate_for)
    trainer(1).fit(module, loader())
    assert not module.net[0].weight.requires_grad  # three steps of a cycle of five
    module = Module(make=multirate_for)
    trainer(1, callbacks=[Monitor()]).fit(module, loader())
    assert module.net[0].weight.requires_grad


def test_multirate_is_released_after_an_exception() -> None:
    class Failing(Module):
        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            if index == 2:
                raise RuntimeError("enough")
            return super().training_step(batch, index)

    module = Failing(make=multirate_for)
    with pytest.raises(RuntimeError, match="enough"):
        trainer(1, callbacks=[Monitor()]).fit(module, loader())
    assert module.net[0].weight.requires_grad


def test_multirate_resumes_exactly(tmp_path: Path) -> None:
    whole = Module(make=multirate_for)
    trainer(4).fit(whole, loader())
    half, first = Module(make=multirate_for), trainer(2)
    first.fit(half, loader(), val_dataloaders=loader())
    first.save_checkpoint(tmp_path / "half.ckpt")
    resumed = Module(make=multirate_for)
    trainer(4).fit(resumed, loader(), ckpt_path=tmp_path / "half.ckpt")
    assert half.losses + resumed.losses == whole.losses


def test_an_average_is_put_back(tmp_path: Path) -> None:
    """Lightning leaves the average in the module."""
    module = Module(cool=False)
    trainer(4, callbacks=[EMAWeightAveraging(decay=0.8), Monitor()]).fit(
        module, loader(), val_dataloaders=loader()
    )
    rules = {"net.0.weight": cl.Orthogonal()}

    def error() -> float:
        weight = module.net[0].weight.detach()
        return float((weight.T @ weight - torch.eye(4)).abs().max())

    assert error() > 1e-5
    cl.constrain_(module, rules, frozen=True)
    assert error() < 1e-6


@pytest.mark.parametrize("options", [{"gradient_clip_val": 0.1}, {"accumulate_grad_batches": 2}])
@pytest.mark.parametrize("precision", ["32-true", "64-true"])
def test_options_of_the_trainer(options: dict[str, Any], precision: str) -> None:
    module = Module(cool=False)
    made = trainer(3, precision=precision, callbacks=[Monitor()], **options)
    made.fit(module, loader())
    assert unwrap(made.optimizers[0]).violation()[0].residual < 1e-6
    assert module.losses[-1] < module.losses[0]


def test_a_wrong_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        Monitor(every=0)


def test_fabric_saves_and_loads(tmp_path: Path) -> None:
    def run(steps: int, load: bool = False) -> list[float]:
        fabric = Fabric(accelerator="cpu", devices=1)
        plain = network()
        model, optimizer = fabric.setup(plain, optimizer_for(plain, cl.Orthogonal()))
        if load:
            fabric.load(tmp_path / "half.ckpt", {"model": model, "optimizer": optimizer})
        found = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model, *data())
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            found.append(float(loss.detach()))
        if not load:
            fabric.save(tmp_path / "half.ckpt", {"model": model, "optimizer": optimizer})
        assert unwrap(optimizer).violation()[0].residual < 1e-6
        return found

    whole = run(8)
    assert run(4) + run(4, load=True) == whole
