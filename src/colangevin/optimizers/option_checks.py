"""Checks of the options that an optimizer and its groups are given, before anything changes.

``refuse_unknown`` is for a new group, ``refuse_flags`` for the extra arguments of the
constructor, ``check_group`` for a whole group, such as one of a state dict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from colangevin import checks
from colangevin.constraints import Orthogonal
from colangevin.integrators.scheme import parse
from colangevin.optimizers.directions import Polar
from colangevin.optimizers.naming.matching import suggestion
from colangevin.optimizers.options import OPTIONS, THERMOSTATS, check_initial, is_adaptive

METADATA = (
    *("params", "names", "param_names", "name", "part", "seed", "fallbacks", "iterations"),
    *("decay_power", "decay_steps", "steps", "heun"),  # of SGLD and DHSGD
    # of schedulers, in torch and elsewhere
    *("initial_lr", "initial_temperature", "max_lr", "min_lr", "base_momentum", "max_momentum"),
    *("swa_lr", "lr_scale"),
)
"""What a group may have besides its options."""
ARGUMENTS = (
    *("seed", "strict", "fused", "capturable"),
    *("independent_chains", "check_replicas", "process_group"),
)
"""What the constructor may be given besides options, for suggestions."""
SGD_FLAGS = {
    "nesterov": "there is no Nesterov momentum; leave it out, or use torch.optim.SGD",
    "dampening": "leave it out and multiply lr by 1 - dampening",
    "maximize": "leave it out and negate the loss",
    "foreach": "leave it out; parameters are moved in batches without it",
    "capturable": "it is an argument of the optimizer, when it is made",
    "differentiable": "leave it out; the step cannot be differentiated",
}
"""Arguments of ``torch.optim.SGD`` that have no meaning here, and what to do instead."""


def refuse_unknown(
    group: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Refuse a new group that has a key which means nothing, such as a misspelled option.

    Returns a copy without SGD's flags and without ``own``, the arguments of the optimizer, which
    ZeroRedundancyOptimizer repeats in its groups.

    Example:
        >>> refuse_unknown({"params": [], "lr": 0.1, "nesterov": False})
        {'params': [], 'lr': 0.1}
        >>> refuse_unknown({"params": [], "tempreture": 0.1})
        Traceback (most recent call last):
        ...
        TypeError: a parameter group has no option 'tempreture'; did you mean 'temperature'?
    """
    flags = {**SGD_FLAGS, "fused": "it is an argument of the optimizer, not of a group"}
    group = {k: v for k, v in group.items() if own is None or k not in own or v != own[k]}
    known = (*OPTIONS, *METADATA)
    for key in group:
        if key not in known and key not in flags:
            raise TypeError(
                f"a parameter group has no option {key!r}{_advice(key, known, tuple(OPTIONS))}"
            )
    refuse_set(group, flags)
    return {key: value for key, value in group.items() if key not in flags}


def refuse_flags(flags: Mapping[str, Any]) -> None:
    """Refuse extra arguments of the constructor, except SGD's flags that are not set.

    Example:
        >>> refuse_flags({"nesterov": False, "dampening": 0})
        >>> refuse_flags({"maximize": True})
        Traceback (most recent call last):
        ...
        ValueError: maximize=True is not supported: leave it out and negate the loss
    """
    known = (*OPTIONS, *ARGUMENTS)
    for name in flags:
        if name not in SGD_FLAGS and name not in OPTIONS:
            raise TypeError(f"unexpected argument {name!r}{_advice(name, known, known)}")
    refuse_set(flags, SGD_FLAGS)


def refuse_set(given: Mapping[str, Any], flags: Mapping[str, str]) -> None:
    """Refuse flags that are set; their values say what to do instead."""
    for name, instead in flags.items():
        if name not in given:
            continue
        value = given[name]
        unset = value is None or (isinstance(value, (bool, int, float)) and value == 0)
        if not unset:
            raise ValueError(f"{name}={value!r} is not supported: {instead}")


def refuse_other_mass(group: Mapping[str, Any]) -> None:
    """Refuse a mass that was written into a group later: its constraint has the masses.

    Example:
        >>> from colangevin.constraints import Massive
        >>> refuse_other_mass({"constraint": Massive(2.0), "mass": 2.0})
        >>> refuse_other_mass({"constraint": Massive(2.0), "mass": 3.0})
        Traceback (most recent call last):
        ...
        ValueError: mass=3.0 was written into a group that has Massive(mass=2.0): write \
'constraint', for example cl.Massive(mass)
    """
    mass, constraint = group.get("mass"), group["constraint"]
    if mass is None:
        return
    kept = getattr(constraint, "mass", math.nan)
    # The same again is harmless: ZeroRedundancyOptimizer repeats the optimizer's arguments.
    if not torch.equal(*(torch.as_tensor(m, dtype=torch.float64) for m in (mass, kept))):
        raise ValueError(
            f"mass={mass!r} was written into a group that has {constraint!r}: write "
            "'constraint', for example cl.Massive(mass)"
        )


def refuse_unread(group: Mapping[str, Any]) -> None:
    """Refuse what was written into a group and would have no effect on its steps.

    Example:
        >>> from colangevin.optimizers.options import resolve
        >>> refuse_unread({**resolve({"lr": 0.1}, {}), "driving_noise": 3.0})
        Traceback (most recent call last):
        ...
        ValueError: driving_noise must be None with the thermostat 'langevin', got 3.0
    """
    refuse_set(group, SGD_FLAGS)
    refuse_other_mass(group)
    checks.choice("thermostat", group["thermostat"], THERMOSTATS)
    if not is_adaptive(group):
        _refuse_adaptive_options(group, "")


def check_capturable(capturable: object, strict: bool, fused: object) -> bool:
    """Return ``capturable``.

    Raises:
        TypeError, ValueError: if it is no truth value, or with options that need the numbers.

    Example:
        >>> check_capturable(True, False, None)
        True
    """
    if checks.flag("capturable", capturable) and (strict or fused):
        other = "strict" if strict else "fused"
        raise ValueError(
            f"capturable=True with {other}={strict if strict else fused}: it reads numbers in each "
            f"step; leave {other} out"
        )
    return bool(capturable)


def refuse_uncaptured(group: Mapping[str, Any]) -> None:
    """Refuse a group whose steps read numbers from the device, so that no graph captures them.

    Example:
        >>> from colangevin.constraints import Simplex
        >>> from colangevin.optimizers.options import resolve
        >>> refuse_uncaptured(resolve({"lr": 0.1, "constraint": Simplex()}, {}))
        >>> refuse_uncaptured(resolve({"lr": 0.1, "temperature": 1.0, "constraint": Simplex()}, {}))
        Traceback (most recent call last):
        ...
        ValueError: capturable=True, but a step with Simplex(dim=-1) and temperature=1.0 waits for \
numbers from the device
    """
    constraint, temperature = group["constraint"], float(group["temperature"])
    follows = constraint.walls and not constraint.elementwise and temperature > 0.0
    own = {
        f"{constraint!r}": not constraint.capturable or constraint.learns,
        f"{constraint!r} and temperature={temperature}": follows,
        "thermostat='adaptive'": is_adaptive(group),
        "direction 'polar' under Orthogonal": isinstance(constraint, Orthogonal)
        and isinstance(group["direction"], Polar),
    }
    for what, waits in own.items():
        if waits:
            raise ValueError(
                f"capturable=True, but a step with {what} waits for numbers from the device"
            )


def refuse_other_friction(group: Mapping[str, Any], initial: object) -> None:
    """Refuse an initial friction that was written into an adaptive group later.

    ``initial`` is where its friction variable began; None if it has yet to begin.

    Example:
        >>> refuse_other_friction({"friction": 2.0}, 0.0)
        Traceback (most recent call last):
        ...
        ValueError: friction=2.0 was written into a group whose friction variable began at 0.0: \
write optimizer.state[parameter]["friction"].fill_(2.0)
    """
    friction = group["friction"]
    if initial is not None and checks.number("friction", friction) != initial:
        raise ValueError(
            f"friction={friction} was written into a group whose friction variable began at "
            f'{initial}: write optimizer.state[parameter]["friction"].fill_({friction})'
        )


def _advice(word: object, known: tuple[str, ...], options: tuple[str, ...]) -> str:
    """What the word may have meant, or else what there is."""
    if word == "generator":  # as torch's own functions call it
        return "; use 'seed', an integer"
    return suggestion(str(word), known) or f"; the options are {', '.join(options)}"


# --- whole groups -------------------------------------------------------------------------


def check_group(group: Mapping[str, Any], where: str = "") -> None:
    """Check every option of a whole group except its constraint; nothing is changed.

    A group of a state dict may hold anything, as it comes from a file. ``where`` says whose option
    it is, for the error, such as "group 1 of the state dict".

    Example:
        >>> from colangevin.optimizers.options import resolve
        >>> check_group({**resolve({"lr": 0.1, "momentum": 0.9}, {}), "seed": 0})
        >>> check_group({**resolve({"lr": 0.1}, {}), "seed": 0, "lr": -1.0}, "group 0")
        Traceback (most recent call last):
        ...
        ValueError: lr of group 0 must be at least 0 and finite, got -1.0
    """
    of = f" of {where}" if where else ""
    kept = {name: option.check for name, option in OPTIONS.items() if option.kept}
    for name in (*kept, "seed"):
        if name not in group and name != "constraint":
            raise ValueError(f"{name}{of} is missing")
    for name, check in kept.items():
        if check is not None:
            check(f"{name}{of}", group[name])
    _check_words(group, of)
    if is_adaptive(group):
        _check_adaptive(group, of)
    else:
        _check_langevin(group, of)
    checks.seed(f"seed{of}", group["seed"])


def _check_words(group: Mapping[str, Any], of: str) -> None:
    word = group["scheme"]
    if not isinstance(word, str):
        raise TypeError(f"scheme{of} must be a word such as 'OBA', got {word!r}")
    try:
        adaptive = parse(word, group["delayed_gradient"]).adaptive
    except ValueError as error:
        raise ValueError(f"scheme{of}: {error}") from error
    if adaptive != is_adaptive(group):
        raise ValueError(
            f"scheme{of} does not fit the thermostat {group['thermostat']!r}: got {word!r}"
        )


def _check_langevin(group: Mapping[str, Any], of: str) -> None:
    momentum, friction = group["momentum"], group["friction"]
    if (momentum is None) == (friction is None):
        raise ValueError(
            f"either momentum or friction{of} must be None, got momentum={momentum!r} and "
            f"friction={friction!r}"
        )
    if friction is None:
        checks.fraction(f"momentum{of}", momentum)
    else:
        checks.non_negative(f"friction{of}", friction, infinite=True)
    _refuse_adaptive_options(group, of)


def _refuse_adaptive_options(group: Mapping[str, Any], of: str) -> None:
    for name in ("coupling", "driving_noise"):
        if group[name] is not None:
            raise ValueError(
                f"{name}{of} must be None with the thermostat 'langevin', got {group[name]!r}"
            )


def _check_adaptive(group: Mapping[str, Any], of: str) -> None:
    if group["momentum"] is not None:
        raise ValueError(
            f"momentum{of} must be None with the thermostat 'adaptive', got {group['momentum']!r}"
        )
    check_initial(f"friction{of}", group["friction"])
    for name in ("coupling", "driving_noise"):
        checks.non_negative(f"{name}{of}", group[name])
