"""Directions: equal to the known optimizers on free weights, and on the manifold everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
import reference_directions as literal
from colangevin.optimizers.directions.polar import tangent_polar
from optimizer_cases import backward, network
from registry import DIRECTIONS

every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
WEIGHTS = ("0.weight", "2.weight")
LONG = ((16, 4), (3, 12), (8, 4), (32, 2))
"""Matrices that polar iterates on their Gram matrices."""
SHAPES = ((6, 4), (4, 6), (6, 4), (5, 5))


def matrices(model: nn.Module) -> list[nn.Parameter]:
    return [model.get_parameter(name) for name in WEIGHTS]


def weights(shapes: Sequence[tuple[int, ...]] = SHAPES, seed: int = 0) -> list[nn.Parameter]:
    draw = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=draw)) for shape in shapes]


def follow(
    optimizer: torch.optim.Optimizer, own: Sequence[Tensor], steps: int = 200, lr: float = 0.01
) -> None:
    """Steps with noisy gradients of |w|²/2, and another lr in each."""
    draw = torch.Generator().manual_seed(7)
    for step in range(steps):
        for weight in own:
            weight.grad = weight.detach() + torch.randn(weight.shape, generator=draw)
        for group in optimizer.param_groups:
            group["lr"] = lr * (1.0 + math.cos(math.pi * step / steps))
        optimizer.step()


def assert_equal_paths(
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    cola: dict[str, Any],
    shapes: Sequence[tuple[int, ...]] = SHAPES,
    tolerance: float = 2e-5,
) -> None:
    expected = weights(shapes)
    follow(make(expected), expected)
    for fused in (None, False):
        found = weights(shapes)
        follow(cl.CoLA(found, lr=0.01, fused=fused, **cola), found)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("constraint", [None, cl.Sphere(1e3, True, None), cl.Orthogonal()])
@pytest.mark.parametrize("direction", [d for d in DIRECTIONS if "relative" in d])
def test_a_relative_update_of_0_moves_nothing(
    direction: str, constraint: cl.Constraint | None
) -> None:
    """A weight behind a layer that starts at 0 has no gradient in the first step."""
    weight = nn.Parameter(1e3 * torch.eye(6, 4))
    optimizer = cl.CoLA(
        [weight], lr=0.1, constraint=constraint, direction=DIRECTIONS[direction](), fused=False
    )
    before = weight.detach().clone()
    weight.grad = torch.zeros(6, 4)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), before)


class TestEqualToTheKnownOnes:
    def test_adamw(self) -> None:
        settings: dict[str, Any] = {"betas": (0.8, 0.99), "eps": 1e-6}
        assert_equal_paths(
            lambda own: torch.optim.AdamW(own, lr=0.01, weight_decay=0.3, **settings),
            {"direction": cl.Adam(**settings), "decoupled_weight_decay": 0.3},
            (*SHAPES, (7,), ()),
        )

    def test_adam_with_its_own_weight_decay(self) -> None:
        assert_equal_paths(
            lambda own: torch.optim.Adam(own, lr=0.01, weight_decay=0.3),
            {"direction": "adam", "weight_decay": 0.3},
        )

    def test_muon_with_products_in_float32(self) -> None:
        assert_equal_paths(
            lambda own: literal.Muon(own, 0.01, 0.1, "original"),
            {"direction": "polar", "decoupled_weight_decay": 0.1},
            (*SHAPES, *LONG),
        )
        assert_equal_paths(
            lambda own: literal.Muon(own, 0.01, 0.0, "match_rms_adamw"),
            {"direction": cl.Polar(adjust="match_rms_adamw")},
        )

    def test_the_twin_of_muon_is_torchs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        muon = getattr(torch.optim, "Muon", None)
        if muon is None:
            pytest.skip("this torch has no Muon")
        # Its products are in bfloat16, which some processors have no instructions for.
        monkeypatch.setattr(Tensor, "bfloat16", lambda own: own.clone())
        expected, found = weights(), weights()
        follow(muon(expected, lr=0.01, weight_decay=0.1), expected)
        follow(literal.Muon(found, 0.01, 0.1, "original"), found)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=1e-5)

    def test_lion(self) -> None:
        assert_equal_paths(
            lambda own: literal.Lion(own, 0.01, (0.9, 0.99), 0.2),
            {"direction": "sign", "decoupled_weight_decay": 0.2},
        )

    def test_the_twin_of_lion_is_the_package(self) -> None:
        package = pytest.importorskip("lion_pytorch")
        expected, found = weights(), weights()
        follow(package.Lion(expected, lr=0.01, betas=(0.9, 0.99), weight_decay=0.2), expected)
        follow(literal.Lion(found, 0.01, (0.9, 0.99), 0.2), found)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=1e-5)

    def test_rows_of_unit_norm_along_adam_are_normalised_after_each_step(self) -> None:
        constraint = cl.Sphere(1.0, equality=True)
        assert_equal_paths(
            lambda own: literal.NormalisedAdam(own, 0.01, relative=False),
            {"direction": "adam", "constraint": constraint},
        )
        assert_equal_paths(
            lambda own: literal.NormalisedAdam(own, 0.01, relative=True),
            {"direction": cl.Adam(relative=True), "constraint": constraint},
        )

    @pytest.mark.parametrize("kind", ["adam", "polar"])
    def test_hyperball(self, kind: str) -> None:
        direction = cl.Adam(relative=True) if kind == "adam" else cl.Polar(relative=True)
        constraint = cl.Sphere("initial", equality=True, dim=None)
        assert_equal_paths(
            lambda own: literal.Hyperball(own, 0.01, kind),
            {"direction": direction, "constraint": constraint},
        )

    @pytest.mark.parametrize("relative", [False, True])
    def test_tangent_updates_of_rows_are_those_of_oblique_adam(self, relative: bool) -> None:
        assert_equal_paths(
            lambda own: literal.NormalisedAdam(own, 0.01, relative, tangent=True),
            {
                "direction": cl.Adam(relative=relative, tangent=True),
                "constraint": cl.Sphere(1.0, equality=True),
            },
        )

    def test_hyperspherical_descent(self) -> None:
        assert_equal_paths(
            lambda own: literal.HypersphericalDescent(own, 0.01),
            {
                "direction": cl.Gradient(relative=True, tangent=True),
                "constraint": cl.Sphere(1.0, equality=True, dim=None),
            },
        )

    def test_a_kernel_of_a_convolution_is_a_matrix(self) -> None:
        (kernel,), (matrix,) = weights([(6, 2, 1, 2)]), weights([(6, 4)])
        follow(cl.CoLA([kernel], lr=0.01, direction="polar"), [kernel], 5)
        follow(cl.CoLA([matrix], lr=0.01, direction="polar"), [matrix], 5)
        torch.testing.assert_close(kernel.flatten(1), matrix)

    @pytest.mark.parametrize("polar", [cl.Polar(blocks=3), cl.Polar(batch_dims=1)])
    def test_blocks_and_stacks_are_matrices_of_their_own(self, polar: cl.Polar) -> None:
        shape = (6, 4) if polar.blocks else (3, 2, 4)
        (whole,) = weights([shape])
        parts = [nn.Parameter(part.clone()) for part in whole.detach().reshape(3, 2, 4)]
        follow(cl.CoLA([whole], lr=0.01, direction=polar), [whole], 5)
        draw = torch.Generator().manual_seed(7)
        optimizer = cl.CoLA(parts, lr=0.01, direction="polar")
        for step in range(5):
            slope = torch.cat([p.detach() for p in parts]).view(shape)
            slope = (slope + torch.randn(shape, generator=draw)).reshape(3, 2, 4)
            for part, own in zip(parts, slope, strict=True):
                part.grad = own.clone()
            optimizer.param_groups[0]["lr"] = 0.01 * (1.0 + math.cos(math.pi * step / 5))
            optimizer.step()
        torch.testing.assert_close(torch.stack(list(parts)), whole.view(3, 2, 4))


class TestTheTangentPolarFactor:
    @pytest.mark.parametrize("shape", [(40, 4), (128, 16), (12, 12)])
    def test_it_is_the_best_tangent_vector_of_norm_one(self, shape: tuple[int, int]) -> None:
        torch.manual_seed(0)
        weight = torch.linalg.qr(torch.randn(2, *shape, dtype=torch.float64))[0]
        slope = torch.randn_like(weight)
        found = tangent_polar(weight, slope, rounds=200)
        tangency = weight.mT @ found + found.mT @ weight
        assert float(tangency.abs().max()) < 1e-10
        sizes = torch.linalg.svdvals(found)
        assert float(sizes.max()) < 1.0 + 1e-9 and float(sizes.mean()) > 0.99
        # The gain of no other tangent vector of norm 1 is larger.
        gain = (found * slope).sum(dim=(1, 2))
        for _ in range(50):
            other = torch.randn_like(weight)
            other = other - weight @ (weight.mT @ other + other.mT @ weight) / 2
            other = found + 0.1 * other
            other = other - weight @ (weight.mT @ other + other.mT @ weight) / 2
            other = other / torch.linalg.matrix_norm(other, 2)[:, None, None]
            assert bool(((other * slope).sum(dim=(1, 2)) <= gain * (1.0 + 1e-3)).all())

    def test_it_gains_as_much_as_dual_ascent(self) -> None:
        torch.manual_seed(1)
        weight = torch.linalg.qr(torch.randn(64, 10, dtype=torch.float64))[0]
        slope = torch.randn_like(weight)
        expected = literal.manifold_muon(weight, slope / slope.norm(), 400)
        found = tangent_polar(weight[None], slope[None])[0]
        assert float((weight.T @ found + found.T @ weight).abs().max()) < 1e-12
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)

    @pytest.mark.parametrize("shape", [(6, 4), (7, 7), (5, 4), (3, 3)])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_where_there_is_no_slope_there_is_no_move(
        self, shape: tuple[int, int], dtype: torch.dtype
    ) -> None:
        """A skew matrix of odd size is singular, and few rows leave little room."""
        for seed in range(20):
            torch.manual_seed(seed)
            weight = torch.linalg.qr(torch.randn(1, *shape, dtype=dtype))[0]
            slope = torch.randn_like(weight)
            found = tangent_polar(weight, slope)
            nearby = tangent_polar(weight, slope * (1.0 + torch.finfo(dtype).eps))
            assert float(torch.linalg.matrix_norm(found, 2)) < 1.2
            limit = 1e5 * torch.finfo(dtype).eps
            torch.testing.assert_close(found, nearby, rtol=0, atol=limit)
        same = tangent_polar(weight, weight.clone())  # all of it is normal
        assert float(same.norm()) < 1.2 * shape[1] ** 0.5

    def test_float32_is_tangent_to_rounding(self) -> None:
        torch.manual_seed(0)
        weight = torch.linalg.qr(torch.randn(3, 64, 48))[0]
        found = tangent_polar(weight, torch.randn_like(weight))
        assert float((weight.mT @ found + found.mT @ weight).abs().max()) < 2e-6


class TestWithOtherOptions:
    """Under every geometry: ``laws/test_every_direction.py``."""

    @every_direction
    def test_slow_groups_of_multirate_use_a_gradient_once(self, direction: str) -> None:
        whole, parts = network(), network()
        one = cl.CoLA(matrices(whole), lr=0.01, direction=DIRECTIONS[direction]())
        slow = cl.CoLA(matrices(parts), lr=0.01, direction=DIRECTIONS[direction]())
        fast = torch.optim.SGD(parts[4].parameters(), lr=0.0)
        multirate = cl.Multirate(fast, slow, period=4)
        backward(whole, 0)
        one.step()
        for _ in range(4):
            backward(parts, 0)
            multirate.step()
        for name in WEIGHTS:
            expected, found = whole.get_parameter(name), parts.get_parameter(name)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)

    @every_direction
    def test_half_precision_has_float32_memory(self, direction: str) -> None:
        (weight,) = weights([(6, 4)])
        half = nn.Parameter(weight.detach().bfloat16())
        full = nn.Parameter(half.detach().float())
        for own in (half, full):
            optimizer = cl.CoLA([own], lr=1e-4, direction=DIRECTIONS[direction]())
            for step in range(20):
                draw = torch.Generator().manual_seed(step)
                own.grad = torch.randn(6, 4, generator=draw).bfloat16().to(own.dtype)
                optimizer.step()
        kept = {k: v.dtype for k, v in cl.CoLA([half], lr=1.0).state[half].items()}
        assert kept["master"] is torch.float32
        torch.testing.assert_close(half.detach(), full.detach().bfloat16(), rtol=0.02, atol=0.02)


class TestChanges:
    def test_another_direction_starts_afresh(self) -> None:
        (weight,) = weights([(6, 4)])
        optimizer = cl.CoLA([weight], lr=0.01, direction="sign")
        follow(optimizer, [weight], 5)
        optimizer.param_groups[0]["direction"] = cl.Adam()
        (other,) = weights([(6, 4)])
        other.data.copy_(weight.data)
        follow(optimizer, [weight], 5)
        assert sorted(k for k in optimizer.state[weight] if k.startswith("direction_")) == [
            "direction_mean",
            "direction_since",
            "direction_square",
        ]
        follow(cl.CoLA([other], lr=0.01, direction="adam"), [other], 5)
        torch.testing.assert_close(weight, other)

    def test_a_gradient_again_lets_go_of_the_memory(self) -> None:
        (weight,) = weights([(6, 4)])
        optimizer = cl.CoLA([weight], lr=0.01, direction="adam")
        follow(optimizer, [weight], 2)
        optimizer.param_groups[0]["direction"] = cl.Gradient()
        follow(optimizer, [weight], 2)
        assert not [k for k in optimizer.state[weight] if k.startswith("direction_")]


class Broken(cl.Direction):
    """One that breaks off after some steps."""

    keeps = ("sum",)

    def __init__(self, how: str) -> None:
        self.how = how

    def update(
        self, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
    ) -> Tensor:
        memory["sum"].add_(gradient)
        if step < 3:
            return memory["sum"]
        if self.how == "raises":
            raise ValueError("direction made an update that it does not like")
        kinds = {"shape": gradient[:1], "nan": gradient * math.nan, "none": None}
        return kinds[self.how]  # type: ignore[return-value]


WORDS = {
    "shape": r"of shape \(1, 2\) .* of shape \(3, 2\)",
    "nan": "is not finite",
    "none": "of shape NoneType",
    "raises": "does not like",
}
"""What is said of a direction that breaks."""


class TestBadInput:
    @pytest.mark.parametrize("how", list(WORDS))
    def test_a_direction_that_breaks_changes_nothing(self, how: str) -> None:
        weight, bias = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(2))
        groups = [{"params": [bias]}, {"params": [weight], "direction": Broken(how)}]
        optimizer = cl.CoLA(groups, lr=0.1)
        follow(optimizer, [bias, weight], 2)
        weights_before = [weight.detach().clone(), bias.detach().clone()]
        kept = optimizer.state_dict()
        with pytest.raises(ValueError, match=f"direction made an update .*{WORDS[how]}"):
            follow(optimizer, [bias, weight], 1)
        assert torch.equal(weight, weights_before[0]) and torch.equal(bias, weights_before[1])
        now = optimizer.state_dict()["state"]
        for key, entry in kept["state"].items():
            assert all(torch.equal(value, now[key][name]) for name, value in entry.items())

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"direction": "adamw"}, "direction must be one of .*'adam'.* got 'adamw'"),
            ({"direction": 3}, "direction must be one of .* got 3"),
            ({"direction": "adam", "temperature": 0.1}, r"temperature=0.1 with direction Adam"),
            (
                {"direction": "adam", "thermostat": "adaptive"},
                "thermostat='adaptive' with direction Adam",
            ),
            (
                {"momentum": 0.9, "decoupled_weight_decay": 0.1},
                "decoupled_weight_decay=0.1 needs momentum=0",
            ),
            ({"decoupled_weight_decay": -1.0}, "decoupled_weight_decay must be at least 0"),
            (
                {"direction": cl.Adam(tangent=True), "constraint": cl.Sphere(2.0)},
                r"tangent=True of direction Adam\(.* needs free weights or an equality .* Sphere",
            ),
            (
                {"direction": cl.Sign(tangent=True), "constraint": cl.Circle(2.0)},
                r"tangent=True of direction Sign\(.* got Circle\(radius=2.0\) for parameter 0",
            ),
            ({"direction": "polar"}, r"direction 'polar' needs matrices, got .* shape \(2,\)"),
        ],
    )
    def test_it_is_named(self, options: dict[str, Any], words: str) -> None:
        bias = nn.Parameter(torch.ones(2))
        with pytest.raises((ValueError, TypeError), match=words):
            cl.CoLA([bias], lr=0.1, **options)
        assert torch.equal(bias, torch.ones(2))

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: cl.Adam(betas=(0.9, 1.0)), "betas must be two numbers"),
            (lambda: cl.Adam(betas=0.9), "betas must be two numbers"),  # type: ignore[arg-type]
            (lambda: cl.Adam(eps=-1.0), "eps must be at least 0"),
            (lambda: cl.Sign(betas=(-0.1, 0.5)), "betas must be two numbers"),
            (lambda: cl.Sign(betas=(0.1, 0.2, 0.3)), "betas must be two numbers"),  # type: ignore[arg-type]
            (lambda: cl.Sign(betas="ab"), "betas must be two numbers"),  # type: ignore[arg-type]
            (lambda: cl.Adam(betas=(math.nan, 0.5)), "betas must be"),
            (lambda: cl.Adam(eps=math.inf), "eps must be"),
            (lambda: cl.Adam(relative="yes"), "relative must be True or False, got 'yes'"),  # type: ignore[arg-type]
            (lambda: cl.Sign(tangent=1), "tangent must be True or False, got 1"),  # type: ignore[arg-type]
            (lambda: cl.Gradient(relative=None), "relative must be True or False, got None"),  # type: ignore[arg-type]
            (lambda: cl.Polar(nesterov=2), "nesterov must be True or False, got 2"),  # type: ignore[arg-type]
            (lambda: cl.Polar(batch_dims=-1), "batch_dims must be"),
            (lambda: cl.Polar(blocks=0), "blocks must be"),
            (lambda: cl.Polar(momentum=1.0), "momentum must be at least 0 and below 1"),
            (lambda: cl.Polar(steps=0), "steps must be"),
            (lambda: cl.Polar(adjust="mine"), "adjust must be one of"),
        ],
    )
    def test_numbers_of_directions_are_checked(
        self, make: Callable[[], object], words: str
    ) -> None:
        with pytest.raises((ValueError, TypeError), match=words):
            make()

    def test_a_temperature_that_is_written_later_is_refused(self) -> None:
        (weight,) = weights([(6, 4)])
        optimizer = cl.CoLA([weight], lr=0.01, direction="adam")
        follow(optimizer, [weight], 2)
        optimizer.param_groups[0]["temperature"] = 1e-3
        before = weight.detach().clone()
        with pytest.raises(ValueError, match=r"temperature=0\.001 with direction"):
            follow(optimizer, [weight], 1)
        assert torch.equal(weight, before)

    def test_a_state_of_another_direction_is_refused(self) -> None:
        (weight,) = weights([(6, 4)])
        optimizer = cl.CoLA([weight], lr=0.01, direction="adam")
        follow(optimizer, [weight], 1)
        other = cl.CoLA(weights([(6, 4)]), lr=0.01, direction="sign")
        with pytest.raises(ValueError, match=r"direction .*Adam.* optimizer has .*Sign"):
            other.load_state_dict(optimizer.state_dict())

    def test_an_ensemble_keeps_its_direction(self) -> None:
        ensemble = cl.Ensemble(network, [1, 2], lr=0.01, direction="adam")
        with pytest.raises(ValueError, match="chosen when the ensemble is made"):
            ensemble.set(direction="sign")


BLOCKS = ((3, 5), (40, 70), (7, 1500), (9,))
"""Less than a block of the kernels, a few, and rows that are longer than one."""


def walked(
    constraint: cl.Constraint, direction: str, dtype: torch.dtype, fused: bool, **options: Any
) -> tuple[list[Tensor], list[dict[str, Any]]]:
    """Weights and state after steps with gradients of which some are turned."""
    draw = torch.Generator().manual_seed(1)
    shapes = [shape for shape in BLOCKS if len(shape) > 1 or type(constraint) is not cl.Sphere]
    start = [0.02 * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]
    own = [nn.Parameter(w.to(dtype)) for w in start]
    made = DIRECTIONS[direction]()
    optimizer = cl.CoLA(
        own, lr=0.01, constraint=constraint, direction=made, fused=fused, strict=False, **options
    )
    for step in range(12):
        for weight in own:
            slope = torch.randn(weight.shape, generator=draw, dtype=torch.float64).to(dtype)
            weight.grad = slope.mT.contiguous().mT if slope.dim() > 1 and step % 2 else slope
        own[0].grad = None if step == 4 else own[0].grad
        optimizer.step()
    return [w.detach() for w in own], [optimizer.state[w] for w in own]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("direction", ["sign", "adam"])
@pytest.mark.parametrize(
    "options",
    [
        {"decoupled_weight_decay": 0.3, "weight_decay": 0.1},
        {"momentum": 0.8, "weight_decay": 0.1},
        {"momentum": 0.8, "weight_decay": 0.1, "scheme": "AOAB", "delayed_gradient": True},
    ],
    ids=["overdamped", "OBA", "AOAB delayed"],
)
@pytest.mark.parametrize(
    "constraint",
    [
        cl.Unconstrained(),
        cl.Circle(0.5),
        cl.Sphere(1.0, equality=True),
        cl.Sphere(1.0),
        cl.Sphere("initial", dim=None),
    ],
    ids=repr,
)
def test_one_pass_and_formulas_agree_in_weights_and_state(
    constraint: cl.Constraint, options: dict[str, Any], direction: str, dtype: torch.dtype
) -> None:
    """Over many blocks, with both weight decays, and a weight that rests for a step."""
    found, expected = (
        walked(constraint, direction, dtype, own, **options) for own in (True, False)
    )
    limit = 1e-12 if dtype == torch.float64 else 2e-6
    for one, other in zip(found[0], expected[0], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=limit)
    for own, its in zip(found[1], expected[1], strict=True):
        assert own.keys() == its.keys()
        for key in ("direction_mean", "direction_square"):
            if key in its:
                torch.testing.assert_close(own[key], its[key], rtol=0, atol=limit)


@pytest.mark.parametrize("direction", ["sign", "adam"])
def test_threads_change_no_bit(direction: str) -> None:
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            own = weights([(300, 400)])
            follow(cl.CoLA(own, lr=0.01, constraint=cl.Circle(4.0), direction=direction), own, 5)
        finally:
            torch.set_num_threads(1)
        found.append(own[0].detach())
    assert torch.equal(*found)


def test_the_mean_has_one_sign_however_gradients_lie() -> None:
    """Those that are not contiguous are not for torch's fused kernel."""
    found = []
    for turned in (True, False):
        own = weights([(6, 4)])
        optimizer = cl.CoLA(own, lr=0.01, direction=cl.Adam(relative=True))
        draw = torch.Generator().manual_seed(3)
        for step in range(6):
            slope = 1.0 + torch.randn(6, 4, generator=draw)
            own[0].grad = slope.T.contiguous().T if turned and step % 2 else slope
            optimizer.step()
        assert (optimizer.state[own[0]]["direction_mean"].mean()) > 0
        found.append(own[0].detach())
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)
