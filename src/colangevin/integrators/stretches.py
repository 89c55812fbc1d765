"""Equal stretches of a call: what a slow group does while fast ones make their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from colangevin.integrators.dynamics import Action, DriftBy, OverdampedBy
from colangevin.integrators.scheme import Drift, Move

T = TypeVar("T", Action, Move)

ROUNDING = 1e-9
"""Of a stretch: places nearer than this are the same."""


def stretch(actions: Sequence[T], index: int, parts: int) -> tuple[T, ...]:
    """The ``index``-th of ``parts`` equal stretches of a call; together they are the call.

    Only drifts take time. They are cut where a stretch ends, and whatever stands between two
    drifts acts in the stretch that reaches its place: for OBA the first one makes the whole
    impulse and each makes 1/parts of the drift, as algorithm 5.1 asks. An overdamped step
    becomes ``parts`` Euler–Maruyama steps of 1/parts of its length, with noise of their own,
    which has the same variance in all.

    Args:
        actions: what the whole call does, as moves or with their numbers.
        index: from 0 to parts − 1.
        parts: number of stretches.

    Example:
        >>> from colangevin.integrators.dynamics import ImpulseBy
        >>> oba = (ImpulseBy(0.9, 1.0, None), DriftBy(-0.5))
        >>> stretch(oba, 0, 2)
        (ImpulseBy(decay=0.9, weight=1.0, scale=None), DriftBy(step=-0.25))
        >>> stretch(oba, 1, 2)
        (DriftBy(step=-0.25),)
    """
    if parts == 1:
        return tuple(actions)
    length = sum(abs(float(a[0])) for a in actions if isinstance(a, (Drift, DriftBy))) / parts
    chosen: list[T] = []
    walked = 0.0
    for action in actions:
        if isinstance(action, (Drift, DriftBy)):
            way = float(action[0])
            share = _overlap(walked, walked + abs(way), index, length)
            if share > ROUNDING * length:
                chosen.append(type(action)(math.copysign(share, way)))
            walked += abs(way)
        elif isinstance(action, OverdampedBy):
            scale = None if action.scale is None else action.scale / math.sqrt(parts)
            chosen.append(OverdampedBy(action.step / parts, scale))
        elif _place(walked, length, parts) == index:
            chosen.append(action)
    return tuple(chosen)


def _overlap(start: float, end: float, index: int, length: float) -> float:
    """How much of a drift from ``start`` to ``end`` lies in a stretch."""
    return min(end, (index + 1) * length) - max(start, index * length)


def _place(walked: float, length: float, parts: int) -> int:
    """The stretch in which something acts that stands after a way of ``walked``."""
    if length == 0.0:
        return 0
    return min(int(walked / length + ROUNDING), parts - 1)
