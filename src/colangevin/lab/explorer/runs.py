"""The training behind a page: one or two runs on the same data, with one network per seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from colangevin.lab.explorer.building import network_of, optimizer_of, points_of
from colangevin.lab.explorer.members import Batches, Maker, Members
from colangevin.lab.explorer.spec import MOST_CHANGES, Spec, changed


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
        self.points = points_of(spec.data)
        self.steps = 0
        self.changes: list[dict[str, Any]] = []
        self.runs = self._begin()

    def _begin(self) -> dict[str, Members]:
        points, spec = self.points, self.spec
        self._batches = Batches(
            points.train_inputs, points.train_labels, spec.seeds, spec.training["batch"]
        )
        return {
            letter: Members(lambda _: network_of(spec.network), self._maker(run), spec.seeds)
            for letter, run in spec.runs.items()
        }

    def _maker(self, run: Mapping[str, Any], change: int = 0) -> Maker:
        network = self.spec.network
        return lambda model, seed: optimizer_of(run, network, model, seed, change)

    def step(self) -> None:
        """Make one step of every member of every run."""
        batch = self._batches.next()
        for members in self.runs.values():
            members.step(*batch)
        self.steps += 1

    @property
    def over(self) -> bool:
        """Whether all members have stopped."""
        return all(why for members in self.runs.values() for why in members.stopped)

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
        self.runs[letter].change(self._maker(run, count))
