"""Reading the parts that a partitioned method is given, and giving their groups options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

Groups: TypeAlias = "list[dict[str, Any]]"
Parts: TypeAlias = "Iterable[Tensor] | Iterable[dict[str, Any]] | Mapping[str, Iterable[Tensor]]"
PerPart: TypeAlias = "float | Mapping[str, float]"
"""A number for all parts, or one for each by name."""


def read_parts(parts: Parts) -> Groups:
    """Groups that carry the name of their part under ``part``.

    Raises:
        ValueError: for empty parts, or for groups without a name where there are several.
        TypeError: for anything that is not a parameter or a group.

    Example:
        >>> import torch
        >>> [group["part"] for group in read_parts({"first": [torch.zeros(1)]})]
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
        if isinstance(group["params"], Sequence) and not group["params"]:
            raise ValueError(f"part {group['part']!r} is empty")
    return groups


def _as_group(item: object, index: int) -> dict[str, Any]:
    if not isinstance(item, dict) or "params" not in item:
        raise TypeError(f"parts must be parameters or groups with params, got {item!r}")
    params = item["params"]
    params = [params] if isinstance(params, Tensor) else list(params)
    part = item.get("part", item.get("name", f"part {index}"))
    return {**item, "params": params, "part": part}


def part_names(groups: Groups) -> list[str]:
    """The parts' names in order, each once."""
    return list(dict.fromkeys(group["part"] for group in groups))


def pair(method: str, roles: str, parts: Parts) -> tuple[Groups, Groups]:
    """The groups of the first part and those of the second.

    Raises:
        ValueError: unless there are two parts.
    """
    groups = read_parts(parts)
    names = part_names(groups)
    if len(names) != 2:
        raise ValueError(f"{method} takes two parts, {roles}; got {len(names)}: {', '.join(names)}")
    first = [group for group in groups if group["part"] == names[0]]
    return first, [group for group in groups if group["part"] == names[1]]


def for_part(name: str, value: PerPart, groups: Groups) -> Mapping[str, float]:
    """The values of an option by part.

    Raises:
        ValueError: if a mapping lacks a part or names one that is not there.
    """
    names = part_names(groups)
    if not isinstance(value, Mapping):
        return dict.fromkeys(names, value)
    if set(value) != set(names):
        raise ValueError(
            f"{name} must have a value for each of the parts {', '.join(names)}; "
            f"got {', '.join(map(str, value))}"
        )
    return value


def dress(groups: Groups, **options: Any) -> Groups:
    """The groups with options, which are values or mappings by part; their own ones win."""
    return [
        {
            **{
                name: value[group["part"]] if isinstance(value, Mapping) else value
                for name, value in options.items()
            },
            **group,
        }
        for group in groups
    ]
