"""capturable=True: a recording of a step, replayed, makes the steps that the optimizer would make.

There is no accelerator in these tests. What a CUDA graph does is done here on a CPU: one step is
recorded as a list of operations on memory, and then the operations alone are repeated, without the
Python code. What the Python code would have made of a count, an lr or a seed is frozen, so a step
that has numbers of this kind in it does not go on as it should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import colangevin as cl
from colangevin.torch_compat import STEPS_CAN_BE_COMPILED

WAITS = ("aten._local_scalar_dense", "aten.equal", "aten.nonzero", "aten.is_nonzero")
GEOMETRIES: dict[str, cl.Constraint | None] = {
    "free": None,
    "masses": cl.Massive(torch.tensor([[1.0], [2.0], [3.0], [1.5], [1.0], [2.0]])),
    "circle": cl.Circle(1.0),
    "box": cl.Box(-1.0, 1.0),
    "rows at most 1": cl.Sphere(1.0),
    "rows of norm 1": cl.Sphere(1.0, equality=True),
    "norm of the matrix": cl.Sphere("initial", equality=True, dim=None),
    "orthogonal": cl.Orthogonal(),
    "diagonal Gram matrix": cl.DiagonalGram(),
    "simplex": cl.Simplex(),
}
WAYS: dict[str, dict[str, Any]] = {
    "gradient": {},
    "momentum": {"momentum": 0.9, "weight_decay": 0.1},
    "momentum and noise": {"momentum": 0.9, "temperature": 1e-3},
    "overdamped noise": {"temperature": 1e-3},
    "BAOAB": {"momentum": 0.9, "temperature": 1e-3, "scheme": "BAOAB"},
    "sign": {"direction": "sign", "decoupled_weight_decay": 0.1},
    "adam": {"direction": "adam"},
    "relative adam": {"direction": cl.Adam(relative=True), "decoupled_weight_decay": 0.1},
    "polar": {"direction": "polar"},
}
REFUSED = {("orthogonal", "polar"), *(("simplex", way) for way in WAYS if "noise" in way)} | {
    ("simplex", "BAOAB")
}
PAIRS = [(g, w) for g in GEOMETRIES for w in WAYS if (g, w) not in REFUSED]


class Tape(TorchDispatchMode):
    """Records operations on memory, and makes them again."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[Any, Any, Any, list[Tensor]]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        assert not str(function).startswith(WAITS), f"{function} reads a number"
        made = function(*args, **(kwargs or {}))
        places = {t.data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        new = [t for t in tree_leaves(made) if isinstance(t, Tensor)]
        own = [t for t in new if t.data_ptr() not in places]
        self.kept.append((function, args, kwargs or {}, own if len(own) == len(new) else []))
        return made

    @torch.no_grad()
    def replay(self) -> None:
        """Make the operations again; what they make comes to where it came the first time."""
        for function, args, kwargs, targets in self.kept:
            made = function(*args, **kwargs)
            for target, value in zip(targets, tree_leaves(made), strict=False):
                target.copy_(value)


class Training:
    """Three weights with gradients that stay in their memory, and an lr that changes."""

    def __init__(self, geometry: str, way: str, captured: bool, dtype: Any = torch.float32) -> None:
        draw = torch.Generator().manual_seed(0)
        shapes = [(6, 4), (6, 4), (6, 3)]
        self.weights = [nn.Parameter(torch.randn(s, generator=draw).to(dtype)) for s in shapes]
        lr: Any = torch.tensor(0.01, dtype=torch.float64) if captured else 0.01
        options = {**WAYS[way], "constraint": GEOMETRIES[geometry], "seed": 3}
        options |= {"capturable": True} if captured else {"fused": False}
        self.optimizer = cl.CoLA(self.weights, lr=lr, **options)
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight)
        self.count = 0

    def step(self, make: Callable[[], Any] | None = None) -> None:
        """A step with other gradients and another lr."""
        draw = torch.Generator().manual_seed(self.count)
        for weight in self.weights:
            assert weight.grad is not None
            weight.grad.copy_(torch.randn(weight.shape, generator=draw))
        lr = 0.01 * 0.8**self.count
        group = self.optimizer.param_groups[0]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr
        self.count += 1
        (make or self.optimizer.step)()


def replayed(training: Training) -> Tape:
    """A recording of one step, after two that were not recorded."""
    training.step(), training.step()
    tape = Tape()

    def record() -> None:
        with tape:
            training.optimizer.step()

    training.step(record)
    return tape


@pytest.mark.parametrize(("geometry", "way"), PAIRS)
def test_a_replayed_step_goes_on_as_the_optimizer_would(geometry: str, way: str) -> None:
    captured, plain = Training(geometry, way, True), Training(geometry, way, False)
    tape = replayed(captured)
    for _ in range(3):
        captured.step(tape.replay)
    captured.step()  # and the optimizer goes on from there
    for _ in range(7):
        plain.step()
    for one, other in zip(captured.weights, plain.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6)
    states = captured.optimizer.state, plain.optimizer.state
    for one, other in zip(captured.weights, plain.weights, strict=True):
        assert int(states[0][one]["step"]) == int(states[1][other]["step"]) == 7
    for violation in captured.optimizer.violation():
        assert violation.residual < 2e-6


@pytest.mark.parametrize("way", ["gradient", "momentum and noise", "adam"])
def test_a_step_that_is_not_capturable_does_not(way: str) -> None:
    """Its lr, its noise and its corrections of means are frozen: the test above can fail."""
    recorded, plain = Training("free", way, False), Training("free", way, False)
    tape = replayed(recorded)
    for _ in range(3):
        recorded.step(tape.replay)
    for _ in range(6):
        plain.step()
    gaps = [
        (a - b).detach().abs().max() for a, b in zip(recorded.weights, plain.weights, strict=True)
    ]
    assert max(map(float, gaps)) > 1e-3


@pytest.mark.parametrize("way", ["momentum and noise", "adam"])
def test_half_precision_rounded_at_random(way: str) -> None:
    """The chances of the rounding come from the counts, too."""

    def run(captured: bool) -> list[Tensor]:
        training = Training("free", way, captured, torch.bfloat16)
        training.optimizer.param_groups[0]["rounding"] = "stochastic"
        tape = replayed(training) if captured else None
        while training.count < 6:
            training.step(None if tape is None else tape.replay)
        return [weight.detach().float() for weight in training.weights]

    for one, other in zip(run(True), run(False), strict=True):
        same = (one == other).double().mean()  # rounding may differ where a chance is on the edge
        assert float(same) > 0.95
        torch.testing.assert_close(one, other, rtol=0.02, atol=1e-3)


def test_a_weight_whose_projection_fails_stays_where_it_is() -> None:
    training = Training("orthogonal", "momentum", True)
    training.step()
    before = [weight.detach().clone() for weight in training.weights]
    training.optimizer.param_groups[0]["lr"].fill_(1e4)
    for weight in training.weights:
        assert weight.grad is not None
        weight.grad.normal_(generator=torch.Generator().manual_seed(5))
    training.optimizer.step()
    for weight, own in zip(training.weights, before, strict=True):
        torch.testing.assert_close(weight.detach(), own)
        assert not training.optimizer.state[weight]["momentum_buffer"].any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"capturable": 1}, "capturable must be True or False, got 1"),
        ({"capturable": True, "strict": True}, "capturable=True with strict=True"),
        ({"capturable": True, "fused": True}, "capturable=True with fused=True"),
        ({"constraint": cl.Spectral(1.0)}, "a step with Spectral"),
        ({"constraint": cl.Circle("inflection")}, "a step with Circle"),
        ({"constraint": cl.Simplex(), "temperature": 1.0}, "a step with Simplex.*temperature=1.0"),
        ({"constraint": cl.General(lambda w: w.sum() - 1.0)}, "a step with General"),
        ({"constraint": cl.Orthogonal(), "direction": "polar"}, "direction 'polar' under Orthog"),
        ({"thermostat": "adaptive"}, "thermostat='adaptive'"),
    ],
)
def test_what_waits_for_numbers_is_refused(options: dict[str, Any], words: str) -> None:
    weight = nn.Parameter(torch.randn(4, 3))
    before = weight.detach().clone()
    with pytest.raises((TypeError, ValueError), match=words):
        cl.CoLA([weight], lr=0.1, **{"capturable": True, **options})
    assert torch.equal(weight.detach(), before)


def test_an_ensemble_refuses_what_it_would_not_do() -> None:
    def method(model: nn.Module) -> cl.CoLA:
        return cl.CoLA(model.parameters(), lr=0.1, capturable=True)

    with pytest.raises(ValueError, match="capturable=True has no effect in an ensemble"):
        cl.Ensemble(lambda seed: nn.Linear(2, 2), [1, 2], method=method)


def test_stretches_of_multirate_are_those_of_other_optimizers() -> None:
    captured, plain = (Training("rows of norm 1", "momentum and noise", c) for c in (True, False))
    for training in (captured, plain):
        fast = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        multirate = cl.Multirate(fast, training.optimizer, period=3)
        for _ in range(6):
            training.step(multirate.step)
    for one, other in zip(captured.weights, plain.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_an_lr_in_a_tensor_needs_a_momentum_that_is_a_number() -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = cl.CoLA([weight], step_size=0.1, friction=1.0, capturable=True)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.01)
    weight.grad = torch.ones(3)
    with pytest.raises(ValueError, match=r"lr is a tensor in a group with friction=1\.0"):
        optimizer.step()


def test_an_lr_of_0_moves_nothing() -> None:
    for geometry in GEOMETRIES:
        training = Training(geometry, "momentum", True)
        training.step()
        training.optimizer.param_groups[0]["lr"].fill_(0.0)
        before = [weight.detach().clone() for weight in training.weights]
        training.optimizer.step()
        for weight, own in zip(training.weights, before, strict=True):
            torch.testing.assert_close(weight.detach(), own)


@pytest.mark.parametrize("way", ["momentum and noise", "adam"])
def test_state_goes_to_an_optimizer_without_graphs_and_back(way: str) -> None:
    """A state dict has the same entries, wherever the counts lie."""
    captured, plain = Training("circle", way, True), Training("circle", way, False)
    captured.step(), captured.step()
    plain.optimizer.load_state_dict(captured.optimizer.state_dict())
    with torch.no_grad():
        for one, other in zip(plain.weights, captured.weights, strict=True):
            one.copy_(other)
    plain.count = 2
    plain.step(), captured.step()
    for one, other in zip(plain.weights, captured.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
    captured.optimizer.load_state_dict(plain.optimizer.state_dict())
    captured.step(), plain.step()
    for one, other in zip(plain.weights, captured.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


# --- torch.compile ----------------------------------------------------------------------------

COMPILED = [
    ("circle", "momentum and noise"),
    pytest.param("free", "adam", marks=pytest.mark.slow),
    pytest.param("norm of the matrix", "polar", marks=pytest.mark.slow),
    pytest.param("orthogonal", "overdamped noise", marks=pytest.mark.slow),
]


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.skipif(not STEPS_CAN_BE_COMPILED, reason="this torch leaves steps alone")
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")  # of the compiler, on functions with a cache
@pytest.mark.parametrize(("geometry", "way"), COMPILED)
def test_a_compiled_step_is_one_graph(geometry: str, way: str) -> None:
    compiled, plain = Training(geometry, way, True), Training(geometry, way, True)
    compiled.step()  # the first one makes plans
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return aot_eager(graph, inputs)

    aot_eager = torch._dynamo.lookup_backend("aot_eager")
    step = torch.compile(compiled.optimizer.step, backend=backend, fullgraph=True)
    compiled.step(step)
    made = len(graphs)  # the compiler may try twice
    compiled.step(step), compiled.step(step)
    compiled.step()  # and again without the compiler
    for _ in range(5):
        plain.step()
    assert len(graphs) == made > 0  # another lr is no other graph
    for one, other in zip(compiled.weights, plain.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
        assert int(compiled.optimizer.state[one]["step"]) == 5


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"direction": "adam"},
        pytest.param(WAYS["momentum and noise"], marks=pytest.mark.slow),
    ],
)
def test_a_compiled_training_step(options: dict[str, Any]) -> None:
    """Loss, backward pass and step: the compiler breaks at the backward pass, as it does always."""

    def run(compiled: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
        rules = {"0.weight": cl.Orthogonal(), "2.weight": cl.Sphere(0.8, equality=True)}
        groups = cl.parameter_groups(model, rules)
        lr = torch.tensor(0.01)
        optimizer = cl.CoLA(groups, lr=lr, capturable=True, seed=1, **options)

        def train_step(inputs: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = torch.compile(train_step, backend="aot_eager") if compiled else train_step
        draw = torch.Generator().manual_seed(0)
        for number in range(5):
            lr.fill_(0.01 * 0.8**number)
            step(torch.randn(6, 4, generator=draw))
        return [parameter.detach() for parameter in model.parameters()]

    for one, other in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize("change", ["momentum", "weight without gradient", "loaded state"])
def test_compiled_steps_notice_what_has_changed(change: str) -> None:
    compiled, plain = Training("circle", "momentum", True), Training("circle", "momentum", True)
    step = torch.compile(compiled.optimizer.step, backend="aot_eager")

    def changed(training: Training) -> None:
        if change == "momentum":
            training.optimizer.param_groups[0]["momentum"] = 0.5
        elif change == "weight without gradient":
            training.weights[0].grad = None
        else:
            training.optimizer.load_state_dict(training.optimizer.state_dict())

    for _ in range(2):
        compiled.step(step), plain.step()
    kept = [weight.grad for weight in compiled.weights]
    for training, own in ((compiled, step), (plain, None)):
        changed(training)
        for weight in training.weights[1:]:
            assert weight.grad is not None
            weight.grad.fill_(0.5)
        (own or training.optimizer.step)()
    compiled.weights[0].grad = kept[0]
    plain.weights[0].grad = torch.zeros_like(plain.weights[0])
    for training, own in ((compiled, step), (plain, None)):
        training.step(own)
    for one, other in zip(compiled.weights, plain.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
