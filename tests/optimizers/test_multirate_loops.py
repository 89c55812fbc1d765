"""Multirate in real loops: requires_grad, saving, schedulers, scalers, compilation, bad input."""

import copy
import gc
import io
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import colangevin as cl


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


def batches(count=40):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 16, 3, generator=generator)


def loss_of(model, batch):
    return functional.cross_entropy(model(batch), (batch[:, 0] > 0).long())


def train(model, optimizer, data):
    for batch in data:
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()


def multirate(model, period=4, drift=True, **settings):
    rates = cl.last_layers_fast(model)
    return cl.Multirate.sgd(*rates, lr=0.4, momentum=0.9, period=period, drift=drift, **settings)


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def cola_orthogonal(model):
    rates = cl.last_layers_fast(model)
    matrices = [p for p in rates.slow if p.dim() == 2]
    biases = [p for p in rates.slow if p.dim() == 1]
    slow = cl.CoLA(
        [{"params": matrices, "constraint": cl.Orthogonal()}, {"params": biases}],
        lr=0.1,
        momentum=0.9,
        temperature=1e-4,
        scheme="BAOAB",
    )
    return cl.Multirate(torch.optim.Adam(rates.fast, lr=0.01), slow, period=4)


def nested(model):
    parameters = list(model.parameters())
    inner = cl.Multirate(
        torch.optim.SGD(parameters[2:4], lr=0.1, momentum=0.9),
        cl.CoLA(parameters[:2], lr=0.2, temperature=1e-4),
        period=3,
    )
    return cl.Multirate(torch.optim.SGD(parameters[4:], lr=0.05), inner, period=2)


def adaptive(model):
    rates = cl.last_layers_fast(model)
    slow = cl.AdaptiveLangevin(rates.slow, 0.2, constraint=cl.Circle(radius=1.0))
    return cl.Multirate(torch.optim.SGD(rates.fast, lr=0.05), slow, period=4)


MAKERS = {"sgd": multirate, "cola": cola_orthogonal, "nested": nested, "adaptive": adaptive}


# --- requires_grad --------------------------------------------------------------------------


def test_slow_parameters_ask_for_gradients_in_every_kth_step_only():
    model = network()
    optimizer = multirate(model, period=4)
    rates = cl.last_layers_fast(model)
    seen = []
    for batch in batches(9):
        seen.append({p.requires_grad for p in rates.slow})
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        assert all(p.grad is not None for p in rates.fast)
        assert all((p.grad is not None) == (len(seen) % 4 == 1) for p in rates.slow)
        optimizer.step()
        assert all(p.requires_grad for p in rates.fast)
    assert seen == [{True}, {False}, {False}, {False}, {True}, {False}, {False}, {False}, {True}]


def test_autograd_does_not_walk_the_frozen_part():
    model = network()
    optimizer = multirate(model)
    train(model, optimizer, batches(1))
    hidden = model[:4](batches(1)[0])
    assert not hidden.requires_grad and hidden.grad_fn is None


def test_period_1_never_freezes():
    model = network()
    train(model, multirate(model, period=1), batches(3))
    assert all(p.requires_grad for p in model.parameters())


def test_parameters_frozen_by_the_user_stay_frozen():
    model = network()
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = multirate(model)
    for batch in batches(10):
        train(model, optimizer, [batch])
        assert not model[0].weight.requires_grad
    optimizer.release()
    assert not model[0].weight.requires_grad and model[0].bias.requires_grad
    assert torch.equal(model[0].weight, before)


def test_freezing_between_two_slow_steps_is_respected():
    model = network()
    optimizer = multirate(model, period=2)
    train(model, optimizer, batches(2))
    model[0].weight.requires_grad_(False)
    train(model, optimizer, batches(4))
    assert not model[0].weight.requires_grad and model[0].bias.requires_grad


def all_awake(model):
    return all(p.requires_grad for p in model.parameters())


@pytest.mark.filterwarnings("ignore:another optimizer was made from the same weights")
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_release_wakes_everybody_and_training_goes_on(make):
    model, twin = network(), network()
    optimizer, other = make(model), make(twin)
    train(model, optimizer, batches()[:7])
    train(twin, other, batches()[:7])
    assert not all_awake(model)
    optimizer.release()
    assert all_awake(model)
    train(model, optimizer, batches()[7:15])
    train(twin, other, batches()[7:15])
    assert same(weights(model), weights(twin))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_with_block_wakes_everybody_even_after_an_error(make):
    model = network()
    with make(model) as optimizer:
        train(model, optimizer, batches(2))
        assert not all_awake(model)
    assert all_awake(model)
    with pytest.raises(KeyboardInterrupt), optimizer:
        train(model, optimizer, batches(1))
        raise KeyboardInterrupt
    assert all_awake(model)


def test_an_error_within_step_wakes_everybody():
    model = network()
    optimizer = multirate(model)
    train(model, optimizer, batches(2))

    def fail(*_):
        raise RuntimeError("no step")

    handle = optimizer.fast.register_step_pre_hook(fail)
    with pytest.raises(RuntimeError, match="no step"):
        train(model, optimizer, batches(1))
    assert all_awake(model)
    handle.remove()
    train(model, optimizer, batches(1))


def test_a_deleted_optimizer_leaves_nobody_frozen():
    model = network()
    optimizer = multirate(model)
    train(model, optimizer, batches(1))
    assert not all_awake(model)
    del optimizer
    gc.collect()
    assert all_awake(model)


# --- loops ------------------------------------------------------------------------------------


def test_gradient_accumulation_is_one_larger_batch():
    results = []
    for pieces in (1, 2):
        model = network()
        optimizer = multirate(model)
        for batch in batches(10):
            optimizer.zero_grad()
            for piece in batch.chunk(pieces):
                (loss_of(model, piece) / pieces).backward()
            optimizer.step()
        results.append(weights(model))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_zeroed_gradients_do_as_well_as_absent_ones():
    results = []
    for set_to_none in (True, False):
        model = network()
        optimizer = multirate(model)
        for batch in batches(10):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss_of(model, batch).backward()
            optimizer.step()
        results.append(weights(model))
    assert same(*results)


def test_grad_scaler_with_an_overflow_skips_the_step_and_keeps_the_rhythm():
    model, twin = network(), network()
    optimizer, other = multirate(model), multirate(twin)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1000)
    data = batches(12)
    for index, batch in enumerate(data):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        scaler.scale(loss * torch.inf if index in (2, 4) else loss).backward()
        scaler.step(optimizer)
        scaler.update()
    train(twin, other, [b for i, b in enumerate(data) if i not in (2, 4)])
    for one, two in zip(weights(model), weights(twin), strict=True):
        torch.testing.assert_close(one, two)


SCHEDULERS = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, [0.1, 0.4], total_steps=40),
    "LinearLR": lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=10),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_reach_both_parts(name):
    model = network()
    optimizer = multirate(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler = SCHEDULERS[name](optimizer)
        start = [group["lr"] for group in optimizer.param_groups]
        for batch in batches(8):
            train(model, optimizer, [batch])
            scheduler.step()
    fast, slow = optimizer.fast.param_groups[0]["lr"], optimizer.slow.param_groups[0]["lr"]
    assert [fast, slow] != start
    assert slow == pytest.approx(4 * fast)


def test_a_schedule_of_k_1_is_that_of_sgd():
    model, twin = network(), network()
    optimizer = multirate(model, period=1)
    sgd = torch.optim.SGD(twin.parameters(), lr=0.4, momentum=0.9)
    for one, network_ in ((optimizer, model), (sgd, twin)):
        scheduler = torch.optim.lr_scheduler.ExponentialLR(one, 0.9)
        for batch in batches(10):
            train(network_, one, [batch])
            scheduler.step()
    assert same(weights(model), weights(twin))


def test_clipping_over_all_parameters():
    model = network()
    optimizer = multirate(model)
    for batch in batches(6):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_has_at_most_two_graphs(backend):
    torch._dynamo.reset()
    graphs = []
    lookup = torch._dynamo.lookup_backend(backend)

    def counting(module, inputs, **options):
        graphs.append(module)
        return lookup(module, inputs, **options)

    model, twin = network(), network()
    compiled = torch.compile(model, backend=counting)
    optimizer, other = multirate(model), multirate(twin)
    for batch in batches(13):
        optimizer.zero_grad()
        loss_of(compiled, batch).backward()
        optimizer.step()
    train(twin, other, batches(13))
    assert 1 <= len(graphs) <= 2
    for one, two in zip(weights(model), weights(twin), strict=True):
        torch.testing.assert_close(one, two)


def test_a_step_hook_sees_every_step():
    model = network()
    optimizer = multirate(model)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    train(model, optimizer, batches(5))
    assert len(calls) == 5


def test_a_slow_step_without_gradients_is_reported():
    model = network()
    optimizer = multirate(model, period=2)
    train(model, optimizer, batches(1))
    loss_of(model, batches(1)[0]).backward()
    optimizer.step()
    optimizer.zero_grad()
    with pytest.warns(UserWarning, match="step 2 is a slow one"):
        optimizer.step()


def test_groups_are_added_to_a_part():
    model, extra = network(), nn.Parameter(torch.ones(2))
    optimizer = multirate(model)
    with pytest.raises(ValueError, match=r"optimizer\.fast or to optimizer\.slow"):
        optimizer.add_param_group({"params": [extra]})
    optimizer.slow.add_param_group({"params": [extra]})
    assert any(p is extra for group in optimizer.param_groups for p in group["params"])
    train(model, optimizer, batches(1))
    assert not extra.requires_grad


def test_defaults_are_those_that_both_parts_have():
    model = network()
    optimizer = cola_orthogonal(model)
    assert "betas" not in optimizer.defaults and "weight_decay" in optimizer.defaults
    # CoLA has state from the beginning, Adam from its first step on: together they have none.
    assert optimizer.slow.state and not optimizer.state
    train(model, optimizer, batches(1))
    assert set(optimizer.state) == set(model.parameters())


# --- saving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 4, 6, 7])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_resumed_run_continues_exactly(make, at):
    data = batches(16)
    model = network()
    optimizer = make(model)
    train(model, optimizer, data[:at])
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    flags = [p.requires_grad for p in model.parameters()]
    train(model, optimizer, data[at:])
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    resumed = network()
    torch.manual_seed(99)
    other = make(resumed)
    train(resumed, other, data[:2])
    resumed.load_state_dict(saved["model"])
    other.load_state_dict(saved["optimizer"])
    assert [p.requires_grad for p in resumed.parameters()] == flags
    train(resumed, other, data[at:])
    assert same(weights(model), weights(resumed))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_continue_exactly(make, clone):
    data = batches(16)
    model = network()
    optimizer = make(model)
    train(model, optimizer, data[:6])
    twin, other = clone((model, optimizer))
    train(twin, other, data[6:])
    train(model, optimizer, data[6:])
    assert same(weights(model), weights(twin))
    optimizer.release()
    assert all_awake(model)
    del other
    gc.collect()
    assert all_awake(twin)


def test_a_foreign_state_dict_is_refused():
    model = network()
    optimizer = multirate(model)
    groups = [{"params": group["params"]} for group in optimizer.param_groups]
    with pytest.raises(ValueError, match="of another optimizer: it lacks multirate0_period"):
        optimizer.load_state_dict(torch.optim.SGD(groups).state_dict())
    old = dict.fromkeys(("fast", "slow", "period", "drift", "steps"))
    with pytest.raises(ValueError, match="saved by an earlier version"):
        optimizer.load_state_dict(old)


def test_state_that_a_checkpoint_has_left_out_is_refused():
    """It leaves out parameters that are frozen while it loads."""
    model = network()
    optimizer = multirate(model)
    train(model, optimizer, batches(2))
    saved = optimizer.state_dict()
    frozen = {
        i
        for i, p in enumerate(p for group in optimizer.param_groups for p in group["params"])
        if not p.requires_grad
    }
    saved["state"] = {key: entry for key, entry in saved["state"].items() if key not in frozen}
    with pytest.raises(ValueError, match=r"call optimizer\.release\(\) before"):
        optimizer.load_state_dict(saved)
    assert not all_awake(model)


# --- bad input ----------------------------------------------------------------------------------


def parts():
    model = network()
    rates = cl.last_layers_fast(model)
    return torch.optim.SGD(rates.fast, lr=0.1), torch.optim.SGD(rates.slow, lr=0.1)


@pytest.mark.parametrize("period", [0, -1])
def test_period_below_1(period):
    with pytest.raises(ValueError, match=f"period must be at least 1, got {period}"):
        cl.Multirate(*parts(), period=period)
    with pytest.raises(ValueError, match=f"period must be at least 1, got {period}"):
        multirate(network(), period=period)


def test_period_and_drift_of_another_type():
    with pytest.raises(TypeError, match=r"period must be an integer, got 2\.5"):
        cl.Multirate(*parts(), period=2.5)
    with pytest.raises(TypeError, match="drift must be True or False, got 'yes'"):
        cl.Multirate(*parts(), drift="yes")


def test_parameters_owned_by_both():
    fast, slow = parts()
    slow.add_param_group({"params": fast.param_groups[0]["params"]})
    with pytest.raises(ValueError, match="different parameters, but 2 are in both"):
        cl.Multirate(fast, slow)


def test_parameters_owned_by_both_parts_of_sgd():
    rates = cl.last_layers_fast(network())
    with pytest.raises(ValueError, match="different parameters, but 1 are in both"):
        cl.Multirate.sgd(rates.fast, [*rates.slow, rates.fast[0]], lr=0.1)


def test_parameters_owned_by_both_when_nested():
    fast, slow = parts()
    other = torch.optim.SGD([nn.Parameter(torch.ones(1)), slow.param_groups[0]["params"][0]])
    with pytest.raises(ValueError, match="different parameters, but 1 are in both"):
        cl.Multirate(other, cl.Multirate(fast, slow))


@pytest.mark.parametrize("name", ["fast", "slow"])
def test_a_base_optimizer_that_needs_a_closure(name):
    fast, slow = parts()
    lbfgs = torch.optim.LBFGS([nn.Parameter(torch.ones(1))])
    arguments = {"fast": fast, "slow": slow, name: lbfgs}
    with pytest.raises(ValueError, match=rf"{name} must .* LBFGS\.step needs closure"):
        cl.Multirate(**arguments)


def test_a_preset_that_needs_a_closure():
    fast, slow = parts()
    halves = {
        "first": slow.param_groups[0]["params"][:2],
        "last": slow.param_groups[0]["params"][2:],
    }
    heun = cl.DHSGD(halves, 0.1, contractive=True, heun=True)
    with pytest.raises(ValueError, match=r"slow must .* DHSGD\.step needs closure"):
        cl.Multirate(fast, heun)
    cl.Multirate(fast, cl.DHSGD(halves, 0.1, contractive=True))


@pytest.mark.parametrize("name", ["fast", "slow"])
def test_no_optimizer_and_no_parameters(name):
    fast, slow = parts()
    with pytest.raises(TypeError, match=f"{name} must be a torch.optim.Optimizer, got list"):
        cl.Multirate(**{"fast": fast, "slow": slow, name: []})
    empty = torch.optim.SGD([{"params": []}], lr=0.1)
    with pytest.raises(ValueError, match=f"{name} has no parameters"):
        cl.Multirate(**{"fast": fast, "slow": slow, name: empty})


@pytest.mark.parametrize("name", ["fast_parameters", "slow_parameters"])
def test_empty_parts_of_sgd(name):
    model = network()
    given = dict(zip(("fast_parameters", "slow_parameters"), cl.biases_slow(model), strict=True))
    with pytest.raises(ValueError, match=f"{name} is empty"):
        cl.Multirate.sgd(**{**given, name: iter(())}, lr=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.0}, "lr must be positive"),
        ({"lr": 0.1, "momentum": 1.5}, "momentum must lie between 0 and 1, got 1.5"),
        ({"lr": 0.1, "weight_decay": (0.1, -0.1)}, "weight_decay must be at least 0"),
        ({"lr": 0.1, "weight_decay": (0.1,)}, "weight_decay must be a number or a pair"),
    ],
)
def test_settings_of_sgd(options, message):
    with pytest.raises(ValueError, match=message):
        cl.Multirate.sgd(*cl.biases_slow(network()), **options)
