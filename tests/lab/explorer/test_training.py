"""The training behind the page, its readings, and the program that repeats it."""

import base64
import math
from typing import Any

import pytest
import torch

import colangevin as cl
from colangevin.lab.explorer import readings
from colangevin.lab.explorer.building import network_of, optimizer_of
from colangevin.lab.explorer.code import program
from colangevin.lab.explorer.members import loss_of
from colangevin.lab.explorer.runs import Training
from colangevin.lab.explorer.session import SCORES
from colangevin.lab.explorer.slopes import Slopes
from colangevin.lab.explorer.spec import METHODS, NETWORK, RUN, parse

pytestmark = pytest.mark.filterwarnings("ignore::colangevin.errors.ProjectionWarning")
SMALL: dict[str, Any] = {
    "network": {"depth": 2, "width": 10},
    "data": {"train": 40, "test": 20},
    "training": {"batch": 7, "members": 2, "seed": 3},
}
RULES = {"input": "circle", "hidden": "orthogonal", "output": "norm"}


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def trained(steps: int, **more: Any) -> Training:
    training = Training(parse({**SMALL, **more}))
    for _ in range(steps):
        training.step()
    return training


def results_of(training: Training) -> dict[tuple[str, int], list[float | None]]:
    return {
        (letter.upper(), seed): own
        for letter, members in training.runs.items()
        for seed, own in zip(
            training.spec.seeds, readings.scores(members, training.points), strict=True
        )
    }


def repeated(training: Training) -> dict[tuple[str, int], list[float | None]]:
    """What the exported program finds."""
    namespace: dict[str, Any] = {}
    exec(compile(program(training), "exported", "exec"), namespace)
    return {
        key: [readings.rounded(numbers[name]) for name in SCORES]
        for key, numbers in namespace["results"].items()
    }


@pytest.mark.parametrize("method", METHODS)
def test_the_exported_program_gives_the_same_numbers(method: str) -> None:
    run = {"method": method, "h": 0.1, "tau": 1e-4, "tau2": 1e-5, **RULES}
    training = trained(12, a=run, b={**run, "overdamped": False, "output": "sphere"})
    training.change("a", {"h": 0.05, "input": "unit", "hidden": "none"})
    for _ in range(12):
        training.step()
    training.change("a", {"h": 0.07})
    training.change("a", {"decay": 0.01})
    assert len(training.changes) == 2  # changes at one step are one
    expected = results_of(training)
    assert repeated(training) == expected
    assert len({tuple(scores) for scores in expected.values()}) == len(expected)


@pytest.mark.parametrize("direction", RUN["direction"].options)  # type: ignore[union-attr]
def test_directions_are_exported_with_constraints_and_without(direction: str) -> None:
    run = {"method": "cola", "direction": direction, "h": 0.02}
    training = trained(8, a={**run, **RULES}, b={**run, "overdamped": False})
    training.change("a", {"h": 0.01})
    for _ in range(8):
        training.step()
    expected = results_of(training)
    assert repeated(training) == expected
    assert all(members.stopped == [None, None] for members in training.runs.values())
    frame = readings.frame(training, [-1, 1, -1, 1], 0, "input")["a"]
    assert all(group["violation"] < 1e-4 for group in frame["groups"])
    other = trained(16, a={**run, "direction": "gradient", **RULES, "h": 0.02})
    if direction != "gradient":
        assert results_of(other)["A", 3] != expected["A", 3]
        for own in training.runs["a"][0].optimizer.param_groups:
            kind = type(own["direction"]).__name__.lower()
            matrices = all(p.dim() > 1 for p in own["params"])
            assert kind == ("adam" if direction == "polar" and not matrices else direction)


@pytest.mark.parametrize("kind", ["trigonometric", "circles", "blobs", "noise", "drawn"])
def test_every_kind_of_data_is_exported(kind: str) -> None:
    points = [[0.1 * i, (-1) ** i * 0.5, i % 2] for i in range(10)]
    data = {"kind": kind, "points": points, "train": 20, "test": 20}
    training = trained(5, data=data, network={"width": 4, "activation": "sine"})
    assert repeated(training) == results_of(training)


def test_a_training_that_has_not_begun_is_exported() -> None:
    training = trained(0, a={"method": "cola", **RULES})
    assert repeated(training) == results_of(training)


def alone(training: Training, steps: int) -> list[torch.nn.Module]:
    """The members of run A, each trained by itself as in any program."""
    spec, found = training.spec, []
    for seed in spec.seeds:
        torch.manual_seed(seed)
        model = network_of(spec.network)
        optimizer = optimizer_of(spec.a, spec.network, model, seed)
        batches, order = torch.Generator().manual_seed(seed), torch.zeros(0, dtype=torch.int64)
        for _ in range(steps):
            if not len(order):
                order = torch.randperm(len(training.points.train_inputs), generator=batches)
            chosen, order = order[:7], order[7:]
            optimizer.zero_grad()
            inputs, labels = training.points.train_inputs[chosen], training.points.train_labels
            loss_of(model(inputs), labels[chosen]).backward()
            optimizer.step()
        found.append(model)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_members_are_those_that_are_trained_alone(method: str) -> None:
    run = {"method": method, "h": 0.1, "tau": 1e-3, "tau2": 1e-3, "overdamped": False, **RULES}
    training = trained(10, a=run)
    assert bool(training.runs["a"].alone) == (method == "multirate")
    found = training.runs["a"].outputs(training.points.test_inputs)
    for own, model in zip(found, alone(training, 10), strict=True):
        expected = model(training.points.test_inputs)[:, 0].detach()
        torch.testing.assert_close(own, expected, atol=2e-5, rtol=2e-4)


@pytest.mark.parametrize("activation", NETWORK["activation"].options)  # type: ignore[union-attr]
def test_slopes_are_those_of_torch(activation: str) -> None:
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(network_of({"depth": 3, "width": 6, "activation": activation}))
    weights = {n: torch.stack([m.get_parameter(n).detach() for m in models]) for n in
               dict(models[0].named_parameters())}  # fmt: skip
    inputs, labels = torch.randn(3, 5, 2), torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]).expand(3, -1)
    found = Slopes(models[0])(weights, inputs, labels)
    assert not isinstance(found, list)
    for index, model in enumerate(models):
        loss_of(model(inputs[index]), labels[index]).backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(found.gradients[name][index], parameter.grad)


def test_a_change_in_mid_training_is_that_of_members_alone() -> None:
    """A change takes the ensemble apart and makes another: nothing may be lost on the way."""
    run = {"method": "cola", "h": 0.1, "overdamped": False, **RULES}
    one, other = trained(10, a=run), trained(10, a=run)
    other.runs["a"]._leave()
    other.runs["a"].alone = "as a test"
    for training in (one, other):
        training.change("a", {"h": 0.05, "gamma": 2.0, "input_radius": 0.5, "hidden": "none"})
        if training is other:
            training.runs["a"]._leave()
            training.runs["a"].alone = "as a test"
        for _ in range(10):
            training.step()
    assert one.runs["a"].alone == ""
    for first, second in zip(results_of(one).values(), results_of(other).values(), strict=True):
        assert first == pytest.approx(second, rel=1e-3)


def test_the_same_settings_again_change_nothing() -> None:
    run = {"method": "adlala", "h": 0.1, "tau": 1e-3, "tau2": 1e-4, **RULES}
    one, other = trained(20, a=run), trained(10, a=run)
    other.runs["a"]._leave()
    other.runs["a"]._join()
    for _ in range(10):
        other.step()
    for first, second in zip(results_of(one).values(), results_of(other).values(), strict=True):
        assert first == pytest.approx(second, rel=1e-5)


def test_two_runs_start_from_the_same_weights_and_see_the_same_batches() -> None:
    training = trained(5, a={"method": "sgd", "h": 0.1}, b={"method": "sgd", "h": 0.1})
    own, other = results_of(training)["A", 3], results_of(training)["B", 3]
    assert own == other


def test_the_noise_is_another_after_a_change() -> None:
    run = {"method": "sgld", "h": 0.1, "tau": 1.0}
    draws = []
    for change in (0, 1):
        torch.manual_seed(0)
        model = network_of(SMALL["network"] | {"activation": "relu"})
        settings = parse({"a": run}).a
        optimizer = optimizer_of(settings, {"depth": 2}, model, 0, change)
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        pairs = zip(model.parameters(), before, strict=True)
        draws.append(torch.cat([(p.detach() - b).flatten() for p, b in pairs]))
    correlation = torch.corrcoef(torch.stack(draws))[0, 1]
    assert abs(float(correlation)) < 0.4  # 151 numbers: five standard errors


def test_constraints_hold_and_are_read() -> None:
    training = trained(30, a={"method": "cola", "h": 0.1, **RULES, "input_radius": 0.3})
    frame = readings.frame(training, [-1, 1, -1, 1], 1, "hidden 1")["a"]
    member = training.runs["a"][1]
    weights = readings.weights_of(member)
    assert float(weights["input"].abs().max()) <= 0.3
    assert frame["geometry"]["picture"] == "singular"
    assert frame["geometry"]["smallest"] == pytest.approx(1.0, abs=1e-4)
    assert frame["layers"]["input"]["bound"] == 0.3
    assert [group["violation"] < 1e-4 for group in frame["groups"]] == [True] * 4
    circle = readings.geometry(member, training.spec.a, "input")
    across, slack = torch.tensor(list(base64.b64decode(circle["values"]))).view(2, -1) / 127.5 - 1
    assert float((across.square() + slack.square() - 1.0).abs().max()) < 0.02  # bytes are coarse
    torch.testing.assert_close(across, weights["input"].flatten() / 0.3, atol=0.005, rtol=0)


def test_the_slack_keeps_its_sign_on_the_circle() -> None:
    training = trained(
        60, a={"method": "cola", "h": 0.5, "tau": 0.5, "input": "circle", "input_radius": 0.2}
    )
    circle = readings.geometry(training.runs["a"][0], training.spec.a, "input")
    slack = torch.tensor(list(base64.b64decode(circle["values"]))).view(2, -1)[1]
    assert int(slack.min()) < 120 < 135 < int(slack.max())


@pytest.mark.parametrize("kind", ["sphere", "unit", "norm"])
def test_norms_are_read(kind: str) -> None:
    training = trained(5, a={"method": "cola", "input": kind, "input_radius": 0.5})
    circle = readings.geometry(training.runs["a"][0], training.spec.a, "input")
    pair = torch.tensor(list(base64.b64decode(circle["values"]))).view(2, -1) / 127.5 - 1
    torch.testing.assert_close(pair.square().sum(0), torch.ones(pair.shape[1]), atol=0.02, rtol=0)


def test_temperature_and_friction_are_the_librarys() -> None:
    training = trained(20, a={"method": "adlala", "h": 0.1, "tau": 1e-3, "tau2": 1e-2})
    optimizer = training.runs["a"][0].optimizer
    assert isinstance(optimizer, cl.CoLA)
    found = readings.groups(training.runs["a"][0])
    assert [group["name"] for group in found] == ["hidden", "output"]
    assert [group["target"] for group in found] == [1e-3, 1e-2]
    assert [group["kinetic"] for group in found] == [
        readings.rounded(value) for value in cl.kinetic_temperature(optimizer)
    ]
    assert all(group["kinetic"] is not None for group in found)
    assert found[0]["friction"] is not None
    assert found[1]["friction"] is None


def test_a_member_that_diverges_stops_alone() -> None:
    training = trained(1, a={"method": "sgd", "h": 0.1})
    with torch.no_grad():
        training.runs["a"].weights()["0.weight"][0].fill_(math.nan)
    for _ in range(3):
        training.step()
    stopped = training.runs["a"].stopped
    assert stopped[0] is not None
    assert "finite" in stopped[0]
    assert stopped[1] is None
    assert not training.over
    frame = readings.frame(training, [-1, 1, -1, 1], 0, "input")["a"]
    assert frame["scores"][0][0] is None
    assert frame["geometry"]["picture"] == "none"


def test_a_refused_change_leaves_everything_as_it_was() -> None:
    training = trained(3, a={"method": "cola"})
    before = training.spec, training.runs["a"]._ensemble
    with pytest.raises(ValueError, match="must be"):
        training.change("a", {"h": 50.0})
    assert (training.spec, training.runs["a"]._ensemble) == before
    assert training.changes == []


def test_a_change_at_the_start_is_the_start() -> None:
    training = trained(0, a={"method": "cola"})
    training.change("a", {"input": "circle", "input_radius": 0.1})
    assert training.changes == []
    assert training.start.a["input"] == "circle"
    assert float(readings.weights_of(training.runs["a"][0])["input"].abs().max()) <= 0.1


def test_the_mean_of_all_members_is_shown() -> None:
    training = trained(30, a={"method": "langevin", "h": 0.1, "tau": 0.1})
    grid = readings.grid_of([-1, 1, -1, 1], readings.GRID)
    expected = training.runs["a"].outputs(grid).sigmoid().mean(dim=0)
    frame = readings.frame(training, [-1, 1, -1, 1], readings.MEAN, "input")["a"]
    found = torch.tensor(list(base64.b64decode(frame["region"]))) / 255
    torch.testing.assert_close(found, expected, atol=0.003, rtol=0)
    one = readings.frame(training, [-1, 1, -1, 1], 0, "input")["a"]
    assert one["region"] != frame["region"]
    assert one["geometry"] == frame["geometry"]


def test_the_grid_is_that_of_the_picture() -> None:
    grid = readings.grid_of([-1.0, 1.0, -2.0, 2.0], 4)
    assert grid[0].tolist() == [-0.75, 1.5]
    assert grid[1].tolist() == [-0.25, 1.5]
    assert grid[4].tolist() == [-0.75, 0.5]


def test_points_lie_within_the_picture() -> None:
    training = trained(0)
    sent = readings.problem(training)
    assert min(sent["train"]["places"]) > 0
    assert max(sent["test"]["places"]) < 4095
    assert sent["layers"] == ["input", "hidden 1", "output"]
