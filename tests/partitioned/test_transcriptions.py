"""Every scheme equals its literal transcription over 500 steps, noise and all."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import colangevin as cl
import reference_partitioned as reference
from partitioned.problem import largest_difference, negative_gradient, run, start

STEPS = 500
TOLERANCE = 1e-12
H = 0.1


def parts_of(parameters: list[torch.nn.Parameter]) -> dict[str, list[torch.nn.Parameter]]:
    return {"first": [parameters[0]], "last": [parameters[1]]}


def beginning() -> list[Tensor]:
    return [part.detach().clone() for part in start()]


def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts)


def gradient_of_joined(whole: list[Tensor]) -> list[Tensor]:
    return [joined(negative_gradient(list(whole[0].split((5, 3)))))]


def test_langevin_oba() -> None:
    parameters = start()
    optimizer = cl.Langevin(parameters, H, friction=0.7, temperature=0.2, scheme="OBA")
    path, noise = run(optimizer, parameters, STEPS)
    theta = joined(beginning())
    p = torch.zeros_like(theta)
    expected = []
    for r in noise.of(8):
        theta, p = reference.oba(theta, p, gradient_of_joined, H, 0.7, 0.2, r)
        expected.append(list(theta.split((5, 3))))
    assert largest_difference(path, expected) < TOLERANCE


@pytest.mark.parametrize("decay_power", [0.0, 0.6])
def test_sgld(decay_power: float) -> None:
    parameters = start()
    optimizer = cl.SGLD(parameters, H, noise=0.3, decay_power=decay_power, decay_steps=50)
    path, noise = run(optimizer, parameters, STEPS)
    theta = joined(beginning())
    expected = []
    for n, r in enumerate(noise.of(8)):
        h = H * (1 + n / 50) ** -decay_power
        theta = reference.sgld(theta, gradient_of_joined, h, 0.3, r)
        expected.append(list(theta.split((5, 3))))
    assert largest_difference(path, expected) < TOLERANCE


def test_langevin_in_layers() -> None:
    parameters = start()
    friction, temperature = {"first": 0.3, "last": 4.0}, {"first": 0.2, "last": 0.05}
    optimizer = cl.LangevinInLayers(parts_of(parameters), H, friction, temperature)
    path, noise = run(optimizer, parameters, STEPS)
    theta = beginning()
    p = [torch.zeros_like(part) for part in theta]
    expected = []
    for r in zip(noise.of(5), noise.of(3), strict=True):
        theta, p = reference.baoab_in_layers(
            theta, p, negative_gradient, H, [0.3, 4.0], [0.2, 0.05], list(r)
        )
        expected.append(theta)
    assert largest_difference(path, expected) < TOLERANCE


@pytest.mark.parametrize("tau_2", [0.0, 0.1])
def test_lol(tau_2: float) -> None:
    parameters = start()
    optimizer = cl.LOL(parts_of(parameters), H, 0.3, 0.2, tau_2)
    path, noise = run(optimizer, parameters, STEPS)
    theta = beginning()
    zeros = [torch.zeros(3, dtype=torch.float64)] * (STEPS + 1)
    second = noise.of(3) or zeros
    p = reference.lol_start(theta, negative_gradient, H, tau_2, second[0])
    expected = []
    for r_1, r_2 in zip(noise.of(5), second[1:], strict=True):
        theta, p = reference.lol(theta, p, negative_gradient, H, 0.3, 0.2, tau_2, r_1, r_2)
        expected.append(theta)
    assert largest_difference(path, expected) < TOLERANCE


def test_infinite_friction_in_baoab_is_its_limit_with_averaged_noise() -> None:
    parameters = start()
    optimizer = cl.Langevin(parameters, H, friction=math.inf, temperature=0.2)
    path, noise = run(optimizer, parameters, STEPS)
    theta = joined(beginning())
    drawn = noise.of(8)
    expected = []
    for r_before, r in pairwise(drawn):
        theta = reference.baoab_limit(theta, gradient_of_joined, H, 0.2, r, r_before)
        expected.append(list(theta.split((5, 3))))
    assert largest_difference(path, expected) < TOLERANCE


@pytest.mark.parametrize("contractive", [False, True])
def test_dhsgd(contractive: bool) -> None:
    parameters = start()
    optimizer = cl.DHSGD(parts_of(parameters), H, contractive=contractive)
    path, noise = run(optimizer, parameters, STEPS)
    assert not noise.drawn
    theta = beginning()
    p = torch.zeros_like(theta[0])
    expected = []
    for _ in range(STEPS):
        theta, p = reference.dhsgd(theta, p, negative_gradient, H, H if contractive else None)
        expected.append(theta)
    assert largest_difference(path, expected) < TOLERANCE


def test_dhsgd_with_heun() -> None:
    parameters = start()
    optimizer = cl.DHSGD(parts_of(parameters), H, contractive=True, heun=True)
    path, _ = run(optimizer, parameters, STEPS)
    theta = beginning()
    p = torch.zeros_like(theta[0])
    expected = []
    for _ in range(STEPS):
        theta, p = reference.dhsgd_heun(theta, p, negative_gradient, H)
        expected.append(theta)
    assert largest_difference(path, expected) < TOLERANCE


def test_lol_without_friction_and_temperature_is_dhsgd() -> None:
    one, other = start(), start()
    lol = cl.LOL(parts_of(one), H, friction=0.0, temperature=0.5, overdamped_temperature=0.0)
    path, _ = run(lol, one, STEPS)
    expected, _ = run(cl.DHSGD(parts_of(other), H), other, STEPS)
    assert largest_difference(path, expected) == 0.0


@pytest.mark.parametrize(("scheme", "flow"), [("BACDEDCAB", False), ("BAFEFAB", True)])
@pytest.mark.parametrize("friction", [0.0, 0.8])
def test_adaptive_langevin(scheme: str, flow: bool, friction: float) -> None:
    parameters = start()
    optimizer = cl.AdaptiveLangevin(
        parameters, H, 0.4, 0.3, temperature=0.2, friction=friction, scheme=scheme
    )
    path, noise = run(optimizer, parameters, STEPS)
    theta, xi = joined(beginning()), friction
    p = torch.zeros_like(theta)
    draws = noise.of(8)
    expected = []
    for r_1, r_2 in zip(draws[::2], draws[1::2], strict=True):
        theta, p, xi = reference.bacdedcab(
            theta, p, xi, lambda q: gradient_of_joined([q])[0], H, 0.4, 0.3, 0.2, r_1, r_2, flow
        )
        expected.append(list(theta.split((5, 3))))
    assert largest_difference(path, expected) < TOLERANCE
    assert abs(cl.friction_variable(optimizer)[0] - xi) < TOLERANCE


@pytest.mark.parametrize("friction", [0.0, 0.8])
def test_adaptive_langevin_with_the_feedback_around_the_flow(friction: float) -> None:
    parameters = start()
    optimizer = cl.AdaptiveLangevin(
        parameters, H, 0.4, 0.3, temperature=0.2, friction=friction, scheme="BAEFEAB"
    )
    path, noise = run(optimizer, parameters, STEPS)
    theta, xi = joined(beginning()), friction
    p = torch.zeros_like(theta)
    expected = []
    for r in noise.of(8):
        theta, p, xi = reference.baefeab(
            theta, p, xi, lambda q: gradient_of_joined([q])[0], H, 0.4, 0.3, 0.2, r
        )
        expected.append(list(theta.split((5, 3))))
    assert len(expected) == STEPS
    assert largest_difference(path, expected) < TOLERANCE
    assert abs(cl.friction_variable(optimizer)[0] - xi) < TOLERANCE


@pytest.mark.parametrize("equation", ["2.58", "3.31"])
def test_adlala(equation: str) -> None:
    parameters = start()
    optimizer = cl.AdLaLa(
        parts_of(parameters),
        H,
        0.4,
        0.3,
        0.2,
        friction=1.3,
        langevin_temperature=0.1,
        first_friction=0.7,
        equation=equation,
    )
    path, noise = run(optimizer, parameters, STEPS)
    theta, xi = beginning(), 0.7
    p = [torch.zeros_like(part) for part in theta]
    first = noise.of(5)
    expected = []
    for r in zip(first[::2], first[1::2], noise.of(3), strict=True):
        theta, p, xi = reference.adlala(
            *(theta, p, xi, negative_gradient, H, 0.4, 0.3, 0.2, 1.3, 0.1, list(r)),
            printed=equation == "3.31",
        )
        expected.append(theta)
    assert largest_difference(path, expected) < TOLERANCE
    made = 0.4 if equation == "3.31" else 1.0  # the state has the friction itself
    assert abs(cl.friction_variable(optimizer)[0] - made * xi) < TOLERANCE


def test_weights_and_biases_have_thermostats_of_their_own() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = cl.AdLaLa(cl.partition(model, by="output"), H, separate_biases=True)
    groups = [g for g in optimizer.param_groups if g["thermostat"] == "adaptive"]
    assert [g["names"] for g in groups] == [["0.weight"], ["0.bias"]]
    for _ in range(5):
        model(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
    weights, biases, *_ = cl.friction_variable(optimizer)
    assert weights != biases
    together = cl.AdLaLa(cl.partition(model, by="output"), H, seed=1)
    assert len([g for g in together.param_groups if g["thermostat"] == "adaptive"]) == 1


@pytest.mark.parametrize("kind", [cl.AdLaLa, cl.AdaptiveLangevin])
def test_an_equation_that_nobody_knows_is_refused(kind: type[cl.CoLA]) -> None:
    with pytest.raises(ValueError, match=r"equation must be one of '2.58', '3.31', got '3.30'"):
        kind(parts_of(start()), step_size=H, equation="3.30")  # type: ignore[call-arg]


def test_adaptive_langevin_on_circles() -> None:
    parameters = start()[:1]

    def objective(theta: Tensor) -> Tensor:
        return (theta - 0.2).square().sum() + torch.sin(3 * theta).sum()

    optimizer = cl.AdaptiveLangevin(
        parameters, H, 0.4, 0.3, temperature=0.2, constraint=cl.Circle(radius=0.9)
    )
    theta = parameters[0].detach().clone()
    path, noise = run(optimizer, parameters, STEPS, objective)
    slack, omega, xi = torch.sqrt(0.81 - theta**2), torch.zeros_like(theta), 0.0
    draws = noise.of(5)
    expected = []
    for r_1, r_2 in zip(draws[::2], draws[1::2], strict=True):
        theta, slack, omega, xi = reference.adaptive_circle(
            theta,
            slack,
            omega,
            xi,
            lambda q: -2 * (q - 0.2) - 3 * torch.cos(3 * q),
            0.9,
            H,
            0.4,
            0.3,
            0.2,
            r_1,
            r_2,
        )
        expected.append([theta])
    assert largest_difference(path, expected) < TOLERANCE
    assert abs(cl.friction_variable(optimizer)[0] - xi) < TOLERANCE
