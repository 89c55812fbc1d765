"""Kinds of settings that a page can send: each knows its range and refuses what lies outside.

Nothing here needs torch: the server answers before torch is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_POINTS = 600
"""Points that a user may draw."""
REACH = 4.0
"""How far from the origin a drawn point may lie."""


@dataclass(frozen=True)
class Number:
    """A number in a range.

    Attributes:
        least: the smallest value.
        most: the largest value.
        default: the value if none is given.
        label: what the page calls it.
        integer: whether it must be whole.
        scale: "linear", or "log" for a slider over powers of ten.
        zero: whether 0 is allowed besides the range, as with a temperature.
        hint: one sentence for the reader.
    """

    least: float
    most: float
    default: float
    label: str
    integer: bool = False
    scale: str = "linear"
    zero: bool = False
    hint: str = ""

    def parse(self, name: str, value: Any) -> float | int:
        """The value as a number.

        Raises:
            ValueError: naming the setting, the value and what is allowed.

        Example:
            >>> Number(1, 4, 2, "turns").parse("turns", 3)
            3.0
        """
        wanted = "a whole number" if self.integer else "a number"
        allowed = f"{wanted} from {self.least:g} to {self.most:g}" + (" or 0" * self.zero)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{name} must be {allowed}, got {_short(value)}")
        number = float(value) if abs(value) < 2**53 else math.inf
        inside = self.least <= number <= self.most or (self.zero and number == 0.0)
        if not inside or (self.integer and number != int(number)):
            raise ValueError(f"{name} must be {allowed}, got {_short(value)}")
        return int(number) if self.integer else number


@dataclass(frozen=True)
class Choice:
    """One of several words, each with the label that the page shows."""

    options: Mapping[str, str]
    default: str
    label: str
    hint: str = ""

    def parse(self, name: str, value: Any) -> str:
        """The value, if it is one of the words.

        Example:
            >>> Choice({"relu": "ReLU"}, "relu", "activation").parse("activation", "relu")
            'relu'
        """
        if not isinstance(value, str) or value not in self.options:
            raise ValueError(
                f"{name} must be one of {', '.join(self.options)}, got {_short(value)}"
            )
        return value


@dataclass(frozen=True)
class Flag:
    """Yes or no."""

    default: bool
    label: str
    hint: str = ""

    def parse(self, name: str, value: Any) -> bool:
        """The value, if it is True or False."""
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {_short(value)}")
        return value


@dataclass(frozen=True)
class Points:
    """Points in the plane with their class: [x, y, class] each."""

    label: str
    default: tuple[tuple[float, float, int], ...] = ()
    hint: str = ""

    def parse(self, name: str, value: Any) -> tuple[tuple[float, float, int], ...]:
        """The points as tuples.

        Example:
            >>> Points("points").parse("points", [[0, 1, 1]])
            ((0.0, 1.0, 1),)
        """
        if not isinstance(value, (list, tuple)) or len(value) > MOST_POINTS:
            raise ValueError(f"{name} must be a list of at most {MOST_POINTS} points [x, y, class]")
        side = Number(-REACH, REACH, 0.0, "coordinate")
        kind = Number(0, 1, 0, "class", integer=True)
        found = []
        for index, point in enumerate(value):
            if not isinstance(point, (list, tuple)) or len(point) != 3:
                raise ValueError(f"{name}[{index}] must be [x, y, class], got {_short(point)}")
            x, y = (float(side.parse(f"{name}[{index}]", each)) for each in point[:2])
            found.append((x, y, int(kind.parse(f"class of {name}[{index}]", point[2]))))
        return tuple(found)


Field = Number | Choice | Flag | Points


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"


def parse_section(
    name: str, fields: Mapping[str, Field], given: Any, base: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read one section of a request; what is not given has its default, or is as in ``base``.

    Raises:
        ValueError: for an unknown setting or a bad value.

    Example:
        >>> parse_section("network", {"depth": Number(1, 8, 1, "depth", integer=True)}, {})
        {'depth': 1}
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} must be an object, got {_short(given)}")
    unknown = [key for key in given if key not in fields]
    if unknown:
        raise ValueError(f"{name} has no setting {_short(unknown[0])}; it has {', '.join(fields)}")
    start = dict(base or {})
    if base is None:
        start = {key: field.parse(key, field.default) for key, field in fields.items()}
    for key, value in given.items():
        start[key] = fields[key].parse(f"{name}.{key}", value)
    return start
