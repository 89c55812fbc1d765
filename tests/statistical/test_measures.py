"""Every constraint samples exp(-U / tau) with respect to the surface measure of its manifold.

All chains start at one point, so an average that agrees with the exact one has been brought
there by the dynamics. Each test also says which wrong values its precision excludes: the same
density at half (double) the temperature, and where the surface measure is not the obvious one,
the obvious one.

The choice of the step sizes. Every target has a relaxation time of about 1, in units of which
``burn`` is given. At temperature 1 on the unit circle the bias of E cos is 0.16 h overdamped,
0.18 h for OBA at friction 1 and 0.006 h^2 for BAOAB (test_order.py), while halving the
temperature shifts it by 0.25; the other targets are alike. So ``h`` is 0.01 to 0.03 for the
methods of first order and 0.2 for BAOAB, which leaves a bias of 0.002 to 0.005, and the number
of chains makes the standard error 0.005 to 0.015: above the bias, and 15 to 50 times less than
the shift. The general constraints are slow, so their chains start at a point from which the
slowest mode of the observables is hardly excited; where a projection iterates, its tolerance is
far below the standard error instead of at rounding level, which other tests ask for.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import targets
from chains import OVERDAMPED, Observable, Run, Target, estimates, integrate, optimize
from colangevin.constraints import (
    Box,
    Circle,
    DiagonalGram,
    General,
    Massive,
    NonNegative,
    Orthogonal,
    Simplex,
    Spectral,
    Sphere,
    State,
    Unconstrained,
)

pytestmark = [
    pytest.mark.statistical,
    # The fallback of large steps is not what is tested here.
    pytest.mark.filterwarnings("error::colangevin.errors.ProjectionWarning"),
]

WORDS = [OVERDAMPED, "OBA", "BAOAB"]


class Known(NamedTuple):
    """An observable, its exact expectation, and values that a wrong sampler would give."""

    observable: Observable
    exact: float
    wrong: tuple[float, ...] = ()


class Case(NamedTuple):
    target: Target
    known: dict[str, Known]

    def check(self, driver: Callable, run: Run, seed: int) -> None:
        found = estimates(
            driver(self.target, run, seed), {n: k.observable for n, k in self.known.items()}
        )
        for name, known in self.known.items():
            found[name].check(known.exact, *known.wrong)


def plan(word: str, chains: int = 1500, burn: float = 6.0, samples: int = 3) -> Run:
    """Samples are one relaxation time apart, or two with momenta, whose burn-in is longer."""
    if word == OVERDAMPED:
        return Run(word, 0.01, burn, samples, 1.0, chains)
    return Run(word, 0.2 if word == "BAOAB" else 0.02, burn + 3.0, samples, 2.0, chains)


def zero(position: Tensor) -> Tensor:
    return 0.0 * position


def linear(direction: list) -> Callable[[Tensor], Tensor]:
    """U = -<direction, q>."""
    pull = torch.tensor(direction, dtype=torch.float64)
    return lambda q: -(q * pull)


# --- circle ---------------------------------------------------------------------------------


def circle(kappa: float = 1.0) -> Case:
    """Von Mises: U = -s theta on a circle of radius r has kappa = s r / tau."""
    radius, temperature = 0.5, 0.25
    moment = targets.von_mises_moment
    return Case(
        Target(
            Circle(radius),
            torch.tensor(-0.2),
            lambda theta: -(kappa * temperature / radius) * theta,
            temperature,
        ),
        {
            "cos": Known(
                lambda s: s.position / radius, moment(kappa), (moment(2 * kappa), moment(kappa / 2))
            ),
            "cos2": Known(
                lambda s: (s.position / radius) ** 2,
                (1 + moment(kappa, 2)) / 2,
                ((1 + moment(2 * kappa, 2)) / 2,),
            ),
            # The slack goes round the circle: both of its signs are equally likely.
            "slack": Known(lambda s: s.slack.cos(), 0.0),
        },
    )


@pytest.mark.parametrize("word", WORDS)
def test_von_mises_on_the_circle(word: str) -> None:
    circle().check(integrate, plan(word, chains=4000), seed=1)


# --- sphere ---------------------------------------------------------------------------------


def sphere(kappa: float = 1.5) -> Case:
    """Von Mises-Fisher on rows of length 3 and norm r."""
    radius, temperature, mean = 2.0, 4.0, targets.von_mises_fisher_mean
    axis = torch.tensor([1.0, -2.0, 2.0], dtype=torch.float64) / 3
    return Case(
        Target(
            Sphere(radius, equality=True),
            torch.tensor([0.0, 0.0, -radius]),
            lambda w: -(kappa * temperature / radius) * (w @ axis),
            temperature,
        ),
        {
            "along": Known(
                lambda s: s.position @ axis / radius,
                mean(kappa),
                (mean(2 * kappa), mean(kappa / 2), targets.von_mises_cosine(kappa)),
            ),
            "across": Known(lambda s: (s.position[:, 1] + s.position[:, 2]) / radius, 0.0),
        },
    )


def ball(kappa: float = 1.5) -> Case:
    """Rows of length 2 with a slack: the density of a sphere in 3 dimensions."""
    mean = targets.von_mises_fisher_mean
    axis = torch.tensor([0.6, 0.8], dtype=torch.float64)
    return Case(
        Target(Sphere(1.0), torch.tensor([-0.5, 0.3]), lambda w: -kappa * (w @ axis)),
        {
            "along": Known(
                lambda s: s.position @ axis,
                mean(kappa),
                # Uniform on the disc instead of on the half sphere above it; on its edge.
                (mean(2 * kappa), disc_mean(kappa), targets.von_mises_cosine(kappa)),
            ),
            # E t^2 = 1 - 2 E t / kappa along the axis; the other two share the rest.
            "slack2": Known(lambda s: s.slack**2, mean(kappa) / kappa, (0.25,)),
        },
    )


def disc_mean(kappa: float) -> float:
    """E x for the density exp(kappa x) on the unit disc, where x has the weight sqrt(1 - x^2)."""
    t = targets.angles(2000)
    return targets.weighted_mean(np.cos(t), -kappa * np.cos(t), np.sin(t) ** 2)


def frobenius(kappa: float = 3.0) -> Case:
    """Each weight of a stack on one sphere, of 4 dimensions; here its entries are in a row."""
    radius, mean = 1.5, targets.von_mises_fisher_resultant
    return Case(
        Target(
            Sphere(radius, equality=True, dim=None, batch_dims=1),
            torch.tensor([0.0, -radius, 0.0, 0.0]),
            lambda w: -(kappa / radius) * w.flatten(1)[:, 0],
        ),
        {
            "along": Known(
                lambda s: s.position.flatten(1)[:, 0] / radius,
                mean(kappa, 4),
                # At other temperatures; with a sphere for each row.
                (mean(2 * kappa, 4), mean(kappa / 2, 4), mean(kappa, 2)),
            ),
            "across": Known(lambda s: s.position.flatten(1)[:, 3] / radius, 0.0),
        },
    )


def matrices() -> Case:
    """The same with 2 x 2 matrices, whose layout is the optimizer's matter."""
    case = frobenius()
    return case._replace(target=case.target._replace(start=case.target.start.view(2, 2)))


def uniform() -> Case:
    """Without a potential E w^2 = r^2/n and E w^4 = 3 r^4/(n(n + 2)), n = 4."""
    case = frobenius()
    square = Known(lambda s: s.position.flatten(1)[:, 2] ** 2 / 2.25, 1 / 4, (1 / 2, 1.0))
    fourth = Known(lambda s: s.position.flatten(1)[:, 2] ** 4 / 2.25**2, 3 / 24, (3 / 8, 3 / 16))
    return Case(case.target._replace(potential=zero), {"second": square, "fourth": fourth})


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("case", [sphere, ball, frobenius, uniform])
def test_von_mises_fisher_on_the_sphere(case: Callable[[], Case], word: str) -> None:
    case().check(integrate, plan(word), seed=2)


# --- Stiefel --------------------------------------------------------------------------------


def haar(rows: int, columns: int) -> Case:
    """No potential. The mean of all Q_ij^2 is 1/r on the manifold itself, so take one entry."""
    start = torch.eye(rows, columns)
    return Case(
        Target(Orthogonal(batch_dims=1, tolerance=1e-7), start, zero),
        {
            "second": Known(
                lambda s: s.position[:, 0, 0] ** 2, targets.haar_second_moment(rows), (1.0,)
            ),
            "fourth": Known(
                lambda s: (s.position**4).mean(dim=(1, 2)),
                targets.haar_fourth_moment(rows),
                (3 / rows**2, 1 / rows**2),  # Gaussian entries; entries of equal size
            ),
        },
    )


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("shape", [(4, 2), (3, 3)])
def test_haar_on_the_stiefel_manifold(shape: tuple[int, int], word: str) -> None:
    """Noise and projection commute with rotations, so Haar's measure has no bias at any step."""
    # The slowest mode of the squares relaxes with the rate 2r.
    run = Run(word, 0.2 if word == "BAOAB" else 0.1, 4.0, 4, 2.0, chains=1500)
    if word == OVERDAMPED:
        run = Run(word, 0.01, 1.0, 2, 0.5, chains=1500)
    haar(*shape).check(integrate, run, seed=3)


def matrix_langevin_21() -> Case:
    moment = targets.von_mises_moment
    return Case(
        Target(
            Orthogonal(batch_dims=1, tolerance=1e-7),
            torch.tensor([[0.0], [-1.0]]),
            linear([[1.0], [0.0]]),
        ),
        {
            "first": Known(
                lambda s: s.position[:, 0, 0],
                targets.matrix_langevin_21(lambda q: q[..., 0, 0], 1.0),
                (moment(2.0), moment(0.5)),
            ),
        },
    )


def matrix_langevin_32() -> Case:
    """Density exp(tr(F^T Q)) for weights scale * Q."""
    scale, temperature = 1.5, 2.25
    f = np.array([[1.2, 0.0], [0.0, 0.9], [0.6, -0.3]])
    weight = torch.tensor(f)

    def trace(q: np.ndarray) -> np.ndarray:
        return (f * q).sum(axis=(-2, -1))

    def mean(observable: targets.MatrixFunction, factor: float) -> float:
        return targets.matrix_langevin_32(observable, factor * f)

    def minor(q: np.ndarray) -> np.ndarray:
        return q[..., 0, 0] * q[..., 1, 1] - q[..., 0, 1] * q[..., 1, 0]

    return Case(
        Target(
            Orthogonal(batch_dims=1, scale=scale, tolerance=1e-7),
            -scale * torch.eye(3, 2),
            linear((f * temperature / scale).tolist()),
            temperature,
        ),
        {
            "trace": Known(
                lambda s: (s.position * weight).sum(dim=(1, 2)) / scale,
                mean(trace, 1.0),
                (mean(trace, 2.0), mean(trace, 0.5)),
            ),
            "minor": Known(
                lambda s: torch.from_numpy(minor(s.position.numpy())) / scale**2,
                mean(minor, 1.0),
                (mean(minor, 2.0),),
            ),
        },
    )


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("case", [matrix_langevin_21, matrix_langevin_32])
def test_matrix_langevin_on_the_stiefel_manifold(case: Callable[[], Case], word: str) -> None:
    case().check(integrate, plan(word, burn=3.0, samples=2), seed=4)


# --- walls ----------------------------------------------------------------------------------


def truncated(power: int, low: float, high: float, mean: float, variance: float) -> float:
    """E x^power of a Gaussian between walls."""
    x = np.linspace(low, high, 20001)
    density = np.exp(-((x - mean) ** 2) / (2 * variance))
    return float((density * x**power).sum() / density.sum())


def box() -> Case:
    """A Gaussian of mean 0.8 and variance 0.5 between -0.5 and 1."""
    wall = {"low": -0.5, "high": 1.0, "mean": 0.8}

    def known(power: int) -> Known:
        exact = truncated(power, variance=0.5, **wall)
        others = [truncated(power, variance=v, **wall) for v in (0.25, 1.0)]
        # Weights that stop at the walls: the same Gaussian, clipped.
        x = 0.8 + 0.5**0.5 * np.random.default_rng(0).standard_normal(400000)
        clipped = float((x.clip(-0.5, 1.0) ** power).mean())
        return Known(lambda s: s.position**power, exact, (*others, clipped))

    start = torch.tensor(0.5)
    target = Target(Box(-0.5, 1.0), start, lambda w: (w - 0.8) ** 2, 1.0)
    return Case(target, {"first": known(1), "second": known(2)})


def half_line() -> Case:
    """exp(-2w) on w >= 0, whose force presses against the wall."""
    return Case(
        Target(NonNegative(), torch.tensor(0.3), lambda w: 2.0 * w),
        {
            "first": Known(lambda s: s.position, 0.5, (0.25, 1.0)),
            "second": Known(lambda s: s.position**2, 0.5, (0.125, 2.0)),
        },
    )


def flat_simplex() -> Case:
    """Dirichlet with all parameters 1: E w^2 = 2/(n(n + 1)), E w1 w2 = 1/(n(n + 1)), n = 4."""
    return Case(
        Target(Simplex(), torch.full((4,), 0.25), zero),
        {
            # All parameters 1/2: squares of a uniform point of the sphere.
            "second": Known(lambda s: s.position[:, 0] ** 2, 1 / 10, (1 / 8,)),
            "product": Known(lambda s: s.position[:, 0] * s.position[:, 1], 1 / 20, (1 / 24,)),
        },
    )


def dirichlet() -> Case:
    """A loss that makes it Dirichlet(9, 6, 5), which keeps away from the faces' infinite force."""
    alphas = np.array([9.0, 6.0, 5.0])
    less_one = torch.tensor(alphas - 1.0)

    def spread(factor: float) -> float:
        """The variance about 9/20, if the loss counts ``factor`` times."""
        own = 1.0 + factor * (alphas - 1.0)
        first = own[0] / own.sum()
        variance = first * (1.0 - first) / (own.sum() + 1.0)
        return float(variance + (first - 0.45) ** 2)

    return Case(
        Target(Simplex(), torch.full((3,), 1.0 / 3.0), lambda w: -(w.log() @ less_one)),
        {
            "first": Known(lambda s: s.position[:, 0], 0.45, (1 / 3,)),
            "variance": Known(
                lambda s: (s.position[:, 0] - 0.45) ** 2, spread(1.0), (spread(0.5), spread(2.0))
            ),
        },
    )


def spectral_ball() -> Case:
    """2 x 2 matrices: the density of singular values is |a^2 - b^2|, E|W|^2 = 4 r^2/5."""
    square = Known(
        lambda s: s.position.square().sum(dim=(1, 2)),
        0.8,
        (2 / 3, 1.2),  # both singular values uniform; the larger one on the boundary
    )
    determinant = Known(lambda s: torch.linalg.det(s.position) ** 2, 1 / 10, (1 / 5, 1 / 16))
    target = Target(Spectral(1.0, batch_dims=1), 0.3 * torch.eye(2), zero)
    return Case(target, {"square": square, "determinant": determinant})


def spectral_sphere() -> Case:
    """sigma_1 = r = 2: the density of s = sigma_2/r is 1 - s^2, so that E s^2 = 1/5."""
    start = torch.diag(torch.tensor([2.0, 0.5]))
    target = Target(Spectral(2.0, equality=True, batch_dims=1), start, zero)
    share = Known(
        lambda s: (torch.linalg.det(s.position) / 4.0) ** 2,
        1 / 5,
        (1 / 3, 1 / 2),  # without the factor of the surface; sigma_2 ds as on the ball
    )
    return Case(target, {"share": share})


def diagonal_gram() -> Case:
    """|w_1|, |w_2| = rho (cos a, sin a): area rho^2 d rho da, where it is not rho d rho da."""
    start = torch.tensor([[1.0, 0.2], [-0.2, 1.0]])
    target = Target(
        DiagonalGram(batch_dims=1, tolerance=1e-8), start, lambda w: w.square().sum(dim=(1, 2)) / 2
    )

    def columns(s: State) -> Tensor:
        return s.position.square().sum(dim=1)

    return Case(
        target,
        {
            "square": Known(lambda s: columns(s).sum(dim=1), 3.0, (1.5, 6.0, 2.0, 4.0)),
            # E rho^4 E cos^2 sin^2 = 15/8; for Gaussian columns 4.
            "both": Known(lambda s: columns(s).prod(dim=1), 15 / 8, (1.0, 4.0)),
        },
    )


WALLS: dict[str, Callable[[], Case]] = {
    "box": box,
    "half line": half_line,
    "flat simplex": flat_simplex,
    "dirichlet": dirichlet,
    "spectral ball": spectral_ball,
    "spectral sphere": spectral_sphere,
    "diagonal gram": diagonal_gram,
}


def wall_plan(name: str, word: str) -> Run:
    """As ``plan``, but where a wall that the loss presses against, or a small set, asks for less.

    On the half line the bias of E w is 0.54 h^2 for BAOAB and 1.0 h overdamped (test_order.py), and
    -0.011 for OBA at h = 0.05. Without a loss there is none at walls.
    """
    if name in ("box", "half line"):
        run = plan(word, chains=8000)
        return run._replace(step={OVERDAMPED: 0.002, "OBA": 0.02, "BAOAB": 0.1}[word], samples=2)
    if name == "flat simplex":
        step = {OVERDAMPED: 1e-3, "OBA": 0.02, "BAOAB": 0.05}[word]
        return Run(word, step, 0.3 if word == OVERDAMPED else 2.0, 2, 0.3, chains=4000)
    if name == "dirichlet":
        if word == OVERDAMPED:
            return Run(word, 1e-4, 0.15, 2, 0.1, chains=1500)
        return Run(word, 0.002 if word == "OBA" else 0.02, 4.0, 2, 2.0, chains=1500)
    step = {OVERDAMPED: 0.01, "OBA": 0.03, "BAOAB": 0.1}[word]
    return Run(word, step, 1.5 if word == OVERDAMPED else 5.0, 2, 1.5, chains=1500)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", WALLS)
def test_the_laws_between_walls(name: str, word: str) -> None:
    WALLS[name]().check(integrate, wall_plan(name, word), seed=10)


# --- general constraints --------------------------------------------------------------------

LONG, SHORT = 1.5, 1.0
AXES = torch.tensor([LONG, SHORT], dtype=torch.float64)


def ellipse_mean(
    observable: targets.PlaneFunction, pull: float, temperature: float = 1.0, flat: bool = False
) -> float:
    """On the ellipse with the potential -pull x, with respect to arc length.

    ``flat`` leaves the factor of arc length out: the measure of the parameter t of
    (a cos t, b sin t), which is also the measure delta(g) of the co-area formula.
    """
    if not flat:
        return targets.ellipse_expectation(
            observable, lambda x, y: -pull * x, temperature, LONG, SHORT
        )
    t = targets.angles(2000)
    x, y = LONG * np.cos(t), SHORT * np.sin(t)
    return targets.weighted_mean(observable(x, y), -pull * x / temperature, np.ones_like(t))


def ellipse_known() -> dict[str, Known]:
    def x(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x

    def x2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x**2

    pull = 0.7
    return {
        "x": Known(
            lambda s: s.position[:, 0],
            ellipse_mean(x, pull),
            (ellipse_mean(x, pull, 0.5), ellipse_mean(x, pull, 2.0)),
        ),
        "x2": Known(
            lambda s: s.position[:, 0] ** 2,
            ellipse_mean(x2, pull),
            (ellipse_mean(x2, pull, flat=True), ellipse_mean(x2, pull, 0.5)),
        ),
    }


def ellipse(projection: str) -> Case:
    constraint = General(
        lambda q: (q / AXES).square().sum() - 1.0,
        projection=projection,
        batch_dims=1,
        tolerance=1e-5,
    )
    return Case(
        Target(constraint, torch.tensor([0.42, -0.96]), linear([0.7, 0.0])), ellipse_known()
    )


def bounded() -> Case:
    """theta^2 / a^2 <= 1: with its slack the same ellipse."""
    constraint = General(
        lambda q: (q / LONG).square() - 1.0, inequality=True, batch_dims=1, tolerance=1e-5
    )
    return Case(Target(constraint, torch.tensor([0.42]), linear([0.7])), ellipse_known())


def torus(projection: str) -> Case:
    """A potential in z alone, so that nothing depends on the slow way round."""
    major, minor, pull = 2.0, 1.0, 1.0

    def g(q: Tensor) -> Tensor:
        return (q[:2].square().sum().sqrt() - major) ** 2 + q[2] ** 2 - minor**2

    def z(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return z

    def outward(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (np.sqrt(x**2 + y**2) - major) / minor

    def mean(observable: targets.SpaceFunction, temperature: float = 1.0) -> float:
        return targets.torus_expectation(
            observable, lambda x, y, z: -pull * z, temperature, major, minor
        )

    return Case(
        Target(
            General(g, projection=projection, batch_dims=1, tolerance=1e-5),
            torch.tensor([0.0, major + 0.8, 0.6]),
            linear([0.0, 0.0, pull]),
        ),
        {
            "z": Known(lambda s: s.position[:, 2], mean(z), (mean(z, 0.5), mean(z, 2.0))),
            # Without the factor R + r cos v of the area, inside and outside would be equal.
            "outward": Known(
                lambda s: (s.position[:, :2].norm(dim=1) - major) / minor, mean(outward), (0.0,)
            ),
        },
    )


# Both projections on both surfaces, without Monte Carlo: test_order.py.
GENERAL = {
    "ellipse": lambda: ellipse("oblique"),
    "torus": lambda: torus("orthogonal"),
    "bounded": bounded,
}


def general_plan(word: str) -> Run:
    """Few steps and many chains, because a step costs much and a chain little."""
    if word == OVERDAMPED:
        return Run(word, 0.01, burn=1.5, samples=2, every=1.0, chains=3000)
    return Run(word, 0.2 if word == "BAOAB" else 0.03, 5.0, samples=2, every=2.0, chains=3000)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", GENERAL)
def test_surface_measure_of_a_general_constraint(name: str, word: str) -> None:
    run = general_plan(word)
    if (name, word) == ("torus", OVERDAMPED):  # the orthogonal projection allows larger steps
        run = run._replace(step=0.02, samples=1, burn=3.0)
    GENERAL[name]().check(integrate, run, seed=5)


# --- through the optimizer ------------------------------------------------------------------


def gaussian() -> Case:
    """BAOAB has no bias in the positions of an unconstrained oscillator."""
    return Case(
        Target(Unconstrained(), torch.tensor(2.0), lambda q: q**2, 0.5),
        {"square": Known(lambda s: s.position**2, 0.25, (0.125, 0.5))},
    )


def anisotropic() -> Case:
    """The masses are like the stiffnesses 1 and 9; what is sampled does not depend on them."""
    stiffness, masses = torch.tensor([1.0, 9.0]).double(), torch.tensor([1.0, 9.0]).double()
    return Case(
        Target(
            Massive(masses),
            torch.tensor([1.0, -0.5]),
            lambda q: (q * q * stiffness).sum(dim=-1) / 2,
            0.5,
        ),
        {
            "soft": Known(lambda s: s.position[:, 0] ** 2, 0.5, (0.25, 1.0)),
            # Noise that is not scaled makes it colder by the mass, overdamped hotter.
            "stiff": Known(lambda s: s.position[:, 1] ** 2, 0.5 / 9, (0.5 / 81, 0.5)),
            "together": Known(lambda s: s.position[:, 0] * s.position[:, 1], 0.0),
        },
    )


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (anisotropic, "OBA"),
        (anisotropic, OVERDAMPED),
        (anisotropic, "BAOAB"),
        (circle, "OBA"),
        (circle, OVERDAMPED),
        (sphere, OVERDAMPED),
        (matrices, "BAOAB"),
        (ball, "BAOAB"),
        (matrix_langevin_32, "BAOAB"),
        (gaussian, "BAOAB"),
        (box, "BAOAB"),
        (half_line, OVERDAMPED),
    ],
)
def test_the_optimizer_samples_the_same_measure(case: Callable[[], Case], word: str) -> None:
    case().check(optimize, plan(word), seed=7)


@pytest.mark.parametrize("name", ["ellipse", "bounded"])
def test_the_optimizer_samples_the_measure_of_a_general_constraint(name: str) -> None:
    GENERAL[name]().check(optimize, general_plan("BAOAB"), seed=8)


def test_a_wide_weight_is_haar_distributed_under_the_optimizer() -> None:
    case = haar(3, 2)
    wide = case.target._replace(start=case.target.start.mT.contiguous())
    known = {
        name: k._replace(observable=lambda s, f=k.observable: f(State(s.position.mT)))
        for name, k in case.known.items()
    }
    Case(wide, known).check(optimize, Run("OBA", 0.1, 4.0, 4, 2.0, chains=1500), seed=9)
