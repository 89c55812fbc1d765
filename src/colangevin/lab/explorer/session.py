"""A session: one page's training, in a thread of its own.

Nothing here imports torch before the thread runs: the page is there first.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from colangevin.lab.explorer.spec import MOST_STEPS, Spec, parse, parse_changes

if TYPE_CHECKING:
    from colangevin.lab.explorer.runs import Training

FRAMES_PER_SECOND = 18.0
SMALL_EVERY = 3
"""Every third frame of a training that plays has the small pictures of all seeds."""
MOST_ROWS = 1_000
"""Rows of the record; every second one goes when there are more."""
SCORES = ("train_loss", "test_loss", "train_accuracy", "test_accuracy")


class Event(NamedTuple):
    """Something to send to the page."""

    serial: int
    name: str
    text: str


class Closed(Exception):
    """The session has ended."""


class Session:
    """A training that a page steers.

    Args:
        spec: what to train.
        notify: called from the thread whenever there is a new event.
    """

    def __init__(self, spec: Spec, notify: Callable[[], None] = lambda: None) -> None:
        self.notify = notify
        self.problem: Event | None = None
        self.frame: Event | None = None
        self.taken = 0
        self.listeners = 0
        self.left = time.monotonic()
        self._wishes: queue.Queue[tuple[Callable[[], Any] | None, Future[Any]]] = queue.Queue()
        self._ending = threading.Event()
        self._spec = spec
        self._serial = 0
        self._state, self._message = "starting", ""
        self._pace, self._target = 0, 0
        self._member, self._layer = 0, "input"
        self._script: list[dict[str, Any]] = []
        self._rows: list[dict[str, Any]] = []
        self._every, self._rate, self._cost, self._shown = 1, 0.0, 0.02, 0
        self._training: Training | None = None
        self._thread = threading.Thread(target=self._work, name="cola-explore", daemon=True)
        self._thread.start()

    # --- from the server ------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the thread is there, and shall stay."""
        return self._thread.is_alive() and not self._ending.is_set()

    def close(self) -> None:
        """End the thread after its current step."""
        self._ending.set()
        self._wishes.put((None, Future()))
        self.notify()

    def join(self, timeout: float = 5.0) -> None:
        """Wait until the thread has ended."""
        self._thread.join(timeout)

    def ask(self, wish: Callable[[], Any]) -> Future[Any]:
        """Have something done by the thread, between two steps."""
        answer: Future[Any] = Future()
        if not self.alive:
            answer.set_exception(Closed("the session has ended"))
        else:
            self._wishes.put((wish, answer))
        return answer

    def command(self, given: Any) -> Future[Any]:
        """Carry out a command of the page; see :meth:`_obey`."""
        return self.ask(lambda: self._obey(given))

    def code(self) -> Future[Any]:
        """The training so far as a Python program."""
        from colangevin.lab.explorer.code import program

        return self.ask(lambda: program(self.training))

    def record(self) -> Future[Any]:
        """Settings, changes and scores so far."""
        return self.ask(self._record)

    # --- the thread -----------------------------------------------------------------------

    @property
    def training(self) -> Training:
        """The training; only the thread may touch it."""
        assert self._training is not None
        return self._training

    def _work(self) -> None:
        try:
            import torch

            torch.set_num_threads(1)  # the networks are small, and pages share the processors
            self._begin(self._spec)
            while not self._ending.is_set():
                self._listen()
                if self._state == "playing":
                    self._slice()
        except Exception as error:  # what no check foresaw: the page must hear of it
            self._state, self._message = "failed", f"{type(error).__name__}: {error}"[:300]
            self._send("frame", {"state": self._state, "message": self._message})
            self._ending.wait()
        finally:
            self._training = None
            self._refuse()

    def _refuse(self) -> None:
        self._ending.set()
        while not self._wishes.empty():
            _, answer = self._wishes.get_nowait()
            if not answer.done():
                answer.set_exception(Closed("the session has ended"))

    def _begin(self, spec: Spec) -> None:
        from colangevin.lab.explorer import readings
        from colangevin.lab.explorer.runs import Training

        training = Training(spec)  # raises before anything is changed
        self._training, self._spec = training, spec
        self._bounds = readings.bounds_of(training.points, spec.data["kind"] == "drawn")
        self._member = min(self._member, len(spec.seeds) - 1) if len(spec.seeds) > 1 else 0
        names = readings.problem(training)
        self._layer = readings.first_layer(training)
        self._rows, self._every, self._rate, self._script = [], 1, 0.0, []
        self._state, self._message, self._target = "paused", "", 0
        self._send("problem", names)
        self._show()

    def _listen(self) -> None:
        """Carry out the wishes that wait; without a training that plays, wait for one."""
        block = self._state != "playing"
        while not self._ending.is_set():
            try:
                wish, answer = self._wishes.get(block=block, timeout=None)
            except queue.Empty:
                return
            block = False
            if wish is None:
                continue
            try:
                answer.set_result(wish())
            except Exception as error:
                answer.set_exception(error)

    def _slice(self) -> None:
        """Train for one frame's time, then show."""
        training, begin = self.training, time.perf_counter()
        before, most = training.steps, self._pace or MOST_STEPS
        last = begin + 1.0 / FRAMES_PER_SECOND - self._cost
        stop = self._target or MOST_STEPS
        while training.steps < stop and training.steps - before < most:
            self._advance()
            if time.perf_counter() >= last or self._ending.is_set():
                break
        self._follow()
        if training.steps >= stop or training.over:
            self._state = "paused"
            self._message = "all networks have stopped" if training.over else ""
            self._target = 0
        passed = time.perf_counter() - begin
        self._rate += 0.2 * ((training.steps - before) / max(passed, 1e-6) - self._rate)
        if self._state == "paused" or self.frame is None or self.taken >= self.frame.serial:
            self._show()
        if self._pace:  # a slow pace leaves the processor to others
            self._ending.wait(max(0.0, begin + 1.0 / FRAMES_PER_SECOND - time.perf_counter()))

    def _advance(self) -> None:
        self._follow()
        self.training.step()

    def _follow(self) -> None:
        """Make the changes of the script that are due."""
        while self._script and self._script[0]["step"] <= self.training.steps:
            due = self._script.pop(0)
            self.training.change(due["run"], due["values"])

    def _show(self) -> None:
        from colangevin.lab.explorer import readings

        begin = time.perf_counter()
        training = self.training
        self._shown += 1
        every = self._state != "playing" or self._shown % SMALL_EVERY == 0
        runs = readings.frame(training, self._bounds, self._member, self._layer, all_seeds=every)
        self._note({letter: run["scores"] for letter, run in runs.items()})
        self._send(
            "frame",
            {
                "state": self._state,
                "message": self._message,
                "steps": training.steps,
                "rate": round(self._rate, 1),
                "member": self._member,
                "layer": self._layer,
                "changes": training.changes,
                "runs": runs,
            },
        )
        self._cost = min(0.05, time.perf_counter() - begin)

    def _send(self, name: str, content: dict[str, Any]) -> None:
        self._serial += 1
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        setattr(self, name, Event(self._serial, name, text))
        self.notify()

    def _note(self, scores: dict[str, Any]) -> None:
        """Keep the scores for the record: a bounded number of rows."""
        steps = self.training.steps
        if self._rows and steps < self._rows[-1]["step"] + self._every:
            return
        named = {letter: dict(zip(SCORES, own, strict=True)) for letter, own in scores.items()}
        self._rows.append({"step": steps, **named})
        if len(self._rows) > MOST_ROWS:
            self._rows = self._rows[::2]
            self._every = max(1, self._every) * 2

    def _record(self) -> dict[str, Any]:
        import torch

        import colangevin

        training = self.training
        return {
            "program": "cola explore",
            "versions": {"colangevin": colangevin.__version__, "torch": torch.__version__},
            "start": training.start.plain(),
            "changes": training.changes,
            "steps": training.steps,
            "history": self._rows,
            "stopped": {letter: own.stopped for letter, own in training.runs.items()},
        }

    # --- commands -------------------------------------------------------------------------

    def _obey(self, given: Any) -> dict[str, Any]:
        """Carry out a command: {"do": ..., and its arguments}.

        Raises:
            ValueError: for an unknown command or a bad argument.
        """
        if not isinstance(given, dict) or not isinstance(given.get("do"), str):
            raise ValueError('a command must be an object such as {"do": "play"}')
        actions: dict[str, Callable[[dict[str, Any]], None]] = {
            "play": self._play,
            "pause": self._pause,
            "step": self._step,
            "reset": self._reset,
            "change": self._change,
            "look": self._look,
            "pace": self._set_pace,
        }
        if given["do"] not in actions:
            raise ValueError(f"do must be one of {', '.join(actions)}, got {given['do'][:40]!r}")
        actions[given["do"]](given)
        return {"state": self._state, "steps": self.training.steps}

    def _play(self, given: dict[str, Any]) -> None:
        """Play, without end or up to the step ``until``."""
        until = _whole("until", given.get("until", 0), MOST_STEPS)
        if not self.training.over and self.training.steps < (until or MOST_STEPS):
            self._target, self._state, self._message = until, "playing", ""

    def _pause(self, given: dict[str, Any]) -> None:
        self._state, self._target = "paused", 0
        self._show()

    def _step(self, given: dict[str, Any]) -> None:
        count = _whole("count", given.get("count", 1), 1_000)
        self._state, self._target = "paused", 0
        for _ in range(min(count, MOST_STEPS - self.training.steps)):
            self._advance()
        self._follow()
        self._show()

    def _reset(self, given: dict[str, Any]) -> None:
        """Start again, with the settings ``spec`` or those of the start.

        ``changes`` are made again on the way, each after its number of steps.
        """
        spec = parse(given["spec"]) if "spec" in given else self.training.start
        script = parse_changes(spec, given.get("changes", []))
        self._begin(spec)
        self._script = script
        self._follow()

    def _change(self, given: dict[str, Any]) -> None:
        self._script = []  # the user goes another way from here
        self.training.change(str(given.get("run")), given.get("values", {}))
        if self._state != "playing":
            self._show()

    def _look(self, given: dict[str, Any]) -> None:
        """Choose the member and the layer whose inside is shown."""
        from colangevin.lab.explorer import readings

        names = readings.titles_of(self._spec.network["depth"])
        layer, most = given.get("layer", self._layer), len(self._spec.seeds) - 1
        member = given.get("member", self._member)
        if member != readings.MEAN or isinstance(member, bool) or not most:
            member = _whole("member", member, most)
        if layer not in names:
            raise ValueError(f"layer must be one of {', '.join(names)}, got {str(layer)[:40]!r}")
        self._member, self._layer = member, layer
        if self._state != "playing":
            self._show()

    def _set_pace(self, given: dict[str, Any]) -> None:
        """Steps per frame; 0 is as fast as possible."""
        self._pace = _whole("steps", given.get("steps", 0), 1_000)


def _whole(name: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 0 to {most}, got {str(value)[:40]!r}")
    return value
