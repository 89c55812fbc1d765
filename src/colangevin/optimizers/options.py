"""The options of a parameter group: read, completed with defaults, and turned into dynamics.

A step can be given in two ways. SGD's way is ``lr`` and ``momentum``. The paper's way is
``step_size`` h and ``friction`` γ, with lr = h² and momentum = e^{−γh}. A group always keeps
``lr``, because schedulers write it, and either ``momentum`` or ``friction``. The other of these
two is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from colangevin import checks
from colangevin.constraints import Constraint, Massive, Unconstrained
from colangevin.integrators.adaptive import AdaptiveDynamics
from colangevin.integrators.recipe import Dynamics
from colangevin.integrators.scheme import Scheme, parse
from colangevin.optimizers.directions import Direction, Gradient, direction_of

SGD_NAMES = ("lr", "momentum")
PAPER_NAMES = ("step_size", "friction")
THERMOSTATS = ("langevin", "adaptive")
ROUNDINGS = ("nearest", "stochastic")
WORDS = {"langevin": "OBA", "adaptive": "BACDEDCAB"}
"""The scheme of a group that names none."""
COUPLING = 0.1
DRIVING_NOISE = 0.01


class Option(NamedTuple):
    """What there is to know about an option of a group.

    Attributes:
        meaning: in a few words.
        default: of a group and an optimizer that give none.
        check: takes name and value, and returns the value; None for options that depend on others.
        kept: whether a complete group has it.
        number: whether a step takes what a scheduler writes as another number.
        compared: whether replicas must agree on it.
    """

    meaning: str
    default: Any = None
    check: Callable[[str, object], object] | None = None
    kept: bool = True
    number: bool = False
    compared: bool = True


def _one_of(*allowed: str) -> Callable[[str, object], str]:
    return lambda name, value: checks.choice(name, value, allowed)


OPTIONS = {
    "lr": Option("h², or h of an overdamped step", None, checks.non_negative, number=True),
    "momentum": Option("e^{−γh}, with lr", number=True),
    "step_size": Option("h, in the place of lr", kept=False),
    "friction": Option("γ, in the place of momentum", number=True),
    "temperature": Option("τ", 0.0, checks.non_negative, number=True),
    "scheme": Option("a word over A, B and O", "OBA"),
    "delayed_gradient": Option("the gradient from before the move", False, checks.flag),
    "constraint": Option("the geometry", compared=False),  # by what it describes itself as
    "mass": Option("of free weights", kept=False),
    "weight_decay": Option("added to the gradient", 0.0, checks.non_negative, number=True),
    "decoupled_weight_decay": Option(
        "of the weights, past the direction", 0.0, checks.non_negative, number=True
    ),
    "direction": Option("what a step goes along", "gradient", direction_of, compared=False),
    "rounding": Option("of weights in half precision", "nearest", _one_of(*ROUNDINGS)),
    "thermostat": Option("langevin or adaptive", "langevin", _one_of(*THERMOSTATS)),
    "coupling": Option("ε of the adaptive thermostat"),
    "driving_noise": Option("σ_A of the adaptive thermostat"),
}
"""Every option of a group. A new one is one line here: it is then checked, inherited from the
optimizer, saved, and compared between replicas."""
NUMBERS = tuple(name for name, option in OPTIONS.items() if option.number)


def resolve(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Complete and check the options of a group; the arguments are not changed.

    Args:
        given: the group's own options.
        defaults: the options of the optimizer, as the user gave them.

    Returns:
        The group's options, with the step as ``lr`` and ``momentum`` or ``friction``.

    Raises:
        ValueError, TypeError: naming the option, its value and what is allowed.

    Example:
        >>> options = resolve({"step_size": 0.5, "friction": 2.0}, {})
        >>> options["lr"], options["momentum"], options["friction"]
        (0.25, None, 2.0)
    """
    simple = {
        name: option.check(name, _pick(name, given, defaults, option.default))
        for name, option in OPTIONS.items()
        if option.check is not None and name not in SGD_NAMES
    }
    thermostat, delayed = str(simple["thermostat"]), bool(simple["delayed_gradient"])
    own, inherited = given.get("scheme"), defaults.get("scheme")
    scheme = scheme_of(thermostat, own, inherited, delayed)
    step = _step(given, defaults, parse(scheme, delayed))
    check_direction({**simple, **step})
    return {
        **step,
        **simple,
        "scheme": scheme,
        "constraint": _geometry(given, defaults),
        **adaptive_options(thermostat, given, defaults),
    }


def resolve_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Complete and check the options of an optimizer.

    The step may be missing, if every group has its own. ``lr`` is None then.

    Raises:
        ValueError, TypeError: as in ``resolve``.

    Example:
        >>> resolve_defaults({"momentum": 0.9})["lr"] is None
        True
    """
    way = _named(given) or SGD_NAMES
    if given.get(way[0]) is not None:
        return resolve({}, given)
    return {**resolve({way[0]: 1.0}, given), "lr": None}


def own_direction(group: Mapping[str, Any]) -> Direction | None:
    """What takes the place of the gradient in a group; None if nothing does.

    Example:
        >>> own_direction({"direction": Gradient()}) is None
        True
    """
    value = group.get("direction")
    found = None if value is None else direction_of("direction", value)
    return None if found == Gradient() else found


def own_rounding(group: Mapping[str, Any]) -> str:
    """How the weights of a group are rounded.

    Example:
        >>> own_rounding({})
        'nearest'
    """
    return checks.choice("rounding", group.get("rounding", "nearest"), ROUNDINGS)


def decays(group: Mapping[str, Any]) -> tuple[float, float]:
    """The weight decay that a direction sees, and that of the force that kicks.

    Example:
        >>> numbers = {"weight_decay": 0.1, "decoupled_weight_decay": 0.0}
        >>> decays({**numbers, "direction": Gradient()}), decays(numbers | {"direction": "adam"})
        ((0.0, 0.1), (0.1, 0.0))
    """
    coupled = checks.non_negative("weight_decay", group["weight_decay"])
    decoupled = group.get("decoupled_weight_decay", 0.0)
    decoupled = checks.non_negative("decoupled_weight_decay", decoupled)
    if own_direction(group) is None:
        return 0.0, coupled + decoupled
    return coupled, decoupled


def check_direction(group: Mapping[str, Any]) -> None:
    """Refuse what does not go with a direction, or with a decay past it.

    Raises:
        ValueError: naming the options.

    Example:
        >>> check_direction({**resolve({"lr": 0.1, "direction": "adam"}, {}), "temperature": 0.5})
        Traceback (most recent call last):
        ...
        ValueError: temperature=0.5 with direction Adam(betas=(0.9, 0.999), eps=1e-08, \
relative=False, tangent=False): only steps along the gradient sample exp(-loss / temperature). \
Second moments that are frozen as mass= speed them up and leave this law as it is
    """
    direction, decay = own_direction(group), group.get("decoupled_weight_decay", 0.0)
    if direction is not None and float(group["temperature"]) > 0.0:
        raise ValueError(
            f"temperature={group['temperature']} with direction {direction}: only steps along the "
            "gradient sample exp(-loss / temperature). Second moments that are frozen as mass= "
            "speed them up and leave this law as it is"
        )
    if direction is not None and is_adaptive(group):
        raise ValueError(f"thermostat='adaptive' with direction {direction}: it needs the gradient")
    if not float(decay):
        return
    momentum, friction = group["momentum"], group["friction"]
    overdamped = momentum == 0.0 if friction is None else math.isinf(float(friction))
    if is_adaptive(group) or not overdamped:
        raise ValueError(
            f"decoupled_weight_decay={decay} needs momentum=0: with a momentum of the weights the "
            "decay would go through it, as weight_decay does. Directions have their own, such as "
            "cl.Adam(betas=...)"
        )


def dynamics(group: Mapping[str, Any], captured: bool = False) -> Any:
    """The dynamics of a group with its present options; schedulers and users may change them.

    Args:
        group: the options.
        captured: whether an lr that is a tensor is not to be read, but used as it is.

    Returns:
        ``Dynamics``, or ``AdaptiveDynamics`` with an adaptive thermostat.

    Raises:
        ValueError, TypeError: naming the option, its value and what is allowed.

    Example:
        >>> dynamics(resolve({"lr": 0.1, "momentum": 0.9}, {})).decay
        0.9
    """
    if is_adaptive(group):
        return _adaptive_dynamics(group)
    kept = captured and isinstance(group["lr"], Tensor)
    lr = group["lr"].reshape(()) if kept else checks.non_negative("lr", group["lr"])
    temperature = checks.non_negative("temperature", group["temperature"])
    if group["friction"] is not None and group["momentum"] is not None:
        raise ValueError(
            f"momentum={group['momentum']} was set in a group with friction={group['friction']}; "
            "a scheduler that cycles the momentum needs cycle_momentum=False here, or groups "
            "with lr and momentum"
        )
    if group["friction"] is None:
        decay = checks.fraction("momentum", group["momentum"])
    else:
        friction = checks.non_negative("friction", group["friction"], infinite=True)
        if kept and not math.isinf(friction):
            raise ValueError(
                f"lr is a tensor in a group with friction={friction}, of which exp(-friction h) "
                "is a number that a graph cannot change: give lr and momentum"
            )
        decay = 0.0 if math.isinf(friction) else math.exp(-friction * math.sqrt(lr))
    return Dynamics(lr, decay, temperature, parse(group["scheme"], group["delayed_gradient"]))


def _pick(name: str, given: Mapping[str, Any], defaults: Mapping[str, Any], last: Any) -> Any:
    """The option from the first of the three that has it."""
    for options in (given, defaults):
        if options.get(name) is not None:
            return options[name]
    return last


def _geometry(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Constraint:
    """The constraint of a group, which has its masses in it.

    A group that says None wants no constraint, or no mass, whatever the optimizer's default is.
    """
    constraint = given["constraint"] if "constraint" in given else defaults.get("constraint")
    constraint = Unconstrained() if constraint is None else constraint
    if not isinstance(constraint, Constraint):
        raise TypeError(f"constraint must be a colangevin constraint or None, got {constraint!r}")
    mass = given["mass"] if "mass" in given else defaults.get("mass")
    if mass is None or (isinstance(constraint, Massive) and "mass" not in given):
        return constraint
    if type(constraint) is not Unconstrained:
        raise ValueError(
            f"mass is an option of groups without a constraint, got {mass!r} with {constraint!r}: "
            "a geodesic has one speed for all of its weights. One mass m for all of them is the "
            "same as lr / m with the same momentum; mass=None in a group takes no part in the "
            "optimizer's mass"
        )
    return Massive(mass)


def _step(given: Mapping[str, Any], defaults: Mapping[str, Any], word: Scheme) -> dict[str, Any]:
    """The step; a group that gives it in one way ignores defaults in the other way."""
    own = _named(given)
    way = own or _named(defaults)
    if way is None:
        raise ValueError("give lr (and momentum) or step_size (and friction): none of them is set")
    inherited = defaults if own is None or _named(defaults) == own else {}
    size_name, damping_name = way
    size = _pick(size_name, given, inherited, None)
    if size is None:
        raise ValueError(f"{damping_name} is given without {size_name}")
    if word.adaptive:
        number = checks.positive(size_name, size)
        lr, step_size = (size, number**0.5) if way == SGD_NAMES else (number**2, number)
        damping = _pick(damping_name, given, inherited, None)
        friction = initial_friction(damping_name, damping, step_size)
        return {"lr": lr, "momentum": None, "friction": friction}
    if way == SGD_NAMES:
        checks.positive("lr", size)
        momentum = checks.fraction("momentum", _pick("momentum", given, inherited, 0.0))
        return {"lr": size, "momentum": momentum, "friction": None}
    step_size = checks.positive("step_size", size)
    friction = checks.non_negative(
        "friction", _pick("friction", given, inherited, math.inf), infinite=True
    )
    # The overdamped step is Euler–Maruyama, whose h is the lr itself.
    euler = math.isinf(friction) and not word.has_limit
    return {"lr": step_size if euler else step_size**2, "momentum": None, "friction": friction}


def _named(options: Mapping[str, Any]) -> tuple[str, str] | None:
    """The names of the way in which a step is given, or None if it is not given."""
    sgd = [name for name in SGD_NAMES if options.get(name) is not None]
    paper = [name for name in PAPER_NAMES if options.get(name) is not None]
    if sgd and paper:
        raise ValueError(
            f"{sgd[0]} and {paper[0]} are two ways to say the same; give either lr and momentum "
            "or step_size and friction"
        )
    return SGD_NAMES if sgd else PAPER_NAMES if paper else None


# --- adaptive thermostats -------------------------------------------------------------------


def is_adaptive(group: Mapping[str, Any]) -> bool:
    """Whether a group's friction is a variable."""
    return bool(group["thermostat"] == "adaptive")


def scheme_of(thermostat: str, own: object, inherited: object, delayed: bool) -> str:
    """The group's word: its own, the optimizer's if it fits the thermostat, or the usual one.

    Raises:
        ValueError: if the group's own word belongs to the other thermostat.

    Example:
        >>> scheme_of("adaptive", None, "OBA", False)
        'BACDEDCAB'
    """
    wanted = thermostat == "adaptive"
    for word in (own, inherited):
        if word is None:
            continue
        if parse(str(word), delayed).adaptive == wanted:
            return str(word)
        if word is own:
            raise ValueError(
                f"scheme {word!r} does not go with thermostat {thermostat!r}, whose words are "
                f"such as {WORDS[thermostat]!r}"
            )
    return WORDS[thermostat]


def adaptive_options(
    thermostat: str, own: Mapping[str, Any], inherited: Mapping[str, Any]
) -> dict[str, float | None]:
    """Check ``coupling`` and ``driving_noise``; a Langevin group has neither.

    Raises:
        ValueError, TypeError: naming the option, its value and what is allowed.

    Example:
        >>> adaptive_options("adaptive", {"coupling": 0.05}, {})
        {'coupling': 0.05, 'driving_noise': 0.01}
    """
    names = {"coupling": COUPLING, "driving_noise": DRIVING_NOISE}
    if thermostat == "langevin":
        for name in names:
            if own.get(name) is not None:
                raise ValueError(
                    f"{name} is an option of thermostat 'adaptive', got {own[name]!r} for a "
                    "group with thermostat 'langevin'"
                )
        return dict.fromkeys(names)
    values = {}
    for name, usual in names.items():
        given = own.get(name) if own.get(name) is not None else inherited.get(name)
        values[name] = checks.non_negative(name, usual if given is None else given)
    return dict(values)


def initial_friction(damping_name: str, damping: object, step_size: float) -> float:
    """ξ at the start, from ``friction`` or ``momentum`` = e^{−ξh}; 0 where neither is given.

    Raises:
        ValueError: for an infinite friction or a momentum of 0: there is nothing to adapt then.

    Example:
        >>> initial_friction("friction", None, 0.1)
        0.0
    """
    if damping is None:
        return 0.0
    value = checks.number(damping_name, damping)
    if damping_name == "momentum":
        if not 0.0 < value <= 1.0:
            raise ValueError(
                "thermostat 'adaptive' needs a momentum to control: momentum must be above 0 and "
                f"at most 1, got {value}"
            )
        return -math.log(value) / step_size
    if not math.isfinite(value):
        raise ValueError(
            "thermostat 'adaptive' needs a momentum to control: friction, the initial value of "
            f"its friction variable, must be finite, got {value}"
        )
    return value


def check_initial(name: str, value: object) -> float:
    """The initial ξ of a group, which may have any sign.

    Raises:
        ValueError, TypeError: for what is no finite number.

    Example:
        >>> check_initial("friction", -0.5)
        -0.5
    """
    number = checks.number(name, value)
    if math.isinf(number):
        raise ValueError(f"{name} must be finite with the thermostat 'adaptive', got {number}")
    return number


def _adaptive_dynamics(group: Mapping[str, Any]) -> AdaptiveDynamics:
    """The dynamics of an adaptive group as its options stand now."""
    if group["momentum"] is not None:
        raise ValueError(
            f"momentum={group['momentum']} was set in a group with thermostat 'adaptive'; a "
            "scheduler that cycles the momentum needs cycle_momentum=False here"
        )
    check_initial("friction", group["friction"])
    return AdaptiveDynamics(
        checks.non_negative("lr", group["lr"]),
        checks.non_negative("temperature", group["temperature"]),
        checks.non_negative("coupling", group["coupling"]),
        checks.non_negative("driving_noise", group["driving_noise"]),
        parse(group["scheme"], group["delayed_gradient"]),
    )
