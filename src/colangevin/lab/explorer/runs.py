"""The training behind a page: one or two runs on the same data, with one network per seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from colangevin.errors import ColangevinError
from colangevin.lab.explorer import building
from colangevin.lab.explorer.building import Points
from colangevin.lab.explorer.spec import MOST_CHANGES, Spec, changed


def loss_of(outputs: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of logits [points, 1]."""
    return functional.binary_cross_entropy_with_logits(outputs[:, 0], labels)


class Member:
    """One network with its optimizer and its order of the data.

    A member whose loss is no longer finite stops; the others go on.
    """

    def __init__(self, run: Mapping[str, Any], network: Mapping[str, Any], seed: int) -> None:
        self.seed = seed
        self.network = network
        self.model = building.network_of(network, seed)
        self.optimizer = building.optimizer_of(run, network, self.model, seed)
        self.stopped: str | None = None
        self._batches = torch.Generator().manual_seed(seed)
        self._order = torch.zeros(0, dtype=torch.int64)

    def step(self, points: Points, batch: int) -> None:
        """Make one step, unless the member has stopped."""
        if self.stopped:
            return
        if not len(self._order):
            self._order = torch.randperm(len(points.train_inputs), generator=self._batches)
        chosen, self._order = self._order[:batch], self._order[batch:]
        self.optimizer.zero_grad()
        loss = loss_of(self.model(points.train_inputs[chosen]), points.train_labels[chosen])
        if not bool(loss.isfinite()):
            self.stopped = "the loss is no longer finite: a smaller step helps"
            return
        loss.backward()
        try:
            self.optimizer.step()
        except (ColangevinError, ValueError) as error:  # a projection failed
            self.stopped = " ".join(str(error).split())[:200]

    def change(self, run: Mapping[str, Any], count: int) -> None:
        """Go on with other settings."""

        def make() -> torch.optim.Optimizer:
            return building.optimizer_of(run, self.network, self.model, self.seed, count)

        self.optimizer = building.replaced(self.optimizer, make)

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> Tensor:
        """The logits of points, [points]."""
        return self.model(inputs)[:, 0]


class Training:
    """All runs of a page.

    Attributes:
        spec: the settings now.
        start: the settings at the start.
        steps: how many steps every member has made.
        changes: what was changed, and after how many steps.

    Example:
        >>> from colangevin.lab.explorer.spec import parse
        >>> training = Training(parse({"network": {"width": 5}}))
        >>> training.step()
        >>> training.steps
        1
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = self.start = spec
        self.points = building.points_of(spec.data)
        self.steps = 0
        self.changes: list[dict[str, Any]] = []
        self.runs = self._begin()

    def _begin(self) -> dict[str, list[Member]]:
        return {
            letter: [Member(run, self.spec.network, seed) for seed in self.spec.seeds]
            for letter, run in self.spec.runs.items()
        }

    def step(self) -> None:
        """Make one step of every member of every run."""
        batch = self.spec.training["batch"]
        for members in self.runs.values():
            for member in members:
                member.step(self.points, batch)
        self.steps += 1

    @property
    def over(self) -> bool:
        """Whether all members have stopped."""
        return all(member.stopped for members in self.runs.values() for member in members)

    def change(self, letter: str, values: Mapping[str, Any]) -> None:
        """Change settings of a run in mid-training.

        Raises:
            ValueError: if the change is not allowed; nothing has been changed then.
        """
        run = changed(self.spec, letter, values)
        if run == self.spec.runs[letter]:
            return
        if self.steps == 0:  # nothing has happened yet: this is the start
            self.spec = self.start = replace(self.spec, **{letter: run})
            self.runs = self._begin()
            return
        if self._last(letter, self.steps) is None and len(self.changes) >= MOST_CHANGES:
            raise ValueError(f"a training may be changed {MOST_CHANGES} times: reset it")
        self.spec = replace(self.spec, **{letter: run})
        last = self._last(letter, self.steps)
        if last is None:
            last = {"step": self.steps, "run": letter, "values": {}}
            self.changes.append(last)
        last["values"].update({key: run[key] for key in values})
        self._renew(letter, run)

    def _last(self, letter: str, step: int) -> dict[str, Any] | None:
        own = [c for c in self.changes if c["run"] == letter and c["step"] == step]
        return own[-1] if own else None

    def _renew(self, letter: str, run: Mapping[str, Any]) -> None:
        count = sum(change["run"] == letter for change in self.changes)
        for member in self.runs[letter]:
            if not member.stopped:
                member.change(run, count)
