"""Other people's samplers on surfaces: mici, OLLA with the ones beside it, and geoopt."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from colangevin.lab.bench.contestant import Unavailable
from colangevin.lab.bench.known_laws import Law
from colangevin.lab.bench.peers import need
from colangevin.lab.bench.samplers import Amount, Draw, starts

OLLA_FOLDER = "COLANGEVIN_OLLA"
"""Environment variable with the folder of a checkout of github.com/KraitGit/OLLA."""


# --- mici: chain by chain ---------------------------------------------------------------------


def mici(law: Law, amount: Amount) -> Tensor:
    """Its dynamic multinomial sampler with its step adapter, on functions of NumPy."""
    library = need("mici")
    need("mici.systems"), need("mici.integrators"), need("mici.samplers"), need("mici.adapters")
    functions = NUMPY.get(law.name.partition(":")[0])
    if functions is None:
        raise Unavailable("not run: this law has no functions of NumPy here")
    potential, slope, values, jacobian = functions
    system = library.systems.DenseConstrainedEuclideanMetricSystem(
        neg_log_dens=potential, grad_neg_log_dens=slope, constr=values, jacob_constr=jacobian
    )
    sampler = library.samplers.DynamicMultinomialHMC(
        system,
        library.integrators.ConstrainedLeapfrogIntegrator(system),
        np.random.default_rng(amount.seed),
    )
    found = sampler.sample_chains(
        n_warm_up_iter=amount.few_draws // 2,
        n_main_iter=amount.few_draws,
        init_states=list(starts(law, amount.few, amount.seed).numpy()),
        adapters=[library.adapters.DualAveragingStepSizeAdapter(0.8)],
        trace_funcs=[lambda state: {"q": state.pos}],
        display_progress=False,
    )
    return torch.tensor(np.stack(found.traces["q"]))


def _torus_slopes(q: Any) -> Any:
    far = np.sqrt(q[0] ** 2 + q[1] ** 2)
    gap = far - 1.0
    return 2.0 * np.array([[gap * q[0] / far, gap * q[1] / far, q[2]]])


def _stiefel_slopes(q: Any) -> Any:
    found = np.zeros((3, 6))
    found[0, 0::2], found[1, 1::2] = 2 * q[0::2], 2 * q[1::2]
    found[2, 0::2], found[2, 1::2] = q[1::2], q[0::2]
    return found


def _quartic_potential(q: Any) -> Any:
    return q @ q / 2 if q[0] ** 3 - q[1] ** 3 <= 1.0 else np.inf


_FISHER = np.concatenate([[-5.0], np.zeros(9)])
_TORUS = np.array([-1.0, 0.0, 0.5])
_FRAME = np.array([1.2, 0.0, 0.0, 0.9, 0.6, -0.3])
_SPHERE = (lambda q: np.array([q @ q - 1.0]), lambda q: 2.0 * q[None])

NUMPY: dict[str, tuple[Any, Any, Any, Any]] = {
    "von Mises–Fisher on the sphere in 10 dimensions, κ = 5": (
        lambda q: _FISHER @ q,
        lambda q: _FISHER,
        *_SPHERE,
    ),
    "OLLA's circle": (lambda q: q @ q / 2, lambda q: q, *_SPHERE),
    "U = −x + z/2 on a torus": (
        lambda q: _TORUS @ q,
        lambda q: _TORUS,
        lambda q: np.array([(np.sqrt(q[0] ** 2 + q[1] ** 2) - 1.0) ** 2 + q[2] ** 2 - 0.25]),
        _torus_slopes,
    ),
    "matrix Langevin on Stiefel(3, 2)": (
        lambda q: -_FRAME @ q,
        lambda q: -_FRAME,
        lambda q: np.array([q[0::2] @ q[0::2] - 1.0, q[1::2] @ q[1::2] - 1.0, q[0::2] @ q[1::2]]),
        _stiefel_slopes,
    ),
    "OLLA's quadratic_poly": (
        _quartic_potential,
        lambda q: q,
        lambda q: np.array([q[0] ** 4 * q[1] ** 2 + q[0] ** 2 + q[1] - 1.0]),
        lambda q: np.array([[4 * q[0] ** 3 * q[1] ** 2 + 2 * q[0], 2 * q[0] ** 4 * q[1] + 1.0]]),
    ),
}
"""U, its gradient, h and its Jacobian, as mici wants them."""


# --- OLLA and the samplers beside it ----------------------------------------------------------


def olla(name: str, step_size: float) -> Draw:
    """A sampler of OLLA's repository, if the user has one.

    Its settings are those of its own experiments in two dimensions, but for the step: α follows
    it, so that αh stays at 0.1 and the distance from the surface falls as fast per step. The
    samplers with projections have 10 iterations for them: where one chain's projection fails,
    none of the chains moves, and with 3 iterations that is almost always so at this step.
    """
    module, settings = OLLA[name]

    def draw(law: Law, amount: Amount) -> Tensor:
        with _olla_checkout() as folder:
            kind = getattr(_import_olla(folder, module), name.replace("-", "_"))
            own = {"alpha": 0.1 / step_size, **settings} if "OLLA" in name else settings
            sampler = kind(
                constraint_funcs={"h": list(law.equations), "g": list(law.walls)},
                num_steps=amount.warmup + amount.half,
                step_size=step_size,
                seed=amount.seed,
                **own,
            )
            first = starts(law, amount.of(law), amount.seed).numpy()
            found = sampler.sample(x0=first, potential_fn=law.potential)["trajectory"]
        return torch.tensor(found[-amount.half :]).transpose(0, 1)

    return draw


OLLA: dict[str, tuple[str, dict[str, Any]]] = {
    "OLLA": ("olla", {"epsilon": 1.0, "proj_damp": 0.0}),
    "OLLA-H": ("olla_h", {"epsilon": 1.0, "proj_damp": 0.0, "num_hutchinson_samples": 5}),
    "CLangevin": ("clangevin", {"proj_iters": 10, "proj_tol": 1e-4, "proj_damp": 0.1}),
    "CHMC": ("chmc", {"proj_iters": 10, "proj_tol": 1e-4, "proj_damp": 0.0, "gamma": 1.0}),
    "CGHMC": ("cghmc", {"proj_iters": 10, "proj_tol": 1e-4, "proj_damp": 0.0, "gamma": 1.0}),
}
"""Where the samplers are, and their settings."""


@contextmanager
def _olla_checkout() -> Iterator[Path]:
    """The folder; its progress bars go nowhere meanwhile."""
    folder = os.environ.get(OLLA_FOLDER)
    if not folder:
        raise Unavailable(f"not installed: {OLLA_FOLDER} names no checkout")
    with open(os.devnull, "w") as nowhere:
        kept, sys.stderr = sys.stderr, nowhere
        try:
            yield Path(folder)
        finally:
            sys.stderr = kept


def _import_olla(folder: Path, module: str) -> Any:
    """Its package has the name ``src``, so its folder is on the path only meanwhile."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"src.samplers.{module}")
    except ImportError as error:
        raise Unavailable(f"not installed: {folder} has no samplers ({error})") from None
    finally:
        sys.path.remove(str(folder))


# --- geoopt -----------------------------------------------------------------------------------


def geoopt(step_size: float, leaps: int) -> Draw:
    """Its Riemannian HMC on spheres and Stiefel matrices; all chains are one tensor.

    It moves without a test, and its manifolds take tensors of many points.
    """

    def draw(law: Law, amount: Amount) -> Tensor:
        library = need("geoopt")
        need("geoopt.samplers")
        frames = "Stiefel" in law.name
        manifold = library.CanonicalStiefel()
        first = starts(law, amount.of(law), amount.seed)
        first = first.unflatten(1, (3, 2) if frames else (-1, 1))
        torch.manual_seed(amount.seed)
        q = library.ManifoldParameter(first, manifold=manifold)
        sampler = library.samplers.RHMC([q], epsilon=step_size, n_steps=leaps)
        energy = lambda: -vmap(law.potential)(q.flatten(1)).sum()  # noqa: E731
        sampler.burnin = False
        found = []
        for _ in range(amount.warmup // leaps + amount.half):
            sampler.step(energy)
            found.append(q.detach().flatten(1).clone())
        return torch.stack(found[-amount.half :], dim=1)

    return draw
