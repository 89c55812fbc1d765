"""Other people's samplers without constraints: posteriors, blackjax and NumPyro."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from colangevin.lab.bench.known_laws import Law, logistic_data
from colangevin.lab.bench.peers import need
from colangevin.lab.bench.samplers import Amount, Draw, starts


def posteriors(step_size: float) -> Draw:
    """SGHMC of posteriors, all chains in one state by ``vmap`` of the potential."""

    def draw(law: Law, amount: Amount) -> Tensor:
        library = need("posteriors")
        torch.manual_seed(amount.seed)
        q = starts(law, amount.of(law), amount.seed)

        def logarithm(points: Tensor, batch: object) -> tuple[Tensor, Tensor]:
            return -vmap(law.potential)(points).sum(), torch.zeros(())

        made = library.sgmcmc.sghmc.build(logarithm, lr=step_size, alpha=1.0)
        state, found = made.init(q), []
        for _ in range(amount.warmup + amount.draws):
            state, _ = made.update(state, None)
            found.append(state.params.detach().clone())
        return torch.stack(found[-amount.draws :], dim=1)

    return draw


_COMPILED: dict[Any, Any] = {}


def _jax() -> Any:
    library = need("jax")
    library.config.update("jax_enable_x64", True)
    library.config.update("jax_platforms", "cpu")
    return library


def blackjax(law: Law, amount: Amount) -> Tensor:
    """NUTS with its window adaptation, all chains by ``vmap``, compiled before the clock runs."""
    library, tools = need("blackjax"), _jax()
    logarithm = _logarithm(law)

    def one(key: Any, start: Any) -> Any:
        tuning, running = tools.random.split(key)
        adapt = library.window_adaptation(library.nuts, logarithm)
        (state, settings), _ = adapt.run(tuning, start, num_steps=amount.few_draws // 2)
        kernel = library.nuts(logarithm, **settings).step

        def step(state: Any, own: Any) -> Any:
            state, _ = kernel(own, state)
            return state, state.position

        return tools.lax.scan(step, state, tools.random.split(running, amount.few_draws))[1]

    made = _COMPILED.setdefault(
        ("blackjax", law.name, amount.many, amount.few_draws), tools.jit(tools.vmap(one))
    )
    keys = tools.random.split(tools.random.key(amount.seed), amount.many)
    first = starts(law, amount.many, amount.seed).numpy()
    return torch.tensor(np.array(made(keys, first).block_until_ready()))


def numpyro(law: Law, amount: Amount) -> Tensor:
    """NUTS of NumPyro with its own warm-up, vectorised; compiled before the clock runs."""
    need("numpyro")
    inference, tools = need("numpyro.infer"), _jax()
    logarithm = _logarithm(law)

    def run(key: Any, first: Any) -> Any:
        chains = inference.MCMC(
            inference.NUTS(potential_fn=lambda q: -logarithm(q)),
            num_warmup=amount.few_draws // 2,
            num_samples=amount.few_draws,
            num_chains=amount.many,
            chain_method="vectorized",
            progress_bar=False,
        )
        chains.run(key, init_params=first)
        return chains.get_samples(group_by_chain=True)

    made = _COMPILED.setdefault(
        ("numpyro", law.name, amount.many, amount.few_draws), tools.jit(run)
    )
    first = starts(law, amount.many, amount.seed).numpy()
    found = made(tools.random.key(amount.seed), first)
    return torch.tensor(np.array(found.block_until_ready()))


def _logarithm(law: Law) -> Callable[[Any], Any]:
    """The logarithm of a free law's density in jax."""
    numbers, networks = need("jax.numpy"), need("jax.nn")
    if law.name.startswith("posterior"):
        inputs, labels = (tensor.numpy() for tensor in logistic_data())

        def posterior(q: Any) -> Any:
            outputs = inputs @ q
            energy = (networks.softplus(outputs) - labels * outputs).sum() + (q @ q) / 2
            return -energy

        return posterior
    size = len(law.start())
    zero = torch.zeros(size, dtype=torch.float64)
    slope = grad(law.potential)  # of a Gaussian, a linear function
    precision = vmap(slope)(torch.eye(size, dtype=torch.float64)) - slope(zero)
    mean = torch.linalg.solve(precision, -slope(zero)).numpy()
    matrix = precision.numpy()
    return lambda q: -numbers.dot(q - mean, matrix @ (q - mean)) / 2
