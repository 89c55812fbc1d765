"""Types of disagreement on labels that were sorted by hand."""

import pytest
import torch

from colangevin.diagnostics import (
    agreement_map,
    certainty,
    certainty_by_reference,
    disagreement,
    majority,
    maximum_softmax,
    misclassified,
    pairwise_disagreement,
)

# items:                         A  B= B≠ other C
NETWORKS = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 7, 4, 5], [0, 2, 7, 4, 5]])
PEOPLE = torch.tensor([[1, 2, 3, 9, 5], [1, 2, 7, 9, 6]])


def test_types() -> None:
    found = disagreement(NETWORKS, PEOPLE)
    assert found.type_a.tolist() == [True, False, False, False, False]
    assert found.both_agree.tolist() == [False, True, False, False, False]
    assert found.both_disagree.tolist() == [False, False, True, False, False]
    assert found.other_label.tolist() == [False, False, False, True, False]
    assert found.type_c.tolist() == [False, False, False, False, True]
    assert found.type_b.tolist() == [False, True, True, False, False]
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_counts_of_table_6_6() -> None:
    pairs = pairwise_disagreement(NETWORKS)  # 1-2: one item, 1-3: two, 2-3: one
    assert pairs.mean == pytest.approx((0.2 + 0.4 + 0.2) / 3)
    assert pairs.size == 3
    per_network, across = misclassified(NETWORKS, PEOPLE)
    # People agree on items 0, 1 and 3: all are wrong on 3, the last one on 0 too.
    assert per_network.mean == pytest.approx((1 + 1 + 2) / 15)
    assert across == pytest.approx(2 / 5)


def test_certainty_and_majority() -> None:
    assert certainty(NETWORKS).tolist() == pytest.approx([2 / 3, 1, 2 / 3, 1, 1])
    assert majority(NETWORKS).tolist() == [1, 2, 7, 4, 5]
    found = certainty_by_reference(NETWORKS, PEOPLE)
    assert found[1.0].mean == pytest.approx((2 / 3 + 1 + 1) / 3)
    assert found[0.5].mean == pytest.approx((2 / 3 + 1) / 2)
    assert agreement_map(NETWORKS[:, :4], 2).shape == (2, 2)


def test_maximum_softmax_by_type() -> None:
    probabilities = torch.full((2, 5, 3), 0.1)
    for item, top in enumerate([0.5, 0.99, 0.6, 0.9, 0.95]):
        probabilities[:, item] = torch.tensor([top, 1 - top, 0.0])
    found = maximum_softmax(probabilities, disagreement(NETWORKS, PEOPLE).masks)
    means = [spread.mean for spread in found.values()]
    assert means == pytest.approx([0.5, 0.6, 0.99, 0.9, 0.95], abs=1e-6)
    empty = maximum_softmax(probabilities, {"none": torch.zeros(5, dtype=torch.bool)})
    assert empty["none"].size == 0


def test_bad_labels_are_refused() -> None:
    with pytest.raises(TypeError, match="integers"):
        disagreement(NETWORKS.float(), PEOPLE)
    with pytest.raises(ValueError, match="same items, got 5 and 4"):
        disagreement(NETWORKS, PEOPLE[:, :4])
    with pytest.raises(ValueError, match=r"\[labellers, items\]"):
        certainty(NETWORKS[0])
    with pytest.raises(ValueError, match="at least 0"):
        certainty(-NETWORKS)
    with pytest.raises(ValueError, match="two labellers"):
        pairwise_disagreement(NETWORKS[:1])
    with pytest.raises(ValueError, match="two classes"):
        maximum_softmax(torch.ones(2, 5, 1), {})
    with pytest.raises(ValueError, match="add up to 1"):
        maximum_softmax(torch.full((1, 5, 2), 0.4), {})
    with pytest.raises(ValueError, match="probabilities must be finite"):
        maximum_softmax(torch.full((1, 5, 2), float("nan")), {})
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        maximum_softmax(torch.tensor([[[1.5, -0.5]]]), {})
    with pytest.raises(TypeError, match="must be a tensor, got list"):
        maximum_softmax([[[0.5, 0.5]]], {})
    with pytest.raises(ValueError, match="must be of 5 items"):
        maximum_softmax(torch.full((1, 5, 2), 0.5), {"a": torch.ones(4)})
    with pytest.raises(ValueError, match="do not fill"):
        agreement_map(NETWORKS, 2)
