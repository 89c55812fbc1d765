"""Members of an ensemble are what they would be alone."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import colangevin as cl
from colangevin.ensemble.data import batch_orders

SEEDS = [3, 5, 8]
INPUTS = torch.randn(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = (INPUTS[:, 0] * INPUTS[:, 1] > 0).double()


def factory():
    return nn.Sequential(
        nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1)
    ).double()


def loss(outputs, labels):
    return functional.binary_cross_entropy_with_logits(outputs[:, 0], labels)


def norm(weight):
    return (weight.square().sum() - 9.0).reshape(1)


def both(weight, bias):
    return (weight.square().sum() + bias.square().sum() - 4.0).reshape(1)


RULES = {
    "none": {},
    "circle and orthogonal": {
        "0.weight": cl.Circle(1.0),
        "2.weight": cl.Orthogonal(),
        "4.weight": cl.Sphere(2.0),
    },
    "general": {"0.weight": cl.General(norm), "2.weight": cl.Sphere(1.0, equality=True)},
    "inequality": {"4.weight": cl.General(lambda w: w.square().sum(1) - 1.0, inequality=True)},
    "joint": {("0.weight", "0.bias"): cl.General(both)},
}
OPTIONS = {
    "overdamped": {"lr": 0.05},
    "sgd": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
    "baoab": {"step_size": 0.2, "friction": 1.0, "scheme": "BAOAB"},
    "authors": {"lr": 0.05, "momentum": 0.8, "scheme": "AOAB", "delayed_gradient": True},
}


def alone(seed, rules, epochs, penalty=None, **options):
    """The same training as an ordinary loop with CoLA."""
    torch.manual_seed(seed)
    model = factory()
    optimizer = cl.CoLA(cl.constrain_(model, rules), **options)
    for epoch in range(epochs):
        for batch in batch_orders([seed], epoch, len(INPUTS))[0].split(4):
            optimizer.zero_grad()
            value = loss(model(INPUTS[batch]), LABELS[batch])
            if penalty is not None:
                value = value + penalty(dict(model.named_parameters()))
            value.backward()
            optimizer.step()
    return model


def difference(model, other):
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max(float((a - b).abs().max().detach()) for a, b in pairs)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_member_is_what_it_would_be_alone(rules, options):
    ensemble = cl.Ensemble(factory, SEEDS, rules, compile=False, **options)
    ensemble.fit(loss, INPUTS, LABELS, epochs=4, batch_size=4)
    for index, seed in enumerate(SEEDS):
        assert difference(ensemble.member(index), alone(seed, rules, 4, **options)) < 1e-10
    assert max(group.residual for group in ensemble.violation()) < 1e-12


def test_the_compiled_step_is_the_same():
    rules = {"0.weight": cl.Circle(1.0), "2.weight": cl.Orthogonal()}
    ensemble = cl.Ensemble(factory, SEEDS, rules, compile=True, lr=0.05, momentum=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # which says that it could not be
        ensemble.fit(loss, INPUTS[:28], LABELS[:28], epochs=3, batch_size=4)
    eager = cl.Ensemble(factory, SEEDS, rules, compile=False, lr=0.05, momentum=0.9)
    eager.fit(loss, INPUTS[:28], LABELS[:28], epochs=3, batch_size=4)
    for index in range(3):
        assert difference(ensemble.member(index), eager.member(index)) < 1e-10


def test_members_may_differ_in_their_settings():
    radii, rates, decays = [0.5, 1.0, 2.0], [0.02, 0.05, 0.1], [0.0, 0.01, 0.1]
    rules = {"0.weight": [cl.Circle(r) for r in radii], "2.weight": cl.Orthogonal()}
    options = {"lr": rates, "momentum": 0.9, "weight_decay": decays}
    ensemble = cl.Ensemble(factory, SEEDS, rules, compile=False, **options)
    ensemble.fit(loss, INPUTS, LABELS, epochs=4, batch_size=4)
    for index, seed in enumerate(SEEDS):
        own = {"0.weight": cl.Circle(radii[index]), "2.weight": cl.Orthogonal()}
        chosen = {"lr": rates[index], "momentum": 0.9, "weight_decay": decays[index]}
        assert difference(ensemble.member(index), alone(seed, own, 4, **chosen)) < 1e-10


def test_members_may_have_their_own_data():
    inputs = torch.stack([INPUTS, -INPUTS, 2 * INPUTS])
    ensemble = cl.Ensemble(factory, SEEDS, lr=0.1)
    single = cl.Ensemble(factory, SEEDS[2:], lr=0.1)
    labels = LABELS.expand(3, -1)
    ensemble.fit(loss, inputs, labels, epochs=2, batch_size=4, per_member=True)
    single.fit(loss, 2 * INPUTS, LABELS, epochs=2, batch_size=4)
    assert difference(ensemble.member(2), single.member(0)) < 1e-12


def test_a_penalty_is_added_to_the_loss():
    def penalty(parameters):
        return 0.1 * parameters["2.weight"].square().sum()

    ensemble = cl.Ensemble(factory, SEEDS, penalty=penalty, compile=False, lr=0.05)
    ensemble.fit(loss, INPUTS, LABELS, epochs=2, batch_size=4)
    assert difference(ensemble.member(0), alone(3, {}, 2, penalty, lr=0.05)) < 1e-10


def test_a_module_with_buffers_and_frozen_parameters():
    def make():
        model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
        model[0].weight.requires_grad_(False)
        return model.double()

    ensemble = cl.Ensemble(make, SEEDS, compile=False, lr=0.1)
    ensemble.fit(loss, INPUTS, LABELS, epochs=2, batch_size=6)
    torch.manual_seed(5)
    model = make()
    first = model[0].weight.clone()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    for epoch in range(2):
        for batch in batch_orders([5], epoch, len(INPUTS))[0].split(6):
            optimizer.zero_grad()
            loss(model(INPUTS[batch]), LABELS[batch]).backward()
            optimizer.step()
    member = ensemble.member(1)
    assert difference(member, model) < 1e-10
    assert torch.equal(member[0].weight, first)
    assert torch.allclose(member[1].running_var, model[1].running_var, atol=1e-10)
    assert int(member[1].num_batches_tracked) == 10


def test_dropout_goes_on_exactly(tmp_path):
    def make():
        return nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1)).double()

    whole = cl.Ensemble(make, SEEDS, lr=0.1, compile=True)
    with warnings.catch_warnings(record=True):
        whole.fit(loss, INPUTS, LABELS, epochs=2, batch_size=6)
    torch.manual_seed(77)  # the ensemble's numbers are its own
    begun = cl.Ensemble(make, SEEDS, lr=0.1)
    begun.fit(loss, INPUTS, LABELS, epochs=1, batch_size=6)
    torch.save(begun.state_dict(), tmp_path / "state.pt")
    ended = cl.Ensemble(make, SEEDS, lr=0.1)
    ended.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    ended.fit(loss, INPUTS, LABELS, epochs=2, batch_size=6)
    assert difference(ended.member(1), whole.member(1)) < 1e-12


def test_compiled_steps_of_two_models_with_equal_shapes_are_not_mixed_up():
    inputs, targets = torch.randn(2, 5, 2), torch.randn(2, 5, 3)
    for activation in (nn.ReLU, nn.Tanh):
        losses = []
        for compile in (True, False):
            ensemble = cl.Ensemble(
                lambda: nn.Sequential(nn.Linear(2, 3), activation()),  # noqa: B023
                [1, 2],
                lr=0.1,
                compile=compile,
            )
            for _ in range(3):
                found = ensemble.step(nn.functional.mse_loss, inputs, targets)
            losses.append(found)
        torch.testing.assert_close(*losses)
