"""Directions: what a step goes along, in the place of the gradient. One file each."""

from colangevin.optimizers.directions.adam import Adam as Adam
from colangevin.optimizers.directions.base import Direction as Direction
from colangevin.optimizers.directions.base import Gradient as Gradient
from colangevin.optimizers.directions.polar import Polar as Polar
from colangevin.optimizers.directions.sign import Sign as Sign

NAMES: dict[str, type[Direction]] = {
    "gradient": Gradient,
    "sign": Sign,
    "adam": Adam,
    "polar": Polar,
}
"""The directions that have a name."""


def direction_of(name: str, value: object) -> Direction:
    """A direction from its name, or as it is.

    Args:
        name: of the option, for messages.
        value: what a user has given.

    Raises:
        ValueError, TypeError: naming the option, its value and what is allowed.

    Example:
        >>> direction_of("direction", "adam")
        Adam(betas=(0.9, 0.999), eps=1e-08, relative=False, tangent=False)
    """
    if isinstance(value, Direction):
        return value
    known = ", ".join(map(repr, NAMES))
    if not isinstance(value, str):
        raise TypeError(
            f"{name} must be one of {known}, or an object of a cl.Direction such as "
            f"cl.Adam(betas=(0.9, 0.95)), got {value!r}"
        )
    if value not in NAMES:
        raise ValueError(f"{name} must be one of {known}, or a cl.Direction, got {value!r}")
    return NAMES[value]()
