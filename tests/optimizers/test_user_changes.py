"""What users change between steps: layout, dtype, weights, groups, constraints, hooks."""

import copy
import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.constraints.base import add_scaled

CONSTRAINTS = {
    "free": None,
    "circle": cl.Circle(1.0),
    "sphere": cl.Sphere(1.0, equality=True),
    "orthogonal": cl.Orthogonal(),
}
constrained = pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)


def random_steps(optimizer, weights, count, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator).to(weight.dtype)
        optimizer.step()


@constrained
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("fused", [False, None])
def test_a_layout_that_changes_between_steps(constraint, momentum, fused):
    """Only the place in memory of the weight is another one, so the steps are the same."""
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(8, 3, 3, 3) / 9) for _ in range(2)]
    weights[1].data.copy_(weights[0].data)
    options = {"lr": 0.1, "momentum": momentum, "constraint": constraint, "fused": fused}
    optimizers = [cl.CoLA([weight], **options) for weight in weights]
    for seed, layout in enumerate((None, torch.channels_last, torch.contiguous_format)):
        if layout is not None:
            weights[1].data = weights[1].data.contiguous(memory_format=layout)
        before = weights[1].detach().clone()
        for optimizer, weight in zip(optimizers, weights, strict=True):
            random_steps(optimizer, [weight], 3, seed)
        assert not torch.equal(weights[1], before)
        torch.testing.assert_close(weights[0], weights[1])


@constrained
def test_a_dtype_that_changes_between_steps(constraint):
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(6, 4) / 9)
    optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=constraint)
    random_steps(optimizer, [weight], 2, 0)
    for dtype in (torch.bfloat16, torch.float32):
        weight.data = weight.data.to(dtype)
        before = weight.detach().clone()
        random_steps(optimizer, [weight], 3, 1)
        assert (weight - before).abs().max() > 1e-3
        middle = weight.detach().clone()
        random_steps(optimizer, [weight], 3, 2)
        assert (weight - middle).abs().max() > 1e-3  # and does not come back every time
        limit = 1e-2 if dtype is torch.bfloat16 else 1e-5
        assert optimizer.violation()[0].residual < limit


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_that_were_overwritten_count(dtype):
    weight = nn.Parameter(torch.randn(5).to(dtype))
    optimizer = cl.CoLA([weight], lr=0.1)
    random_steps(optimizer, [weight], 2, 0)
    with torch.no_grad():
        weight[:3] = 0.25
    kept = optimizer.state[weight]["master"][3:].clone()
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert torch.equal(weight[:3], torch.full((3,), 0.25, dtype=dtype))
    assert torch.equal(optimizer.state[weight]["master"][3:], kept)  # with all its digits


def test_half_precision_weights_that_are_loaded_before_the_first_step_count():
    torch.manual_seed(0)
    model, good = (nn.Linear(4, 4, bias=False) for _ in range(2))
    nn.init.orthogonal_(good.weight)
    model.bfloat16()
    optimizer = cl.CoLA(cl.parameter_groups(model, {"weight": cl.Orthogonal()}), lr=0.1)
    model.load_state_dict(good.state_dict())
    model.weight.grad = torch.zeros_like(model.weight)
    optimizer.step()
    assert (model.weight - good.weight).abs().max() <= 0.01


# --- groups -----------------------------------------------------------------------------------


def test_a_parameter_may_be_replaced_with_its_state():
    old, new = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    optimizer = cl.CoLA([old], lr=0.1, momentum=0.9)
    old.grad = torch.ones(3)
    optimizer.step()
    optimizer.param_groups[0]["params"][0] = new
    optimizer.state[new] = optimizer.state.pop(old)
    new.grad = torch.ones(3)
    optimizer.step()
    torch.testing.assert_close(new.detach(), torch.full((3,), -0.19))
    torch.testing.assert_close(old.detach(), torch.full((3,), -0.1))


def test_parameters_that_are_appended_to_a_group_have_noise_of_their_own():
    weights = [nn.Parameter(torch.zeros(6)) for _ in range(3)]
    groups = [{"params": weights[:1]}, {"params": weights[1:2]}]
    optimizer = cl.CoLA(groups, lr=0.1, temperature=1.0, seed=0)
    for weight in weights:
        weight.grad = torch.zeros(6)
    optimizer.param_groups[0]["params"].append(weights[2])
    optimizer.step()
    moves = torch.stack([weight.detach() for weight in weights])
    assert (moves[:, None] != moves).any(2).sum() == 6  # any two differ


@pytest.mark.parametrize("name", ["lr", "temperature", "weight_decay", "momentum"])
@pytest.mark.parametrize("constraint", [None, cl.Circle(1.0)])
def test_an_option_that_is_a_tensor_may_change_in_place(name, constraint):
    def moves(as_tensor):
        weight = nn.Parameter(torch.full((4,), 0.5))
        optimizer = cl.CoLA(
            [weight], lr=0.1, momentum=0.5, temperature=0.1, seed=0, constraint=constraint
        )
        group = optimizer.param_groups[0]
        value = torch.tensor(0.125, dtype=torch.float64)
        found = []
        for step in range(6):
            if step >= 3:
                value.add_(0.25)
            group[name] = value if as_tensor else float(value)
            weight.grad = weight.detach().clone()
            optimizer.step()
            found.append(weight.detach().clone())
        return torch.stack(found)

    assert torch.equal(moves(True), moves(False))


def test_a_group_that_is_removed_and_added_again_starts_at_rest():
    weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = cl.CoLA([{"params": [w]} for w in weights], lr=0.1, momentum=0.9)
    random_steps(optimizer, weights, 3, 0)
    kept = optimizer.state[weights[1]]["momentum_buffer"].clone()
    group = optimizer.param_groups.pop(0)
    weights[1].grad = None
    optimizer.step()
    assert list(optimizer.state) == [weights[1]]
    optimizer.add_param_group(group)
    assert not optimizer.state[weights[0]]["momentum_buffer"].any()
    assert torch.equal(optimizer.state[weights[1]]["momentum_buffer"], kept)


def test_a_group_may_be_removed():
    weights = [nn.Parameter(torch.zeros(2)) for _ in range(2)]
    optimizer = cl.CoLA([{"params": [weight]} for weight in weights], lr=0.1)
    for weight in weights:
        weight.grad = torch.ones(2)
    optimizer.step()
    del optimizer.param_groups[0]
    optimizer.step()
    assert [round(weight[0].item(), 6) for weight in weights] == [-0.1, -0.2]


def test_a_constraint_may_be_replaced():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4, 3))
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=cl.Orthogonal())
    random_steps(optimizer, [weight], 2, 0)
    optimizer.param_groups[0]["constraint"] = cl.Circle(0.1)
    random_steps(optimizer, [weight], 3, 1)
    assert weight.abs().max() <= 0.1
    assert optimizer.violation()[0].residual < 1e-6
    assert "slack" in optimizer.state[weight]


# --- gradients --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:another optimizer was made from the same weights")
@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("temperature", [0.0, 1e-3])
def test_gradients_may_have_any_layout(fused, temperature):
    wide = torch.arange(40.0)
    gradients = {
        "expanded": (torch.ones(()).expand(4, 5), torch.ones(4, 5)),
        "strided": (wide[::2], wide[::2].clone()),
        "transposed": (wide[:20].reshape(5, 4).mT, wide[:20].reshape(5, 4).mT.contiguous()),
    }
    for given, plain in gradients.values():
        found = []
        for gradient in (given, plain):
            torch.manual_seed(0)
            weight = nn.Parameter(torch.zeros(plain.shape))
            options = {"lr": 0.1, "momentum": 0.9, "temperature": temperature}
            optimizer = cl.CoLA([weight], fused=fused, **options)
            for _ in range(2):
                weight.grad = gradient
                optimizer.step()
            found.append(weight.detach())
        assert torch.equal(*found)


@dataclass(frozen=True)
class Heavy(cl.Unconstrained):
    """A geometry of a user, with a number that a kernel does not know of."""

    mass: float = 1.0

    def drift(self, state, step):
        return state._replace(position=add_scaled(state.position, state.momentum, step / self.mass))

    def describe(self):
        return {"kind": "Heavy", "mass": self.mass}


@pytest.mark.parametrize("fused", [False, None])
def test_geometries_of_one_type_are_told_apart(fused):
    weights = [nn.Parameter(torch.zeros(3)) for _ in range(2)]
    groups = [
        {"params": [weight], "constraint": Heavy(mass)}
        for weight, mass in zip(weights, (1.0, 10.0), strict=True)
    ]
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9, fused=fused)
    for weight in weights:
        weight.grad = torch.ones(3)
    optimizer.step()
    assert [round(weight[0].item(), 6) for weight in weights] == [-0.1, -0.01]


def test_a_radius_for_each_weight_beside_one_for_all():
    weights = [nn.Parameter(torch.full((size,), 0.1)) for size in (3, 2)]
    radii = (cl.Circle(0.5), cl.Circle(torch.tensor([0.2, 0.3])))
    found = []
    for fused in (False, None):
        own = [nn.Parameter(weight.detach().clone()) for weight in weights]
        groups = [{"params": [w], "constraint": c} for w, c in zip(own, radii, strict=True)]
        optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9, fused=fused)
        random_steps(optimizer, own, 3, 0)
        found.append(torch.cat([weight.detach() for weight in own]))
    torch.testing.assert_close(*found)


# --- noise, hooks, failures -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:another optimizer was made from the same weights")
def test_networks_made_one_after_the_other_draw_different_noise():
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(50)) for _ in range(2)]
    optimizers = [cl.CoLA([w], lr=0.01, momentum=0.9, temperature=1.0) for w in weights]
    moves = []
    for optimizer, weight in zip(optimizers, weights, strict=True):
        before = weight.detach().clone()
        weight.grad = torch.zeros(50)
        optimizer.step()
        moves.append(weight.detach() - before)
    assert torch.corrcoef(torch.stack(moves))[0, 1].abs() < 0.5
    again = cl.CoLA([nn.Parameter(before.clone())], lr=0.01, momentum=0.9, temperature=1.0)
    weight = again.param_groups[0]["params"][0]
    weight.grad = torch.zeros(50)
    again.step()
    torch.testing.assert_close(weight.detach() - before, moves[1])  # the seed fixes it


def test_hooks_of_loading_are_heard():
    weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = cl.CoLA(weights, lr=0.1, momentum=0.9)
    for factor, weight in enumerate(weights, start=1):
        weight.grad = factor * torch.ones(2)
    optimizer.step()
    calls = []

    def swap(optimizer, state_dict):
        first, second = state_dict["state"][0], state_dict["state"][1]
        return {**state_dict, "state": {0: second, 1: first}}

    fresh = cl.CoLA(weights, lr=0.1, momentum=0.9)
    fresh.register_load_state_dict_pre_hook(swap)
    fresh.register_load_state_dict_post_hook(
        lambda loaded: calls.append(loaded.state[weights[0]]["momentum_buffer"].tolist())
    )
    fresh.load_state_dict(optimizer.state_dict())
    assert calls == [[2.0, 2.0]]
    assert fresh.state[weights[1]]["momentum_buffer"].tolist() == [1.0, 1.0]
    fresh.load_state_dict(optimizer.state_dict())  # they are there again
    assert len(calls) == 2


def test_a_failed_slow_step_does_not_block_the_next():
    torch.manual_seed(0)
    weight, head = nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.randn(2))
    slow = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=cl.Orthogonal())
    optimizer = cl.Multirate(torch.optim.SGD([head], 0.1), slow, period=3)
    weight.grad, head.grad = torch.full((4, 2), math.inf), torch.randn(2)
    with pytest.raises(cl.ConvergenceError):
        optimizer.step()
    for _ in range(4):
        weight.grad, head.grad = torch.randn(4, 2), torch.randn(2)
        optimizer.step()
    assert slow.violation()[0].residual < 1e-6


def test_a_multirate_state_that_does_not_fit_changes_neither_part():
    def make(lr, size):
        fast = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=lr)
        return cl.Multirate(fast, cl.CoLA([nn.Parameter(torch.ones(size))], lr=lr), period=2)

    target = make(0.1, 3)
    broken = copy.deepcopy(make(0.7, 3).state_dict())
    broken["state"][1]["multirate_way"] = torch.zeros(2)
    with pytest.raises(ValueError, match="multirate_way of the state dict does not fit"):
        target.load_state_dict(broken)
    assert target.fast.param_groups[0]["lr"] == 0.1


@constrained
def test_an_adaptive_step_of_length_zero_moves_nothing(constraint):
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(3, 2) / 3)
    optimizer = cl.CoLA([weight], lr=0.1, thermostat="adaptive", constraint=constraint)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, n / 2))
    before = weight.detach().clone()
    for step in range(3):
        random_steps(optimizer, [weight], 1, step)
        if step == 0:
            torch.testing.assert_close(weight.detach(), before)
        scheduler.step()
    assert not torch.allclose(weight, before)


def test_handing_over_to_another_function_lifts_again():
    def ball(bound):
        return cl.General(lambda x: x.square().sum().reshape(1) - bound, inequality=True)

    weight = nn.Parameter(torch.ones(2))
    first = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=ball(9.0))
    weight.grad = torch.ones(2)
    first.step()
    second = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=ball(2.5))
    cl.hand_over(first, second, momenta=False)
    assert second.violation()[0].residual < 1e-6
    before = weight.detach().clone()
    weight.grad = torch.zeros(2)
    second.step()
    torch.testing.assert_close(weight.detach(), before)


def test_degrees_of_freedom_of_a_function_with_float64_constants():
    torch.manual_seed(0)
    matrix = torch.randn(1, 3, dtype=torch.float64)
    weight = nn.Parameter(torch.randn(3, 2, dtype=torch.float64))
    constraint = cl.General(lambda x: (matrix @ x).reshape(-1) - 1.0)
    assert constraint.degrees_of_freedom([weight.shape]) == 4
    optimizer = cl.CoLA([weight], lr=0.1, thermostat="adaptive", constraint=constraint)
    random_steps(optimizer, [weight], 2, 0)
    assert all(map(math.isfinite, cl.kinetic_temperature(optimizer)))


def test_a_share_of_a_period_is_not_rounded_up():
    factor = cl.cyclical(100, hot=0.55)
    assert sum(factor(step) for step in range(100)) == 55


# --- weights ------------------------------------------------------------------------------------

BOUNDS = {
    "circle": cl.Circle(0.5),
    "circle_radii": cl.Circle(torch.full((2, 3), 0.5)),
    "sphere": cl.Sphere(0.9),
    "general": cl.General(lambda x: x.square().sum().reshape(1) - 1.5, inequality=True),
}
bounded = pytest.mark.parametrize("constraint", BOUNDS.values(), ids=BOUNDS)


@bounded
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("replaced", [False, True])
def test_weights_that_were_written_to_stay_where_they_are_allowed(
    constraint, momentum, fused, replaced
):
    weight = nn.Parameter(torch.full((2, 3), 0.1))
    options = {"lr": 1e-4, "momentum": momentum, "fused": fused}
    optimizer = cl.CoLA([weight], constraint=constraint, **options)
    random_steps(optimizer, [weight], 2, 0)
    with torch.no_grad():
        if replaced:
            weight.data = torch.full((2, 3), 0.4)
        else:
            weight.fill_(0.4)
    for _ in range(3):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    assert (weight - 0.4).abs().max() < 0.01  # but for the momentum that it had
    assert optimizer.violation()[0].residual < 1e-5


@constrained
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_weights_that_were_written_to_are_put_on_the_manifold(constraint, momentum):
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4, 3) / 5)
    optimizer = cl.CoLA([weight], lr=0.01, momentum=momentum, constraint=constraint)
    random_steps(optimizer, [weight], 2, 0)
    with torch.no_grad():
        weight.copy_(5 * torch.randn(4, 3))
    random_steps(optimizer, [weight], 1, 1)
    assert optimizer.violation()[0].residual < 1e-5
    if isinstance(constraint, cl.Circle):
        assert weight.abs().max() <= 1.0


@bounded
def test_weights_that_come_back_keep_their_slack(constraint):
    """An average of the weights may take their place for a while."""
    found = []
    for swaps in (False, True):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.full((2, 3), 0.3))
        optimizer = cl.CoLA([weight], lr=0.05, momentum=0.9, constraint=constraint)
        for step in range(6):
            random_steps(optimizer, [weight], 3, step)
            if swaps:
                own = weight.detach().clone()
                with torch.no_grad():
                    weight.zero_()
                    weight.copy_(own)
        found.append((weight.detach(), optimizer.state[weight]["slack"]))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_a_failed_step_after_writing_leaves_everything():
    torch.manual_seed(0)
    free, bound = nn.Parameter(torch.full((3,), 0.1)), nn.Parameter(torch.randn(3, 3))
    groups = [
        {"params": [free], "constraint": cl.Circle(0.5)},
        {"params": [bound], "constraint": cl.Orthogonal()},
    ]
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9)
    random_steps(optimizer, [free, bound], 2, 0)
    slack = optimizer.state[free]["slack"].clone()
    with torch.no_grad():
        free.fill_(0.45)
    free.grad, bound.grad = torch.zeros(3), torch.full((3, 3), math.nan)
    with pytest.raises(cl.ConvergenceError):
        optimizer.step()
    assert torch.equal(free, torch.full((3,), 0.45))
    assert torch.equal(optimizer.state[free]["slack"], slack)
    bound.grad = torch.zeros(3, 3)
    optimizer.step()
    assert optimizer.violation()[0].residual < 1e-6


@pytest.mark.parametrize("value", [0.45, 7.0])
def test_a_failed_step_gives_back_what_was_written(value):
    """Also where the weights were out of range, and were both placed and lifted again."""
    torch.manual_seed(0)
    weight, bound = nn.Parameter(torch.full((3,), 0.1)), nn.Parameter(torch.randn(3, 3))
    groups = [
        {"params": [weight], "constraint": cl.Circle(0.5)},
        {"params": [bound], "constraint": cl.Orthogonal()},
    ]
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9)
    random_steps(optimizer, [weight, bound], 2, 0)
    before = copy.deepcopy(optimizer.state_dict()["state"])
    with torch.no_grad():
        weight.fill_(value)
    weight.grad, bound.grad = torch.zeros(3), torch.full((3, 3), math.nan)
    with pytest.raises(cl.ConvergenceError):
        optimizer.step()
    assert torch.equal(weight, torch.full((3,), value))
    torch.testing.assert_close(optimizer.state_dict()["state"], before, rtol=0, atol=0)


def test_a_failed_step_gives_back_the_state_of_a_replaced_constraint():
    torch.manual_seed(0)
    weight, bound = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3, 3))
    groups = [{"params": [w], "constraint": cl.Orthogonal()} for w in (weight, bound)]
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9)
    random_steps(optimizer, [weight, bound], 2, 0)
    before = weight.detach().clone(), optimizer.state[weight]["momentum_buffer"].clone()
    optimizer.param_groups[0]["constraint"] = cl.Circle(0.1)
    weight.grad, bound.grad = torch.zeros(4, 3), torch.full((3, 3), math.nan)
    with pytest.raises(cl.ConvergenceError):
        optimizer.step()
    assert torch.equal(weight, before[0])
    assert torch.equal(optimizer.state[weight]["momentum_buffer"], before[1])


@constrained
def test_a_square_weight_may_be_transposed_where_it_lies(constraint):
    torch.manual_seed(0)
    first = torch.randn(4, 4) / 3
    found = []
    for view in (False, True):
        weight = nn.Parameter(first.clone())
        optimizer = cl.CoLA([weight], lr=0.1, constraint=constraint)
        random_steps(optimizer, [weight], 2, 0)
        weight.data = weight.data.mT if view else weight.data.mT.contiguous()
        random_steps(optimizer, [weight], 2, 1)
        found.append(weight.detach().clone())
    torch.testing.assert_close(*found)
