"""Groups with an adaptive thermostat: options, geometry, saving, failure."""

import copy
import io
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl


def weight(*shape: int, seed: int = 0) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(*shape, dtype=torch.float64, generator=generator))


def walk(optimizer: cl.CoLA, parameters: list[nn.Parameter], steps: int) -> None:
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = parameter.detach() - 0.1
        optimizer.step()


# --- options ------------------------------------------------------------------------------


def test_defaults_of_an_adaptive_group() -> None:
    group = cl.CoLA([weight(2)], step_size=0.5, thermostat="adaptive").param_groups[0]
    assert (group["scheme"], group["coupling"], group["driving_noise"]) == ("BACDEDCAB", 0.1, 0.01)
    assert (group["lr"], group["friction"], group["momentum"]) == (0.25, 0.0, None)


def test_initial_friction_from_friction_and_from_momentum() -> None:
    first = cl.CoLA([weight(2)], step_size=0.5, friction=2.0, thermostat="adaptive")
    second = cl.CoLA([weight(2)], lr=0.25, momentum=math.exp(-1.0), thermostat="adaptive")
    assert first.param_groups[0]["friction"] == 2.0
    assert second.param_groups[0]["friction"] == pytest.approx(2.0)


def test_groups_of_both_kinds_inherit_words_that_fit() -> None:
    groups: list[dict[str, Any]] = [
        {"params": [weight(2)], "thermostat": "adaptive"},
        {"params": [weight(3)]},
    ]
    optimizer = cl.CoLA(groups, step_size=0.1, friction=1.0, scheme="BAOAB")
    assert [group["scheme"] for group in optimizer.param_groups] == ["BACDEDCAB", "BAOAB"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "temperature": ({"temperature": -0.1}, r"temperature must be at least 0.*got -0.1"),
    "coupling": ({"coupling": -0.1}, r"coupling must be at least 0.*got -0.1"),
    "driving noise": ({"driving_noise": -1.0}, r"driving_noise must be at least 0.*got -1.0"),
    "infinite coupling": ({"coupling": math.inf}, r"coupling must be at least 0.*got inf"),
    "no momentum": ({"lr": 0.1, "momentum": 0.0}, r"adaptive.*momentum must be above 0.*got 0.0"),
    "infinite friction": ({"friction": math.inf}, r"adaptive.*friction.*finite, got inf"),
    "overdamped word": ({"scheme": "OXA"}, r"scheme must be a word.*got 'OXA'"),
    "mixed letters": ({"scheme": "BACDEFCAB"}, r"scheme must be a word.*got 'BACDEFCAB'"),
    "two gradients": ({"scheme": "BABACDE"}, r"needs two gradients a step"),
    "thermostat": ({"thermostat": "nose"}, r"thermostat must be one of .*got 'nose'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options(case: str) -> None:
    options, message = BAD[case]
    step = {} if "lr" in options else {"step_size": 0.1}
    group = {"params": [weight(2)], "thermostat": "adaptive", **options}
    with pytest.raises(ValueError, match=message):
        cl.CoLA([group], **step)


def test_a_word_or_option_of_the_other_thermostat() -> None:
    adaptive = {"params": [weight(2)], "thermostat": "adaptive", "scheme": "BAOAB"}
    with pytest.raises(ValueError, match=r"scheme 'BAOAB' does not go with thermostat 'adaptive'"):
        cl.CoLA([adaptive], step_size=0.1)
    with pytest.raises(
        ValueError, match=r"scheme 'BAFEFAB' does not go with thermostat 'langevin'"
    ):
        cl.CoLA([{"params": [weight(2)], "scheme": "BAFEFAB"}], step_size=0.1)
    with pytest.raises(
        ValueError, match=r"coupling is an option of thermostat 'adaptive', got 0.1"
    ):
        cl.CoLA([{"params": [weight(2)], "coupling": 0.1}], step_size=0.1)


def named(parameters: list[nn.Parameter]) -> dict[str, list[nn.Parameter]]:
    return {"a": parameters[:1], "b": parameters[1:]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: cl.Langevin(p, 0.1, -1.0, 0.0), r"friction must be at least 0, got -1.0"),
        (lambda p: cl.Langevin(p, 0.1, 1.0, -2.0), r"temperature must be .*got -2.0"),
        (lambda p: cl.Langevin(p, 0.0, 1.0, 0.0), r"step_size must be positive.*got 0.0"),
        (lambda p: cl.SGLD(p, 0.1), r"give temperature or noise.*temperature=None and noise=None"),
        (lambda p: cl.SGLD(p, 0.1, 0.1, noise=0.1), r"give temperature or noise"),
        (lambda p: cl.SGLD(p, 0.1, noise=-0.1), r"noise must be at least 0.*got -0.1"),
        (lambda p: cl.SGLD(p, 0.1, 0.0, decay_power=-1.0), r"decay_power must be .*got -1.0"),
        (lambda p: cl.SGLD(p, 0.1, 0.0, decay_steps=0.0), r"decay_steps must be .*got 0.0"),
        (lambda p: cl.SGLD(p, 0.1, -0.1), r"temperature must be at least 0.*got -0.1"),
        (
            lambda p: cl.LangevinInLayers(named(p), 0.1, 1.0, {"a": 0.1, "b": -0.2}),
            r"temperature must be at least 0.*got -0.2",
        ),
        (lambda p: cl.LOL(named(p), 0.1, temperature=-0.1), r"temperature must be .*got -0.1"),
        (
            lambda p: cl.LOL(named(p), 0.1, overdamped_temperature=-0.2),
            r"temperature must be .*got -0.2",
        ),
        (lambda p: cl.AdLaLa(named(p), 0.1, coupling=-0.1), r"coupling must be .*got -0.1"),
        (lambda p: cl.AdLaLa(named(p), 0.1, temperature=-0.2), r"temperature must be .*got -0.2"),
        (
            lambda p: cl.AdLaLa(named(p), 0.1, langevin_temperature=-0.3),
            r"temperature must be .*got -0.3",
        ),
        (lambda p: cl.AdaptiveLangevin(p, 0.1, -0.5), r"coupling must be .*got -0.5"),
        (
            lambda p: cl.AdaptiveLangevin(named(p), 0.1, {"a": 0.1, "b": -0.5}),
            r"coupling must be .*got -0.5",
        ),
        (
            lambda p: cl.AdaptiveLangevin(p, 0.1, scheme="OBA", friction=math.inf),
            r"must be finite, got inf",
        ),
        (
            lambda p: cl.DHSGD(named(p), 0.1, heun=True),
            r"heun=True is for the contractive method, got contractive=False",
        ),
    ],
)
def test_bad_options_of_presets(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make([weight(2), weight(3)])


@pytest.mark.parametrize("name", ["temperature", "coupling", "driving_noise"])
def test_a_bad_option_in_the_middle_of_a_run(name: str) -> None:
    parameter = weight(3)
    optimizer = cl.AdaptiveLangevin([parameter], 0.1)
    walk(optimizer, [parameter], 2)
    optimizer.param_groups[0][name] = -0.1
    before = parameter.detach().clone()
    with pytest.raises(ValueError, match=rf"{name} must be at least 0.*got -0\.1"):
        walk(optimizer, [parameter], 1)
    assert torch.equal(parameter, before)


def test_heun_needs_a_closure() -> None:
    parameters = [weight(2), weight(3)]
    optimizer = cl.DHSGD(named(parameters), 0.1, contractive=True, heun=True)
    before = [p.detach().clone() for p in parameters]
    with pytest.raises(ValueError, match="closure must be given"):
        walk(optimizer, parameters, 1)
    for parameter, old in zip(parameters, before, strict=True):
        assert torch.equal(parameter, old)


# --- geometry -----------------------------------------------------------------------------

CONSTRAINTS: dict[str, tuple[cl.Constraint, tuple[int, ...], int]] = {
    "circle": (cl.Circle(radius=2.0), (6, 4), 24),
    "sphere": (cl.Sphere(radius=1.0, equality=True), (6, 4), 18),
    "max-norm": (cl.Sphere(radius=3.0), (6, 4), 24),
    "orthogonal": (cl.Orthogonal(), (6, 4), 14),
    "general": (cl.General(lambda w: w.square().sum().reshape(1) - 1.0), (6, 4), 23),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_feedback_counts_the_degrees_of_freedom(name: str) -> None:
    """At σ_A = 0 and ε small: one step changes ξ by hε(pᵀp − Nτ), with p read at E."""
    constraint, shape, freedom = CONSTRAINTS[name]
    parameter = weight(*shape)
    optimizer = cl.AdaptiveLangevin(
        [parameter], 0.1, coupling=0.3, driving_noise=0.0, temperature=0.7, constraint=constraint
    )
    parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # from rest and without force nothing moves
    friction = cl.friction_variable(optimizer)[0]
    assert friction == pytest.approx(-0.1 * 0.3 * freedom * 0.7, rel=1e-12)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_hold_and_the_temperature_is_near(name: str) -> None:
    constraint, shape, _ = CONSTRAINTS[name]
    scheme = "BAFEFAB" if name in ("circle", "orthogonal") else "BACDEDCAB"
    parameters = [weight(*shape, seed=i) for i in range(3)]
    optimizer = cl.AdaptiveLangevin(
        parameters,
        0.05,
        coupling=0.1,
        driving_noise=0.5,
        temperature=0.3,
        scheme=scheme,
        constraint=constraint,
        seed=0,
    )
    mean = 0.0
    for step in range(400):
        walk(optimizer, parameters, 1)
        if step >= 100 and step % 3 == 0:
            mean += float(cl.kinetic_temperature(optimizer)[0] or 0.0) / 100
    violation = optimizer.violation()[0]
    assert violation.residual < 1e-10 and violation.cotangency < 1e-8
    assert mean == pytest.approx(0.3, rel=0.25)


def test_buckets_of_one_group_share_a_friction() -> None:
    """Three shapes of orthogonal weights are three batches, and one ξ."""
    shapes = [(5, 3), (4, 4), (3, 6)]
    parameters = [weight(*shape, seed=i) for i, shape in enumerate(shapes)]
    optimizer = cl.AdaptiveLangevin(
        parameters, 0.1, 0.3, driving_noise=0.0, temperature=0.5, constraint=cl.Orthogonal()
    )
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    freedom = (15 - 6) + (16 - 10) + (18 - 6)
    friction = cl.friction_variable(optimizer)[0]
    assert friction == pytest.approx(-0.1 * 0.3 * freedom * 0.5, rel=1e-12)


def test_parameters_that_join_later_make_a_first_call_of_their_own() -> None:
    """A parameter without gradient stays, takes no part in N, and then starts from rest."""
    early, late = weight(4), weight(3, seed=1)
    together = cl.AdaptiveLangevin([early, late], 0.1, 0.3, 0.0, 0.5)
    early.grad = torch.zeros_like(early)
    together.step()
    assert int(together.state[late]["step"]) == 0
    assert not together.state[late]["momentum_buffer"].any()
    assert cl.friction_variable(together)[0] == pytest.approx(-0.1 * 0.3 * 4 * 0.5)
    alone = cl.AdaptiveLangevin([copy.deepcopy(late)], 0.1, 0.0, 0.0, 0.5)
    other = alone.param_groups[0]["params"][0]
    alone.state[other]["friction"].copy_(together.state[late]["friction"])
    together.param_groups[0]["coupling"] = 0.0
    for parameter in (early, late, other):
        parameter.grad = parameter.detach().clone()
    together.step()
    alone.step()
    assert torch.allclose(late, other, rtol=0, atol=1e-15)


# --- saving and failing -------------------------------------------------------------------


def pair_of(seed: int = 4) -> tuple[cl.AdLaLa, list[nn.Parameter]]:
    parameters = [weight(4, 2), weight(3, seed=1)]
    parts = {"first": parameters[:1], "last": parameters[1:]}
    settings = {"temperature": 0.1, "coupling": 0.2, "driving_noise": 0.3}
    return cl.AdLaLa(parts, 0.1, friction=1.0, seed=seed, **settings), parameters


def test_state_dict_round_trip_with_the_friction_variable() -> None:
    straight, expected = pair_of()
    walk(straight, expected, 30)
    first, parameters = pair_of()
    walk(first, parameters, 13)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second, others = pair_of(seed=99)
    for parameter, other in zip(parameters, others, strict=True):
        other.data.copy_(parameter.data)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert cl.friction_variable(second) == cl.friction_variable(first)
    walk(second, others, 17)
    for parameter, other in zip(expected, others, strict=True):
        assert torch.equal(parameter, other)
    assert cl.friction_variable(second) == cl.friction_variable(straight)


def test_a_saved_state_does_not_change_with_later_steps() -> None:
    optimizer, parameters = pair_of()
    walk(optimizer, parameters, 5)
    saved = float(optimizer.state_dict()["state"][0]["friction"])
    held = optimizer.state_dict()
    walk(optimizer, parameters, 5)
    assert float(held["state"][0]["friction"]) == saved
    assert cl.friction_variable(optimizer)[0] != saved


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_go_on_alike(duplicate: Any) -> None:
    optimizer, parameters = pair_of()
    walk(optimizer, parameters, 5)
    twin = duplicate(optimizer)
    assert isinstance(twin, cl.AdLaLa)
    others = [p for group in twin.param_groups for p in group["params"]]
    walk(optimizer, parameters, 5)
    walk(twin, others, 5)
    for parameter, other in zip(parameters, others, strict=True):
        assert torch.equal(parameter, other)


def test_a_failed_projection_leaves_everything_as_it_was() -> None:
    free, bound = weight(3), weight(4, seed=1)
    bound.data /= bound.data.norm()
    constraint = cl.General(lambda w: w.square().sum().reshape(1) - 1.0, max_iterations=10)
    groups: list[dict[str, Any]] = [
        {"params": [free], "thermostat": "adaptive"},
        {"params": [bound], "thermostat": "adaptive", "constraint": constraint},
    ]
    optimizer = cl.CoLA(groups, step_size=0.1, temperature=0.1, seed=0)
    walk(optimizer, [free, bound], 3)
    before = copy.deepcopy(optimizer.state_dict())
    positions = [p.detach().clone() for p in (free, bound)]
    free.grad, bound.grad = torch.ones_like(free), torch.full_like(bound, 1e6)
    with pytest.raises(cl.ConvergenceError, match="parameter 0 of shape"):
        optimizer.step()
    assert torch.equal(free, positions[0]) and torch.equal(bound, positions[1])
    after = optimizer.state_dict()
    for key, entry in before["state"].items():
        assert all(torch.equal(value, after["state"][key][name]) for name, value in entry.items())
    assert [g["seed"] for g in after["param_groups"]] == [g["seed"] for g in before["param_groups"]]


def test_hooks_run_once_a_step() -> None:
    parameter = weight(2)
    cl.CoLA([weight(2)], lr=0.1)
    optimizer = cl.SGLD([parameter], 0.1, 0.0, decay_power=1.0)
    calls: list[int] = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    walk(optimizer, [parameter], 3)
    assert len(calls) == 3


def test_decaying_steps_survive_saving_and_go_with_a_scheduler() -> None:
    parameter = weight(2)
    optimizer = cl.SGLD([parameter], 0.1, 0.0, decay_power=1.0, decay_steps=10)
    walk(optimizer, [parameter], 10)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    again = cl.SGLD([parameter], 0.1, 0.0)
    again.load_state_dict(optimizer.state_dict())
    walk(again, [parameter], 10)
    assert again.param_groups[0]["lr"] == pytest.approx(0.1 / 3)


def test_schedulers_reach_an_adaptive_group_and_zero_is_a_stop() -> None:
    optimizer, parameters = pair_of()
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 3))
    for _ in range(3):
        walk(optimizer, parameters, 1)
        scheduler.step()
    still = [p.detach().clone() for p in parameters]
    walk(optimizer, parameters, 2)
    for parameter, old in zip(parameters, still, strict=True):
        assert torch.equal(parameter, old)


def test_half_precision_is_carried_in_single() -> None:
    parameter = nn.Parameter(torch.randn(64).to(torch.bfloat16))
    optimizer = cl.AdaptiveLangevin([parameter], 0.1, temperature=0.1)

    def gradient() -> Tensor:
        return parameter.detach().clone()

    for _ in range(20):
        parameter.grad = gradient()
        optimizer.step()
    assert parameter.dtype == torch.bfloat16
    assert optimizer.state[parameter]["momentum_buffer"].dtype == torch.float32
    assert optimizer.state[parameter]["friction"].dtype == torch.float64


@pytest.mark.slow
def test_a_compiled_step_equals_the_eager_one() -> None:
    runs = []
    for compiled in (True, False):
        optimizer, parameters = pair_of()
        step: Any = optimizer.step
        if compiled:
            step = torch.compile(optimizer.step, backend="eager")
        for _ in range(4):
            for parameter in parameters:
                parameter.grad = parameter.detach() - 0.1
            step()
        runs.append(torch.cat([p.detach().reshape(-1) for p in parameters]))
    torch.testing.assert_close(*runs, rtol=0, atol=1e-13)
