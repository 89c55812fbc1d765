"""Runs steps, eagerly at first and compiled once that pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils import _pytree as pytree

from colangevin.ensemble.coupled import Coupled
from colangevin.ensemble.numbers import Moves
from colangevin.ensemble.step import (
    Cell,
    Loss,
    Penalty,
    Store,
    compiled,
    member_step,
    overwrite,
)
from colangevin.ensemble.streams import noise_keys
from colangevin.optimizers.kernels import announce

PATIENCE = 500
"""Steps of a training after which it is taken for a long one.

The count is of the training, not of the process: a resumed one must round in the same way."""


class Stepper:
    """The steps of an ensemble, with a compiled kernel for each kind.

    Args:
        template: the module whose forward pass all members share.
        penalty: added to the loss.
        compile: as in ``Ensemble``.
        seed: of the numbers that the module itself draws.
    """

    def __init__(
        self, template: nn.Module, penalty: Penalty | None, compile: bool | None, seed: int
    ) -> None:
        self._template, self._penalty, self._compile = template, penalty, compile
        self._kernels: dict[tuple[object, ...], Any] = {}
        # Whether the module draws numbers: unknown until the first step of a training.
        self.random: bool | None = None
        self.random_state = torch.Generator().manual_seed(seed).get_state()

    def run(
        self,
        loss: Loss,
        moves: Moves,
        store: Store,
        frozen: dict[str, Tensor],
        cells: Sequence[Cell],
        coupled: Sequence[Coupled],
        when: tuple[list[int], int],
        batch: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Make a step and return the losses before it."""
        device = batch[0].device
        keys = noise_keys(*when).to(device)
        first = next(iter(store.position.values()))
        constants = {cell.name: cell.constants for cell in cells if cell.constants.shape[1]}
        numbers = moves.values.to(first)
        arguments = (store.parts(), frozen, constants, numbers, keys, *batch)
        function = self._function(loss, moves, cells, bool(coupled), arguments, when[1])
        changed, gradients, losses = self._call(function, arguments)
        results, used = [], _beyond(store, moves)
        for part in coupled:
            found, used = part.compute(gradients, moves, keys, used)
            results.append(found)
        for part, found in zip(coupled, results, strict=True):
            part.write(found)
        overwrite(store.parts(), changed)
        return losses

    def _function(
        self,
        loss: Loss,
        moves: Moves,
        cells: Sequence[Cell],
        waits: bool,
        arguments: tuple[Any, ...],
        step: int,
    ) -> Callable[..., Any]:
        """The kernel for this kind of step, or the eager function."""
        shapes = tuple((tuple(t.shape), t.dtype) for t in pytree.tree_leaves(arguments[-2:]))
        mode = self._wants_compiling(step)
        key = (loss, moves.kinds, moves.decays, len(arguments[4]), *shapes, mode)
        if key not in self._kernels:
            one = member_step(self._template, loss, self._penalty, cells, moves)
            made: Any = vmap(one, randomness="different")
            if mode:
                try:
                    made = compiled(one, arguments, in_place=not waits)
                except Exception as error:
                    announce(error, "the ensemble's steps stay eager", "compile=True")
                    self._compile = False
            self._kernels[key] = made
        return self._kernels[key]

    def _wants_compiling(self, step: int) -> bool:
        # The first step shows whether the module draws random numbers, which must be eager.
        if self.random is not False:
            return False
        return step >= PATIENCE if self._compile is None else self._compile

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call with the ensemble's own random numbers, for modules with dropout and such."""
        if self.random is False:
            return function(*arguments)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.random_state)
            result = function(*arguments)
            after = torch.get_rng_state()
        self.random = bool((after != self.random_state).any())
        self.random_state = after
        return result


def _beyond(store: Store, moves: Moves) -> int:
    """An index of noise beyond all that the vectorised parameters can use in a step."""
    weights = sum(tensor[0].numel() + 1 for tensor in store.position.values())
    return 2 * moves.draws * weights
