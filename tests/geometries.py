"""Geometries that a user might write, made so that they survive changes of the interface."""

from __future__ import annotations

from typing import Any

import colangevin as cl

HOUSE_ONLY = {"bind", "numbers", "with_numbers", "batch_dims", "radius", "scale"}
"""What a user's geometry need not have, and ``bind``, which must return the user's own."""


def users_own(inner: cl.Constraint) -> cl.Constraint:
    """A direct subclass of ``Constraint`` that does all that ``inner`` does, and no more.

    It is no dataclass, has no fields, and the library knows nothing of its type.
    """
    names = [
        name for name in dir(cl.Constraint) if not name.startswith("_") and name not in HOUSE_ONLY
    ]
    body: dict[str, Any] = {name: _forward(inner, name) for name in names}

    def bind(self: Any, *args: Any, **options: Any) -> Any:
        inner.bind(*args, **options)
        return self

    body["bind"] = bind
    made: cl.Constraint = type(cl.Constraint)("Own", (cl.Constraint,), body)()
    return made


def _forward(inner: cl.Constraint, name: str) -> Any:
    value = getattr(inner, name)
    if not callable(value):
        return value  # a flag of the class
    return lambda self, *args, **options: value(*args, **options)


class HalfSpeed(cl.Circle):
    """A circle on which weights go half as far."""

    def drift(self, state: Any, step: Any, *rest: Any, **options: Any) -> Any:
        return super().drift(state, 0.5 * step, *rest, **options)


class Oblique(cl.Orthogonal):
    """An orthogonal constraint whose projection leaves momenta off the tangent space."""

    def tangent(self, state: Any, *args: Any, **options: Any) -> Any:
        right = super().tangent(state, *args, **options)
        position = getattr(state.position, "main", state.position)
        return right._replace(main=right.main + 0.3 * right.main.norm() * position)
