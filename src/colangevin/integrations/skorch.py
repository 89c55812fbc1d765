"""skorch: rules for its parameter groups, and a callback that records the readings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    from skorch.callbacks import Callback
except ImportError as error:
    raise ImportError(
        "skorch is not installed: pip install skorch, or colangevin[integrations]"
    ) from error

from colangevin.constraints import Constraint
from colangevin.integrations.reading import readings, release


def groups_from(
    rules: Mapping[str, Constraint | None], **options: Any
) -> list[tuple[str, dict[str, Any]]]:
    """What ``optimizer__param_groups`` of a net takes: a group for each rule.

    One value of it is one point of a search, so ``GridSearchCV`` searches over radii with
    ``[groups_from({"*.weight": cl.Circle(radius)}) for radius in radii]``.

    Args:
        rules: constraints by name pattern. The first pattern that matches a parameter wins. A
            pattern that matches nothing is ignored by skorch, without a word.
        options: of all these groups, such as ``temperature``.

    Raises:
        TypeError: for a rule that is no string, or no constraint.

    Example:
        >>> import colangevin as cl
        >>> groups_from({"*.weight": cl.Circle(0.5)})
        [('*.weight', {'constraint': Circle(radius=0.5), 'name': '*.weight'})]
    """
    for pattern, constraint in rules.items():
        if not isinstance(pattern, str):
            raise TypeError(f"skorch matches names only, got the rule {pattern!r}")
        if constraint is not None and not isinstance(constraint, Constraint):
            raise TypeError(f"the rule for {pattern!r} must be a constraint, got {constraint!r}")
    return [
        (pattern, {"constraint": constraint, "name": pattern, **options})
        for pattern, constraint in rules.items()
    ]


class Monitor(Callback):
    """Records violation, temperatures and friction in the history, once per epoch.

    The numbers are those of ``colangevin.integrations.readings``:
    ``net.history[:, "violation/_.weight"]``. When training ends, the slow parameters of a
    ``Multirate`` get their ``requires_grad`` back.

    Example:
        >>> callback = Monitor()  # NeuralNetClassifier(..., callbacks=[callback])
    """

    def on_epoch_end(self, net: Any, **given: Any) -> None:
        for name, number in readings(net.optimizer_).items():
            net.history.record(name, number)

    def on_train_end(self, net: Any, **given: Any) -> None:
        release(net.optimizer_)
