"""The parts that a partitioned method is given: read them, and set the options of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

Groups: TypeAlias = "list[dict[str, Any]]"
Parts: TypeAlias = "Iterable[Tensor] | Iterable[dict[str, Any]] | Mapping[str, Iterable[Tensor]]"
PerPart: TypeAlias = "float | Mapping[str, float]"
"""A number for all parts, or one for each by name."""


def read_parts(parts: Parts) -> Groups:
    """Groups with the name of their part under ``part``.

    Args:
        parts: parameters (one part, called "all"), groups, or parameters by name of part. A
            group without ``part`` is named by its ``name``, or else by its place.

    Raises:
        ValueError: if there is no part, or a part is empty.
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
    """The names of the parts in order, each once."""
    return list(dict.fromkeys(group["part"] for group in groups))


def pair(method: str, roles: str, parts: Parts) -> tuple[Groups, Groups]:
    """The groups of the first part and those of the second.

    Args:
        method: the method's name, for the error.
        roles: what the two parts are, for the error.
        parts: as in ``read_parts``.

    Raises:
        ValueError: if there are not two parts.
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
        ValueError: if a mapping has no value for a part, or one for a part that does not exist.
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
    """Copies of the groups with further options; what a group has already stays.

    Args:
        groups: groups with the name of their part under ``part``.
        **options: for each option its value, or its values by part.
    """
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
