"""Where the energy of DHSGD goes with exact gradients, section 3.3.2."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

import colangevin as cl
from partitioned.problem import loss, negative_gradient, start
from targets import fitted_order


def trajectory(step_size: float, time: float, **options: bool) -> tuple[list[float], list[Tensor]]:
    """H = |p|²/2 + L at every step, p at the same time as the positions; the last positions."""
    parameters = start()
    parts = {"first": parameters[:1], "last": parameters[1:]}
    optimizer = cl.DHSGD(parts, step_size, **options)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(*parameters)
        value.backward()
        return value

    energies = [loss(*parameters).item()]
    for _ in range(round(time / step_size)):
        optimizer.step(closure)
        # Between calls the momentum still waits for the closing half kick (3.30).
        with torch.no_grad():
            force = negative_gradient_of(parameters)
            p_half = -step_size * optimizer.state[parameters[0]]["momentum_buffer"]
            p = p_half + step_size / 2 * force
            energies.append(float(p.square().sum() / 2 + loss(*parameters)))
    return energies, [parameter.detach().clone() for parameter in parameters]


def negative_gradient_of(parameters: list[torch.nn.Parameter]) -> Tensor:
    with torch.enable_grad():
        return negative_gradient([parameter.detach() for parameter in parameters])[0]


STEPS = [0.04, 0.02, 0.01, 0.005]


def test_dhsgd_dissipates_nothing_as_the_step_goes_to_zero() -> None:
    """Over a fixed time the dissipation is of the order of h: (h/2)|G₂|² a unit of time."""
    lost = []
    for step_size in STEPS:
        energies, _ = trajectory(step_size, 2.0)
        lost.append(energies[0] - energies[-1])
    assert all(loss > 0 for loss in lost)
    assert fitted_order(STEPS, lost) == pytest.approx(1.0, abs=0.15)
    contractive, _ = trajectory(STEPS[-1], 2.0, contractive=True)
    assert lost[-1] < 0.05 * (contractive[0] - contractive[-1])


def test_dhsgd_conserves_the_energy_of_its_first_part_beside_a_fixed_second() -> None:
    """Verlet: the energy oscillates by O(h²) and does not drift."""
    swings = []
    for step_size in STEPS:
        parameter = start()[0]
        fixed = start()[1].detach()
        optimizer = cl.Langevin([parameter], step_size, friction=0.0, temperature=0.0)
        energies = []
        for _ in range(round(10.0 / step_size)):
            optimizer.zero_grad()
            loss(parameter, fixed).backward()
            before = optimizer.state[parameter].get("momentum_buffer", torch.zeros(5))
            opening = 1.0 if len(energies) else 0.0
            p = -step_size * (before + 0.5 * opening * parameter.grad)
            energies.append((p.square().sum() / 2 + loss(parameter, fixed)).item())
            optimizer.step()
        errors = np.abs(np.array(energies) - energies[0])
        swings.append(errors.max())
        half = len(errors) // 2
        assert errors[half:].max() < 1.5 * errors[:half].max()
    assert fitted_order(STEPS, swings) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("heun", [False, True])
def test_contractive_dhsgd_dissipates(heun: bool) -> None:
    energies, _ = trajectory(0.01, 10.0, contractive=True, heun=heun)
    rises = np.diff(energies).max()
    lost = energies[0] - energies[-1]
    assert lost > 0.3
    # Verlet's energy error is O(h²) a unit of time, so O(h³) a step.
    assert rises < 1e-4 * lost


def exact_end(time: float) -> np.ndarray:
    first, second = (part.detach() for part in start())

    def flow(_: float, x: np.ndarray) -> np.ndarray:
        theta = [torch.from_numpy(x[:5].copy()), torch.from_numpy(x[10:].copy())]
        g1, g2 = negative_gradient(theta)
        return np.concatenate([x[5:10], g1.numpy(), g2.numpy()])

    begin = np.concatenate([first.numpy(), np.zeros(5), second.numpy()])
    solution = solve_ivp(flow, (0.0, time), begin, method="DOP853", rtol=1e-12, atol=1e-12)
    end = solution.y[:, -1]
    return np.concatenate([end[:5], end[10:]])


@pytest.mark.parametrize(("heun", "order"), [(False, 1.0), (True, 2.0)])
def test_order_of_the_contractive_method(heun: bool, order: float) -> None:
    exact = exact_end(2.0)
    errors = []
    for step_size in STEPS:
        _, end = trajectory(step_size, 2.0, contractive=True, heun=heun)
        errors.append(np.abs(torch.cat(end).numpy() - exact).max())
    assert fitted_order(STEPS, errors) == pytest.approx(order, abs=0.15)


def test_contractive_dhsgd_loses_energy_at_the_rate_of_the_second_gradient() -> None:
    """dH/dt = −|G₂|², compared with its integral along the path."""
    parameters = start()
    step_size = 1e-3
    optimizer = cl.DHSGD({"first": parameters[:1], "last": parameters[1:]}, step_size, True)
    dissipated, begun = 0.0, loss(*parameters).item()
    for _ in range(1000):
        optimizer.zero_grad()
        loss(*parameters).backward()
        dissipated += step_size * float(parameters[1].grad.square().sum())
        optimizer.step()
    p = -step_size * optimizer.state[parameters[0]]["momentum_buffer"]
    lost = begun - loss(*parameters).item() - float(p.square().sum() / 2)
    assert lost == pytest.approx(dissipated, rel=0.01)
