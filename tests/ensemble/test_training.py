"""Training an ensemble: noise, resuming, members that diverge, wrong input."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import colangevin as cl
from colangevin.ensemble import gradients
from colangevin.ensemble.data import ORDER, TEST, batch_orders, random_bits

POINTS = torch.randn(40, 2, generator=torch.Generator().manual_seed(1))
TARGETS = POINTS.sum(dim=1, keepdim=True)
mse = functional.mse_loss


def linear():
    return nn.Linear(2, 1)


def weights(ensemble):
    return [ensemble.member(i).weight.detach().clone() for i in range(len(ensemble.seeds))]


def still(outputs, targets):
    """A loss without a slope: only noise moves the weights."""
    return (outputs * 0.0).sum()


# --- noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules, options",
    [
        ({}, {"lr": 0.1}),
        ({}, {"lr": 0.1, "momentum": 0.9}),
        ({"weight": cl.Circle(3.0)}, {"lr": 0.1}),
        ({"weight": cl.Circle(3.0)}, {"step_size": 0.3, "friction": 1.0, "scheme": "BAOAB"}),
        ({"weight": cl.Sphere(3.0)}, {"lr": 0.1, "momentum": 0.5}),
        ({"weight": cl.Orthogonal()}, {"lr": 0.1, "momentum": 0.5}),
    ],
)
def test_noise_belongs_to_a_member_whoever_the_others_are(rules, options):
    options = {**options, "temperature": 0.01, "compile": False}
    many = cl.Ensemble(linear, [4, 5, 6], rules, **options)
    one = cl.Ensemble(linear, [5], rules, **options)
    for ensemble in (many, one):
        ensemble.fit(mse, POINTS, TARGETS, epochs=2, batch_size=8)
    assert torch.allclose(many.member(1).weight, one.member(0).weight, atol=1e-6)
    assert not torch.allclose(many.member(0).weight, many.member(1).weight, atol=1e-3)


def test_noise_has_the_right_law_and_is_independent():
    """Free diffusion: after n steps of variance 2τh every weight is normal of variance 2τhn."""
    ensemble = cl.Ensemble(
        lambda: nn.Linear(64, 1, bias=False), range(100), lr=0.1, temperature=0.05, compile=False
    )
    start = torch.stack(weights(ensemble)).flatten(1)
    batch = torch.zeros(100, 1, 64), torch.zeros(100, 1, 1)
    first = None
    for _ in range(20):
        ensemble.step(still, *batch)
        first = torch.stack(weights(ensemble)).flatten(1) - start if first is None else first
    moved = (torch.stack(weights(ensemble)).flatten(1) - start) / math.sqrt(2 * 0.05 * 0.1 * 20)
    first = first / math.sqrt(2 * 0.05 * 0.1)
    count = moved.numel()
    assert abs(float(moved.mean())) < 4 / math.sqrt(count)
    assert abs(float(moved.square().mean()) - 1) < 4 * math.sqrt(2 / count)
    assert abs(float(moved.pow(4).mean()) - 3) < 4 * math.sqrt(96 / count)
    # Between members, between weights, and between the first step and the later ones.
    rows = moved @ moved.T / moved.shape[1]
    rows = rows[~torch.eye(100, dtype=torch.bool)]
    assert float(rows.abs().max()) < 5.5 / math.sqrt(moved.shape[1])
    columns = (moved.T @ moved / 100)[~torch.eye(64, dtype=torch.bool)]
    assert float(columns.abs().max()) < 5.5 / 10
    later = moved * math.sqrt(20) - first
    assert abs(float((first * later).mean()) / math.sqrt(19)) < 4 / math.sqrt(count)


def test_a_temperature_of_zero_in_a_sweep_is_exactly_cold():
    sweep = cl.Ensemble(linear, [0, 1], lr=0.1, temperature=[0.0, 0.1], compile=False)
    cold = cl.Ensemble(linear, [0, 1], lr=0.1, compile=False)
    for ensemble in (sweep, cold):
        ensemble.fit(mse, POINTS, TARGETS, epochs=1, batch_size=8)
    assert torch.allclose(sweep.member(0).weight, cold.member(0).weight, atol=1e-7)
    assert not torch.allclose(sweep.member(1).weight, cold.member(1).weight, atol=1e-3)


def test_streams_differ_by_seed_kind_and_time():
    bits = torch.cat(
        [
            random_bits(range(50), stream, index, 8).flatten()
            for stream in (ORDER, TEST)
            for index in range(50)
        ]
    )
    assert len(bits.unique()) == len(bits)
    orders = batch_orders(range(200), 0, 10)
    assert (orders.sort(dim=1).values == torch.arange(10)).all()
    # Every point is as often at every place: 200 orders, 20 ± 4.2 each.
    counts = torch.stack([(orders == point).sum(dim=0) for point in range(10)])
    assert float((counts - 20).abs().max()) < 4.5 * 4.2


# --- resuming and diverging --------------------------------------------------------------------


@pytest.mark.parametrize("rule", [cl.Circle(2.0), cl.Orthogonal()], ids=["circle", "orthogonal"])
def test_a_resumed_training_is_the_same(tmp_path, rule):
    def make():
        options = {"lr": 0.1, "momentum": 0.9, "temperature": 1e-3, "compile": False}
        return cl.Ensemble(linear, [1, 2, 3], {"weight": rule}, **options)

    settings = {"batch_size": 8, "every": 2}
    whole = make()
    expected = whole.fit(mse, POINTS, TARGETS, epochs=6, **settings)
    path = tmp_path / "run.pt"
    make().fit(mse, POINTS, TARGETS, epochs=4, checkpoint=path, **settings)
    ended = make()
    found = ended.fit(mse, POINTS, TARGETS, epochs=6, checkpoint=path, **settings)
    assert found.epochs == expected.epochs == [2, 4, 6]
    assert torch.equal(found["loss"], expected["loss"])
    assert all(torch.equal(a, b) for a, b in zip(weights(ended), weights(whole), strict=True))


def test_a_diverged_member_is_removed_and_reported():
    ensemble = cl.Ensemble(linear, [1, 2, 3], lr=[0.05, 1e6, 0.05], compile=False)
    with pytest.warns(cl.DivergenceWarning, match=r"1 of 3 members .* seeds \[2\]"):
        history = ensemble.fit(mse, POINTS, TARGETS, epochs=30, batch_size=8)
    assert [(r.member, r.seed) for r in ensemble.removed] == [(1, 2)]
    assert len(ensemble) == 2 and ensemble.active == [0, 2]
    assert history["loss"][-1].isnan().tolist() == [False, True, False]
    with pytest.raises(ValueError, match=r"member 1 \(seed 2\) diverged and was removed"):
        ensemble.member(1)
    alone = cl.Ensemble(linear, [3], lr=0.05, compile=False)
    alone.fit(mse, POINTS, TARGETS, epochs=30, batch_size=8)
    assert torch.allclose(ensemble.member(2).weight, alone.member(0).weight, atol=1e-6)


@pytest.mark.filterwarnings("ignore:the quasi-Newton projection did not converge")
def test_a_diverged_member_does_not_stop_those_with_orthogonal_weights(tmp_path):
    def make():
        def network():
            return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))

        rules = {"0.weight": cl.Orthogonal()}
        return cl.Ensemble(network, [1, 2, 3], rules, lr=[0.05, 1e30, 0.05], compile=False)

    ensemble = make()
    with pytest.warns(cl.DivergenceWarning):
        ensemble.fit(mse, POINTS, TARGETS, epochs=4, batch_size=8)
    assert ensemble.active == [0, 2]
    assert max(group.residual for group in ensemble.violation()) < 1e-6
    torch.save(ensemble.state_dict(), tmp_path / "state.pt")
    loaded = make()
    loaded.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert loaded.active == [0, 2] and loaded.removed == ensemble.removed
    assert torch.equal(loaded.member(2)[0].weight, ensemble.member(2)[0].weight)


def test_all_members_diverged_ends_the_training():
    ensemble = cl.Ensemble(linear, [1, 2], lr=1e8, compile=False)
    with pytest.warns(cl.DivergenceWarning, match="2 of 2"):
        history = ensemble.fit(mse, POINTS, TARGETS, epochs=30, batch_size=8)
    assert len(ensemble) == 0 and ensemble.epochs < 30
    assert history["loss"][-1].isnan().all()


def test_a_failed_projection_changes_nothing():
    ensemble = cl.Ensemble(
        linear,
        [1, 2],
        {"weight": cl.General(lambda w: (w.square().sum() - 1.0).reshape(1))},
        lr=1e3,  # further along the tangent than the normals reach
        compile=False,
    )
    before = [member.clone() for member in weights(ensemble)]
    bias = ensemble.member(0).bias.clone()
    with pytest.raises(cl.ConvergenceError, match="weight"):
        ensemble.step(mse, POINTS.expand(2, -1, -1), TARGETS.expand(2, -1, -1))
    assert all(torch.equal(a, b) for a, b in zip(before, weights(ensemble), strict=True))
    assert torch.equal(ensemble.member(0).bias, bias) and ensemble.steps == 0


def test_which_steps_are_compiled_depends_on_the_training_not_on_the_process(monkeypatch):
    """Otherwise a resumed training would round differently; the kernel is a stand-in here."""
    compiled_at = []

    def stand_in(function, **options):
        def run(*given):
            compiled_at.append(ensemble.steps)
            return function(*given)

        return run

    monkeypatch.setattr(torch, "compile", stand_in)
    monkeypatch.setattr(gradients, "PATIENCE", 3)
    batch = POINTS[:8].expand(2, -1, -1), TARGETS[:8].expand(2, -1, -1)
    for compile, expected in ((None, [3, 4, 5]), (True, [1, 2, 3, 4, 5]), (False, [])):
        for stop in (6, 4):  # without a break, and with one after four steps
            compiled_at.clear()
            ensemble = cl.Ensemble(linear, [1, 2], lr=0.1, compile=compile)
            for _ in range(stop):
                ensemble.step(mse, *batch)
            state = ensemble.state_dict()
            ensemble = cl.Ensemble(linear, [1, 2], lr=0.1, compile=compile)
            ensemble.load_state_dict(state)
            for _ in range(6 - stop):
                ensemble.step(mse, *batch)
            assert sorted(set(compiled_at)) == expected  # a new function is tried once


def test_settings_change_on_the_way():
    ensemble = cl.Ensemble(linear, [1], {"weight": cl.Circle(2.0)}, lr=0.2, momentum=0.9)
    torch.manual_seed(1)
    model = linear()
    groups = cl.constrain_(model, {"weight": cl.Circle(2.0)})
    optimizer = cl.CoLA(groups, lr=0.2, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
    for _ in range(9):
        ensemble.set(lr=optimizer.param_groups[0]["lr"])
        ensemble.step(mse, POINTS[None], TARGETS[None])
        optimizer.zero_grad()
        mse(model(POINTS), TARGETS).backward()
        optimizer.step()
        scheduler.step()
    assert torch.allclose(ensemble.member(0).weight, model.weight, atol=1e-6)
    with pytest.raises(ValueError, match="overdamped"):
        ensemble.set(momentum=0.0)
    with pytest.raises(ValueError, match="temperature"):
        ensemble.set(temperature=-1.0)


def test_outputs_of_all_members():
    ensemble = cl.Ensemble(linear, [1, 2, 3])
    outputs = ensemble(POINTS)
    own = ensemble(torch.stack([POINTS, 2 * POINTS, 3 * POINTS]), per_member=True)
    for index in range(3):
        member = ensemble.member(index)
        assert torch.allclose(outputs[index], member(POINTS), atol=1e-6)
        assert torch.allclose(own[index], member((index + 1) * POINTS), atol=1e-6)


# --- wrong input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, options, error, message",
    [
        ((linear, []), {}, ValueError, "at least one member"),
        ((linear, [1, 1]), {}, ValueError, "1 more than once"),
        ((linear, [1.5]), {}, TypeError, "must be an integer, got 1.5"),
        ((linear, [-1]), {}, ValueError, "-1"),
        ((lambda: 3, [1]), {}, TypeError, "torch.nn.Module"),
        ((lambda: nn.Linear(1, 1).to(torch.float8_e5m2), [1]), {}, TypeError, "float32 or float64"),
        ((lambda seed: nn.Linear(seed, 1), [1, 2]), {}, ValueError, "same names and shapes"),
        ((linear, [1, 2]), {"lr": [0.1]}, ValueError, "lr has 1 values for 2 members"),
        ((linear, [1]), {"lr": -1.0}, ValueError, "lr must be positive"),
        ((linear, [1]), {"lr": 0.1, "step_size": 0.1}, ValueError, "two ways"),
        ((linear, [1]), {"lr": 0.1, "speed": 2}, TypeError, "unknown option 'speed'"),
        ((linear, [1]), {"lr": 0.1, "scheme": "BAD"}, ValueError, "BAD"),
        ((linear, [1]), {"lr": 0.1, "compile": "yes"}, TypeError, "compile"),
        ((linear, [1, 2]), {"lr": 0.1, "momentum": [0.0, 0.9]}, ValueError, "different kinds"),
        ((linear, [1, 2], {"weight": [cl.Circle(1.0)]}), {}, ValueError, "1 constraints for 2"),
        ((linear, [1], {"wait": cl.Circle(1.0)}), {}, ValueError, "wait"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        cl.Ensemble(*arguments, **options)


def test_wrong_data_are_refused():
    ensemble = cl.Ensemble(linear, [1, 2], lr=0.1)
    with pytest.raises(ValueError, match="as many points"):
        ensemble.fit(mse, POINTS, TARGETS[:5], epochs=1, batch_size=8)
    with pytest.raises(ValueError, match="one per member, 2 in all, got 40"):
        ensemble.fit(mse, POINTS, TARGETS, epochs=1, batch_size=8, per_member=True)
    with pytest.raises(ValueError, match="batch_size"):
        ensemble.fit(mse, POINTS, TARGETS, epochs=1, batch_size=0)
    with pytest.raises(ValueError, match="40 batches for 2 members"):
        ensemble.step(mse, POINTS, TARGETS)
    with pytest.raises(ValueError, match="give lr"):
        cl.Ensemble(linear, [1]).step(mse, POINTS[None], TARGETS[None])
    with pytest.raises(IndexError, match="2 members, got index 2"):
        ensemble.member(2)
    assert ensemble.steps == 0


def test_a_state_of_other_members_is_refused():
    state = cl.Ensemble(linear, [1, 2], lr=0.1).state_dict()
    with pytest.raises(ValueError, match=r"seeds \[1, 2\], not \[1, 3\]"):
        cl.Ensemble(linear, [1, 3], lr=0.1).load_state_dict(state)
    other = cl.Ensemble(lambda: nn.Linear(3, 1), [1, 2], lr=0.1)
    with pytest.raises(ValueError, match="other names or shapes"):
        other.load_state_dict(state)
    underdamped = cl.Ensemble(linear, [1, 2], lr=0.1, momentum=0.9)
    underdamped.load_state_dict(state)  # the state brings its options: it is overdamped now
    batch = POINTS[:4].expand(2, -1, -1), TARGETS[:4].expand(2, -1, -1)
    fresh = cl.Ensemble(linear, [1, 2], lr=0.1)
    for ensemble in (underdamped, fresh):
        ensemble.step(mse, *batch)
    assert all(map(torch.equal, weights(underdamped), weights(fresh)))
    bound = cl.Ensemble(linear, [1, 2], {"weight": cl.Orthogonal()}, lr=0.1)
    before = weights(bound)
    with pytest.raises(ValueError, match="other constraints"):
        bound.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(bound), strict=True))


@pytest.mark.parametrize("compile", [False, True])
def test_batches_may_have_any_layout(compile):
    """A kernel is made for one layout; views of others must not be read as if they had it."""
    found = []
    for plain in (True, False):
        ensemble = cl.Ensemble(linear, [1, 2, 3], lr=0.1, compile=compile)
        for step in range(4):
            inputs = POINTS[4 * step : 4 * step + 4].expand(3, -1, -1)
            targets = TARGETS[4 * step : 4 * step + 4].mT.contiguous().mT.expand(3, -1, -1)
            if step == 3:  # members last in memory
                inputs = inputs.movedim(0, -1).contiguous().movedim(-1, 0)
            batch = (inputs.contiguous(), targets.contiguous()) if plain else (inputs, targets)
            losses = ensemble.step(mse, *batch)
        found.append(torch.cat([losses, *(weight.flatten() for weight in weights(ensemble))]))
    assert torch.equal(*found)


def test_a_state_brings_its_options(tmp_path):
    """What was set on the way counts, not what the new ensemble was made with."""
    sizes = {"batch_size": 8, "every": 1, "checkpoint": tmp_path / "run.pt"}
    whole = cl.Ensemble(linear, [1, 2], lr=[0.1, 0.2], momentum=0.5, compile=False)
    whole.fit(mse, POINTS, TARGETS, epochs=1, batch_size=8)
    whole.set(lr=torch.tensor([0.01, 0.02]), temperature=1e-3)
    whole.fit(mse, POINTS, TARGETS, epochs=2, **sizes)
    whole.fit(mse, POINTS, TARGETS, epochs=3, batch_size=8)
    for options in ({"lr": 0.7, "momentum": 0.9, "compile": False}, {"compile": False}):
        again = cl.Ensemble(linear, [1, 2], **options)
        again.fit(mse, POINTS, TARGETS, epochs=3, **{**sizes, "checkpoint": _copy(sizes)})
        assert all(map(torch.equal, weights(whole), weights(again)))


def _copy(sizes):
    copy = sizes["checkpoint"].with_name("copy.pt")
    copy.write_bytes(sizes["checkpoint"].read_bytes())
    return copy


@pytest.mark.parametrize("change", [{"batch_size": 4}, {"per_member": True}])
def test_a_checkpoint_of_other_batches_is_refused(tmp_path, change):
    path = tmp_path / "run.pt"
    cl.Ensemble(linear, [1, 2], lr=0.1).fit(
        mse, POINTS, TARGETS, epochs=1, batch_size=8, checkpoint=path
    )
    fresh = cl.Ensemble(linear, [1, 2], lr=0.1)
    with pytest.raises(ValueError, match=f"{next(iter(change))}="):
        fresh.fit(
            mse, POINTS, TARGETS, **{"epochs": 2, "batch_size": 8, "checkpoint": path, **change}
        )
    assert fresh.steps == 0


def test_a_state_that_does_not_fit_leaves_the_options():
    underdamped = cl.Ensemble(linear, [1, 2], lr=0.1, momentum=0.9)
    underdamped.step(mse, POINTS[:4].expand(2, -1, -1), TARGETS[:4].expand(2, -1, -1))
    other = cl.Ensemble(linear, [1, 2], {"weight": cl.Circle(9.0)}, lr=0.3, momentum=0.0)
    with pytest.raises(ValueError, match="other constraints"):
        other.load_state_dict(underdamped.state_dict())
    assert other._options == {"lr": 0.3, "momentum": 0.0}
    fresh = cl.Ensemble(linear, [1, 2], {"weight": cl.Circle(9.0)}, lr=0.3, momentum=0.0)
    for ensemble in (other, fresh):
        ensemble.step(mse, POINTS[:4].expand(2, -1, -1), TARGETS[:4].expand(2, -1, -1))
    assert all(map(torch.equal, weights(other), weights(fresh)))
    assert len(other.state_tensors()) == len(fresh.state_tensors())
    bare = cl.Ensemble(linear, [1, 2], {"weight": cl.Circle(9.0)})
    with pytest.raises(ValueError, match="other constraints"):
        bare.load_state_dict(underdamped.state_dict())
    with pytest.raises(ValueError, match="give lr"):
        bare.step(mse, POINTS[:4].expand(2, -1, -1), TARGETS[:4].expand(2, -1, -1))
