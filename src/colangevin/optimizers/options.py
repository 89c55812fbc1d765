"""The options of a parameter group: read, completed with defaults, and turned into dynamics.

A step can be given in two ways. SGD's way is ``lr`` and ``momentum``. The paper's way is
``step_size`` h and ``friction`` γ, with lr = h² and momentum = e^{−γh}. A group always keeps
``lr``, because schedulers write it, and either ``momentum`` or ``friction``. The other of these
two is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from colangevin import checks
from colangevin.constraints import Constraint, Massive, Unconstrained
from colangevin.integrators.dynamics import Dynamics
from colangevin.integrators.scheme import Scheme, parse
from colangevin.optimizers import thermostats

SGD_NAMES = ("lr", "momentum")
PAPER_NAMES = ("step_size", "friction")
GROUP_OPTIONS = (
    *SGD_NAMES,
    *PAPER_NAMES,
    "temperature",
    "scheme",
    "delayed_gradient",
    "constraint",
    "mass",
    "weight_decay",
    "thermostat",
    "coupling",
    "driving_noise",
)


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
    thermostat = checks.choice(
        "thermostat", _pick("thermostat", given, defaults, "langevin"), thermostats.THERMOSTATS
    )
    delayed = _pick("delayed_gradient", given, defaults, False)
    if not isinstance(delayed, bool):
        raise TypeError(f"delayed_gradient must be True or False, got {delayed!r}")
    own, inherited = given.get("scheme"), defaults.get("scheme")
    scheme = thermostats.scheme_of(thermostat, own, inherited, delayed)
    return {
        **_step(given, defaults, parse(scheme, delayed)),
        "temperature": checks.non_negative(
            "temperature", _pick("temperature", given, defaults, 0.0)
        ),
        "scheme": scheme,
        "delayed_gradient": delayed,
        "constraint": _geometry(given, defaults),
        "weight_decay": checks.non_negative(
            "weight_decay", _pick("weight_decay", given, defaults, 0.0)
        ),
        "thermostat": thermostat,
        **thermostats.options(thermostat, given, defaults),
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


def dynamics(group: Mapping[str, Any]) -> Dynamics:
    """The dynamics of a group with its present options; schedulers and users may change them.

    Raises:
        ValueError, TypeError: naming the option, its value and what is allowed.

    Example:
        >>> dynamics(resolve({"lr": 0.1, "momentum": 0.9}, {})).decay
        0.9
    """
    lr = checks.non_negative("lr", group["lr"])
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
        friction = thermostats.initial_friction(damping_name, damping, step_size)
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
