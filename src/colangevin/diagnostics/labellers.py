"""Where labellers disagree: networks among themselves, and networks with a reference group.

A labeller is a network or a person. Labels are integers from 0, [labellers, items]. A group agrees
on an item if all of its members give the same label (section 6.2.3).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from colangevin import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Spread(NamedTuple):
    """Mean and standard deviation, and of how many numbers."""

    mean: float
    deviation: float
    size: int


@dataclass(frozen=True)
class Disagreement:
    """The types of items of table 6.5, as masks over the items.

    Attributes:
        type_a: the networks disagree, the reference agrees.
        both_agree: both agree, on the same label (type B).
        both_disagree: both disagree (type B).
        other_label: both agree, but on different labels: the networks are wrong (footnote 6).
        type_c: the networks agree, the reference disagrees.
    """

    type_a: Tensor
    both_agree: Tensor
    both_disagree: Tensor
    other_label: Tensor
    type_c: Tensor

    @property
    def type_b(self) -> Tensor:
        """Networks as the reference: both agree on a label, or both disagree."""
        return self.both_agree | self.both_disagree

    @property
    def masks(self) -> dict[str, Tensor]:
        """The rows of table 6.8 by name."""
        return {
            "A: networks disagree, reference agrees": self.type_a,
            "B: both disagree": self.both_disagree,
            "B: both agree": self.both_agree,
            "both agree, on different labels": self.other_label,
            "C: networks agree, reference disagrees": self.type_c,
        }

    @property
    def shares(self) -> dict[str, float]:
        """Share of all items in each row; they add up to 1."""
        return {name: float(mask.double().mean()) for name, mask in self.masks.items()}


def labels_of(labels: Tensor, argument: str = "labels") -> Tensor:
    """Labels that are checked.

    Raises:
        TypeError: if they are no integers.
        ValueError: if they are not [labellers, items] with something in both, or negative.

    Example:
        >>> labels_of(torch.tensor([[0.5]]))
        Traceback (most recent call last):
        ...
        TypeError: labels must be a tensor of integers, got torch.float32
    """
    if not isinstance(labels, Tensor):
        raise TypeError(f"{argument} must be a tensor, got {type(labels).__name__}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"{argument} must be a tensor of integers, got {labels.dtype}")
    if labels.dim() != 2 or labels.numel() == 0:
        raise ValueError(f"{argument} must be [labellers, items], got shape {tuple(labels.shape)}")
    if bool((labels < 0).any()):
        raise ValueError(f"{argument} must be at least 0, got {int(labels.min())}")
    return labels.long().cpu()


def agrees(labels: Tensor) -> Tensor:
    """For each item, whether all labellers give the same label.

    Example:
        >>> agrees(torch.tensor([[1, 2], [1, 3]])).tolist()
        [True, False]
    """
    found = labels_of(labels)
    return (found == found[0]).all(dim=0)


def majority(labels: Tensor) -> Tensor:
    """For each item the most frequent label; of several, the smallest.

    Example:
        >>> majority(torch.tensor([[1, 2], [1, 3], [0, 3]])).tolist()
        [1, 3]
    """
    return _votes(labels_of(labels)).argmax(dim=0)


def certainty(labels: Tensor) -> Tensor:
    """For each item the share of labellers with the most frequent label (section 6.2.6.3).

    Example:
        >>> certainty(torch.tensor([[1, 2], [1, 3]])).tolist()
        [1.0, 0.5]
    """
    found = labels_of(labels)
    return _votes(found).amax(dim=0).double() / len(found)


def _votes(labels: Tensor) -> Tensor:
    """[classes, items]: how many labellers give each label."""
    return torch.nn.functional.one_hot(labels).sum(dim=0).T


def disagreement(networks: Tensor, reference: Tensor) -> Disagreement:
    """Sort items into the types A, B and C of table 6.5.

    Args:
        networks: labels of the networks, [networks, items].
        reference: labels of the people, or of any other group, [labellers, items]. For true
            labels give one row.

    Raises:
        ValueError, TypeError: if these are no labels, or of different items.

    Example:
        >>> networks = torch.tensor([[0, 1, 2, 3], [0, 2, 2, 4]])
        >>> people = torch.tensor([[0, 1, 2, 3], [0, 1, 3, 4]])
        >>> {name[0]: share for name, share in disagreement(networks, people).shares.items()}
        {'A': 0.25, 'B': 0.25, 'b': 0.0, 'C': 0.25}
    """
    own, other = labels_of(networks, "networks"), labels_of(reference, "reference")
    if own.shape[1] != other.shape[1]:
        raise ValueError(
            f"networks and reference must label the same items, got {own.shape[1]} and "
            f"{other.shape[1]}"
        )
    one, two, same = agrees(own), agrees(other), own[0] == other[0]
    return Disagreement(~one & two, one & two & same, ~one & ~two, one & two & ~same, one & ~two)


def pairwise_disagreement(labels: Tensor) -> Spread:
    """Share of the items on which two labellers differ, over all pairs (table 6.6).

    Raises:
        ValueError: if there is one labeller only.

    Example:
        >>> pairwise_disagreement(torch.tensor([[0, 1], [0, 1], [0, 2]])).mean
        0.333...
    """
    found = labels_of(labels)
    if len(found) < 2:
        raise ValueError("labels must be of at least two labellers, got 1")
    pairs = itertools.combinations(found, 2)
    return _spread(torch.stack([(a != b).double().mean() for a, b in pairs]))


def misclassified(networks: Tensor, reference: Tensor) -> tuple[Spread, float]:
    """Share of items that a network, and that any network, labels unlike an agreed reference.

    Returns:
        Over the networks, the share of all items that each of them gets wrong; and the share
        of items that at least one of them gets wrong (table 6.6).

    Example:
        >>> misclassified(torch.tensor([[0, 1], [0, 0]]), torch.tensor([[0, 0]]))[1]
        0.5
    """
    own, other = labels_of(networks, "networks"), labels_of(reference, "reference")
    disagreement(own, other)  # the same items
    wrong = (own != other[0]) & agrees(other)
    return _spread(wrong.double().mean(dim=1)), float(wrong.any(dim=0).double().mean())


def maximum_softmax(probabilities: Tensor, masks: Mapping[str, Tensor]) -> dict[str, Spread]:
    """The largest probability that networks give on items of each type (table 6.8).

    Args:
        probabilities: [networks, items, classes], each row adds up to 1.
        masks: over the items by name, such as ``disagreement(...).masks``.

    Raises:
        ValueError: if there is one class only, probabilities are not between 0 and 1, rows do
            not add up to 1, or masks are of other items.
        TypeError: if the probabilities are no tensor.

    Example:
        >>> p = torch.tensor([[[0.9, 0.1], [0.4, 0.6]]])
        >>> found = maximum_softmax(p, {"first": torch.tensor([True, False])})
        >>> round(found["first"].mean, 6)
        0.9
    """
    if not isinstance(probabilities, Tensor):
        raise TypeError(f"probabilities must be a tensor, got {type(probabilities).__name__}")
    if probabilities.dim() != 3 or probabilities.shape[2] < 2:
        raise ValueError(
            "probabilities must be [networks, items, classes] with at least two classes, got "
            f"shape {tuple(probabilities.shape)}"
        )
    values = checks.finite("probabilities", probabilities.double().cpu())
    outside = values[(values < 0) | (values > 1 + 1e-3)]
    if len(outside):
        raise ValueError(f"probabilities must lie between 0 and 1, got {float(outside[0])}")
    if not bool(((values.sum(dim=2) - 1).abs() < 1e-3).all()):
        raise ValueError("probabilities must add up to 1 over the classes; give softmax outputs")
    largest = values.amax(dim=2)
    found = {}
    for name, mask in masks.items():
        if mask.shape != largest.shape[1:]:
            shape = tuple(mask.shape)
            raise ValueError(f"the mask {name!r} must be of {largest.shape[1]} items, got {shape}")
        found[name] = _spread(largest[:, mask.bool().cpu()].reshape(-1))
    return found


def certainty_by_reference(networks: Tensor, reference: Tensor) -> dict[float, Spread]:
    """The networks' certainty on items of each certainty of the reference (table 6.9).

    Example:
        >>> people = torch.tensor([[0, 0], [0, 1]])
        >>> certainty_by_reference(torch.tensor([[3, 3], [3, 4]]), people)[0.5].mean
        0.5
    """
    disagreement(networks, reference)
    own, other = certainty(networks), certainty(reference)
    levels = sorted(set(other.tolist()), reverse=True)
    return {level: _spread(own[other == level]) for level in levels}


def _spread(values: Tensor) -> Spread:
    if values.numel() == 0:
        return Spread(float("nan"), float("nan"), 0)
    return Spread(float(values.mean()), float(values.std(correction=0)), values.numel())


def agreement_map(labels: Tensor, columns: int) -> Tensor:
    """Certainty of the items laid out in rows, as the images of figure 6.23: [rows, columns].

    Raises:
        ValueError: if the items do not fill the rows.

    Example:
        >>> agreement_map(torch.tensor([[0, 1, 2, 3], [0, 1, 2, 4]]), columns=2).tolist()
        [[1.0, 1.0], [1.0, 0.5]]
    """
    found = certainty(labels)
    if len(found) % checks.count("columns", columns):
        raise ValueError(f"{len(found)} items do not fill rows of {columns}")
    return found.view(-1, columns)


def plot_agreement(maps: Tensor, axes: Axes) -> None:
    """Draw an agreement map.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_agreement(agreement_map(torch.zeros(2, 4, dtype=torch.long), 2), axes)
    """
    picture = axes.imshow(maps.numpy(), vmin=0.0, vmax=1.0, cmap="viridis", aspect="auto")
    axes.figure.colorbar(picture, ax=axes, label="share with the most frequent label")
    axes.set(xlabel="item of the row", ylabel="row")


def plot_types(types: Disagreement, axes: Axes) -> None:
    """Draw the share of the items of each type (table 6.5) as bars.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_types(disagreement(torch.tensor([[0, 1]]), torch.tensor([[0, 0]])), axes)
        >>> len(axes.patches)
        5
    """
    axes.barh(list(types.shares), list(types.shares.values()))
    axes.invert_yaxis()  # A first
    axes.set(xlabel="share of the items", xlim=(0.0, 1.0))


def plot_spreads(spreads: Mapping[Any, Spread], axes: Axes) -> None:
    """Draw means with standard deviations by type or by certainty of the reference.

    Args:
        spreads: what ``maximum_softmax`` or ``certainty_by_reference`` returned.
        axes: of matplotlib.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_spreads({"A": Spread(0.6, 0.1, 20), "C": Spread(0.9, 0.05, 30)}, axes)
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['A (20)', 'C (30)']
    """
    names = [
        f"{name:.2g} ({own.size})" if isinstance(name, float) else f"{name} ({own.size})"
        for name, own in spreads.items()
    ]
    means = [own.mean for own in spreads.values()]
    axes.errorbar(means, names, xerr=[own.deviation for own in spreads.values()], fmt="o")
    axes.invert_yaxis()
    axes.set(xlabel="mean and standard deviation", xlim=(0.0, 1.05))
