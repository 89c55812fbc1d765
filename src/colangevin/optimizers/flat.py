"""Flat storage for the state of elementwise buckets, so that a step need not gather it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.optimizers.buckets import MASTER, MOMENTUM, SLACK, Bucket, StateOf, work_dtype


class Flat:
    """The bucket's tensors as flat vectors that stay between steps.

    Momentum and slack of all its parameters lie in one vector each; the entries of the
    optimizer's state are views of it. The position is the parameter itself if there is only
    one, else a vector that is filled before and copied back after the step.

    Args:
        bucket: one whose geometry is elementwise and whose batches are flat.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._sizes = [parameter.numel() for parameter in bucket.parameters]
        self._state: State | None = None
        self._views: list[Tensor] = []

    @classmethod
    def of(cls, bucket: Bucket) -> Flat | None:
        """Flat storage for a bucket, or None if its batches are not flat."""
        constraint = bucket.constraint
        flat = constraint.elementwise and constraint.to_batch(bucket.parameters[0]).dim() == 1
        return cls(bucket) if flat and not constraint.joint else None

    def open(self, state_of: StateOf, momentum: bool) -> State:
        """The current state; its tensors are to be changed in place."""
        state = self._state
        if state is None or not self._is_current(state_of, state, momentum):
            state = self._adopt(state_of, momentum)
        elif len(self._views) > 1:
            torch.cat(self._views, out=state.position)
        return state

    def gradient(self, gradients: Sequence[Tensor]) -> Tensor:
        """The gradients as one flat vector (a view where there is one parameter)."""
        if len(gradients) == 1 and gradients[0].dtype == work_dtype(gradients[0].dtype):
            return gradients[0].reshape(-1)
        return self.bucket.gather(gradients)

    def close(self, state_of: StateOf) -> None:
        """Write back what ``open`` handed out and is no view of the parameters."""
        assert self._state is not None
        position = self._state.position
        if MASTER in state_of.get(self.bucket.parameters[0], {}) or not self._views:
            self.bucket.write_position(state_of, position)
        elif len(self._views) > 1:
            torch._foreach_copy_(self._views, list(position.split(self._sizes)))

    def _is_current(self, state_of: StateOf, state: State, momentum: bool) -> bool:
        """Whether parameters and state still lie where they did (they may be replaced)."""
        if momentum != (state.momentum is not None):
            return False
        first = self.bucket.parameters[0]
        entry = state_of.get(first, {})
        pairs = [(MOMENTUM, state.momentum), (SLACK, state.slack), (MASTER, None)]
        for key, tensor in pairs:
            stored = entry.get(key)
            if tensor is not None and (stored is None or stored.data_ptr() != tensor.data_ptr()):
                return False
        if MASTER in entry:
            return entry[MASTER].data_ptr() == state.position.data_ptr()
        return bool(self._views) and all(
            view.data_ptr() == parameter.data_ptr() and view.dtype == parameter.dtype
            for view, parameter in zip(self._views, self.bucket.parameters, strict=True)
        )

    def _adopt(self, state_of: StateOf, momentum: bool) -> State:
        """Read the state in the general way and move it into flat vectors."""
        parameters = self.bucket.parameters
        state = self.bucket.read(state_of, momentum)
        half = parameters[0].dtype != state.position.dtype
        plain = not half and all(parameter.is_contiguous() for parameter in parameters)
        self._views = [parameter.detach().view(-1) for parameter in parameters] if plain else []
        for key, tensor in ((MOMENTUM, state.momentum), (SLACK, state.slack)):
            self._move(state_of, key, tensor)
        if half:
            self._move(state_of, MASTER, state.position)
        self._state = state
        return state

    def _move(self, state_of: StateOf, key: str, flat: Tensor | None) -> None:
        if flat is None:
            return
        parts = flat.split(self._sizes)
        for parameter, part in zip(self.bucket.parameters, parts, strict=True):
            stored = state_of[parameter].get(key)
            if stored is None or stored.data_ptr() != part.data_ptr():
                state_of[parameter][key] = part.view(parameter.shape)
