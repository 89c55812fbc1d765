"""Partitions: which parameters form the parts of a partitioned method.

A part is one parameter group, or several if its parameters have different constraints. Each
group has the name of its part under the key ``part``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, TypeAlias

from torch import Tensor, nn

from colangevin import checks
from colangevin.optimizers.naming.matching import (
    NamedParameter,
    Pattern,
    is_bias,
    listed,
    module_name,
    named_parameters,
    select,
)

Members: TypeAlias = "Pattern | Sequence[Pattern] | EllipsisType"
Groups: TypeAlias = "list[dict[str, Any]]"
Entry: TypeAlias = "tuple[NamedParameter, Mapping[str, Any]]"
"""A parameter with its names, and the options of the group that it comes from."""
USUAL = {
    "layer": (),
    "input": ("input", "later"),
    "output": ("hidden", "output"),
    "bias": ("weights", "biases"),
    "type": (),
}
"""The usual partitions, with the parts that two of them must have."""


def partition(
    model: nn.Module, by: str | None = None, *, groups: Groups | None = None, **parts: Members
) -> Groups:
    """Divide a model's parameters into named parts, in the order in which they are named.

    Args:
        model: the network. Parameters that need no gradient are left out.
        by: one of the usual partitions, instead of named parts: "layer" (a part for each
            module with parameters of its own, in order), "input" (the parts ``input``, which
            is the first module, and ``later``), "output" (the parts ``hidden`` and
            ``output``, which is the last module), "bias" (the parts ``weights`` and
            ``biases``) or "type" (a part for each type of module). A tied parameter belongs
            to the module of its first name here.
        groups: groups such as ``parameter_groups`` and ``constrain_`` return. The parts keep
            their constraints and other options.
        **parts: for each part its members, one or a list: strings (compared with the
            parameters' names by ``fnmatch``: "0.*"), module types (their weights), modules or
            parameters. A tied parameter matches by any of its names. ``...`` stands for all
            that no other part has.

    Returns:
        Parameter groups with the name of their part under ``part``.

    Raises:
        ValueError: if parts overlap, a part is empty, a pattern matches nothing, or a
            parameter is in no part.
        TypeError: if ``model`` is no module, or a member is of another type.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> for group in partition(model, first=["0.*"], last=...):
        ...     print(group["part"], group["names"])
        first ['0.weight', '0.bias']
        last ['2.weight', '2.bias']
        >>> [group["part"] for group in partition(model, by="output")]
        ['hidden', 'output']
    """
    known = named_parameters(model)
    if (by is None) == (not parts):
        given = f"by={by!r} and the parts {', '.join(parts)}" if parts else "neither"
        raise ValueError(f"name the parts, or give by to have a usual partition; got {given}")
    entries = _entries(known, groups)
    members = _named_parts(known, entries, parts) if by is None else _usual(model, by, entries)
    return [group for part, chosen in members.items() for group in _groups(part, chosen)]


def _entries(known: Sequence[NamedParameter], groups: Groups | None) -> list[Entry]:
    """The parameters that are to be divided."""
    names: dict[Tensor, NamedParameter] = {each.parameter: each for each in known}
    sources: Groups = [{"params": list(names)}] if groups is None else groups
    entries: list[Entry] = []
    for group in sources:
        options = {k: v for k, v in group.items() if k not in ("params", "names", "param_names")}
        for parameter in group["params"]:
            if parameter not in names:
                raise ValueError(
                    f"groups has a parameter of shape {tuple(parameter.shape)} that is not one "
                    "of the model's"
                )
            if parameter.requires_grad:
                entries.append((names[parameter], options))
    if not entries:
        raise ValueError("model has no parameter that needs a gradient")
    return entries


def _groups(part: str, entries: Sequence[Entry]) -> Groups:
    """One group for each group that the entries come from."""
    found: dict[int, dict[str, Any]] = {}
    for known, options in entries:
        if id(options) not in found:
            outer = options.get("name")
            name = part if outer is None else f"{part}: {outer}"
            made = {**options, "params": [], "names": [], "name": name, "part": part}
            found[id(options)] = made
        found[id(options)]["params"].append(known.parameter)
        found[id(options)]["names"].append(known.name)
    return list(found.values())


# --- named parts --------------------------------------------------------------------------


def _named_parts(
    known: Sequence[NamedParameter], entries: Sequence[Entry], parts: Mapping[str, Members]
) -> dict[str, list[Entry]]:
    rest = [part for part, members in parts.items() if isinstance(members, EllipsisType)]
    if len(rest) > 1:
        raise ValueError(f"only one part can be the rest (...), got {' and '.join(rest)}")
    owner: dict[str, str] = {}
    available = [own for own, _ in entries]
    for part, members in parts.items():
        for name in _chosen(part, members, known, available):
            if owner.setdefault(name, part) != part:
                raise ValueError(f"parts {owner[name]!r} and {part!r} overlap: both have {name!r}")
    left = [own.name for own in available if own.name not in owner]
    if left and not rest:
        raise ValueError(f"no part has {listed(map(repr, left))}; ... stands for the rest")
    if rest and not left:
        raise ValueError(f"part {rest[0]!r} is empty: the other parts have every parameter")
    owner.update(dict.fromkeys(left, rest[0]) if rest else {})
    return {part: [e for e in entries if owner[e[0].name] == part] for part in parts}


def _chosen(
    part: str, members: Members, known: Sequence[NamedParameter], free: Sequence[NamedParameter]
) -> Iterator[str]:
    """The first names of the parameters that a part names."""
    if isinstance(members, EllipsisType):
        return
    single = isinstance(members, (str, type, nn.Module, Tensor)) or not isinstance(
        members, Iterable
    )
    each = [members] if single else list(members)  # type: ignore[arg-type]
    if not each:
        raise ValueError(f"part {part!r} is empty: name its parameters")
    why = "need no gradient or are in none of the groups"
    for member in each:
        for found in select(member, known, free, unavailable=why, prefix=f"part {part!r}: "):
            yield found.name


# --- the usual partitions -----------------------------------------------------------------


def _usual(model: nn.Module, by: str, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    expected = USUAL[checks.choice("by", by, tuple(USUAL))]
    found: dict[str, list[Entry]] = {part: [] for part in expected}
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    ends = module_name(names[0]), module_name(names[-1])
    for entry in entries:
        found.setdefault(_usual_part(model, by, entry[0].name, ends), []).append(entry)
    for part in expected:
        if not found[part]:
            raise ValueError(f"by={by!r}: part {part!r} is empty, all parameters are in the other")
    return found


def _usual_part(model: nn.Module, by: str, name: str, ends: tuple[str, str]) -> str:
    """The part of a parameter; ``ends`` are the names of the model's first and last module."""
    module = module_name(name)
    if by == "layer":
        return module or "model"
    if by == "input":
        return "input" if module == ends[0] else "later"
    if by == "output":
        return "output" if module == ends[1] else "hidden"
    if by == "bias":
        return "biases" if is_bias(name) else "weights"
    return type(model.get_submodule(module)).__name__
