"""Range checks of arguments: each error names the argument, its value and what is allowed."""

from __future__ import annotations

import math

from torch import Tensor


def number(name: str, value: object) -> float:
    """Return ``value`` as a finite-or-infinite float, refusing what is no real number.

    Example:
        >>> number("lr", 1)
        1.0
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Tensor)):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if isinstance(value, Tensor) and value.numel() != 1:
        raise TypeError(f"{name} must be a number, got a tensor of shape {tuple(value.shape)}")
    result = float(value)
    if math.isnan(result):
        raise ValueError(f"{name} must be a number, got NaN")
    return result


def positive(name: str, value: object) -> float:
    """Return ``value`` as a float in (0, ∞)."""
    result = number(name, value)
    if not 0.0 < result < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {result}")
    return result


def non_negative(name: str, value: object, *, infinite: bool = False) -> float:
    """Return ``value`` as a float in [0, ∞), or in [0, ∞] where ``infinite`` allows it."""
    result = number(name, value)
    if result < 0.0 or (math.isinf(result) and not infinite):
        raise ValueError(
            f"{name} must be at least 0{'' if infinite else ' and finite'}, got {result}"
        )
    return result


def fraction(name: str, value: object) -> float:
    """Return ``value`` as a float in [0, 1]."""
    result = number(name, value)
    if not 0.0 <= result <= 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, got {result}")
    return result


def count(name: str, value: object, *, least: int = 1) -> int:
    """Return ``value`` as an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value


def seed(name: str, value: object) -> int:
    """Return ``value`` as an integer from 0 to 2**63 − 1."""
    found = count(name, value, least=0)
    if found >= 2**63:
        raise ValueError(f"{name} must lie between 0 and 2**63 - 1, got {value}")
    return found


def flag(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def finite(name: str, value: Tensor) -> Tensor:
    """Return a tensor without NaN and infinity.

    Example:
        >>> import torch
        >>> finite("losses", torch.tensor([1.0, float("nan")]))
        Traceback (most recent call last):
        ...
        ValueError: losses must be finite, got NaN or infinity
    """
    if not bool(value.isfinite().all()):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return value


def scalar(name: str, value: object, place: str = "") -> Tensor:
    """Return what a function gave as a tensor without dimensions; ``place`` ends an error.

    Example:
        >>> import torch
        >>> scalar("loss", torch.tensor([2.0]))
        tensor(2.)
        >>> scalar("loss", torch.zeros(3))
        Traceback (most recent call last):
        ...
        TypeError: loss must return one number as a tensor, got shape (3,)
    """
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise TypeError(f"{name} must return one number as a tensor, got {got}{place}")
    return value.reshape(())


def radius(name: str, value: object) -> float | Tensor:
    """Return a radius: a positive float, or a tensor of positive numbers."""
    if not isinstance(value, Tensor) or value.numel() == 1:
        return positive(name, value)
    if not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {value.dtype}")
    if not bool(((value > 0) & value.isfinite()).all()):
        bad = float(value[~((value > 0) & value.isfinite())][0])
        raise ValueError(f"{name} must be positive and finite everywhere, got {bad}")
    return value.detach().clone()  # the user may change theirs
