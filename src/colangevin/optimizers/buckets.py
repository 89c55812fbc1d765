"""Buckets: the parameters that share a geometry, handled as one batch."""

from __future__ import annotations

import functools
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from colangevin.constraints import Constraint, State

StateOf: TypeAlias = MutableMapping[Tensor, dict[str, Any]]

MOMENTUM = "momentum_buffer"
SLACK = "slack"
SLACK_MOMENTUM = "slack_momentum"
MASTER = "master"
LARGE = 1 << 14
"""From this size on an elementwise parameter is a bucket of its own."""
HUGE = 1 << 17
"""From this size on any parameter is a bucket of its own."""
STATE_KEYS = (MOMENTUM, SLACK, SLACK_MOMENTUM, MASTER)


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision cannot hold a constraint: the work is done in float32."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


@dataclass(frozen=True)
class Bucket:
    """Parameters of one group whose batches are concatenated.

    Attributes:
        constraint: the geometry, bound to the parameters' shapes.
        parameters: the parameters, in the group's order.
        name: for messages.
    """

    constraint: Constraint
    parameters: tuple[Tensor, ...]
    name: str

    # --- from parameters to batches -------------------------------------------------------

    def gather(self, tensors: Sequence[Tensor]) -> Tensor:
        """Lay tensors of the parameters' shapes out as one batch."""
        dtype = work_dtype(self.parameters[0].dtype)
        if self._stackable(tensors, dtype):
            # One call for all, and wide weights stay in their own memory layout.
            batch = self.constraint.to_batch(torch.stack(tuple(tensors)), batch_dims=1)
            return batch.detach().flatten(0, batch.dim() - self._dims)
        batches = [self._lay_out(tensor, dtype) for tensor in tensors]
        if len(batches) == 1:
            return batches[0]
        if batches[0].dim() == 3 and batches[0].stride(-1) != 1:
            return torch.cat([batch.mT for batch in batches]).mT
        return torch.cat(batches, dim=1 if self.constraint.joint else 0)

    def _stackable(self, tensors: Sequence[Tensor], dtype: torch.dtype) -> bool:
        if len(tensors) == 1 or self.constraint.elementwise or self.constraint.joint:
            return False
        shape = tensors[0].shape
        return all(tensor.shape == shape and tensor.dtype is dtype for tensor in tensors)

    @functools.cached_property
    def _dims(self) -> int:
        return self.constraint.to_batch(self.parameters[0]).dim()

    def _lay_out(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        # Calls that change nothing would cost more here than the work on a small tensor.
        batch = self.constraint.to_batch(tensor.detach() if tensor.requires_grad else tensor)
        return batch if batch.dtype is dtype else batch.to(dtype)

    def scatter(self, batch: Tensor) -> list[Tensor]:
        """Undo ``gather``."""
        if len(self.parameters) == 1:
            return [self.constraint.from_batch(batch, self.parameters[0].shape)]
        dim = 1 if self.constraint.joint else 0
        sizes = [self.constraint.to_batch(p).shape[dim] for p in self.parameters]
        parts = batch.split(sizes, dim=dim)
        return [
            self.constraint.from_batch(part, parameter.shape)
            for part, parameter in zip(parts, self.parameters, strict=True)
        ]

    def gradient(self) -> Tensor:
        """The parameters' gradients as one batch."""
        # Without a gradient of its own, a parameter moves only with a joint constraint.
        return self.gather(
            [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        )

    # --- reading and writing ----------------------------------------------------------------

    def read(self, state_of: StateOf, momentum: bool) -> State:
        """The state of the bucket; what is not there yet is made, but not written."""
        stored = [state_of.get(parameter, {}) for parameter in self.parameters]
        masters = [_master(s, p) for s, p in zip(stored, self.parameters, strict=True)]
        position = self.gather(masters)
        slack = self._read_slack(stored, masters)
        if not momentum:
            return State(position, slack=slack)
        buffers = [
            s[MOMENTUM] if MOMENTUM in s else torch.zeros_like(p, dtype=position.dtype)
            for s, p in zip(stored, self.parameters, strict=True)
        ]
        slack_momentum = None
        if slack is not None and not self.constraint.elementwise:
            parts = zip(self._owners(stored), self._rows(slack), strict=True)
            slack_momentum = _cat([s.get(SLACK_MOMENTUM, torch.zeros_like(x)) for s, x in parts])
        return State(position, self.gather(buffers), slack, slack_momentum)

    def _owners(self, stored: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Who keeps the slack: the first parameter of a joint constraint, else each its own."""
        return stored[:1] if self.constraint.joint else stored

    def _read_slack(
        self, stored: Sequence[dict[str, Any]], masters: Sequence[Tensor]
    ) -> Tensor | None:
        """Parameters that have moved keep their slack, for the others it is made."""
        constraint, dtype = self.constraint, work_dtype(masters[0].dtype)
        if constraint.joint:
            slack = stored[0].get(SLACK)
            return constraint.lift(self.gather(masters)) if slack is None else slack
        slacks = []
        for entry, master in zip(stored, masters, strict=True):
            slack = entry.get(SLACK)
            if slack is None:
                slack = constraint.lift(constraint.to_batch(master).to(dtype))
            elif constraint.elementwise:
                slack = constraint.to_batch(slack).to(dtype)
            if slack is None:
                return None
            slacks.append(slack)
        return _cat(slacks)

    @torch.no_grad()
    def write(self, state_of: StateOf, state: State) -> None:
        """Write a new state to the parameters and to their entries of ``state_of``."""
        self.write_position(state_of, state.position)
        if state.momentum is not None:
            self._store(state_of, MOMENTUM, self.scatter(state.momentum))
        if state.slack is not None:
            natural = self.constraint.elementwise
            parts = self.scatter(state.slack) if natural else self._rows(state.slack)
            self._store(state_of, SLACK, parts)
        if state.slack_momentum is not None:
            self._store(state_of, SLACK_MOMENTUM, self._rows(state.slack_momentum))

    @torch.no_grad()
    def write_position(self, state_of: StateOf, position: Tensor) -> None:
        """Write new positions, through the float32 master where the parameter is half."""
        for parameter, part in zip(self.parameters, self.scatter(position), strict=True):
            if part.dtype != parameter.dtype:
                _put(state_of[parameter], MASTER, part)
            _overwrite(parameter, part)

    def _rows(self, slack: Tensor) -> list[Tensor]:
        if self.constraint.joint or len(self.parameters) == 1:
            return [slack]
        return list(slack.split([self.constraint.to_batch(p).shape[0] for p in self.parameters]))

    def _store(self, state_of: StateOf, key: str, parts: Iterable[Tensor]) -> None:
        for parameter, part in zip(self.parameters, parts, strict=False):
            _put(state_of[parameter], key, part)


def _master(entry: dict[str, Any], parameter: Tensor) -> Tensor:
    """The float32 weights of a half-precision parameter, where they are still its own.

    What the user has written to the parameter since the last step counts.
    """
    master = entry.get(MASTER)
    if master is None or parameter.dtype == master.dtype:
        return parameter
    kept = master.to(parameter.dtype) == parameter.detach()
    return torch.where(kept, master, parameter.detach().to(master.dtype))


def _put(entry: dict[str, Any], key: str, value: Tensor) -> None:
    if key in entry:
        _overwrite(entry[key], value)
    else:
        entry[key] = value.clone(memory_format=torch.contiguous_format)


def _overwrite(target: Tensor, value: Tensor) -> None:
    """Copy, unless ``value`` is a view of ``target`` that was changed in place."""
    if target.dtype != value.dtype or target.data_ptr() != value.data_ptr():
        target.copy_(value)


def _cat(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def make_buckets(
    constraint: Constraint, parameters: Sequence[Tensor], names: Sequence[str]
) -> list[Bucket]:
    """Divide parameters of one group into buckets.

    Raises:
        ConstraintError: if the constraint cannot hold for one of them.
    """
    if constraint.joint:
        bound = constraint.bind([p.shape for p in parameters])
        return [Bucket(bound, tuple(parameters), ", ".join(names))]
    members: dict[tuple[object, ...], list[int]] = {}
    for index, parameter in enumerate(parameters):
        constraint.bind([parameter.shape])  # refuses a shape before it is laid out
        key = constraint.batch_key(parameter.shape)
        if parameter.numel() >= (LARGE if constraint.elementwise else HUGE):
            key = None  # large enough by itself, and joining would copy
        own: tuple[object, ...] = (index,) if key is None else (parameter.dtype, parameter.device)
        members.setdefault((*own, key), []).append(index)
    return [
        Bucket(
            constraint.bind([parameters[indices[0]].shape]),
            tuple(parameters[i] for i in indices),
            ", ".join(names[i] for i in indices),
        )
        for indices in members.values()
    ]
