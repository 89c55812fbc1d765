"""Multirate: what the algorithms of chapter 5 say, on several scales and on manifolds."""

import itertools

import pytest
import torch

import colangevin as cl
import reference_multirate as reference

STEP, MOMENTUM = 0.05, 0.9


def problem(parts=2, size=6, steps=1000):
    """A smooth non-convex loss that couples all parameters; the step chooses the batch."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(size * parts, size * parts, generator=generator, dtype=torch.float64)
    batches = torch.randn(steps, size * parts, generator=generator, dtype=torch.float64)
    start = torch.randn(size * parts, generator=generator, dtype=torch.float64)

    def loss(*arguments):
        *theta, step = arguments
        x = torch.cat(theta)
        return (matrix @ (x + 0.1 * batches[step])).cos().sum() / size + 0.05 * x.square().sum()

    return loss, start.split(size)


def run(optimizer, loss, parameters, steps, closure=False):
    """A plain loop; returns copies of the parameters after every step."""
    trajectory = []
    for step in range(steps):

        def evaluate(step=step):
            optimizer.zero_grad()
            value = loss(*parameters, step)
            value.backward()
            return value

        if closure:
            optimizer.step(evaluate)
        else:
            evaluate()
            optimizer.step()
        trajectory.append(tuple(p.detach().clone() for p in parameters))
    return trajectory


def leaves(start):
    return [torch.nn.Parameter(t.clone()) for t in start]


def assert_equal(ours, theirs, tolerance=1e-12):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("momentum", [0.0, MOMENTUM])
@pytest.mark.parametrize("period", [1, 2, 5])
def test_algorithm_5_1(period, momentum):
    loss, start = problem()
    slow, fast = leaves(start)
    optimizer = cl.Multirate.sgd([fast], [slow], lr=STEP, momentum=momentum, period=period)
    ours = run(optimizer, loss, [slow, fast], 500 // period * period)
    assert_equal(ours, reference.linear_drift(loss, *start, STEP, momentum, period, 500 // period))


@pytest.mark.parametrize("closure", [False, True])
@pytest.mark.parametrize("period", [2, 5])
def test_algorithm_5_2(period, closure):
    loss, start = problem()
    slow, fast = leaves(start)
    optimizer = cl.Multirate.sgd(
        [fast], [slow], lr=STEP, momentum=MOMENTUM, period=period, drift=False
    )
    ours = run(optimizer, loss, [slow, fast], 500, closure)
    # A plain loop has one gradient per step; the letter of the algorithm takes one more per cycle.
    algorithm = reference.no_drift if closure else reference.no_drift_shared
    assert_equal(ours, algorithm(loss, *start, STEP, MOMENTUM, period, 500 // period))


def test_algorithm_5_3_has_a_weight_decay_for_each_part():
    loss, start = problem()
    slow, fast = leaves(start)
    optimizer = cl.Multirate.sgd(
        [fast], [slow], lr=STEP, momentum=MOMENTUM, weight_decay=(0.1, 0.03), period=5
    )
    ours = run(optimizer, loss, [slow, fast], 500)
    theirs = reference.linear_drift(loss, *start, STEP, MOMENTUM, 5, 100, omega_s=0.03, omega_f=0.1)
    assert_equal(ours, theirs)


@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("closure", [False, True])
def test_period_1_is_sgd_to_the_last_bit(drift, closure):
    loss, start = problem()
    slow, fast = leaves(start)
    optimizer = cl.Multirate.sgd(
        [fast], [slow], lr=STEP, momentum=MOMENTUM, weight_decay=0.01, period=1, drift=drift
    )
    ours = run(optimizer, loss, [slow, fast], 50, closure)
    theirs = leaves(start)
    sgd = torch.optim.SGD(theirs, lr=STEP, momentum=MOMENTUM, weight_decay=0.01)
    assert_equal(ours, run(sgd, loss, theirs, 50), tolerance=0.0)


def sgd(parameter, lr):
    return torch.optim.SGD([parameter], lr=lr, momentum=MOMENTUM)


@pytest.mark.parametrize("inner", ["slow", "fast"])
def test_nesting_gives_three_scales(inner):
    loss, start = problem(parts=3, size=4)
    k1, k2 = 3, 2
    slowest, middle, fastest = leaves(start)
    parts = sgd(fastest, STEP / k1 / k2), sgd(middle, STEP / k1), sgd(slowest, STEP)
    if inner == "slow":
        optimizer = cl.Multirate(parts[0], cl.Multirate(parts[1], parts[2], k1), k2)
    else:
        optimizer = cl.Multirate(cl.Multirate(parts[0], parts[1], k2), parts[2], k1 * k2)
    ours = run(optimizer, loss, [slowest, middle, fastest], 480)
    assert_equal(ours, reference.three_scales(loss, start, STEP, MOMENTUM, (k1, k2), 80))


def test_nesting_without_drift_inside_moves_the_slowest_in_the_first_middle_step():
    loss, start = problem(parts=3, size=4)
    slowest, middle, fastest = leaves(start)
    inner = cl.Multirate(sgd(middle, 0.02), sgd(slowest, 0.06), 3, drift=False)
    optimizer = cl.Multirate(sgd(fastest, 0.01), inner, 2)
    positions = [start[0]] + [t[0] for t in run(optimizer, loss, [slowest, middle, fastest], 12)]
    moves = [b - a for a, b in itertools.pairwise(positions)]
    moving = [bool(m.any()) for m in moves]
    assert moving == [True, True, False, False, False, False] * 2
    torch.testing.assert_close(moves[0], moves[1])


def test_nesting_without_drift_outside_moves_the_slowest_in_steps():
    loss, start = problem(parts=3, size=4)
    slowest, middle, fastest = leaves(start)
    inner = cl.Multirate(sgd(middle, 0.02), sgd(slowest, 0.06), 3)
    optimizer = cl.Multirate(sgd(fastest, 0.01), inner, 2, drift=False)
    positions = [start[0]] + [t[0] for t in run(optimizer, loss, [slowest, middle, fastest], 12)]
    moves = [b - a for a, b in itertools.pairwise(positions)]
    assert [bool(m.any()) for m in moves] == [True, False] * 6
    torch.testing.assert_close(moves[0], moves[4])


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.02),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.02),
    "CoLA": lambda p: cl.CoLA(p, lr=0.02, momentum=0.9),
    "overdamped": lambda p: cl.CoLA(p, lr=0.02),
    "BAOAB": lambda p: cl.Langevin(p, 0.2, 1.0, 1e-3, seed=3),
    "adaptive": lambda p: cl.AdaptiveLangevin(p, 0.2, seed=3),
    "SGLD": lambda p: cl.SGLD(p, 0.05, temperature=0.0, decay_power=0.6, decay_steps=3.0),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_drift_ends_where_the_optimizer_would_have_gone_at_once(name):
    loss, start = problem()
    results = []
    for drift in (False, True):
        slow, fast = leaves(start)
        still = torch.optim.SGD([fast], lr=0.0)
        optimizer = cl.Multirate(still, OPTIMIZERS[name]([slow]), 4, drift)
        results.append([t[0] for t in run(optimizer, loss, [slow, fast], 40)])
    at_once, spread = results
    for cycle in range(10):
        torch.testing.assert_close(spread[4 * cycle + 3], at_once[4 * cycle])
    if name not in ("BAOAB", "adaptive"):  # their momentum changes half-way
        torch.testing.assert_close(spread[1] - spread[0], spread[3] - spread[2])


@pytest.mark.parametrize("weight_decay", [0.0, 0.02])
@pytest.mark.parametrize("momentum", [0.0, MOMENTUM])
def test_unconstrained_cola_drifts_as_sgd_does(momentum, weight_decay):
    loss, start = problem()
    trajectories = []
    for make in (torch.optim.SGD, cl.CoLA):
        slow, fast = leaves(start)
        base = make([slow], lr=STEP, momentum=momentum, weight_decay=weight_decay)
        optimizer = cl.Multirate(sgd(fast, 0.01), base, period=5)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)
        optimizer.register_step_post_hook(lambda *_, scheduler=scheduler: scheduler.step())
        trajectories.append(run(optimizer, loss, [slow, fast], 100))
    assert_equal(*trajectories)


CONSTRAINTS = {
    "orthogonal": cl.Orthogonal(),
    "circle": cl.Circle(radius=0.7),
    "sphere": cl.Sphere(radius=1.0, equality=True),
    "general": cl.General(lambda w: w.square().sum() - 2.0),
}


def manifold_run(constraint, steps, period=5, drift=True, dtype=torch.float32, **settings):
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(2)
    slow = torch.nn.Parameter(torch.randn(6, 4, generator=generator).to(dtype) / 2)
    fast = torch.nn.Parameter(torch.randn(4, generator=generator).to(dtype) / 4)
    inputs = torch.randn(steps, 6, generator=generator).to(dtype)
    cola = cl.CoLA([slow], constraint=constraint, **{"lr": 0.02, "momentum": 0.9, **settings})
    optimizer = cl.Multirate(torch.optim.SGD([fast], lr=0.01), cola, period, drift)
    worst, positions = 0.0, []
    for step in range(steps):
        optimizer.zero_grad()
        (inputs[step] @ slow @ fast - 1.0).square().backward()
        optimizer.step()
        worst = max(worst, cola.violation()[0].residual)
        positions.append(slow.detach().clone())
    return worst, positions


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("scheme", ["OBA", "BAOAB"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_constrained_slow_group_stays_on_its_manifold(name, scheme, momentum):
    settings = {"scheme": scheme, "momentum": momentum, "temperature": 1e-3}
    settings["dtype"] = torch.float64 if name == "general" else torch.float32
    worst, positions = manifold_run(CONSTRAINTS[name], 100, **settings)
    assert worst <= 1e-6
    assert all(bool((b - a).any()) for a, b in itertools.pairwise(positions))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_a_slow_orthogonal_group_stays_orthogonal(dtype, bound):
    worst, positions = manifold_run(CONSTRAINTS["orthogonal"], 10_000, dtype=dtype)
    assert worst <= bound
    assert not torch.equal(positions[-1], positions[-2])


@pytest.mark.parametrize("name", ["circle", "sphere"])
def test_the_drift_of_a_constrained_group_is_its_geodesic(name):
    """Where geodesics are exact, k stretches lead where one step leads."""
    settings = {"dtype": torch.float64, "momentum": 0.9}
    _, at_once = manifold_run(CONSTRAINTS[name], 4, 4, drift=False, **settings)
    _, spread = manifold_run(CONSTRAINTS[name], 4, 4, drift=True, **settings)
    torch.testing.assert_close(spread[3], at_once[0], rtol=1e-12, atol=1e-12)
    angles = [torch.asin(p / 0.7) for p in spread]
    if name == "circle":
        torch.testing.assert_close(angles[1] - angles[0], angles[3] - angles[2])


def test_stretches_of_an_orthogonal_step_approach_the_geodesic():
    """Q exp(tA) for a square Q and a tangent momentum QA: the error falls as 1/k²."""
    generator = torch.Generator().manual_seed(0)
    start = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64))[0]
    gradient = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    skew = (start.T @ gradient - gradient.T @ start) / 2
    exact = start @ torch.linalg.matrix_exp(-0.2 * skew)
    errors = []
    for period in (1, 2, 4, 8):
        slow, fast = torch.nn.Parameter(start.clone()), torch.nn.Parameter(torch.zeros(1))
        cola = cl.CoLA([slow], lr=0.2, momentum=0.9, constraint=cl.Orthogonal())
        optimizer = cl.Multirate(torch.optim.SGD([fast], lr=0.0), cola, period)
        for _ in range(period):
            optimizer.zero_grad()
            (slow * gradient).sum().backward() if slow.requires_grad else None
            optimizer.step()
        errors.append(float((slow.detach() - exact).abs().max()))
    assert all(later < earlier / 3.5 for earlier, later in itertools.pairwise(errors))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_arrives_in_spite_of_moves_that_rounding_swallows(dtype):
    slow = torch.nn.Parameter(torch.ones(3, dtype=dtype))
    fast = torch.nn.Parameter(torch.ones(1, dtype=dtype))
    eps = torch.finfo(dtype).eps
    update = torch.tensor([2 * eps, -eps, 7 * eps])
    optimizer = cl.Multirate(
        torch.optim.SGD([fast], lr=0.0), torch.optim.SGD([slow], lr=1.0), period=16
    )
    for _ in range(16):
        optimizer.zero_grad()
        (slow * -update.to(dtype)).sum().backward() if slow.requires_grad else None
        optimizer.step()
    torch.testing.assert_close(slow.detach().float(), 1.0 + update, rtol=0.0, atol=0.0)


def test_weights_that_are_changed_within_a_period_are_not_dragged_back():
    loss, start = problem()
    slow, fast = leaves(start)
    optimizer = cl.Multirate.sgd([fast], [slow], lr=STEP, period=5)
    run(optimizer, loss, [slow, fast], 2)
    with torch.no_grad():
        slow.zero_()
    run(optimizer, loss, [slow, fast], 3)
    assert slow.abs().max() < 0.1 < start[0].abs().max()
