"""Methods of the thesis by name: each one is ``CoLA`` with chosen options for its groups.

Every method takes parts. These are the groups that ``partition`` returns, other groups with a
``name`` each, a mapping from names to parameters or, if one part is enough, parameters. The
options of a group win over those of the method. ``**options`` are further options of ``CoLA``,
such as ``seed``, ``weight_decay``, ``constraint`` and ``strict``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from colangevin import checks
from colangevin.integrators.scheme import Overdamped
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.step.plan import Call

Groups: TypeAlias = "list[dict[str, Any]]"
Parts: TypeAlias = "Iterable[Tensor] | Iterable[dict[str, Any]] | Mapping[str, Iterable[Tensor]]"
PerPart: TypeAlias = "float | Mapping[str, float]"
"""A number for all parts, or one for each by name."""


# --- parts --------------------------------------------------------------------------------


def as_groups(parts: Parts) -> Groups:
    """Groups with the name of their part under ``part``.

    Parameters are one part, called "all". A group without ``part`` is named by its ``name``, or
    else by its place.

    Example:
        >>> [group["part"] for group in as_groups({"first": [torch.zeros(1)]})]
        ['first']
    """
    if isinstance(parts, Mapping):
        groups: Groups = [{"params": list(p), "part": name} for name, p in parts.items()]
    else:
        listed: list[Any] = list(parts)
        if listed and all(isinstance(item, Tensor) for item in listed):
            return [{"params": listed, "part": "all"}]
        groups = [_as_group(item, index) for index, item in enumerate(listed)]
    if not groups:
        raise ValueError("parts must not be empty")
    for group in groups:
        if not group["params"]:
            raise ValueError(f"part {group['part']!r} is empty")
    return groups


def _as_group(item: object, index: int) -> dict[str, Any]:
    if not isinstance(item, dict) or "params" not in item:
        raise TypeError(f"parts must be parameters or groups with params, got {item!r}")
    params = item["params"]
    params = [params] if isinstance(params, Tensor) else list(params)
    part = item.get("part", item.get("name", f"part {index}"))
    return {**item, "params": params, "part": part}


def _names(groups: Groups) -> list[str]:
    """The names of the parts in order, each once."""
    return list(dict.fromkeys(group["part"] for group in groups))


def two_parts(method: str, roles: str, parts: Parts) -> tuple[Groups, Groups]:
    """The groups of the first part and those of the second; the error names method and roles."""
    groups = as_groups(parts)
    names = _names(groups)
    if len(names) != 2:
        raise ValueError(f"{method} takes two parts, {roles}; got {len(names)}: {', '.join(names)}")
    first = [group for group in groups if group["part"] == names[0]]
    return first, [group for group in groups if group["part"] == names[1]]


def with_options(groups: Groups, **options: Any) -> Groups:
    """Copies of the groups with further options, each a value, or values by part.

    What a group has already stays.
    """
    names = _names(groups)
    by_part = {
        name: value if isinstance(value, Mapping) else dict.fromkeys(names, value)
        for name, value in options.items()
    }
    for name, values in by_part.items():
        if set(values) != set(names):
            raise ValueError(
                f"{name} must have a value for each of the parts {', '.join(names)}; "
                f"got {', '.join(map(str, values))}"
            )
    return [
        {**{name: values[group["part"]] for name, values in by_part.items()}, **group}
        for group in groups
    ]


# --- methods ------------------------------------------------------------------------------


class Langevin(CoLA):
    """Langevin dynamics (3.14), dp = −G dt − γp dt + √(2γτ) dW, by BAOAB (3.20) or OBA (3.18).

    G is the gradient of the loss.

    Args:
        parts: parameters, groups or parts.
        step_size: h.
        friction: γ, one number for all parts or numbers by part's name.
        temperature: τ, likewise.
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
        friction: PerPart,
        temperature: PerPart,
        scheme: str = "BAOAB",
        **options: Any,
    ) -> None:
        groups = with_options(as_groups(parts), friction=friction, temperature=temperature)
        super().__init__(groups, step_size=step_size, scheme=scheme, **options)


class LangevinInLayers(Langevin):
    """Langevin dynamics with a friction γ_i and a temperature τ_i for each part (3.25).

    It is ``Langevin`` under the name of the thesis, with one step h for all parts.

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
        first, second = two_parts("LOL", "the Langevin one and the overdamped one", parts)
        groups = [
            *with_options(first, friction=friction, temperature=temperature),
            *with_options(second, friction=math.inf, temperature=overdamped_temperature),
        ]
        super().__init__(groups, step_size=step_size, scheme="BAOAB", **options)


EQUATIONS = ("2.58", "3.31")
"""Where ξ stands in dp: −ξp as in (2.58), (3.21) and the published code, or −εξp as in (3.31)."""


def thermostats(
    groups: Groups, equation: str, coupling: PerPart, friction: PerPart, separate_biases: bool
) -> Groups:
    """Groups with an adaptive thermostat.

    With η = εξ, (3.31) is (2.58) with the coupling ε²: dη = ε²(pᵀp − Nτ) dt.

    Args:
        groups: one ξ for each.
        equation: "2.58" or "3.31".
        coupling: ε of that equation.
        friction: the initial ξ of that equation.
        separate_biases: whether weights and biases of a group have a ξ and an N each.

    Example:
        >>> made = thermostats(as_groups([torch.zeros(1)]), "3.31", 0.1, 0.5, False)
        >>> f"{made[0]['coupling']:g} {made[0]['friction']:g}"
        '0.01 0.05'
    """
    checks.choice("equation", equation, EQUATIONS)
    if separate_biases:
        groups = [half for group in groups for half in _halves(group)]
    made = with_options(groups, thermostat="adaptive", coupling=coupling, friction=friction)
    if equation == "3.31":
        for group in made:
            coupled = checks.non_negative("coupling", group["coupling"])
            first = checks.number("friction", group["friction"])
            group.update(coupling=coupled**2, friction=coupled * first)
    return made


def _halves(group: dict[str, Any]) -> Groups:
    """The weights of a group, and its biases: parameters with fewer than two dimensions."""
    found = []
    for biases in (False, True):
        chosen = [i for i, p in enumerate(group["params"]) if (p.dim() < 2) == biases]
        if chosen:
            own = {"params": [group["params"][i] for i in chosen]}
            if "names" in group:
                own["names"] = [group["names"][i] for i in chosen]
            found.append({**group, **own})
    return found


class AdaptiveLangevin(CoLA):
    """Adaptive Langevin dynamics (2.58) with a friction variable ξ for each part.

    dp = −G dt − ξp dt + σ_A dW and dξ = ε(pᵀp − Nτ) dt, with the gradient G of the loss. The
    friction finds the value that keeps the kinetic temperature at τ, for any amount of noise in
    the gradient.

    Args:
        parts: parameters, groups or parts.
        step_size: h.
        coupling: ε, one number for all parts or numbers by part's name. The same holds for
            ``driving_noise``, ``temperature`` and ``friction``.
        driving_noise: σ_A.
        temperature: τ.
        friction: the initial ξ.
        scheme: "BACDEDCAB" (2.60), or with the Ornstein–Uhlenbeck flow F "BAFEFAB".
        equation: "2.58", or "3.31" for the friction εξ in the place of ξ. This is the same method
            with the coupling ε².
        separate_biases: whether weights and biases of a part have thermostats of their own.
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
        equation: str = "2.58",
        separate_biases: bool = False,
        **options: Any,
    ) -> None:
        groups = thermostats(as_groups(parts), equation, coupling, friction, separate_biases)
        groups = with_options(groups, driving_noise=driving_noise, temperature=temperature)
        super().__init__(groups, step_size=step_size, scheme=scheme, **options)


class AdLaLa(CoLA):
    """Adaptive Langevin in the first part, Langevin in the second (3.31).

    The sources have two forms of the first part. In (2.58), (3.21) and the published code the
    friction is ξ; in (3.31) as printed it is εξ, which is the same method with the coupling ε².
    Figure 3.16 of the thesis comes out with the printed form.

    Args:
        parts: two parts, the adaptive one and the Langevin one.
        step_size: h.
        coupling: ε₁.
        driving_noise: σ_A.
        temperature: τ₁.
        friction: γ₂.
        langevin_temperature: τ₂; equal to τ₁ if not given.
        first_friction: the initial ξ. The published code has 0.1.
        equation: "2.58" or "3.31".
        separate_biases: whether the weights and the biases of the first part have thermostats of
            their own, as in the published code.
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
        first_friction: float = 0.0,
        equation: str = "2.58",
        separate_biases: bool = False,
        **options: Any,
    ) -> None:
        first, second = two_parts("AdLaLa", "the adaptive one and the Langevin one", parts)
        other = temperature if langevin_temperature is None else langevin_temperature
        hot = thermostats(first, equation, coupling, first_friction, separate_biases)
        own = {"driving_noise": driving_noise, "temperature": temperature, "scheme": "BACDEDCAB"}
        groups = [
            *with_options(hot, **own),
            *with_options(second, friction=friction, temperature=other, scheme="BAOAB"),
        ]
        super().__init__(groups, step_size=step_size, **options)


class SGLD(CoLA):
    """Stochastic gradient Langevin dynamics (2.66): θ ← θ − hG + σ√h R, with σ² = 2τ.

    G is the gradient of the loss. The step may decay as h_n = h (1 + n/decay_steps)^(−decay_power).
    With a power in (1/2, 1] the bias goes to zero in the long run.

    Args:
        parts: parameters or groups.
        step_size: h.
        temperature: τ; give it or ``noise``.
        noise: σ, instead of ``temperature``.
        decay_power: 0 keeps the step constant.
        decay_steps: the number of steps after which the decay begins to be felt.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear
        >>> model = Linear(2, 1)
        >>> SGLD(model.parameters(), step_size=0.1, noise=0.2).param_groups[0]["temperature"]
        0.020000000000000004
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        temperature: float | None = None,
        *,
        noise: float | None = None,
        decay_power: float = 0.0,
        decay_steps: float = 1.0,
        **options: Any,
    ) -> None:
        if (temperature is None) == (noise is None):
            raise ValueError(
                "give temperature or noise, which is √(2 · temperature): got "
                f"temperature={temperature!r} and noise={noise!r}"
            )
        tau = temperature if noise is None else checks.non_negative("noise", noise) ** 2 / 2.0
        decay = {
            "decay_power": checks.non_negative("decay_power", decay_power),
            "decay_steps": checks.positive("decay_steps", decay_steps),
            "steps": 0,
        }
        groups = with_options(as_groups(parts), friction=math.inf, temperature=tau, **decay)
        super().__init__(groups, step_size=step_size, **options)

    def _move(self, closure: Callable[[], Any] | None = None, call: Call | None = None) -> None:
        super()._move(closure, call)
        for group in self.param_groups:
            decay(group)


def decay(group: dict[str, Any]) -> None:
    """Make the step of a group smaller, after it has made one.

    Example:
        >>> group = {"lr": 0.1, "decay_power": 1.0, "decay_steps": 1.0, "steps": 0}
        >>> decay(group)
        >>> group["lr"], group["steps"]
        (0.05, 1)
    """
    before = 1.0 + group.get("steps", 0) / group.get("decay_steps", 1.0)
    group["steps"] = group.get("steps", 0) + 1
    after = 1.0 + group["steps"] / group.get("decay_steps", 1.0)
    # A factor, not a value: a scheduler of the user's may change lr as well.
    group["lr"] = group["lr"] * (after / before) ** -group.get("decay_power", 0.0)


class DHSGD(CoLA):
    """Dissipated Hamiltonian stochastic gradient dynamics, (3.27) to (3.30).

    The first part is a Hamiltonian system, solved by Verlet's method. The second part goes down
    the gradient G₂ of the loss: θ₂ ← θ₂ − (h²/2) G₂. This is LOL with γ₁ = 0 and τ₂ = 0. As h → 0
    it dissipates nothing. The contractive method, with θ₂ ← θ₂ − h G₂, dissipates |p₁|²/2 + L at
    the rate |G₂|².

    Args:
        parts: two parts, the Hamiltonian one and the dissipated one.
        step_size: h.
        contractive: whether the step of the second part is h instead of h²/2.
        heun: whether the second part uses Heun's method instead of Euler's. This makes the
            contractive method one of second order. It takes two gradients per step, so
            ``step`` needs a closure. If the second gradient is not finite, the first half of
            the step has been made already.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear, ReLU, Sequential
        >>> model = Sequential(Linear(2, 8), ReLU(), Linear(8, 1))
        >>> from colangevin import partition
        >>> optimizer = DHSGD(partition(model, by="output"), step_size=0.1, contractive=True)
        >>> [group["scheme"] for group in optimizer.param_groups]
        ['BAOAB', 'OBA']
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        contractive: bool = False,
        heun: bool = False,
        **options: Any,
    ) -> None:
        if heun and not contractive:
            raise ValueError(f"heun={heun} is for the contractive method, got contractive=False")
        first, second = two_parts("DHSGD", "the Hamiltonian one and the dissipated one", parts)
        scheme = "OBA" if contractive else "BAOAB"
        groups = [
            *with_options(first, friction=0.0, scheme="BAOAB"),
            *with_options(second, friction=math.inf, scheme=scheme, heun=heun),
        ]
        super().__init__(groups, step_size=step_size, **options)

    @property
    def needs_closure(self) -> bool:
        """Whether ``step`` must be given a closure."""
        return any(group.get("heun") for group in self.param_groups)

    def _move(self, closure: Callable[[], Any] | None = None, call: Call | None = None) -> None:
        indices = [i for i, group in enumerate(self.param_groups) if group.get("heun")]
        if not indices:
            super()._move(closure, call)
            return
        if closure is None:
            raise ValueError("closure must be given: Heun's method takes two gradients a step")
        before = self._forces(indices)
        super()._move(closure, call)
        with torch.enable_grad():
            closure()
        # From θ − hG to θ − h (G + G*)/2, with G* the gradient there.
        after = self._forces(indices)
        changes = {p: (after[p] - slope) / 2 for p, slope in before.items() if p in after}
        for index in indices:
            group = self.param_groups[index]
            cold = float(group["temperature"]) == 0.0
            moves = (Overdamped(float(group["lr"]), None, cold),)
            super()._move(None, Call(gradients=changes, actions=moves, only=[index], counted=False))
