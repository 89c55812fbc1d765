"""The thesis's methods by name: each is a choice of groups for ``CoLA``.

SGLD and DHSGD, which do a little more than that, are in files of their own.

Every method takes parts: what ``partition`` returns, groups with a ``name`` each, a mapping from
names to parameters or, where one part is enough, parameters. Options that a group sets itself
win over the method's. ``**options`` are further options of ``CoLA``: ``generator``,
``weight_decay``, ``constraint``, ``strict``.
"""

from __future__ import annotations

import math
from typing import Any

from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.parts import Parts, PerPart, dress, for_part, pair, read_parts


class Langevin(CoLA):
    """Langevin dynamics (3.14), dp = G dt − γp dt + √(2γτ) dW, by BAOAB (3.20) or OBA (3.18).

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
    """Langevin dynamics with its own γ_i and τ_i in each part (3.25), and the same step.

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

    Both go by BAOAB, the second in its limit γ₂ → ∞, which is (2.56): it moves by h²/2 times
    the gradient, with noise averaged over two steps.

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
    """Adaptive Langevin dynamics (2.58), each part with a friction variable of its own.

    dp = G dt − ξp dt + σ_A dW and dξ = ε(pᵀp − Nτ) dt: the friction finds the value that keeps
    the kinetic temperature at τ whatever the gradient's noise.

    Args:
        parts: parameters, groups or parts.
        step_size: h.
        coupling: ε, a number or one by part's name, as all that follow.
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
        langevin_temperature: τ₂; the same as τ₁ if not given.
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
