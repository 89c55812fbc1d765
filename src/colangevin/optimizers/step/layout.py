"""Layouts: how the parameters of a group are divided into batches, and what is kept for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Unconstrained
from colangevin.constraints.contract import check_contract
from colangevin.errors import ConstraintError
from colangevin.integrators.recipe import Dynamics, Recipe
from colangevin.native import suits
from colangevin.optimizers import thermostats
from colangevin.optimizers.distributed.shards import Entries, ShardedWeight, whole_of
from colangevin.optimizers.options import dynamics
from colangevin.optimizers.step import placing
from colangevin.optimizers.step.batches import Batch, StateOf
from colangevin.optimizers.step.kernel import Kernel
from colangevin.optimizers.step.matrix_kernel import MatrixKernel
from colangevin.optimizers.step.noise import SEEDS
from colangevin.optimizers.torch_compat import is_sharded, stamp
from colangevin.random import key_of

LARGE = 1 << 14
"""From this size on an elementwise parameter is a batch of its own."""
READ = ("momentum", "friction", "temperature", "scheme", "delayed_gradient")
"""The options besides lr that a group's dynamics is read from."""
HUGE = 1 << 17
"""From this size on any parameter is a batch of its own."""


class Layout:
    """The batches of a group, for as long as its constraint and parameters stay the same.

    Args:
        group: the parameter group.
        ordinals: the places of its parameters in the optimizer.
        state_of: the optimizer's state.
        native: whether the C kernels may be used.
        members: how many copies of each parameter are stacked, in an ensemble.
        owns: the geometry of each stacked parameter, in an ensemble.

    Raises:
        ConstraintError: if the constraint cannot hold for one of the parameters.
    """

    def __init__(
        self,
        group: dict[str, Any],
        ordinals: Sequence[int],
        state_of: StateOf,
        native: bool = False,
        members: int | None = None,
        owns: Sequence[Constraint | None] | None = None,
    ) -> None:
        self.constraint: Constraint = group["constraint"]
        self.parameters: list[Tensor] = list(group["params"])
        self._ordinals, self._names = list(ordinals), placing.names_of(group)
        self._stamps: list[tuple[object, ...] | None] = [None] * len(self.parameters)
        self._stale: list[int] = []
        self._watched = not isinstance(self.constraint, Unconstrained)
        placing.check_tensors(group)
        self._whole_state = state_of
        self._members, self._native = members, native
        if owns is None:
            owns = [self._bound(index, state_of) for index in range(len(self.parameters))]
        self._own = list(owns)
        self.chain: int | None = None
        self._recipe: tuple[object, Recipe] | None = None
        self._settings: tuple[object, Dynamics] | None = None
        self._filled = [i for i, p in enumerate(self.parameters) if p.numel()]
        self._lay_out()
        self._dtypes = [parameter.dtype for parameter in self.parameters]

    def _lay_out(self) -> None:
        """Find where the parameters lie, and divide them."""
        self.sharded = any(map(is_sharded, self.parameters))
        self.shards: list[ShardedWeight | None] = []
        self._here: list[Tensor] = self.parameters
        self.state_of: StateOf = self._whole_state
        if self.sharded:
            pairs = list(zip(self.parameters, self._own, strict=True))
            self.shards = [ShardedWeight(p, own) if is_sharded(p) else None for p, own in pairs]
            found = zip(self.parameters, self.shards, strict=True)
            self._here = [p if shard is None else shard.tensor for p, shard in found]
            known = {shard.tensor: shard for shard in self.shards if shard is not None}
            self.state_of = Entries(self._whole_state, known)
        self.batches = self._divide()
        self._kernels: dict[int, Kernel | None] = {}

    def follow(self) -> None:
        """Lay the parameters out anew if they have been given other memory."""
        if any(shard is not None and not shard.is_current for shard in self.shards):
            self._lay_out()

    def fetch(self, indices: Iterable[int] | None = None) -> None:
        """Bring parameters into the layout in which a step works on them."""
        for index in range(len(self.shards)) if indices is None else indices:
            shard = self.shards[index] if self.shards else None
            if shard is not None:
                shard.fetch()

    def push(self, indices: Iterable[int]) -> None:
        """Bring them back."""
        for shard in [self.shards[index] for index in indices] if self.shards else ():
            if shard is not None:
                shard.push()

    def _bound(self, index: int, state_of: StateOf) -> Constraint | None:
        """The geometry of one parameter; None for one without entries."""
        parameter, constraint = self.parameters[index], self.constraint
        if constraint.joint or parameter.numel() == 0:
            return None
        try:
            entry = state_of.setdefault(parameter, {})
            asks = type(constraint).for_weight is not Constraint.for_weight
            weight = whole_of(parameter) if asks and is_sharded(parameter) else parameter
            own = constraint.for_weight(weight, entry).bind([parameter.shape])
            if not type(own).__module__.startswith("colangevin."):  # the laws check the library's
                check_contract(own, parameter.shape, parameter.device)
            return own
        except ConstraintError as error:
            raise ConstraintError(f"{self._names[index]}: {error}") from error

    @property
    def geometries(self) -> list[Constraint | None]:
        """The geometry of each parameter; None without entries, or with a joint constraint."""
        return self._own

    def fits(self, group: dict[str, Any]) -> bool:
        """Whether this is still the group's layout."""
        params = group["params"]
        return (
            self.constraint is group["constraint"]
            and len(params) == len(self.parameters)
            and all(p is own for p, own in zip(params, self.parameters, strict=True))
            and [p.dtype for p in params] == self._dtypes
        )

    def batch(self, indices: Sequence[int], constraint: Constraint, passing: bool = False) -> Batch:
        """A batch of some of the parameters."""
        shards = [self.shards[i] for i in indices] if self.shards else []
        part = shards[0].constraint if shards and shards[0] is not None else None
        return Batch(
            part or constraint,
            [self._here[i] for i in indices],
            [self._names[i] for i in indices],
            [self._ordinals[i] for i in indices],
            self._members,
            passing,
            shards if any(shards) else (),
        )

    def _shape(self, parameter: Tensor) -> torch.Size:
        """The shape of one member's parameter."""
        return parameter.shape if self._members is None else parameter.shape[1:]

    def _divide(self) -> list[tuple[list[int], Batch]]:
        if self.constraint.joint:
            everyone = list(range(len(self.parameters)))
            bound = self.constraint.bind([self._shape(p) for p in self.parameters])
            return [(everyone, self.batch(everyone, bound))]
        members: dict[tuple[object, ...], list[int]] = {}
        for index, own in enumerate(self._own):
            if own is None:
                continue
            parameter = self.parameters[index]
            key = own.batch_key(self._shape(parameter))
            large = parameter.numel() >= (LARGE if own.elementwise else HUGE)
            shard = self.shards[index] if self.shards else None
            kernel = self._native and Kernel.knows(own) and suits(parameter)
            if not kernel and (large or (own.elementwise and self._members is not None)):
                key = None  # large enough by itself, and joining would copy
            alone: tuple[object, ...] = (index,)
            shared = (parameter.dtype, parameter.device, *(() if shard is None else shard.key))
            members.setdefault((*(alone if key is None else shared), key), []).append(index)
        found = []
        for indices in members.values():
            own = self._own[indices[0]]
            assert own is not None
            found.append((indices, self.batch(indices, own)))
        return found

    # --- on the manifold --------------------------------------------------------------------

    def singles(self, indices: Sequence[int]) -> list[tuple[list[int], Batch]]:
        """One batch per parameter, or one for all of them if the constraint is joint."""
        if self.constraint.joint:
            return list(self.batches) if indices else []
        chosen = [(i, self._own[i]) for i in indices]
        return [([i], self.batch([i], own, passing=True)) for i, own in chosen if own is not None]

    def settle(self, strict: bool, frozen: bool = False) -> list[placing.Placement]:
        """What must move for the parameters to be on the manifold; nothing is changed.

        Args:
            strict: raise instead of moving.
            frozen: whether parameters that need no gradient are checked, too.
        """
        awake = [i for i, p in enumerate(self.parameters) if frozen or p.requires_grad]
        found = [placing.placement_of(batch, strict) for _, batch in self.singles(awake)]
        return [placed for placed in found if placed is not None]

    def mark(self, indices: Sequence[int]) -> None:
        """The parameters are on the manifold as they are now."""
        if self._watched:
            for index in indices:
                self._stamps[index] = stamp(self.parameters[index])

    def written(self, indices: Sequence[int]) -> list[int]:
        """The parameters that have been written to since they were last marked."""
        if not self._watched:
            return []
        self._stale = [i for i in indices if self._stamps[i] != stamp(self.parameters[i])]
        return self._stale

    def rolled_back(self, indices: Sequence[int]) -> None:
        """A step has failed: what was on the manifold before it is so again."""
        self.mark([i for i in indices if i not in self._stale])

    # --- a step -------------------------------------------------------------------------------

    def active(self) -> list[int]:
        """The parameters that take part in a step.

        A joint constraint moves all of its parameters as soon as one of them has a gradient.

        Raises:
            TypeError: for sparse gradients.
        """
        found = []
        for index in self._filled:
            gradient = self.parameters[index].grad
            if gradient is None:
                continue
            if gradient.layout is not torch.strided or not gradient.is_floating_point():
                _refuse_gradient(self._names[index], gradient)
            found.append(index)
        return list(range(len(self.parameters))) if found and self.constraint.joint else found

    def split(self, active: Sequence[int]) -> list[tuple[list[int], Batch]]:
        """The batches of the active parameters: whole ones, and parts for this step alone."""
        if len(active) == len(self.parameters):
            return self.batches
        moving, found = set(active), []
        for indices, batch in self.batches:
            here = [i for i in indices if i in moving]
            if len(here) == len(indices):
                found.append((indices, batch))
            elif here:
                found.append((here, batch.part([indices.index(i) for i in here])))
        return found

    def seed(self, group: dict[str, Any]) -> int:
        """The seed of the group's noise, in this process's chain where each has its own."""
        seed: int = group["seed"]
        return seed if self.chain is None else key_of(seed, self.chain) % SEEDS

    def settings(self, group: dict[str, Any], lr: Any) -> Any:
        """The group's dynamics as its options stand now, which are read where they have changed.

        Raises:
            ValueError, TypeError: for an option that is wrong.
        """
        if thermostats.is_adaptive(group):
            return thermostats.dynamics({**group, "lr": lr})
        values = (lr, *map(group.__getitem__, READ))
        # A tensor may change in place, and is the same object then.
        key = tuple(value.tolist() if isinstance(value, Tensor) else value for value in values)
        if self._settings is None or self._settings[0] != key:
            self._settings = key, dynamics({**group, "lr": lr})
        return self._settings[1]

    def recipe(
        self, settings: Dynamics, weight_decay: float, first: bool, share: tuple[int, int]
    ) -> Recipe:
        """The recipe of the group's dynamics, the same object while nothing changes."""
        key = (settings, weight_decay, first, share)
        if self._recipe is None or self._recipe[0] != key:
            self._recipe = key, Recipe.of(settings, weight_decay, first, share)
        return self._recipe[1]

    def kernel(self, batch: Batch) -> Kernel | None:
        """The C kernel of a batch, if there is one and its memory lies as it needs it."""
        if not self._native:
            return None
        if batch.passing:
            return kernel_of(batch)
        if id(batch) not in self._kernels:  # the layout keeps its batches
            self._kernels[id(batch)] = kernel_of(batch)
        kernel = self._kernels[id(batch)]
        return kernel if kernel is not None and kernel.fits() else None


def kernel_of(batch: Batch) -> Kernel | None:
    """The C kernel of a batch, if there is one for its geometry and its memory."""
    return Kernel.of(batch) or MatrixKernel.of(batch)


def _refuse_gradient(name: str, gradient: Tensor) -> None:
    if gradient.layout is not torch.strided:
        raise TypeError(f"{name} has a sparse gradient; CoLA takes dense ones only")
    raise TypeError(
        f"{name} has a gradient of type {gradient.dtype}; CoLA takes real floating-point ones"
    )
