"""Methods of the thesis by name: each one is ``CoLA`` with chosen options for its groups.

SGLD and DHSGD do a little more than that. They are in files of their own.

Every method takes parts. These are the groups that ``partition`` returns, other groups with a
``name`` each, a mapping from names to parameters or, if one part is enough, parameters. The
options of a group win over those of the method. ``**options`` are further options of ``CoLA``,
such as ``seed``, ``weight_decay``, ``constraint`` and ``strict``.
"""

from __future__ import annotations

import math
from typing import Any

from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.partitioned.method_parts import (
    Parts,
    PerPart,
    dress,
    for_part,
    pair,
    read_parts,
)


class Langevin(CoLA):
    """Langevin dynamics (3.14), dp = −G dt − γp dt + √(2γτ) dW, by BAOAB (3.20) or OBA (3.18).

    G is the gradient of the loss.

    Args:
        parts: parameters or groups.
        step_size: h.
        friction: γ.
        temperature: τ.
        scheme: "BAOAB", "OBA" or another word over A, B and O.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear
        >>> model = Linear(2, 1)
        >>> optimizer = Langevin(model.parameters(), 0.1, friction=10.0, temperature=1e-5)
        >>> optimizer.param_groups[0]["scheme"]
        'BAOAB'
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        friction: float,
        temperature: float,
        scheme: str = "BAOAB",
        **options: Any,
    ) -> None:
        groups = dress(read_parts(parts), friction=friction, temperature=temperature)
        super().__init__(groups, step_size=step_size, scheme=scheme, **options)


class LangevinInLayers(CoLA):
    """Langevin dynamics with a friction γ_i and a temperature τ_i for each part (3.25).

    The step h is the same in all parts.

    Args:
        parts: such as ``partition(model, by="layer")``.
        step_size: h.
        friction: γ_i by part's name, or one number for all.
        temperature: τ_i by part's name, or one number for all.
        scheme: a word over A, B and O.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear, ReLU, Sequential
        >>> model = Sequential(Linear(2, 8), ReLU(), Linear(8, 1))
        >>> from colangevin import partition
        >>> parts = partition(model, by="output")
        >>> optimizer = LangevinInLayers(
        ...     parts, 0.1, friction={"hidden": 0.1, "output": 10.0}, temperature=1e-5
        ... )
        >>> [group["friction"] for group in optimizer.param_groups]
        [0.1, 10.0]
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        friction: PerPart,
        temperature: PerPart,
        scheme: str = "BAOAB",
        **options: Any,
    ) -> None:
        read = read_parts(parts)
        groups = dress(
            read,
            friction=for_part("friction", friction, read),
            temperature=for_part("temperature", temperature, read),
        )
        super().__init__(groups, step_size=step_size, scheme=scheme, **options)


class LOL(CoLA):
    """Langevin in the first part and overdamped Langevin in the second (3.26).

    Both parts use BAOAB, the second in its limit γ₂ → ∞. This is (2.56): a move by −h²/2 times
    the gradient, with noise that is averaged over two steps.

    Args:
        parts: two parts, the Langevin one and the overdamped one.
        step_size: h.
        friction: γ₁.
        temperature: τ₁.
        overdamped_temperature: τ₂.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear, ReLU, Sequential
        >>> model = Sequential(Linear(2, 8), ReLU(), Linear(8, 1))
        >>> from colangevin import partition
        >>> optimizer = LOL(partition(model, by="output"), step_size=0.1)
        >>> [group["friction"] for group in optimizer.param_groups]
        [0.01, inf]
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        friction: float = 0.01,
        temperature: float = 1e-3,
        overdamped_temperature: float = 0.0,
        **options: Any,
    ) -> None:
        first, second = pair("LOL", "the Langevin one and the overdamped one", parts)
        groups = [
            *dress(first, friction=friction, temperature=temperature),
            *dress(second, friction=math.inf, temperature=overdamped_temperature),
        ]
        super().__init__(groups, step_size=step_size, scheme="BAOAB", **options)


class AdaptiveLangevin(CoLA):
    """Adaptive Langevin dynamics (2.58) with a friction variable ξ for each part.

    dp = −G dt − ξp dt + σ_A dW and dξ = ε(pᵀp − Nτ) dt, with the gradient G of the loss. The
    friction finds the value that keeps
    the kinetic temperature at τ, for any amount of noise in the gradient.

    Args:
        parts: parameters, groups or parts.
        step_size: h.
        coupling: ε, one number for all parts or numbers by part's name. The same holds for
            ``driving_noise``, ``temperature`` and ``friction``.
        driving_noise: σ_A.
        temperature: τ.
        friction: the initial ξ.
        scheme: "BACDEDCAB" (2.60), or with the Ornstein–Uhlenbeck flow F "BAFEFAB".
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear
        >>> model = Linear(2, 1)
        >>> optimizer = AdaptiveLangevin(model.parameters(), step_size=0.1)
        >>> optimizer.param_groups[0]["thermostat"]
        'adaptive'
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        coupling: PerPart = 0.1,
        driving_noise: PerPart = 0.01,
        temperature: PerPart = 1e-4,
        friction: PerPart = 0.0,
        scheme: str = "BACDEDCAB",
        **options: Any,
    ) -> None:
        read = read_parts(parts)
        groups = dress(
            read,
            thermostat="adaptive",
            coupling=for_part("coupling", coupling, read),
            driving_noise=for_part("driving_noise", driving_noise, read),
            temperature=for_part("temperature", temperature, read),
            friction=for_part("friction", friction, read),
        )
        super().__init__(groups, step_size=step_size, scheme=scheme, **options)


class AdLaLa(CoLA):
    """Adaptive Langevin in the first part, Langevin in the second (3.31).

    Args:
        parts: two parts, the adaptive one and the Langevin one.
        step_size: h.
        coupling: ε₁.
        driving_noise: σ_A.
        temperature: τ₁.
        friction: γ₂.
        langevin_temperature: τ₂; equal to τ₁ if not given.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear, ReLU, Sequential
        >>> model = Sequential(Linear(2, 8), ReLU(), Linear(8, 1))
        >>> from colangevin import partition
        >>> optimizer = AdLaLa(partition(model, by="output"), step_size=0.15)
        >>> [group["scheme"] for group in optimizer.param_groups]
        ['BACDEDCAB', 'BAOAB']
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        coupling: float = 0.1,
        driving_noise: float = 0.01,
        temperature: float = 1e-4,
        friction: float = 0.1,
        langevin_temperature: float | None = None,
        **options: Any,
    ) -> None:
        first, second = pair("AdLaLa", "the adaptive one and the Langevin one", parts)
        other = temperature if langevin_temperature is None else langevin_temperature
        adaptive = {"thermostat": "adaptive", "coupling": coupling, "driving_noise": driving_noise}
        groups = [
            *dress(first, **adaptive, temperature=temperature, scheme="BACDEDCAB"),
            *dress(second, friction=friction, temperature=other, scheme="BAOAB"),
        ]
        super().__init__(groups, step_size=step_size, **options)
