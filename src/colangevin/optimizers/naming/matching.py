"""Which parameters a pattern means: the one matcher behind every argument that takes patterns.

A pattern is one of these:

- a string, compared with the names of the parameters as ``fnmatch`` does ("*.weight"; upper and
  lower case differ, and the whole name must match);
- a type of module: the weights (not the biases) of all modules of this type;
- a module: all of its parameters (and buffers, where these are asked for);
- a parameter: itself;
- a tuple of these: all that any of them means.

A parameter that several modules share (tied weights) has several names. It matches if any of
them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias, cast

from torch import Tensor, nn

Pattern: TypeAlias = "str | type[nn.Module] | nn.Module | Tensor"
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
"""What DistributedDataParallel, torch.compile and other wrappers put before every name."""
SHOWN = 30
"""How many names a message lists."""


class NamedParameter(NamedTuple):
    """A parameter with all of its names.

    Attributes:
        names: one name, or several where modules share the parameter.
        owners: for each name the module that has the parameter as its own.
        parameter: the parameter.
    """

    names: tuple[str, ...]
    owners: tuple[nn.Module, ...]
    parameter: nn.Parameter

    @property
    def name(self) -> str:
        """The first name, which is the one in ``model.named_parameters()``."""
        return self.names[0]


def named_parameters(model: nn.Module) -> list[NamedParameter]:
    """Every parameter of a model once, with all of its names, in the model's order.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        >>> model[1].weight = model[0].weight
        >>> [entry.names for entry in named_parameters(model)]
        [('0.weight', '1.weight')]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    return _entries(model, model.named_parameters(remove_duplicate=False))


def named_tensors(model: nn.Module) -> list[NamedParameter]:
    """Every parameter and every buffer once, for patterns that mean states of a model.

    Example:
        >>> [entry.name for entry in named_tensors(nn.BatchNorm1d(2))][2:]
        ['running_mean', 'running_var', 'num_batches_tracked']
    """
    entries = named_parameters(model)
    # A buffer in a parameter's place: a matcher asks for its names and its identity only.
    return entries + _entries(model, cast("Any", model.named_buffers(remove_duplicate=False)))


def _entries(model: nn.Module, named: Iterable[tuple[str, nn.Parameter]]) -> list[NamedParameter]:
    found: dict[int, list[tuple[str, nn.Parameter]]] = {}
    for name, parameter in named:
        found.setdefault(id(parameter), []).append((name, parameter))
    entries = []
    for group in found.values():
        names = tuple(name for name, _ in group)
        owners = tuple(model.get_submodule(module_name(name)) for name in names)
        entries.append(NamedParameter(names, owners, group[0][1]))
    return entries


def matches(pattern: object, entry: NamedParameter) -> bool:
    """Whether a pattern means this parameter.

    Example:
        >>> weight, bias = named_parameters(nn.Linear(2, 1))
        >>> [matches("*bias", entry) for entry in (weight, bias)]
        [False, True]
    """
    if isinstance(pattern, tuple):
        return any(matches(each, entry) for each in pattern)
    if isinstance(pattern, str):
        return any(fnmatchcase(name, pattern) for name in entry.names)
    if isinstance(pattern, type) and issubclass(pattern, nn.Module):
        pairs = zip(entry.names, entry.owners, strict=True)
        return any(isinstance(owner, pattern) and is_weight(name) for name, owner in pairs)
    if isinstance(pattern, nn.Module):
        own = (*pattern.parameters(), *pattern.buffers())
        return any(tensor is entry.parameter for tensor in own)
    if isinstance(pattern, Tensor):
        return pattern is entry.parameter
    raise TypeError(
        "a pattern must be a name pattern, a module type, a module, a parameter or a tuple of "
        f"these, got {pattern!r}"
    )


def select(
    pattern: object,
    entries: Sequence[NamedParameter],
    available: Sequence[NamedParameter] | None = None,
    *,
    unavailable: str = "",
    prefix: str = "",
) -> list[NamedParameter]:
    """The parameters that a pattern means; it, and each member of a tuple, must mean at least one.

    Only those in ``available`` may be chosen. ``unavailable`` says what the others do, such as
    "need no gradient", and ``prefix`` is the beginning of the error.

    Example:
        >>> entries = named_parameters(nn.Linear(2, 1))
        >>> [entry.name for entry in select(("weight", "b*"), entries)]
        ['weight', 'bias']
        >>> select("wieght", entries)
        Traceback (most recent call last):
        ...
        ValueError: the pattern 'wieght' matches no parameter; did you mean 'weight'? The model \
has weight, bias
    """
    members = pattern if isinstance(pattern, tuple) else (pattern,)
    if not members:
        raise ValueError(f"{prefix}a tuple of patterns must not be empty")
    for each in members:
        if not any(matches(each, entry) for entry in entries):
            raise ValueError(f"{prefix}{_nothing(each, entries)}")
    free = entries if available is None else available
    found = [entry for entry in free if matches(pattern, entry)]
    if not found:
        others = listed(entry.name for entry in entries if matches(pattern, entry))
        raise ValueError(
            f"{prefix}{_kind(pattern)} {label(pattern)!r} matches only parameters that "
            f"{unavailable}: {others}"
        )
    return found


def take(
    pattern: object, entries: Sequence[NamedParameter], left: Sequence[NamedParameter]
) -> tuple[list[NamedParameter], list[NamedParameter]]:
    """What a pattern means of ``left``, and what is left then: the first pattern wins.

    Example:
        >>> entries = named_parameters(nn.Linear(2, 1))
        >>> taken, left = take("weight", entries, entries)
        >>> [entry.name for entry in left]
        ['bias']
    """
    taken = select(pattern, entries, left, unavailable="an earlier pattern has taken")
    names = {entry.name for entry in taken}
    return taken, [entry for entry in left if entry.name not in names]


def label(pattern: object) -> str:
    """A short name of a pattern, for groups and messages.

    Example:
        >>> label(("0.*", nn.Linear))
        '0.*, Linear'
    """
    if isinstance(pattern, tuple):
        return ", ".join(map(label, pattern))
    if isinstance(pattern, type):
        return pattern.__name__
    if isinstance(pattern, Tensor):
        return f"tensor of shape {tuple(pattern.shape)}"
    return type(pattern).__name__ if isinstance(pattern, nn.Module) else str(pattern)


def is_weight(name: str) -> bool:
    """Whether the last part of a name contains "weight", such as "0.weight" and "weight_ih_l0"."""
    return "weight" in name.rpartition(".")[2]


def is_bias(name: str) -> bool:
    """Whether the last part of a name contains "bias", such as "0.bias" and "in_proj_bias"."""
    return "bias" in name.rpartition(".")[2]


def module_name(name: str) -> str:
    """The name of the module that has the parameter of this name as its own."""
    return name.rpartition(".")[0]


# --- messages -----------------------------------------------------------------------------


def listed(names: Iterable[str]) -> str:
    """The first names, and how many more there are.

    Example:
        >>> listed(["a", "b"])
        'a, b'
    """
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more


def suggestion(word: str, words: Iterable[str]) -> str:
    """A question that names the closest words, or nothing if none is close.

    Example:
        >>> suggestion("tempreture", ["lr", "temperature"])
        "; did you mean 'temperature'?"
        >>> suggestion("x", ["lr", "temperature"])
        ''
    """
    spelled: dict[str, str] = {}
    for each in words:
        spelled.setdefault(each.lower(), each)
    close = get_close_matches(word.lower(), list(spelled), n=3, cutoff=0.7)
    return f"; did you mean {' or '.join(repr(spelled[c]) for c in close)}?" if close else ""


def _nothing(pattern: object, entries: Sequence[NamedParameter]) -> str:
    """Why a pattern matches nothing, with the names that it could have meant."""
    names = [name for entry in entries for name in entry.names]
    types = [type(owner).__name__ for entry in entries for owner in entry.owners]
    close = ""
    if isinstance(pattern, (str, type)):
        close = suggestion(label(pattern), names if isinstance(pattern, str) else types)
    what = f"{_kind(pattern)} {label(pattern)!r} matches no parameter{close or '.'}"
    wrapper = _wrapper(names) if isinstance(pattern, str) else ""
    if wrapper:
        what += (
            f" All names begin with {wrapper!r} because the model is wrapped: give the model "
            f"inside, or put {wrapper!r} before the pattern."
        )
    return f"{what} The model has {listed(names) or 'no parameters'}"


def _wrapper(names: Sequence[str]) -> str:
    """What wrappers have put before all names, such as "module._orig_mod."."""
    found = ""
    while names:
        added = next((w for w in WRAPPERS if all(n.startswith(found + w) for n in names)), None)
        if added is None:
            break
        found += added
    return found


def _kind(pattern: object) -> str:
    if isinstance(pattern, type):
        return "the module type"
    if isinstance(pattern, nn.Module):
        return "the module"
    return "the parameter" if isinstance(pattern, Tensor) else "the pattern"
