"""Lightning: a callback that logs the readings of optimizers."""

from __future__ import annotations

from typing import Any

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
    ``Trainer``, as what the module logs itself. Optimizers that are not of this library are left
    out. With several optimizers the names begin with their index, as "0/violation/weight".

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
        several = len(trainer.optimizers) > 1
        for index, optimizer in enumerate(trainer.optimizers):
            if any(parts_of(optimizer)):
                prefix = f"{index}/" if several else ""
                found = readings(optimizer)
                pl_module.log_dict({prefix + name: number for name, number in found.items()})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        for optimizer in trainer.optimizers:
            release(optimizer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)
