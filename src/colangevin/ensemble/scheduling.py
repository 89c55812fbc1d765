"""The settings of an ensemble as the parameter groups of an optimizer, for schedulers.

A scheduler of torch reads and writes ``param_groups`` of an optimizer. Here it gets those of the
members: one group per parameter group and member, so that every member of a sweep has its own
learning rate and its own schedule of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.optim.optimizer import Optimizer

from colangevin.ensemble.groups import MemberGroup


class Notice:
    """Whether somebody has written to a group."""

    written = False


class Group(dict[str, Any]):
    """The settings of one member's group, which notice that they are written to."""

    def __init__(self, settings: dict[str, Any], notice: Notice) -> None:
        super().__init__(settings)
        self._notice = notice

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._notice.written = True


class MembersOptimizer(Optimizer):
    """What schedulers get in the place of an optimizer; the ensemble makes the steps.

    Args:
        parts: the ensemble's groups. Their settings become the groups of this optimizer.
    """

    def __init__(self, parts: Sequence[MemberGroup]) -> None:
        self._parts, self._notice = list(parts), Notice()
        super().__init__([torch.zeros(())], {"lr": None, "momentum": None, "temperature": None})
        for part in self._parts:
            part.options = [Group({**own, "params": []}, self._notice) for own in part.options]
        # Of removed members too: a scheduler has as many groups at the end as in the beginning.
        self.param_groups = [group for part in self._parts for group in part.options]
        self._momentum = [part.momentum for part in self._parts]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Nothing: the ensemble calls this after its step, so that schedulers and hooks know."""

    def follow(self) -> None:
        """Take over what schedulers have written.

        Raises:
            ValueError, TypeError: naming the option; no weight has been changed.
        """
        if not self._notice.written:
            return
        for part, momentum in zip(self._parts, self._momentum, strict=True):
            part.refresh()
            if part.options and part.momentum != momentum:
                raise ValueError("a training cannot go from overdamped to underdamped, or back")
        self._notice.written = False


def advance(schedulers: Sequence[Any], loss: float) -> None:
    """Step schedulers at the end of an epoch.

    Args:
        schedulers: of torch, or with a method ``step`` like theirs.
        loss: the mean of the members' losses, for schedulers that look at it.
    """
    for scheduler in schedulers:
        if isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step(loss)
        else:
            scheduler.step()


def listed(schedulers: Any) -> list[Any]:
    """One scheduler or several as a list.

    Raises:
        TypeError: if one of them cannot be stepped or saved.

    Example:
        >>> listed(None)
        []
    """
    if schedulers is None:
        return []
    found = list(schedulers) if isinstance(schedulers, (list, tuple)) else [schedulers]
    for scheduler in found:
        if not all(callable(getattr(scheduler, name, None)) for name in ("step", "state_dict")):
            raise TypeError(f"schedulers must be schedulers of torch, got {scheduler!r}")
    return found
