"""State that stays laid out as batches between steps, so that a step need not gather it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.optimizers.buckets import MOMENTUM, SLACK, SLACK_MOMENTUM, Bucket, StateOf


class Resident:
    """A bucket's tensors as batches that persist.

    Momentum and slack of all parameters lie in one batch each; the entries of the optimizer's
    state are views of it. The position is the parameter itself if there is only one, else a
    batch that is filled before and copied back after a step.

    Args:
        bucket: one whose parameters can be seen as batches without a copy.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._state: State | None = None
        self._views: list[Tensor] = []
        self._parts: list[Tensor] = []
        self._places: list[tuple[int, torch.dtype, tuple[int, ...]]] = []
        self._bound: list[tuple[Tensor, dict[str, Any], list[tuple[str, Tensor]]]] = []
        self._unbound = True
        self._lies_flat = True
        self._rows = [bucket.constraint.to_batch(p).shape[0] for p in bucket.parameters]

    @classmethod
    def of(cls, bucket: Bucket) -> Resident | None:
        """Residence for a bucket, or None if its parameters do not allow it."""
        return None if bucket.constraint.joint or not _lies_flat(bucket) else cls(bucket)

    def read(self, state_of: StateOf, momentum: bool) -> State:
        """The current state."""
        state = self._state
        if state is None or self._unbound or not self._is_current(state_of, state, momentum):
            return self._adopt(state_of, momentum)
        if len(self._views) > 1:
            torch.cat(self._views, out=state.position)
        return state

    def commit(self, state_of: StateOf, new: State | None = None) -> None:
        """Write back a new state, or the one that ``read`` gave and that was changed in place."""
        assert self._state is not None
        if not self._lies_flat:
            self.bucket.write(state_of, self._state if new is None else new)
            return
        if new is not None and len(self._views) == 1:
            # A new momentum can take the place of the old one; the parameter has to stay.
            self._state.position.copy_(new.position)
            self._state, self._unbound = new._replace(position=self._state.position), True
        elif new is not None:
            for target, value in zip(self._state, new, strict=True):
                if target is not None and value is not None:
                    target.copy_(value)
        if len(self._views) > 1:
            torch._foreach_copy_(self._views, self._parts)
        if self._unbound:
            self._bind(state_of, self._state)

    def _is_current(self, state_of: StateOf, state: State, momentum: bool) -> bool:
        """Whether parameters and state still lie where they did (they may be replaced)."""
        if momentum != (state.momentum is not None) or not self._lies_flat:
            return False
        for parameter, entry, parts in self._bound:
            if state_of.get(parameter) is not entry:
                return False  # it was reset
            for key, part in parts:
                if entry.get(key) is not part:
                    return False  # another batch has moved some of the parameters
        return self._places == self._find()

    def _adopt(self, state_of: StateOf, momentum: bool) -> State:
        """Read the state in the general way; ``commit`` lets the entries view its batches."""
        constraint = self.bucket.constraint
        self._lies_flat = _lies_flat(self.bucket)  # layout and dtype may have been changed
        self._state = self.bucket.read(state_of, momentum)
        self._views = [constraint.to_batch(p.detach()) for p in self.bucket.parameters]
        self._parts = list(self._state.position.split(self._rows))
        self._places = self._find()
        self._unbound = True
        return self._state

    def _find(self) -> list[tuple[int, torch.dtype, tuple[int, ...]]]:
        """Where the parameters lie now, and how."""
        return [(p.data_ptr(), p.dtype, p.stride()) for p in self.bucket.parameters]

    def _bind(self, state_of: StateOf, state: State) -> None:
        bucket = self.bucket
        self._bound = [(p, state_of[p], []) for p in bucket.parameters]
        if state.momentum is not None:
            self._point(MOMENTUM, bucket.scatter(state.momentum))
        if state.slack is not None:
            natural = bucket.constraint.elementwise
            parts = bucket.scatter(state.slack) if natural else state.slack.split(self._rows)
            self._point(SLACK, parts)
        if state.slack_momentum is not None:
            self._point(SLACK_MOMENTUM, state.slack_momentum.split(self._rows))
        self._unbound = False

    def _point(self, key: str, parts: Sequence[Tensor]) -> None:
        for (_, entry, bound), part in zip(self._bound, parts, strict=True):
            stored = entry.get(key)
            if stored is None or stored.data_ptr() != part.data_ptr():
                entry[key] = stored = part
            bound.append((key, stored))


def _lies_flat(bucket: Bucket) -> bool:
    """Whether the parameters can be seen as batches without a copy, in the dtype of the work."""
    half = any(p.dtype in (torch.bfloat16, torch.float16) for p in bucket.parameters)
    contiguous = all(parameter.is_contiguous() for parameter in bucket.parameters)
    # A sphere over an inner dimension of a kernel, say, is laid out by a copy.
    return (
        contiguous
        and not half
        and all(bucket.constraint.to_batch(p).data_ptr() == p.data_ptr() for p in bucket.parameters)
    )
