"""Lightning: an orthogonal layer, a temperature that falls to 0, a log, a stop and a resumption.

python examples/lightning_spirals.py
"""

import logging
import tempfile
import warnings
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import colangevin as cl
from colangevin.integrations.lightning import Monitor

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")
EPOCHS, BATCHES = 30, 4


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)
        )
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> dict[str, object]:
        rules = {"net.2.weight": cl.Orthogonal(), "net.*.weight": cl.Sphere(radius=3.0)}
        groups = cl.parameter_groups(self, rules)
        optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9, temperature=1e-5, seed=0)
        cooling = cl.TemperatureScheduler(optimizer, cl.annealing(EPOCHS * BATCHES))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cooling, "interval": "step"}}


def spirals() -> DataLoader[tuple[torch.Tensor, ...]]:
    along = torch.rand(400, generator=torch.Generator().manual_seed(0)) * 5.0 + 0.5
    label = torch.arange(400) % 2
    angle = along + torch.pi * label
    points = torch.stack([along * angle.cos(), along * angle.sin()], dim=1) / 5.0
    return DataLoader(TensorDataset(points, label), batch_size=100)


def fit(folder: Path, epochs: int, checkpoint: Path | None = None) -> Trainer:
    torch.manual_seed(1)
    trainer = Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[Monitor()],
        logger=CSVLogger(folder, flush_logs_every_n_steps=20),
        log_every_n_steps=20,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), spirals(), ckpt_path=checkpoint)
    return trainer


def of(group: str, logged: dict[str, torch.Tensor]) -> list[str]:
    return [name.partition("/")[0] for name in logged if name.endswith(f"/{group}")]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = fit(folder, EPOCHS)
        fit(folder, EPOCHS // 2).save_checkpoint(folder / "half.ckpt")
        resumed = fit(folder, EPOCHS, folder / "half.ckpt")
        logged = whole.callback_metrics
    first, last, again = whole.model.losses[0], whole.model.losses[-1], resumed.model.losses[-1]
    print(f"loss {first:.3f} -> {last:.3f}")
    print(f"resumed after {EPOCHS // 2} of {EPOCHS} epochs: {again:.3f}, the same: {again == last}")
    print(f"logged for net.2.weight: {', '.join(sorted(of('net.2.weight', logged)))}")
    print(f"orthogonal to 1e-6: {bool(logged['violation/net.2.weight'] < 1e-6)}")


if __name__ == "__main__":
    main()
