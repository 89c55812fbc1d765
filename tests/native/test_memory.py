"""What the kernels accept, and what they leave alone."""

import re
from array import array
from ctypes import Structure, sizeof

import pytest
import torch
from torch import Tensor

from colangevin.native import (
    Segment,
    Stack,
    building,
    field,
    lay_out,
    segment,
    step_elements,
    suits,
)
from native.steps import SEEDS, step

IMPULSE, DRIFT = 1, 2
NUMBERS = [0.0, 1.0, 0.0, 0.5, 1.0, 0.0, -1.0, 0.0, 0.0]


def one(size: int = 6) -> tuple[Segment, Tensor, Tensor]:
    position, momentum = torch.zeros(size), torch.zeros(size)
    return segment("free", position, momentum, None, seeds=SEEDS, ordinal=0), position, momentum


@pytest.mark.parametrize(("kind", "file"), [(Segment, "kernels.c"), (Stack, "stiefel.c")])
def test_structures_are_those_of_c(kind: type[Structure], file: str) -> None:
    text = (building.FOLDER / file).read_text(encoding="utf-8")
    found = re.search(rf"typedef struct {{\s*int64_t ([^;]*);\s*}} {kind.__name__};", text)
    assert found is not None
    names = re.findall(r"\w+", found[1])
    assert [name for name, _ in kind._fields_] == names
    assert sizeof(kind) == 8 * len(names)
    assert field(kind, names[3]) == slice(3, None, len(names))


class Sub(Tensor):
    pass


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(4, 4).T,
        torch.zeros(4, 4)[:, ::2],
        torch.zeros(1).expand(4),
        torch.zeros(4).half(),
        torch.zeros(4).long(),
        torch.zeros(4, device="meta"),
        torch.zeros(4, 4).to_sparse(),
        torch.zeros(4).as_subclass(Sub),
        torch._neg_view(torch.zeros(4)),
    ],
)
def test_what_does_not_suit_is_refused(tensor: Tensor) -> None:
    assert not suits(tensor)
    for name, tensors in (
        ("momentum", (torch.zeros(tensor.shape), tensor)),
        ("position", [tensor] * 2),
    ):
        with pytest.raises(ValueError, match=f"{name} must be a plain"):
            segment("free", *tensors, None, seeds=SEEDS, ordinal=0)


def test_what_suits() -> None:
    assert suits(torch.nn.Parameter(torch.zeros(3)))
    assert suits(torch.zeros(0, dtype=torch.float64))
    assert suits(torch.zeros(10)[2:5])


def test_nothing_traced_suits() -> None:
    from torch._subclasses import FakeTensorMode

    found = []
    torch.vmap(lambda x: found.append(suits(x)) or x)(torch.zeros(3, 2))
    torch.func.grad(lambda x: found.append(suits(x)) or x.sum())(torch.zeros(3))
    found.append(suits(torch._to_functional_tensor(torch.zeros(3))))
    with FakeTensorMode():
        found.append(suits(torch.zeros(3)))
    assert found == [False] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"geometry": "cube"}, "geometry must be 'free', 'circle' or 'sphere', got 'cube'"),
        ({"geometry": "sphere"}, "length must divide the 3 entries, got 0"),
        ({"geometry": "sphere", "length": 2}, "length must divide the 3 entries, got 2"),
        (
            {"geometry": "sphere", "length": 3, "radius": torch.ones(2)},
            "radius must have 1",
        ),
        ({"geometry": "sphere", "length": 3, "slack": torch.zeros(1)}, "slack_momentum is needed"),
        ({"moments": [torch.zeros(2)]}, "mean must have 3 entries, got 2"),
        ({"slack": torch.zeros(3)}, "slack is needed"),
        ({"geometry": "circle"}, "slack is needed"),
        ({"radius": torch.zeros(3)}, "radius is for circles"),
        ({"momentum": torch.zeros(4)}, "momentum must have 3 entries, got 4"),
        ({"momentum": torch.zeros(3).double()}, "momentum must be a plain"),
        ({"members": 2}, "members must divide the 3 entries, got 2"),
        ({"members": 3}, "seeds must be 3, got 1"),
    ],
)
def test_segments_that_do_not_fit(arguments: dict[str, object], message: str) -> None:
    given = {"geometry": "free", "position": torch.zeros(3), "momentum": torch.zeros(3)}
    given |= {"slack": None, "ordinal": 0, "seeds": SEEDS} | arguments
    with pytest.raises(ValueError, match=message):
        segment(**given)  # type: ignore[arg-type]


def test_segments_that_do_not_go_together() -> None:
    weight, empty = torch.zeros(3), torch.zeros(0)
    alone = segment("free", weight, None, None, seeds=SEEDS, ordinal=0)
    moving, below = (segment("free", weight, weight, None, seeds=SEEDS, ordinal=0) for _ in "12")
    moving.row, below.row = 1, -1
    circle = segment("circle", weight, None, weight, seeds=SEEDS, ordinal=0)
    for others, message in (
        ([alone, moving], "momentum is needed for all"),
        ([alone, circle], "slack is needed for all"),
        ([moving, one()[0]], "rows must be 0 or more, the last one that of the last"),
        ([below, moving], "rows must be 0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            lay_out(others)
    nothing = segment("free", empty, empty, None, seeds=SEEDS, ordinal=0)
    assert len(lay_out([nothing, moving])) == 36  # what is empty is not missing


@pytest.mark.usefixtures("kernels")
class TestGradients:
    @pytest.mark.parametrize(
        "gradient",
        [
            torch.arange(6.0).reshape(2, 3).T,
            torch.arange(12.0)[::2],
            torch.ones(1).expand(6),
            torch._neg_view(torch.arange(6.0)),
            torch.arange(8.0)[2:],
        ],
    )
    def test_any_layout_is_read_rightly_and_left_alone(self, gradient: Tensor) -> None:
        own, position, momentum = one()
        before = gradient.clone()
        step([own], [gradient], [IMPULSE, DRIFT], NUMBERS)
        assert torch.equal(momentum, before.reshape(-1))
        assert torch.equal(position, -before.reshape(-1))
        assert torch.equal(gradient, before)

    @pytest.mark.parametrize(
        "gradient",
        [
            torch.zeros(5),
            torch.zeros(6).double(),
            torch.zeros(6).to_sparse(),
            torch.zeros(6, device="meta"),
            torch.zeros(6).as_subclass(Sub),
        ],
    )
    def test_others_are_refused(self, gradient: Tensor) -> None:
        own, position, _ = one()
        rows, kinds, numbers = lay_out([own]), array("q", [IMPULSE, DRIFT]), array("d", NUMBERS)
        with pytest.raises(ValueError, match="a gradient must be"):
            step_elements(torch.float32, rows, kinds, numbers, [gradient])
        assert torch.equal(position, torch.zeros(6))

    def test_weight_decay_leaves_them_alone(self) -> None:
        own, position, momentum = one()
        position.fill_(2.0)
        gradient = torch.ones(6)
        step([own], [gradient], [IMPULSE, DRIFT], [0.5, *NUMBERS[1:]])
        assert torch.equal(gradient, torch.ones(6))
        assert torch.equal(momentum, torch.full((6,), 2.0))

    def test_addresses_are_those_of_gradients_that_are_not_turned(self) -> None:
        """Also after a step in which one was."""
        weight, momentum = torch.zeros(2, 3), torch.zeros(2, 3)
        rows = lay_out([segment("free", weight, momentum, None, seeds=SEEDS, ordinal=0)])
        kinds, numbers = array("q", [IMPULSE]), array("d", [0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
        slope = torch.arange(6.0).reshape(3, 2)
        step_elements(torch.float32, rows, kinds, numbers, [slope.T])
        assert torch.equal(momentum, slope.T)
        rows[field(Segment, "gradient")] = array("q", [slope.data_ptr()])
        step_elements(torch.float32, rows, kinds, numbers)
        assert torch.equal(momentum, slope.view(2, 3))


@pytest.mark.usefixtures("kernels")
class TestCalls:
    def test_counts_must_fit(self) -> None:
        own, good = one()[0], torch.zeros(6)
        with pytest.raises(ValueError, match="numbers must be 9 or more, got 8"):
            step([own], [good], [IMPULSE, DRIFT], NUMBERS[:8])
        with pytest.raises(ValueError, match="argument 2"):
            step([own], [good, good], [IMPULSE, DRIFT], NUMBERS)

    def test_rows_must_be_there(self) -> None:
        weight = torch.zeros(2)
        for row, members in ((3, 1), (2, 2)):
            seeds = array("q", [1]) * members
            own = segment("free", weight, weight, None, seeds=seeds, ordinal=0, members=members)
            own.row = row
            with pytest.raises(ValueError, match="numbers must be 36 or more"):
                step([own], [torch.zeros(2)], [IMPULSE, DRIFT], NUMBERS)

    def test_momentum_may_be_missing_in_overdamped_steps_only(self) -> None:
        position = torch.zeros(2)
        own = segment("free", position, None, None, seeds=SEEDS, ordinal=0)
        with pytest.raises(ValueError, match="momentum is needed"):
            step([own], [torch.ones(2)], [IMPULSE], NUMBERS)
        step([own], [torch.ones(2)], [3], [0.0, 0.0, 0.0, 0.5, 0.0, 0.0])
        assert torch.equal(position, torch.full((2,), -0.5))

    def test_a_direction_has_memory_and_numbers(self) -> None:
        weight, moments = torch.zeros(2), [torch.zeros(2), torch.zeros(2)]
        kinds, numbers, slopes = array("q", [3]), array("d", [0.0] * 6), [torch.ones(2)]
        for kept, kind, factors, message in (
            (moments[:0], 1, [0.5] * 5, "moments are needed"),
            (moments[:1], 1, [0.5] * 5, "moments are needed"),
            (moments, 1, [0.5] * 4, "factors must be 5 or more, got 4"),
            (moments, 3, [0.5] * 5, "direction must be 0, 1 or 2, got 3"),
        ):
            own = segment("free", weight, None, None, seeds=SEEDS, ordinal=0, moments=kept)
            with pytest.raises(ValueError, match=message):
                step_elements(
                    torch.float32, lay_out([own]), kinds, numbers, slopes, kind, array("d", factors)
                )
