"""Where batches come from: tensors, datasets, loaders; evaluation in batches."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import colangevin as cl

mse = nn.functional.mse_loss
POINTS = torch.randn(21, 2, generator=torch.Generator().manual_seed(0))
TARGETS = POINTS.sum(dim=1, keepdim=True)


def make(**options):
    network = lambda: nn.Linear(2, 1)  # noqa: E731
    options = {"lr": 0.1, "momentum": 0.9, "temperature": 1e-3, **options}
    return cl.Ensemble(network, range(3), {"weight": cl.Circle(0.6)}, **options)


def weights(ensemble):
    return {name: tensor.clone() for name, tensor in ensemble.parameters.items()}


def same(one, other):
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


class Items(Dataset):
    """A dataset that reads its items one by one, and counts."""

    def __init__(self):
        self.reads = []

    def __len__(self):
        return len(POINTS)

    def __getitem__(self, index):
        self.reads.append(index)
        return POINTS[index], TARGETS[index]


class Stream(IterableDataset):
    def __iter__(self):
        return zip(POINTS, TARGETS, strict=True)


@pytest.mark.parametrize("dataset", [TensorDataset(POINTS, TARGETS), Items()])
def test_a_dataset_trains_as_its_tensors_do(dataset):
    one, other = make(), make()
    expected = one.fit(mse, POINTS, TARGETS, epochs=3, batch_size=8)
    found = other.fit(mse, dataset, epochs=3, batch_size=8)
    assert same(weights(one), weights(other))
    assert torch.equal(expected["loss"], found["loss"])
    assert one.steps == 9


def test_every_member_reads_every_item_of_a_dataset_once_in_an_epoch():
    dataset = Items()
    make().epoch(mse, dataset, batch_size=8)
    assert sorted(dataset.reads) == sorted(3 * list(range(21)))


def test_all_members_see_the_batches_of_a_loader():
    loader = DataLoader(TensorDataset(POINTS, TARGETS), batch_size=8)
    found, expected = make(), make()
    history = found.fit(mse, loader, epochs=2)
    losses = []
    for _ in range(2):
        for start in (0, 8, 16):
            x, y = POINTS[start : start + 8], TARGETS[start : start + 8]
            losses.append(expected.step(mse, x.expand(3, *x.shape), y.expand(3, *y.shape)))
    assert same(weights(found), weights(expected))
    rows = torch.stack(losses).double().view(2, 3, 3).mean(dim=1)
    assert torch.allclose(history["loss"], rows)


def test_a_member_that_diverges_leaves_the_others_with_a_loader_and_with_items():
    for source, settings in (
        (DataLoader(TensorDataset(POINTS, TARGETS), batch_size=8), {}),
        (Items(), {"batch_size": 8}),
    ):
        ensemble = make(lr=[0.1, 1e30, 0.1], momentum=0.0, temperature=0.0)
        with pytest.warns(cl.DivergenceWarning):
            ensemble.fit(mse, source, epochs=30, **settings)
        assert ensemble.active == [0, 2]
        assert len(list(ensemble)) == 2


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "words"),
    [
        ((POINTS,), {"batch_size": 8}, TypeError, "targets are missing"),
        ((POINTS, TARGETS), {}, TypeError, "batch_size is missing"),
        ((Items(),), {}, TypeError, "batch_size is missing"),
        ((Items(), TARGETS), {"batch_size": 8}, ValueError, "brings the targets"),
        ((Items(),), {"batch_size": 8, "per_member": True}, ValueError, "per_member needs tensors"),
        (([(POINTS, TARGETS)],), {"batch_size": 8}, ValueError, "batch size of its own"),
        (([(POINTS, TARGETS)], TARGETS), {}, ValueError, "brings the targets"),
        (([(POINTS,)],), {}, ValueError, "pair of tensors.*got 1 parts"),
        (([{"x": POINTS}],), {}, ValueError, "pair of tensors.*got dict"),
        (([],), {}, ValueError, "no batch"),
        ((iter([(POINTS, TARGETS)]),), {}, TypeError, "read in every epoch"),
        ((Stream(),), {"batch_size": 8}, TypeError, "give a DataLoader of it"),
        ((3,), {"batch_size": 8}, TypeError, "got int"),
    ],
)
def test_bad_sources_change_nothing(arguments, settings, error, words):
    ensemble = make()
    before = weights(ensemble)
    with pytest.raises(error, match=words):
        ensemble.fit(mse, *arguments, epochs=1, **settings)
    assert same(before, weights(ensemble))
    assert (ensemble.steps, ensemble.epochs) == (0, 0)


# --- evaluation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        (POINTS, TARGETS),
        (TensorDataset(POINTS, TARGETS),),
        (Items(),),
        (DataLoader(TensorDataset(POINTS, TARGETS), batch_size=8),),
    ],
    ids=["tensors", "tensor dataset", "items", "loader"],
)
def test_batches_give_the_mean_over_all_points(source):
    ensemble = make()
    expected = ensemble.evaluate(mse, POINTS, TARGETS)
    size = {} if isinstance(source[0], DataLoader) else {"batch_size": 8}
    assert torch.allclose(ensemble.evaluate(mse, *source, **size), expected, rtol=1e-6)


def test_batches_give_values_of_points_in_a_row():
    ensemble = make()
    assert torch.allclose(ensemble(POINTS, batch_size=8), ensemble(POINTS), rtol=1e-6)
    own = torch.stack([POINTS, 2 * POINTS, 3 * POINTS])
    expected = ensemble(own, per_member=True)
    assert expected.shape == (3, 21, 1)
    assert torch.allclose(ensemble(own, per_member=True, batch_size=4), expected, rtol=1e-6)


def test_what_cannot_be_joined_is_refused():
    ensemble = make()
    for function in (
        lambda y, t: ((y - t) > 0).sum(),  # a count
        lambda y, t: torch.stack([y.mean(), t.mean(), y.max()]),
    ):
        assert len(ensemble.evaluate(function, POINTS, TARGETS)) == 3
        with pytest.raises(ValueError, match="a mean over the points"):
            ensemble.evaluate(function, POINTS, TARGETS, batch_size=8)
    with pytest.raises(ValueError, match="batch_size"):
        ensemble.evaluate(mse, POINTS, TARGETS, batch_size=0)
