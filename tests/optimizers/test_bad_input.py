"""Bad input is refused by name and value, and leaves everything as it was."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from optimizer_cases import backward, ball, constrained, contents, network, same, train

NAN, INF = math.nan, math.inf


def weight(*shape: int, value: float = 0.1) -> nn.Parameter:
    return nn.Parameter(torch.full(shape, value, dtype=torch.float64))


@contextmanager
def refused(
    error: type[Exception],
    *words: str,
    tensors: list[nn.Parameter] | None = None,
    optimizer: cl.CoLA | None = None,
) -> Iterator[None]:
    """The block raises; the message has the words; nothing has changed."""
    values = [t.detach().clone() for t in tensors or []]
    before = None if optimizer is None else contents(optimizer)
    stream = torch.get_rng_state()
    with pytest.raises(error) as raised:
        yield
    message = str(raised.value)
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"
    assert same([t.detach() for t in tensors or []], values)
    assert same(torch.get_rng_state(), stream)
    if optimizer is not None:
        assert same(contents(optimizer), before)


def running(constraint: cl.Constraint | None = None, **options: Any) -> tuple[Any, cl.CoLA]:
    """A network and an optimizer at a temperature, in the middle of a run."""
    model = network()
    chosen = {"lr": 0.02, "momentum": 0.9, "temperature": 1e-3, **options}
    optimizer = cl.CoLA(constrained(model, constraint or cl.Circle(0.5)), **chosen)
    train(model, optimizer, range(2))
    backward(model, 2)
    return model, optimizer


# --- numbers -------------------------------------------------------------------------------

NUMBERS: list[tuple[dict[str, Any], type[Exception], tuple[str, ...]]] = [
    ({"lr": -0.1}, ValueError, ("lr", "-0.1")),
    ({"lr": 0.0}, ValueError, ("lr", "0.0")),
    ({"lr": NAN}, ValueError, ("lr", "NaN")),
    ({"lr": INF}, ValueError, ("lr", "inf")),
    ({"lr": "fast"}, TypeError, ("lr", "'fast'")),
    ({"lr": True}, TypeError, ("lr", "True")),
    ({"lr": torch.ones(2)}, TypeError, ("lr", "(2,)")),
    ({"lr": torch.tensor(-0.1)}, ValueError, ("lr", "-0.1")),
    ({"lr": torch.tensor(NAN)}, ValueError, ("lr", "NaN")),
    ({"lr": 0.1, "momentum": -0.1}, ValueError, ("momentum", "-0.1")),
    ({"lr": 0.1, "momentum": 1.1}, ValueError, ("momentum", "1.1")),
    ({"lr": 0.1, "momentum": NAN}, ValueError, ("momentum", "NaN")),
    ({"lr": 0.1, "momentum": INF}, ValueError, ("momentum", "inf")),
    ({"step_size": -0.1, "friction": 1.0}, ValueError, ("step_size", "-0.1")),
    ({"step_size": 0.0, "friction": 1.0}, ValueError, ("step_size", "0.0")),
    ({"step_size": NAN, "friction": 1.0}, ValueError, ("step_size", "NaN")),
    ({"step_size": INF, "friction": 1.0}, ValueError, ("step_size", "inf")),
    ({"step_size": 0.1, "friction": -1.0}, ValueError, ("friction", "-1.0")),
    ({"step_size": 0.1, "friction": NAN}, ValueError, ("friction", "NaN")),
    ({"lr": 0.1, "temperature": -1.0}, ValueError, ("temperature", "-1.0")),
    ({"lr": 0.1, "temperature": NAN}, ValueError, ("temperature", "NaN")),
    ({"lr": 0.1, "temperature": INF}, ValueError, ("temperature", "inf")),
    ({"lr": 0.1, "weight_decay": -1.0}, ValueError, ("weight_decay", "-1.0")),
    ({"lr": 0.1, "weight_decay": NAN}, ValueError, ("weight_decay", "NaN")),
    ({"lr": 0.1, "weight_decay": INF}, ValueError, ("weight_decay", "inf")),
    ({"lr": 0.1, "scheme": "BAB"}, ValueError, ("scheme", "'BAB'")),
    ({"lr": 0.1, "scheme": "oba"}, ValueError, ("scheme", "'oba'")),
    ({"lr": 0.1, "scheme": ""}, ValueError, ("scheme", "''")),
    ({"lr": 0.1, "scheme": "OBAX"}, ValueError, ("scheme", "'OBAX'")),
    ({"lr": 0.1, "scheme": 3}, ValueError, ("scheme", "'3'")),
    ({"lr": 0.1, "scheme": "BAOBAB"}, ValueError, ("scheme", "'BAOBAB'", "two gradients")),
    ({"lr": 0.1, "scheme": "ABAOBA"}, ValueError, ("scheme", "'ABAOBA'", "two gradients")),
    ({"lr": 0.1, "delayed_gradient": 1}, TypeError, ("delayed_gradient", "1")),
    ({"lr": 0.1, "constraint": 0.5}, TypeError, ("constraint", "0.5")),
    ({"lr": 0.1, "constraint": cl.Circle}, TypeError, ("constraint", "Circle")),
    ({"lr": 0.1, "friction": 1.0}, ValueError, ("lr", "friction")),
    ({"lr": 0.1, "step_size": 0.3}, ValueError, ("lr", "step_size")),
    ({"step_size": 0.1, "momentum": 0.9}, ValueError, ("momentum", "step_size")),
    ({"momentum": 0.9, "friction": 0.9}, ValueError, ("momentum", "friction")),
    ({"momentum": 0.9}, ValueError, ("momentum is given without lr",)),
    ({"friction": 0.9}, ValueError, ("friction is given without step_size",)),
    ({}, ValueError, ("lr", "step_size", "none of them is set")),
]
IDS = [", ".join(f"{name}={value}" for name, value in options.items()) for options, _, _ in NUMBERS]
bad_numbers = pytest.mark.parametrize(("options", "error", "words"), NUMBERS, ids=IDS)


class TestOptions:
    @bad_numbers
    def test_of_the_optimizer(
        self, options: dict[str, Any], error: type[Exception], words: tuple[str, ...]
    ) -> None:
        outside = weight(3, value=2.0)  # which a circle would have to move
        with refused(error, *words, tensors=[outside]):
            cl.CoLA([outside], **{"constraint": cl.Circle(0.5), **options})

    @bad_numbers
    def test_of_a_group(
        self, options: dict[str, Any], error: type[Exception], words: tuple[str, ...]
    ) -> None:
        """The second group is bad, so the first must not have been placed."""
        first, second = weight(3, value=2.0), weight(3, value=2.0)
        groups = [{"params": [first], "lr": 0.1}, {"params": [second], **options}]
        with refused(error, *words, tensors=[first, second]):
            cl.CoLA(groups, constraint=options.get("constraint", cl.Circle(0.5)))

    @bad_numbers
    def test_of_an_added_group(
        self, options: dict[str, Any], error: type[Exception], words: tuple[str, ...]
    ) -> None:
        model = network()
        first = [{"params": model.parameters(), "lr": 0.02, "momentum": 0.9, "temperature": 0.1}]
        optimizer = cl.CoLA(first)
        train(model, optimizer, range(2))
        added = weight(3, value=2.0)
        group = {"params": [added], "constraint": cl.Circle(0.5), **options}
        given = dict(group)
        with refused(error, *words, tensors=[added], optimizer=optimizer):
            optimizer.add_param_group(group)
        assert group == given
        optimizer.add_param_group({"params": [added], "lr": 0.1})  # it is still usable

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("lr", -0.1),
            ("lr", NAN),
            ("lr", INF),
            ("momentum", -0.1),
            ("momentum", NAN),
            ("temperature", -1.0),
            ("temperature", NAN),
            ("temperature", INF),
            ("scheme", "BAB"),
        ],
    )
    def test_set_in_the_middle_of_a_run(self, name: str, value: object) -> None:
        """A scheduler or a user may write anything; the step refuses it."""
        _, optimizer = running()
        optimizer.param_groups[1][name] = value
        shown = "NaN" if value != value else str(value)
        with refused(ValueError, name, shown, optimizer=optimizer):
            optimizer.step()

    def test_zero_is_legal_where_it_means_something(self) -> None:
        optimizer = cl.CoLA([weight(2)], step_size=0.1, friction=0.0, temperature=0.0)
        assert optimizer.param_groups[0]["friction"] == 0.0
        assert optimizer.param_groups[0]["temperature"] == 0.0
        assert cl.CoLA([weight(2)], lr=0.1, momentum=1.0).param_groups[0]["momentum"] == 1.0

    @pytest.mark.parametrize("method", [cl.CoLA, cl.SGLD, cl.AdaptiveLangevin])
    def test_a_generator_is_no_argument(self, method: type[cl.CoLA]) -> None:
        outside, generator = weight(3, value=2.0), torch.Generator()
        options: dict[str, Any] = {"step_size": 0.1, "temperature": 0.1}
        with refused(TypeError, "unexpected argument 'generator'", "use 'seed'", tensors=[outside]):
            method([outside], constraint=cl.Circle(0.5), generator=generator, **options)
        with refused(TypeError, "no option 'generator'; use 'seed'", tensors=[outside]):
            method([{"params": [outside], "generator": generator}], **options)

    def test_a_group_that_is_no_dict(self) -> None:
        _, optimizer = running()
        with refused(TypeError, "dict", "list", optimizer=optimizer):
            optimizer.add_param_group([weight(2)])


class TestConstraints:
    @pytest.mark.parametrize("kind", [cl.Circle, cl.Sphere])
    @pytest.mark.parametrize(
        ("radius", "error", "word"),
        [
            (-0.5, ValueError, "-0.5"),
            (0.0, ValueError, "0.0"),
            (NAN, ValueError, "NaN"),
            (INF, ValueError, "inf"),
            (None, TypeError, "None"),
            (torch.tensor([0.5, -0.25]), ValueError, "-0.25"),
            (torch.tensor([0.5, 0.0]), ValueError, "0.0"),
            (torch.tensor([0.5, NAN]), ValueError, "nan"),
            (torch.tensor([0.5, INF]), ValueError, "inf"),
            (torch.tensor([1, 2]), TypeError, "int64"),
            (torch.tensor(-1.0), ValueError, "-1.0"),
        ],
        ids=str,
    )
    def test_radius(
        self, kind: Callable[..., object], radius: object, error: type[Exception], word: str
    ) -> None:
        with refused(error, "radius", word):
            kind(radius)

    @pytest.mark.parametrize("kind", [cl.Circle, cl.Sphere])
    def test_radius_in_words(self, kind: Callable[..., object]) -> None:
        with refused(ValueError, "radius", "'initial'", "'wide'"):
            kind("wide")

    @pytest.mark.parametrize(
        ("make", "error", "words"),
        [
            (lambda: cl.Sphere(1.0, dim=0.5), TypeError, ("dim", "0.5")),
            (lambda: cl.Orthogonal(scale=-1.0), ValueError, ("scale", "-1.0")),
            (lambda: cl.Orthogonal(scale=NAN), ValueError, ("scale", "NaN")),
            (lambda: cl.Orthogonal(tolerance=0.0), ValueError, ("tolerance", "0.0")),
            (lambda: cl.Orthogonal(max_iterations=0), ValueError, ("max_iterations", "0")),
            (lambda: cl.Orthogonal(batch_dims=-1), ValueError, ("batch_dims", "-1")),
            (lambda: cl.General(3), TypeError, ("g must be a function", "3")),
            (lambda: cl.General(ball, projection="up"), ValueError, ("projection", "'up'")),
            (lambda: cl.General(ball, tolerance=-1.0), ValueError, ("tolerance", "-1.0")),
            (lambda: cl.General(ball, max_iterations=0), ValueError, ("max_iterations", "0")),
            (lambda: cl.General(ball, batch_dims=-1), ValueError, ("batch_dims", "-1")),
        ],
    )
    def test_other_arguments(
        self, make: Callable[[], object], error: type[Exception], words: tuple[str, ...]
    ) -> None:
        with refused(error, *words):
            make()

    @pytest.mark.parametrize(
        ("constraint", "shape", "words"),
        [
            (cl.Orthogonal(), (3,), ("at least 2 dimensions", "(3,)")),
            (cl.Orthogonal(), (), ("at least 2 dimensions", "()")),
            (cl.Orthogonal(batch_dims=1), (3, 3), ("batch_dims=1", "(3, 3)")),
            (cl.Circle(torch.full((3,), 0.5)), (4, 2), ("radius", "(3,)", "(4, 2)")),
            (cl.Circle(torch.full((4, 2), 0.5)), (2,), ("radius", "(4, 2)", "(2,)")),
            (cl.Sphere(torch.full((3,), 0.5)), (4, 2), ("radius", "(3,)", "(4,)")),
            (cl.Sphere(torch.full((4, 1), 0.5)), (4, 2), ("radius", "(4, 1)", "(4,)")),
            (cl.Sphere(torch.full((4,), 0.5)), (4,), ("radius", "(4,)", "(1,)")),
            (cl.Sphere(1.0, dim=2), (4, 2), ("dim 2", "(4, 2)")),
            (cl.Sphere(1.0, equality=True), (4, 1), ("length 1", "(4, 1)")),
            (cl.General(ball, batch_dims=2), (4,), ("batch_dims=2", "(4,)")),
        ],
        ids=lambda value: repr(value) if isinstance(value, tuple) else type(value).__name__,
    )
    def test_that_do_not_fit_the_weight(
        self, constraint: cl.Constraint, shape: tuple[int, ...], words: tuple[str, ...]
    ) -> None:
        first, bad = weight(3, value=2.0), weight(*shape)
        groups = [
            {"params": [first], "constraint": cl.Circle(0.5)},
            {"params": [bad], "constraint": constraint},
        ]
        with refused(
            cl.ConstraintError, f"parameter 0 of shape {shape}", *words, tensors=[first, bad]
        ):
            cl.CoLA(groups, lr=0.1)

    def test_the_name_of_the_parameter_is_told(self) -> None:
        model = network()
        groups = cl.parameter_groups(model, {"0.weight": cl.Circle(0.1), "2.*": cl.Orthogonal()})
        with refused(cl.ConstraintError, "2.bias", "(4,)", tensors=list(model.parameters())):
            cl.CoLA(groups, lr=0.1)

    def test_unit_norm_of_a_row_of_zeros(self) -> None:
        zeros = weight(2, 3, value=0.0)
        with refused(cl.ConstraintError, "parameter 0", "row of zeros", tensors=[zeros]):
            cl.CoLA([zeros], lr=0.1, constraint=cl.Sphere(1.0, equality=True))


class TestOffTheManifold:
    @pytest.mark.parametrize(
        "constraint",
        [
            cl.Circle(0.5),
            cl.Sphere(0.5),
            cl.Sphere(0.5, equality=True),
            cl.Orthogonal(),
            cl.General(ball),
            cl.General(ball, inequality=True),
        ],
        ids=["circle", "max-norm", "unit-norm", "orthogonal", "general", "general inequality"],
    )
    @pytest.mark.parametrize("entry", ["CoLA", "constrain_", "add_param_group"])
    def test_strict(self, constraint: cl.Constraint, entry: str) -> None:
        model = nn.Linear(3, 2, bias=False).double()
        with torch.no_grad():
            model.weight.fill_(2.0)
        words = ("strict=True", "off the manifold")
        tensors = [model.weight]
        if entry == "CoLA":
            with refused(cl.ConstraintError, "parameter 0", *words, tensors=tensors):
                cl.CoLA(model.parameters(), lr=0.1, constraint=constraint, strict=True)
        elif entry == "constrain_":
            with refused(cl.ConstraintError, "weight: ", *words, tensors=tensors):
                cl.constrain_(model, {"weight": constraint}, strict=True)
        else:
            optimizer = cl.CoLA([weight(2)], lr=0.1, strict=True)
            group = {"params": tensors, "constraint": constraint}
            with refused(
                cl.ConstraintError, "parameter 0", *words, tensors=tensors, optimizer=optimizer
            ):
                optimizer.add_param_group(group)

    @pytest.mark.parametrize("value", [NAN, INF])
    @pytest.mark.parametrize(
        "constraint",
        [cl.Circle(0.5), cl.Sphere(0.5), cl.Orthogonal(), cl.General(ball)],
        ids=["circle", "max-norm", "orthogonal", "general"],
    )
    def test_a_weight_that_is_not_finite(self, constraint: cl.Constraint, value: float) -> None:
        """One NaN must not be spread over its weight by a rescaling."""
        broken = weight(3, 2)
        with torch.no_grad():
            broken[0, 0] = value
        with refused(cl.ConstraintError, "parameter 0", "not finite", tensors=[broken]):
            cl.CoLA([broken], lr=0.1, constraint=constraint)
        model = nn.Module()
        model.weight = broken
        with refused(cl.ConstraintError, "weight: ", "not finite", tensors=[broken]):
            cl.constrain_(model, {"weight": constraint})


class TestGroups:
    def test_a_pattern_that_matches_nothing(self) -> None:
        model = network()
        for make in (cl.parameter_groups, cl.constrain_):
            with refused(
                ValueError, "'1.weight' matches no", "0.weight", tensors=list(model.parameters())
            ):
                make(model, {"0.weight": cl.Circle(0.1), "1.weight": cl.Circle(0.1)})

    def test_a_parameter_in_two_groups(self) -> None:
        first, second = weight(3, value=2.0), weight(2, value=2.0)
        groups = [{"params": [first]}, {"params": [second, first]}]
        with refused(
            ValueError, "parameter 1 of shape (3,)", "group 0", "group 1", tensors=[first, second]
        ):
            cl.CoLA(groups, lr=0.1, constraint=cl.Circle(0.5))

    def test_a_named_parameter_in_two_groups(self) -> None:
        model = network()
        groups = cl.parameter_groups(model, {"0.weight": cl.Circle(0.1)})
        groups += cl.parameter_groups(model, {"0.weight": cl.Circle(0.1)})
        with refused(ValueError, "0.weight", "group 0", tensors=list(model.parameters())):
            cl.CoLA(groups, lr=0.1)

    def test_a_parameter_twice_in_a_group(self) -> None:
        first = weight(3, value=2.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with refused(ValueError, "parameter 1 of shape (3,)", tensors=[first]):
                cl.CoLA([first, first], lr=0.1, constraint=cl.Circle(0.5))
            with refused(ValueError, "first", tensors=[first]):
                cl.CoLA([("first", first), ("second", weight(1)), ("first", first)], lr=0.1)

    def test_a_parameter_added_again(self) -> None:
        model, optimizer = running()
        with refused(ValueError, "parameter 0 of shape (4, 4)", "group 0", optimizer=optimizer):
            optimizer.add_param_group({"params": [model[0].weight]})

    def test_no_parameters(self) -> None:
        with refused(ValueError, "empty parameter list"):
            cl.CoLA([], lr=0.1)

    def test_an_unordered_set_of_parameters(self) -> None:
        _, optimizer = running()
        with refused(TypeError, "ordered", optimizer=optimizer):
            optimizer.add_param_group({"params": {weight(2)}})


class TestTensors:
    @pytest.mark.parametrize("constraint", [None, cl.Circle(0.5)], ids=str)
    @pytest.mark.parametrize(
        ("tensor", "word"),
        [
            (torch.ones(2, dtype=torch.complex64), "complex64"),
            (torch.ones(2, dtype=torch.int64), "int64"),
            (torch.ones(2, dtype=torch.bool), "bool"),
            (torch.eye(2).to_sparse(), "sparse"),
        ],
        ids=["complex", "integer", "boolean", "sparse"],
    )
    def test_parameters(self, tensor: Tensor, word: str, constraint: cl.Constraint | None) -> None:
        first = weight(3, value=2.0)
        bad = nn.Parameter(tensor, requires_grad=False)
        with refused(TypeError, "parameter 1 of shape", word, tensors=[first]):
            cl.CoLA([first, bad], lr=0.1, constraint=constraint)

    def test_what_is_no_tensor(self) -> None:
        with refused(TypeError, "str"):
            cl.CoLA(["weight"], lr=0.1)

    def test_a_sparse_gradient(self) -> None:
        model, optimizer = running()
        model[4].weight.grad = model[4].weight.grad.to_sparse()
        with refused(TypeError, "4.weight", "sparse gradient", optimizer=optimizer):
            optimizer.step()

    def test_a_sparse_gradient_of_an_embedding(self) -> None:
        embedding = nn.Embedding(5, 3, sparse=True)
        groups = cl.parameter_groups(embedding, {"weight": cl.Circle(2.0)})
        optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9, temperature=0.1)
        embedding(torch.tensor([1, 2])).sum().backward()
        with refused(TypeError, "weight has a sparse gradient", optimizer=optimizer):
            optimizer.step()

    def test_a_complex_gradient(self) -> None:
        """torch allows it only for parameters that have become complex behind the scenes."""
        first, bad = weight(3), weight(2)
        optimizer = cl.CoLA([first, bad], lr=0.1, momentum=0.9)
        first.grad = torch.ones_like(first)
        bad.data = bad.data.to(torch.complex128)
        bad.grad = torch.ones(2, dtype=torch.complex128)
        with refused(TypeError, "parameter 1 of shape (2,)", "complex128", optimizer=optimizer):
            optimizer.step()


class TestGeneral:
    @staticmethod
    def build(
        g: Callable[..., Any], value: Tensor, inequality: bool = False, **options: Any
    ) -> cl.CoLA:
        chosen = {"lr": 0.1, "momentum": 0.9, **options}
        return cl.CoLA(
            [nn.Parameter(value)], constraint=cl.General(g, inequality=inequality), **chosen
        )

    @pytest.mark.parametrize(
        ("g", "words"),
        [
            (lambda w: torch.cat([w, w]), ("between 1 and 2 numbers", "(4,)")),
            (lambda w: w[:0], ("between 1 and 2 numbers", "(0,)")),
            (lambda w: 1.0, ("floating-point tensor", "1.0")),
            (lambda w: (w.sum(), w.prod()), ("floating-point tensor",)),
            (lambda w: None, ("floating-point tensor", "None")),
            (lambda w: (w > 0).sum(), ("floating-point tensor",)),
            (lambda w: (w - 2.0).log().sum(), ("not finite",)),
        ],
        ids=["more equations than weights", "none", "number", "tuple", "None", "integer", "NaN"],
    )
    def test_a_g_with_the_wrong_shape(self, g: Callable[..., Any], words: tuple[str, ...]) -> None:
        bad = nn.Parameter(torch.tensor([1.0, 0.5]))
        for strict in (False, True):
            with refused(cl.ConstraintError, "parameter 0 of shape (2,)", *words, tensors=[bad]):
                cl.CoLA([bad], lr=0.1, constraint=cl.General(g), strict=strict)

    @pytest.mark.parametrize("start", [[1.0, 0.0], [2.0, 0.5]], ids=["on it", "off it"])
    @pytest.mark.parametrize(
        "g",
        [
            lambda w: torch.stack([w.square().sum() - 1.0, 2.0 * w.square().sum() - 2.0]),
            lambda w: 0.0 * w.sum(),
            lambda w: (w.square().sum() - 1.0).detach(),
        ],
        ids=["an equation twice", "no dependence", "detached"],
    )
    def test_a_rank_deficient_jacobian(self, g: Callable[..., Any], start: list[float]) -> None:
        bad = nn.Parameter(torch.tensor(start))
        with refused(cl.ConstraintError, "parameter 0 of shape (2,)", "rank", tensors=[bad]):
            cl.CoLA([bad], lr=0.1, constraint=cl.General(g))

    def test_a_rank_that_is_lost_on_the_manifold(self) -> None:
        """(|w|² − 1)² = 0 is a circle whose equation has no slope there."""
        on = nn.Parameter(torch.tensor([1.0, 0.0]))
        with refused(cl.ConstraintError, "parameter 0", "rank 0 for 1", tensors=[on]):
            cl.CoLA([on], lr=0.1, constraint=cl.General(lambda w: (ball(w)) ** 2))

    def test_too_few_parameters_for_a_joint_constraint(self) -> None:
        one = weight(2)
        with refused(cl.ConstraintError, "1 parameters of its group", "'b'", tensors=[one]):
            cl.CoLA([one], lr=0.1, constraint=cl.General(lambda a, b: (a * b).sum() - 1.0))

    @pytest.mark.parametrize("inequality", [False, True])
    def test_a_manifold_that_cannot_be_reached(self, inequality: bool) -> None:
        bad = nn.Parameter(torch.tensor([1.0, 0.5]))
        with refused(cl.ConstraintError, "parameter 0", tensors=[bad]):
            constraint = cl.General(lambda w: w.square().sum() + 1.0, inequality=inequality)
            cl.CoLA([bad], lr=0.1, constraint=constraint)


class TestProjectionsThatFail:
    """A step is all or nothing, over all groups."""

    @pytest.mark.parametrize("temperature", [0.0, 0.1])
    @pytest.mark.parametrize(
        "options",
        [{"momentum": 0.0}, {"momentum": 0.9}, {"momentum": 0.9, "scheme": "BAOAB"}],
        ids=["overdamped", "OBA", "BAOAB"],
    )
    @pytest.mark.parametrize("first", [True, False], ids=["first step", "later step"])
    def test_general_with_a_huge_lr(
        self, options: dict[str, Any], temperature: float, first: bool
    ) -> None:
        free, circle, general, matrix = (
            nn.Parameter(torch.tensor(value, dtype=torch.float64))
            for value in ([1.0, 2.0], [0.1, 0.2], [1.0, 0.0], [[0.6, 0.8], [-0.8, 0.6]])
        )
        optimizer = cl.CoLA(
            [
                {"params": [free]},
                {"params": [circle], "constraint": cl.Circle(0.5)},
                {"params": [matrix], "constraint": cl.Orthogonal()},
                {"params": [general], "constraint": cl.General(ball)},
            ],
            lr=0.01,
            temperature=temperature,
            **options,
        )

        def set_gradients() -> None:
            for p in (free, circle, general, matrix):
                p.grad = torch.ones_like(p)

        set_gradients()
        if not first:
            optimizer.step()
            set_gradients()
        general_group = optimizer.param_groups[3]
        general_group["lr"] = 1e8
        with refused(cl.ConvergenceError, "parameter 0 of shape (2,)", optimizer=optimizer):
            optimizer.step()
        # It is not broken: with a smaller step it goes on.
        general_group["lr"] = 0.01
        before = free.detach().clone()
        optimizer.step()
        assert not same(free.detach(), before)
        assert max(violation.residual for violation in optimizer.violation()) <= 1e-12

    @pytest.mark.parametrize("value", [NAN, INF])
    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    @pytest.mark.parametrize(
        "constraint", [cl.Orthogonal(), cl.General(ball)], ids=["orthogonal", "general"]
    )
    def test_a_gradient_that_is_not_finite(
        self, constraint: cl.Constraint, momentum: float, value: float
    ) -> None:
        model, optimizer = running(constraint, momentum=momentum)
        model[0].weight.grad[0, 0] = value
        with refused(cl.ConvergenceError, "0.weight", optimizer=optimizer):
            optimizer.step()
        backward(model, 3)
        optimizer.step()
        assert optimizer.violation()[0].residual <= 1e-12

    @pytest.mark.parametrize("broken", ["gradient", "overflow", "momentum", "weight"])
    def test_one_of_several_orthogonal_shapes_that_is_not_finite(self, broken: str) -> None:
        """Each shape is a batch of its own; none is written if another one fails."""
        first, last = nn.Parameter(torch.randn(6, 3)), nn.Parameter(torch.randn(4, 2))
        optimizer = cl.CoLA([first, last], constraint=cl.Orthogonal(), lr=0.1, momentum=0.9)
        for _ in range(2):
            first.grad, last.grad = torch.ones(6, 3), torch.ones(4, 2)
            optimizer.step()
        if broken in ("gradient", "overflow"):
            last.grad.fill_(INF if broken == "gradient" else 3e38).mul_(5.0)
        else:
            tensor = last if broken == "weight" else optimizer.state[last]["momentum_buffer"]
            tensor.data[0, 0] = NAN
        with refused(cl.ConvergenceError, "parameter 1 of shape (4, 2)", optimizer=optimizer):
            optimizer.step()

    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_weights_that_were_changed_before_a_first_step_which_fails(
        self, dtype: torch.dtype, momentum: float
    ) -> None:
        found = []
        for fails in (True, False):
            weight = nn.Parameter(torch.eye(4, 2, dtype=dtype))
            optimizer = cl.CoLA([weight], constraint=cl.Orthogonal(), lr=0.1, momentum=momentum)
            weight.data.fill_(3.0).add_(torch.eye(4, 2, dtype=dtype))
            if fails:
                weight.grad = torch.full_like(weight, NAN)
                with refused(cl.ConvergenceError, "shape (4, 2)", optimizer=optimizer):
                    optimizer.step()
            weight.grad = torch.ones_like(weight)
            optimizer.step()
            assert optimizer.violation()[0].residual <= 1e-6
            found.append(weight.detach())
        assert torch.equal(*found)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    @pytest.mark.parametrize("fused", [None, False])
    @pytest.mark.parametrize("when", ["at first", "resumed", "later"])
    @pytest.mark.parametrize("name", ["orthogonal", "equality", "inequality"])
    def test_weights_of_one_batch(
        self, name: str, when: str, fused: bool | None, dtype: torch.dtype
    ) -> None:
        """The first reading of a batch puts its momenta into one tensor."""
        rule = {
            "orthogonal": cl.Orthogonal(),
            "equality": cl.General(lambda w: w.square().sum() - 1.0),
            "inequality": cl.General(lambda w: w.square().sum() - 1.0, inequality=True),
        }[name]
        torch.manual_seed(0)
        weights = [nn.Parameter((0.2 * torch.randn(6, 3)).to(dtype)) for _ in range(2)]

        def made() -> cl.CoLA:
            return cl.CoLA(weights, lr=0.01, momentum=0.9, constraint=rule, fused=fused)

        def step(bad: float | None = None) -> None:
            for weight in weights:
                weight.grad = torch.full_like(weight, 0.1)
            if bad is not None:
                weights[1].grad[0, 0] = bad
            optimizer.step()

        optimizer = made()
        if when != "at first":
            step()
        if when == "resumed":
            optimizer, saved = made(), optimizer.state_dict()
            optimizer.load_state_dict(saved)
        before = contents(optimizer)
        with pytest.raises(cl.ConvergenceError):
            step(math.inf)
        after = contents(optimizer)
        assert same(after["parameters"], before["parameters"])
        assert same(after["state"], before["state"])
        step()
        assert all(bool(weight.isfinite().all()) for weight in weights)

    @pytest.mark.parametrize("thermostat", ["langevin", "adaptive"])
    def test_an_interrupt_in_the_middle_of_a_step(
        self, thermostat: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What moved before Ctrl-C is put back, in every group that can fail."""
        torch.manual_seed(0)
        weights = [nn.Parameter(torch.randn(4, 2)) for _ in range(2)]
        sphere = cl.General(lambda w: w.square().sum() - 1.0)
        groups = [
            {"params": [weights[0]], "constraint": cl.Orthogonal(), "thermostat": thermostat},
            {"params": [weights[1]], "constraint": sphere},
        ]
        optimizer = cl.CoLA(groups, step_size=0.1, friction=0.5, fused=False)
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        optimizer.step()

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(cl.General, "drift", interrupted)
        before = contents(optimizer)
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
        assert same(contents(optimizer), before)
        monkeypatch.undo()
        optimizer.step()
        assert not same(contents(optimizer)["parameters"], before["parameters"])

    def test_a_closure_that_raises(self) -> None:
        _, optimizer = running()

        def closure() -> float:
            raise RuntimeError("no data")

        with refused(RuntimeError, "no data", optimizer=optimizer):
            optimizer.step(closure)
