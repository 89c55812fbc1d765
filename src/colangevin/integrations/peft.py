"""PEFT: LoRA adapters ΔW = s·BA with constrained factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.constraints import Constraint, DiagonalGram, Orthogonal, Spectral, Sphere

FACTORS = {"A": ("lora_A", "lora_embedding_A"), "B": ("lora_B", "lora_embedding_B")}
"""Parts of the names of the factors' parameters in PEFT."""


@torch.no_grad()
def adapter_groups(
    model: nn.Module,
    a: Constraint | None = None,
    b: Constraint | None = None,
    *,
    swap: bool = False,
) -> list[dict[str, Any]]:
    """Groups of a model's LoRA adapters, for ``CoLA``: the factors A, the factors B, the rest.

    An adapter adds s·BA to a weight. A is rank × in, B is out × rank, and PEFT begins with B = 0,
    so that training begins at the pretrained network. ``Orthogonal`` and ``Sphere(equality=True)``
    cannot hold for zeros. So either constrain A in this way (B may be free, or bounded by
    ``Circle`` or ``Sphere``), or use ``swap``, which exchanges the roles.

    Args:
        model: what ``peft.get_peft_model`` returns. It needs no PEFT here: the factors are found
            by PEFT's names.
        a: the constraint of all A, or None.
        b: the constraint of all B, or None.
        swap: make B random and A zero, in place, instead of the other way round. The network
            still begins at the pretrained one. Only for adapters that have not been trained.

    Returns:
        The groups. The frozen weights of the model are in none of them.

    Raises:
        ValueError: if there are no adapters that can be trained, for a constraint that cannot hold
            for factors of zeros, or if ``swap`` would lose what an adapter has learned. Nothing
            has been changed then.

    Example:
        >>> from colangevin import Orthogonal
        >>> layer = nn.Module()
        >>> layer.lora_A, layer.lora_B = nn.Linear(6, 2, bias=False), nn.Linear(2, 4, bias=False)
        >>> _ = nn.init.zeros_(layer.lora_B.weight)
        >>> [group["name"] for group in adapter_groups(layer, a=Orthogonal())]
        ['lora_A', 'lora_B']
        >>> adapter_groups(layer, b=Orthogonal())
        Traceback (most recent call last):
        ...
        ValueError: lora_B.weight is zero, and Orthogonal cannot hold for zeros; constrain ...
    """
    factors = {key: dict(_factors(model, words)) for key, words in FACTORS.items()}
    for key in FACTORS:
        if not factors[key]:
            raise ValueError(f"the model has no LoRA factors {key} that can be trained")
    rules = {"A": a, "B": b}
    if swap:
        _refuse_learned(factors["B"])
        _refuse_rigid("A", list(factors["A"]), a)
        _exchange(factors["A"], factors["B"])
    for key in FACTORS:
        zero = [name for name, parameter in factors[key].items() if not bool(parameter.any())]
        _refuse_rigid(key, zero, rules[key])
    groups = [_group(f"lora_{key}", factors[key], rules[key]) for key in FACTORS]
    taken = {id(parameter) for found in factors.values() for parameter in found.values()}
    rest = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and id(parameter) not in taken
    }
    return [*groups, *([_group("unconstrained", rest, None)] if rest else [])]


def _group(name: str, found: Mapping[str, Tensor], constraint: Constraint | None) -> dict[str, Any]:
    params, names = list(found.values()), list(found)
    return {"params": params, "names": names, "name": name, "constraint": constraint}


def _factors(model: nn.Module, words: tuple[str, ...]) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and not set(words).isdisjoint(name.split(".")):
            yield name, parameter


def _exchange(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    """Zeros for A, random numbers for B, with the scale that PEFT's A has."""
    for parameter in a.values():
        parameter.zero_()
    for parameter in b.values():
        nn.init.kaiming_uniform_(parameter, a=5**0.5)


def _refuse_learned(b: dict[str, Tensor]) -> None:
    learned = [name for name, parameter in b.items() if bool(parameter.any())]
    if learned:
        raise ValueError(f"swap=True is for new adapters, but {learned[0]} is not zero")


def _refuse_rigid(key: str, zero: list[str], constraint: Constraint | None) -> None:
    """Refuse a constraint that excludes zeros, for factors that are zero."""
    rigid = isinstance(constraint, (Orthogonal, DiagonalGram)) or (
        isinstance(constraint, (Sphere, Spectral)) and constraint.equality
    )
    if rigid and zero:
        other = {"A": "B", "B": "A"}[key]
        way = "use swap=True, which begins with A = 0" if key == "B" else "leave out swap=True"
        raise ValueError(
            f"{zero[0]} is zero, and {type(constraint).__name__} cannot hold for zeros; "
            f"constrain {other} in this way and {key} by Circle or Sphere, or {way}, or begin "
            "with init_lora_weights=False"
        )
