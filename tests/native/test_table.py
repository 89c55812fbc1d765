"""What a table accepts, notices and leaves alone."""

import pytest
import torch
from torch import Tensor

from colangevin.native import Table, suits

IMPULSE, DRIFT = 1, 2
NUMBERS = [0.0, 1.0, 0.5, 1.0, 0.0, -1.0, 0.0, 0.0]


def one(size: int = 6, dtype: torch.dtype = torch.float32) -> tuple[Table, Tensor, Tensor]:
    table = Table("free", dtype)
    position, momentum = torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)
    table.add(position, momentum, None, ordinal=0)
    return table, position, momentum


def step(table: Table, gradient: Tensor) -> None:
    table.run([gradient], [IMPULSE, DRIFT], NUMBERS, steps=[0])


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
    table = Table("free", torch.float32)
    with pytest.raises(ValueError, match="momentum must be"):
        table.add(torch.zeros(tensor.shape), tensor, None, ordinal=0)
    assert len(table) == 0


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
        ({"slack": torch.zeros(3)}, "slack is needed"),
        ({"radius": torch.zeros(3)}, "radius is for circles"),
        ({"momentum": torch.zeros(4)}, "momentum must have 3 entries, got 4"),
        ({"momentum": torch.zeros(3).double()}, "momentum must be a plain"),
        ({"row": -1}, "row must not be negative"),
        ({"first": -1}, "first must not be negative"),
    ],
)
def test_segments_that_do_not_fit(arguments: dict[str, object], message: str) -> None:
    table = Table("free", torch.float32)
    given = {"momentum": torch.zeros(3), "slack": None, "ordinal": 0} | arguments
    with pytest.raises(ValueError, match=message):
        table.add(torch.zeros(3), **given)  # type: ignore[arg-type]


def test_kinds_of_tables() -> None:
    with pytest.raises(ValueError, match="geometry must be one of"):
        Table("sphere", torch.float32)
    with pytest.raises(ValueError, match="dtype must be"):
        Table("free", torch.float16)
    with pytest.raises(ValueError, match="slack is needed"):
        Table("circle", torch.float32).add(torch.zeros(3), torch.zeros(3), None, ordinal=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: setattr(p, "data", torch.zeros(2, 3)),
        lambda p: setattr(p, "data", p.data.double()),
        lambda p: setattr(p, "data", p.data.t()),
        lambda p: setattr(p, "data", p.data[:1]),
    ],
)
def test_moved_memory_is_noticed(change: object) -> None:
    for index in range(4):
        tensors = [torch.nn.Parameter(torch.ones(2, 3)) for _ in range(4)]
        table = Table("circle", torch.float32)
        table.add(*tensors[:3], ordinal=0, radius=tensors[3])
        assert table.is_current()
        change(tensors[index])  # type: ignore[operator]
        assert not table.is_current()


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
        table, position, momentum = one()
        before = gradient.clone()
        step(table, gradient)
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
        table, position, _ = one()
        with pytest.raises(ValueError, match="a gradient must be"):
            step(table, gradient)
        assert torch.equal(position, torch.zeros(6))

    def test_weight_decay_leaves_them_alone(self) -> None:
        table, position, momentum = one()
        position.fill_(2.0)
        gradient = torch.ones(6)
        table.run([gradient], [IMPULSE, DRIFT], [0.5, *NUMBERS[1:]], steps=[0])
        assert torch.equal(gradient, torch.ones(6))
        assert torch.equal(momentum, torch.full((6,), 2.0))


@pytest.mark.usefixtures("kernels")
class TestCalls:
    def test_counts_must_fit(self) -> None:
        table, _, _ = one()
        good = torch.zeros(6)
        with pytest.raises(ValueError, match="gradients and steps must be 1, got 2 and 1"):
            table.run([good, good], [IMPULSE], NUMBERS, steps=[0])
        with pytest.raises(ValueError, match="numbers must be 8 or more, got 7"):
            table.run([good], [IMPULSE, DRIFT], NUMBERS[:7], steps=[0])
        with pytest.raises(ValueError, match="kinds must be"):
            table.run([good], [4], NUMBERS, steps=[0])
        with pytest.raises(ValueError):
            table.run([good], [IMPULSE, DRIFT], NUMBERS, steps=[0], seeds=[1, 2])

    def test_rows_must_be_there(self) -> None:
        table = Table("free", torch.float32)
        table.add(torch.zeros(2), torch.zeros(2), None, ordinal=0, row=3)
        with pytest.raises(ValueError, match="numbers must be 32 or more"):
            table.run([torch.zeros(2)], [IMPULSE, DRIFT], NUMBERS, steps=[0])

    def test_momentum_may_be_missing_in_overdamped_steps_only(self) -> None:
        table = Table("free", torch.float32)
        position = torch.zeros(2)
        table.add(position, None, None, ordinal=0)
        with pytest.raises(ValueError, match="momentum is needed"):
            table.run([torch.ones(2)], [IMPULSE], NUMBERS, steps=[0])
        table.run([torch.ones(2)], [3], [0.0, 0.0, 0.5, 0.0, 0.0], steps=[0])
        assert torch.equal(position, torch.full((2,), -0.5))

    def test_autograd_knows_that_a_weight_was_changed(self) -> None:
        weight = torch.nn.Parameter(torch.ones(6))
        table = Table("free", torch.float32)
        table.add(weight, torch.zeros(6), None, ordinal=0)
        loss = weight.square().sum()
        step(table, torch.ones(6))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
