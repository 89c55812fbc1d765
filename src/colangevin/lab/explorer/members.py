"""All seeds of a run: one ``Ensemble`` where the method allows it, one by one where not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import Optimizer

import colangevin as cl
from colangevin.errors import ColangevinError
from colangevin.lab.explorer.slopes import Slopes
from colangevin.optimizers.step.friction import FRICTION
from colangevin.optimizers.step.layout import STEP

Maker: TypeAlias = "Callable[[Any, int], Optimizer]"
"""From a network and a seed to an optimizer."""
TOO_LARGE = "the loss is no longer finite: a smaller step helps"


def loss_of(outputs: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of logits [points, 1]."""
    return functional.binary_cross_entropy_with_logits(outputs[:, 0], labels)


class Batches:
    """The batches of some seeds: every seed has its own order of the points, epoch after epoch.

    Example:
        >>> batches = Batches(torch.zeros(5, 2), torch.zeros(5), seeds=[0, 1], size=3)
        >>> [tuple(batches.next()[0].shape) for _ in range(3)]
        [(2, 3, 2), (2, 2, 2), (2, 3, 2)]
    """

    def __init__(self, inputs: Tensor, labels: Tensor, seeds: Sequence[int], size: int) -> None:
        self._points, self._size, self._done = (inputs, labels), size, len(inputs)
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._mixed = self._points

    def next(self) -> tuple[Tensor, Tensor]:
        """Inputs [seeds, batch, 2] and labels [seeds, batch]."""
        inputs, labels = self._points
        if self._done >= len(inputs):
            orders = [torch.randperm(len(inputs), generator=own) for own in self._generators]
            order = torch.stack(orders)
            self._mixed, self._done = (inputs[order], labels[order]), 0
        chosen = slice(self._done, self._done + self._size)
        self._done += self._size
        return self._mixed[0][:, chosen], self._mixed[1][:, chosen]


@dataclass
class Member:
    """One network with its optimizer, as they are without an ensemble.

    Attributes:
        seed: of weights, batches and noise.
        model: the network.
        optimizer: of its parameters.
        stopped: why it makes no more steps, if it does not.
    """

    seed: int
    model: nn.Sequential
    optimizer: Optimizer
    stopped: str | None = None
    named: dict[str, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.named = dict(self.model.named_parameters())

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        """Make one step, unless the member has stopped."""
        if self.stopped:
            return
        self.optimizer.zero_grad()
        loss = loss_of(self.model(inputs), labels)
        if not bool(loss.isfinite()):
            self.stopped = TOO_LARGE
            return
        loss.backward()
        try:
            self.optimizer.step()
        except (ColangevinError, ValueError) as error:  # a projection failed
            self.stopped = " ".join(str(error).split())[:200]


class Members:
    """The networks of a run, one per seed.

    A member whose loss is no longer finite stops; the others go on.

    Args:
        network: makes the network of a seed.
        optimizer: makes its optimizer.
        seeds: one per member.

    Attributes:
        alone: why the members are trained one by one; empty if they are one ``Ensemble``.

    Example:
        >>> from colangevin.lab.models import mlp
        >>> def optimizer(model, seed):
        ...     return cl.CoLA(model.parameters(), lr=0.1, seed=seed)
        >>> members = Members(lambda seed: mlp(2, [5], 1), optimizer, range(3))
        >>> batches = Batches(torch.randn(20, 2), torch.ones(20), range(3), size=4)
        >>> for _ in range(10):
        ...     members.step(*batches.next())
        >>> members.outputs(torch.zeros(7, 2)).shape
        torch.Size([3, 7])
    """

    def __init__(
        self, network: Callable[[int], nn.Sequential], optimizer: Maker, seeds: Sequence[int]
    ) -> None:
        self._all = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = network(seed)
            self._all.append(Member(seed, model, optimizer(model, seed)))
        self._slopes = Slopes(self._all[0].model)
        self.alone, self.steps = "", 0
        self._fresh = True  # whether the members are as the ensemble is
        self._ensemble: cl.Ensemble | None = None
        self._join()

    def __len__(self) -> int:
        """How many there are, with those that have stopped."""
        return len(self._all)

    # --- into an ensemble, and out of it ----------------------------------------------------

    def _join(self) -> None:
        """Make one ensemble of the members that have not stopped."""
        self._rows = [i for i, member in enumerate(self._all) if not member.stopped]
        if self.alone or not self._rows:
            return
        living = {self._all[i].seed: self._all[i] for i in self._rows}
        optimizers = {id(own.model): own.optimizer for own in living.values()}
        try:
            made = cl.Ensemble(
                lambda seed: living[seed].model,
                list(living),
                method=lambda model: optimizers[id(model)],
                compile=False,
            )
        except (TypeError, ValueError):
            self.alone = "this method takes several gradients per step"
            return
        _fill(made, list(living.values()), self.steps)
        self._ensemble, self._weights = made, dict(made.parameters)

    @torch.no_grad()
    def _part(self) -> None:
        """Write weights and state of the ensemble into the members."""
        if self._fresh or self._ensemble is None:
            return
        found, count = self._ensemble.state_dict(), len(self._rows)
        for row, index in enumerate(self._rows):
            member = self._all[index]
            for name, parameter in member.named.items():
                parameter.copy_(found["weights"][name][row])
                entry = found["state"].get(name, {})
                own = {k: _own(k, value, row, count, parameter) for k, value in entry.items()}
                if STEP in own:  # an ensemble counts for all of them
                    own[STEP].fill_(self.steps)
                member.optimizer.state[parameter] = own
            for group, own in zip(member.optimizer.param_groups, found["groups"], strict=True):
                settings = own["settings"][row]
                group.update({k: v for k, v in settings.items() if k in group and k != FRICTION})
        self._fresh = True

    def _leave(self) -> None:
        """Out of the ensemble: from now on the members are what counts."""
        self._part()
        self._ensemble = None

    def change(self, optimizer: Maker) -> None:
        """Go on with another optimizer: momenta and slacks pass to it."""
        self._leave()
        for member in self._all:
            if not member.stopped:
                member.optimizer = _replaced(member, optimizer)
        self.alone = ""
        self._join()

    # --- training ---------------------------------------------------------------------------

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        """Make one step of every member with its batch: [members, batch, 2]."""
        if self._ensemble is not None:
            self._walk(inputs, labels)
        else:
            for member, own, targets in zip(self._all, inputs, labels, strict=True):
                member.step(own, targets)
        self.steps += 1

    def _walk(self, inputs: Tensor, labels: Tensor) -> None:
        assert self._ensemble is not None
        whole = len(self._rows) == len(self._all)
        batch = (inputs, labels) if whole else (inputs[self._rows], labels[self._rows])
        found = self._slopes(self._weights, *batch)
        if isinstance(found, list):  # some outputs are not finite: these members stop
            self._leave()
            for index, good in zip(self._rows, found, strict=True):
                self._all[index].stopped = None if good else TOO_LARGE
            self._join()
            if self._rows:
                self.steps -= 1
                self.step(inputs, labels)
            return
        try:
            self._ensemble.walk(found)
            self._fresh = False
        except (ColangevinError, ValueError):  # of one member; nothing has moved
            self._leave()
            self.alone = "a projection failed for one of them"
            self.steps -= 1
            self.step(inputs, labels)

    # --- results ----------------------------------------------------------------------------

    @property
    def stopped(self) -> list[str | None]:
        """For each member why it makes no more steps, if so."""
        return [member.stopped for member in self._all]

    def __getitem__(self, index: int) -> Member:
        """A member as it is now."""
        self._part()
        return self._all[index]

    def __iter__(self) -> Any:
        """The members as they are now."""
        self._part()
        return iter(self._all)

    @torch.no_grad()
    def weights(self) -> Mapping[str, Tensor]:
        """The weights of all members by name: [members, ...]."""
        if self._ensemble is not None and len(self._rows) == len(self._all):
            return self._weights
        self._part()
        return {
            name: torch.stack([m.named[name] for m in self._all]) for name in self._all[0].named
        }

    def outputs(self, inputs: Tensor, index: int | None = None) -> Tensor:
        """The logits of all members, or of one, at some points: [members, points]."""
        weights = self.weights()
        if index is not None:
            weights = {name: tensor[index : index + 1] for name, tensor in weights.items()}
        return self._slopes.outputs(weights, inputs)


def _own(key: str, value: Tensor, row: int, count: int, parameter: Tensor) -> Tensor:
    """A member's part of the state of an ensemble, which has members or their rows in front."""
    if not value.dim():
        return value.clone()
    if key == FRICTION:
        return value[row].clone()
    if value.shape == (count, *parameter.shape):
        return value[row].clone()
    return value.unflatten(0, (count, -1))[row].clone()


def _fill(made: cl.Ensemble, members: Sequence[Member], steps: int) -> None:
    """Let a new ensemble go on with the state of its members' optimizers."""
    if not steps:
        return
    state = made.state_dict()
    state["steps"] = steps  # no noise comes twice
    for name in members[0].named:
        entries = [member.optimizer.state.get(member.named[name], {}) for member in members]
        target = state["state"].setdefault(name, {})
        for key, value in entries[0].items():
            if not isinstance(value, Tensor):
                continue
            if not value.dim() and key != FRICTION:  # a count, the same for all
                target[key] = value.clone()
                continue
            own = torch.stack([entry[key] for entry in entries])
            target[key] = own.reshape(target[key].shape) if key in target else own
    made.load_state_dict(state)


def _replaced(member: Member, make: Maker) -> Optimizer:
    """Another optimizer of a member; momenta and slacks pass to it from the old one."""
    old = member.optimizer
    if isinstance(old, cl.Multirate):
        old.release()
        new = make(member.model, member.seed)
        assert isinstance(new, cl.Multirate)
        cl.hand_over(old.fast, new.fast)
        cl.hand_over(old.slow, new.slow)
        return new
    return cl.hand_over(old, make(member.model, member.seed))
