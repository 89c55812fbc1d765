"""Lightning: a callback that logs the readings of optimizers."""

from __future__ import annotations

from typing import Any

import torch

try:
    from lightning.pytorch import Callback
except ImportError:  # the older package has another Callback, and takes no other
    try:
        from pytorch_lightning import Callback
    except ImportError as error:
        raise ImportError(
            "Lightning is not installed: pip install lightning, or colangevin[integrations]"
        ) from error

from colangevin import checks
from colangevin.integrations.reading import parts_of, readings, release


class Monitor(Callback):
    """Logs violation, temperatures and friction of every optimizer of the module.

    The numbers are those of ``colangevin.integrations.readings``. They go to the loggers of the
    ``Trainer``, and to its ``callback_metrics``, which ``EarlyStopping`` and others look at.
    Optimizers that are not of this library are left out. With several optimizers the names begin
    with their index, as "0/violation/weight".

    After training, also after an exception, the slow parameters of a ``Multirate`` get their
    ``requires_grad`` back.

    Args:
        every: read at every so many optimizer steps; the ``Trainer``'s ``log_every_n_steps`` if
            None.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> trainer = Trainer(callbacks=[Monitor()], logger=False, enable_checkpointing=False)
    """

    def __init__(self, every: int | None = None) -> None:
        if every is not None:
            checks.count("every", every)
        self.every = every
        self._last = -1

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step, every = trainer.global_step, self.every or trainer.log_every_n_steps
        if step == self._last or every == 0 or step % every:  # a batch may make no step
            return
        self._last = step
        found = self._read(trainer)
        trainer.callback_metrics.update({name: torch.tensor(n) for name, n in found.items()})
        for logger in trainer.loggers:
            logger.log_metrics(found, step=_place(trainer))

    @staticmethod
    def _read(trainer: Any) -> dict[str, float]:
        several = len(trainer.optimizers) > 1
        found: dict[str, float] = {}
        for index, optimizer in enumerate(trainer.optimizers):
            if any(parts_of(optimizer)):
                prefix = f"{index}/" if several else ""
                found |= {prefix + name: n for name, n in readings(optimizer).items()}
        return found

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        for optimizer in trainer.optimizers:
            release(optimizer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)


def _place(trainer: Any) -> int:
    """Where Lightning draws what the module logs at this batch."""
    loop = trainer.fit_loop.epoch_loop
    place: int = getattr(loop, "_batches_that_stepped", trainer.global_step)
    return place
