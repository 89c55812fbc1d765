"""Geometries that look at their numbers: all members' matrices as one batch.

To such a geometry the members are one more leading dimension that counts separate matrices, so
the optimizer's buckets serve here as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.ensemble.noise import BatchNoise
from colangevin.ensemble.numbers import Moves
from colangevin.errors import ConvergenceError
from colangevin.integrators.dynamics import advance
from colangevin.optimizers.buckets import Bucket, make_buckets


class Coupled:
    """The parameters of one constraint whose projection can fail.

    Args:
        constraint: the constraint of one member's weights.
        tensors: the stacked parameters by name, which are changed in place.
    """

    def __init__(self, constraint: Any, tensors: Mapping[str, Tensor]) -> None:
        self._constraint = constraint
        self._names = {id(tensor): name for name, tensor in tensors.items()}
        stacked = replace(constraint, batch_dims=constraint.batch_dims + 1)
        self.buckets = make_buckets(stacked, list(tensors.values()), list(tensors))
        self.state_of: dict[Tensor, dict[str, Any]] = {t: {} for t in tensors.values()}

    def compute(
        self, gradients: Mapping[str, Tensor], moves: Moves, keys: Tensor, first: int
    ) -> tuple[list[tuple[Bucket, State]], int]:
        """The new states, not written yet, and the index of the next number of noise.

        Raises:
            ConvergenceError: naming the parameters.
        """
        results = []
        for bucket in self.buckets:
            state = bucket.read(self.state_of, not moves.overdamped)
            slopes = [gradients[self._names[id(p)]] for p in bucket.parameters]
            rows = self._rows(bucket)
            decay, *numbers = _numbers(moves.values, rows, state.position)
            # A member that has diverged rests until it is removed: it must not stop the others.
            gradient = bucket.gather([_finite(slope) for slope in slopes])
            if moves.decays:
                gradient = gradient + decay * state.position
            noise = BatchNoise(keys, first, rows)
            try:
                new = advance(
                    bucket.constraint, state, gradient, moves.actions(numbers), noise.draw
                )
            except ConvergenceError as error:
                raise ConvergenceError(f"{bucket.name}: {error}") from error
            results.append((bucket, new))
            first = noise.used
        return results, first

    def write(self, results: Sequence[tuple[Bucket, State]]) -> None:
        """Write what ``compute`` has returned."""
        for bucket, state in results:
            bucket.write(self.state_of, state)

    def residual(self, members: int) -> list[Tensor]:
        """The largest violation of each member, a bucket each."""
        found = []
        for bucket in self.buckets:
            residual = bucket.constraint.residual(bucket.read(self.state_of, False)).abs()
            worst = residual.flatten(1).amax(dim=1)
            parts = worst.split([rows * members for rows in self._rows(bucket)])
            found += [part.view(members, -1).amax(dim=1) for part in parts]
        return found

    def select(self, keep: Tensor) -> Coupled:
        """The same for the members that ``keep`` has True for."""
        members = len(keep)
        tensors = {name: tensor for tensor, name in self._items()}
        made = Coupled(self._constraint, {n: t[keep].contiguous() for n, t in tensors.items()})
        new = {name: tensor for tensor, name in made._items()}
        for name, tensor in tensors.items():
            for key, value in self.state_of[tensor].items():
                split = value.view(members, -1, *value.shape[1:])[keep]
                made.state_of[new[name]][key] = split.flatten(0, 1).contiguous()
        return made

    def _items(self) -> list[tuple[Tensor, str]]:
        return [(tensor, self._names[id(tensor)]) for tensor in self.state_of]

    def tensors(self) -> dict[str, Tensor]:
        """The stacked parameters by name."""
        return {name: tensor for tensor, name in self._items()}

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Everything but the parameters, by their names."""
        return {
            name: {key: value.clone() for key, value in self.state_of[tensor].items()}
            for tensor, name in self._items()
        }

    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over what ``state_dict`` has returned."""
        for tensor, name in self._items():
            own = {key: value.to(tensor.device).clone() for key, value in state[name].items()}
            self.state_of[tensor] = own

    def _rows(self, bucket: Bucket) -> list[int]:
        """How many entries of the batch each parameter has a member."""
        first = bucket.parameters[:1] if bucket.constraint.joint else bucket.parameters
        return [bucket.constraint.to_batch(p).shape[0] // p.shape[0] for p in first]


def _finite(gradient: Tensor) -> Tensor:
    """The gradient with 0 for the members whose own is not finite."""
    if gradient.device.type == "cpu" and bool(gradient.sum().isfinite()):
        return gradient  # a sum has a NaN or an infinity if any of its terms has
    good = gradient.isfinite().flatten(1).all(dim=1)
    return torch.where(good.view(-1, *[1] * (gradient.dim() - 1)), gradient, 0.0)


def _numbers(values: Tensor, rows: Sequence[int], batch: Tensor) -> list[Any]:
    """Plain numbers where the members agree, else one an entry of the batch."""
    shape = [-1] + [1] * (batch.dim() - 1)
    columns: list[Any] = []
    for column in values.unbind(dim=1):
        if bool((column == column[0]).all()):
            columns.append(float(column[0]))
            continue
        entries = torch.cat([column.repeat_interleave(count) for count in rows])
        columns.append(entries.to(batch).view(shape))
    return columns
