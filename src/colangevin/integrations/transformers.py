"""The Trainer of Hugging Face: an optimizer from rules, and a callback that logs its readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        "transformers is not installed: pip install transformers accelerate, or "
        "colangevin[integrations]"
    ) from error

from colangevin.constraints import Constraint
from colangevin.integrations.reading import parts_of, readings, release
from colangevin.optimizers import CoLA, parameter_groups

Make = Callable[..., Any]


def optimizer_from(
    rules: Mapping[Any, Constraint | None], method: Make = CoLA, **options: Any
) -> tuple[Callable[[], Make], dict[str, Any]]:
    """What ``Trainer(optimizer_cls_and_kwargs=...)`` takes: an optimizer made from rules by name.

    The Trainer gives an optimizer class parameters without names. What is no class it calls as
    ``factory()(model, **options)``, so that rules can match the names in the model.

    Args:
        rules: constraints by pattern, as ``colangevin.parameter_groups`` takes them. {} leaves
            all weights free.
        method: makes the optimizer from groups and options: ``CoLA``, one of its methods, or a
            function of your own.
        options: of the optimizer, such as ``lr`` and ``momentum``. The Trainer's own arguments
            for optimizers (``learning_rate``, ``weight_decay``, ``optim``) have no effect.

    Raises:
        ValueError, TypeError: from the Trainer, for rules and options that are wrong.

    Example:
        >>> import colangevin as cl
        >>> rules = {"*.dense.weight": cl.Orthogonal()}
        >>> factory, options = optimizer_from(rules, lr=0.02, momentum=0.9)
        >>> options
        {'lr': 0.02, 'momentum': 0.9}
    """

    def make(model: nn.Module, **given: Any) -> Any:
        groups = parameter_groups(model, rules)
        trained = [dict(group) for group in groups if any(p.requires_grad for p in group["params"])]
        return method(trained, **given)

    return lambda: make, dict(options)


class Monitor(TrainerCallback):
    """Adds violation, temperatures and friction to whatever the Trainer logs.

    The numbers are those of ``colangevin.integrations.readings``. They go into the log history. To
    see them in TensorBoard or other reports, put the callback in front of those, with ``attach``.
    When training ends, the slow parameters of a ``Multirate`` get their ``requires_grad`` back.

    Example:
        >>> callback = Monitor()  # Trainer(..., callbacks=[callback])
    """

    @classmethod
    def attach(cls, trainer: Any) -> Monitor:
        """Add the callback to a Trainer, in front of those that report."""
        made = cls()
        trainer.callback_handler.callbacks.insert(0, made)
        return made

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: dict[str, float] | None = None,
        **given: Any,
    ) -> None:
        optimizer = given.get("optimizer")
        if logs is None or "loss" not in logs or not any(parts_of(optimizer)):
            return  # the summary at the end, or an evaluation
        found = readings(optimizer)
        logs.update(found)
        if state.log_history:
            state.log_history[-1].update(found)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        release(given.get("optimizer"))
