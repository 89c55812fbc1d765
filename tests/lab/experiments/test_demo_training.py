import copy

import pytest
import torch
from torch import nn

from colangevin.lab.experiments import demo
from colangevin.lab.experiments.demo import (
    METHODS,
    Method,
    Settings,
    Stream,
    make_data,
    shares,
    train,
)

SMALL = Settings(epochs=4, hidden=20, train_points=30, test_points=40, batch_size=7)


def plain_sgd(settings: Settings, weight_decay: float) -> nn.Module:
    """The same run as an ordinary training loop with torch's optimizer."""
    data = make_data(settings)
    network = demo._networks(settings, 1)[0]
    optimizer = torch.optim.SGD(network.parameters(), lr=settings.lr, weight_decay=weight_decay)
    batches = settings.generator(Stream.BATCHES)
    for _ in range(settings.epochs):
        order = torch.randperm(settings.train_points, generator=batches)
        for indices in order.split(settings.batch_size):
            outputs = network(data.train_inputs[indices])[:, 0]
            loss = nn.BCEWithLogitsLoss()(outputs, data.train_labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


@pytest.mark.parametrize("method", METHODS[:2], ids=lambda method: method.name)
def test_unconstrained_at_temperature_zero_is_torch_sgd(method):
    results = train(SMALL, make_data(SMALL))
    network = next(r.network for r in results if r.method == method)
    expected = plain_sgd(SMALL, method.weight_decay)
    for found, wanted in zip(network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_every_option_of_a_method_changes_the_result():
    networks = [result.network for result in train(SMALL, make_data(SMALL))]
    weights = [network[2].weight.detach() for network in networks]
    for i, first in enumerate(weights):
        for second in weights[:i]:
            assert not torch.equal(first, second)


def test_a_method_does_not_depend_on_its_companions():
    data = make_data(SMALL)
    together = train(SMALL, data)[-1]
    alone = train(SMALL, data, [METHODS[-1]])[0]
    torch.testing.assert_close(alone.network[0].weight, together.network[0].weight)
    assert alone.test_accuracy == together.test_accuracy


def test_small_radii_hold_while_free_weights_pass_them():
    settings = Settings(epochs=10, hidden=20, test_points=40, input_radius=0.3, output_radius=0.2)
    free, bound = train(settings, make_data(settings), [METHODS[0], METHODS[2]])
    assert free.network[0].weight.abs().max() > 0.3
    assert bound.network[0].weight.abs().max() <= 0.3
    assert bound.network[2].weight.abs().max() <= 0.2
    assert free.violation is None
    assert bound.violation < 1e-6


def test_curve_spans_the_run_and_ends_in_the_reported_losses():
    result = train(SMALL, make_data(SMALL), METHODS[:1])[0]
    assert result.curve.epochs == [0, 1, 2, 3, 4]
    assert (result.train_loss, result.test_loss) == (
        result.curve.train_loss[-1],
        result.curve.test_loss[-1],
    )
    outputs = result.network(make_data(SMALL).test_inputs)[:, 0]
    loss = nn.functional.binary_cross_entropy_with_logits(outputs, make_data(SMALL).test_labels)
    assert result.test_loss == pytest.approx(loss.item(), rel=1e-5)


def test_training_ends_when_told():
    seen = []

    def keep_going(epoch: int) -> bool:
        seen.append(epoch)
        return epoch < 2

    result = train(SMALL, make_data(SMALL), METHODS[:1], keep_going)[0]
    assert seen == [1, 2]
    assert result.epochs == 2


def test_global_random_state_and_threads_are_left_alone():
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    train(SMALL, make_data(SMALL))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_seeds_and_streams_are_all_different():
    drawn = {
        torch.rand(1, generator=Settings(seed=seed).generator(stream)).item()
        for seed in range(5)
        for stream in Stream
    }
    assert len(drawn) == 5 * len(Stream)


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 9])
def test_shares_keep_every_method_in_order(parts):
    divided = shares(parts)
    assert len(divided) <= parts
    assert [method for share in divided for method in share] == list(METHODS)


def test_result_can_be_copied():
    result = train(SMALL, make_data(SMALL), [Method("x", temperature=1e-4)])[0]
    assert copy.deepcopy(result).test_accuracy == result.test_accuracy
