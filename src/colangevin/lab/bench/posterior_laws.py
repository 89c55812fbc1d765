"""Three posteriors with moments from long runs, and effective samples per gradient from them.

German credit, a Brownian motion and an item response model are those of the benchmark of the
microcanonical samplers (github.com/JakobRobnik/MicroCanonicalHMC) and of TensorFlow Probability's
inference gym. Their data and moments are read from the folder ``inference`` of a data directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from colangevin.lab.bench.contestant import Unavailable
from colangevin.lab.bench.known_laws import Function, Law
from colangevin.lab.data.files import ENVIRONMENT, directories

FOLDER = "inference"
NEAR = 0.01
"""Mean of squared errors, over their variances, at which a chain has 100 effective draws."""
ENOUGH = 100.0
PUBLISHED = {
    "German credit": "published: NUTS 0.0083, MCLMC 0.0248",
    "a Brownian motion": "published: NUTS 0.018, MCLMC 0.089",
    "item response": "published: NUTS 0.0155, MCLMC 0.045",
}
"""Effective samples per gradient, with a diagonal metric where that is better."""


def load(name: str) -> Tensor:
    """An array of the folder.

    Raises:
        Unavailable: if there is none.
    """
    for directory in directories(None):
        path = Path(directory, FOLDER, name)
        if path.exists():
            return torch.tensor(np.load(path)).double()
    raise Unavailable(f"not run: no folder {FOLDER!r} with {name} in {ENVIRONMENT}")


def german_credit() -> Law:
    """A sparse logistic regression in 51 dimensions: weights e^{s₀ + s_i} z_i, scales e^s."""
    inputs, labels = load("data-gc_features.npy"), load("data-gc_labels.npy")

    def law(q: Tensor) -> Tensor:
        scales, own = q[:26], q[26:]
        outputs = inputs @ ((scales[0] + scales[1:]).exp() * own)
        prior = (scales.exp() / 2 - scales / 2).sum() + own.square().sum() / 2
        return prior + (softplus(outputs) - labels * outputs).sum()

    def moved(q: Tensor) -> Tensor:
        return torch.cat([q[..., :26].exp(), q[..., 26:]], dim=-1)

    return _law("German credit, 51 dimensions", law, 51, moved, "GermanCredit")


SEEN = (
    0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845, -0.1484156, -0.3250906,
    -0.22957903, -0.44110894, -0.09830782, -0.8786016, -0.83736074, -0.7384849, -0.8939254,
    -0.7774566, -0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789,
)  # fmt: skip
"""The first and the last ten of 30 places of the path."""


def brownian() -> Law:
    """A path of 30 places with unknown steps and noise, seen in 20 of them."""
    seen = torch.tensor(SEEN, dtype=torch.float64)

    def law(q: Tensor) -> Tensor:
        walk, noise, path = q[0], q[1], q[2:]
        gaps = torch.cat([path[:10], path[20:]]) - seen
        steps = path[0].square() + (path[1:] - path[:-1]).square().sum()
        likelihood = torch.exp(-2 * noise) * gaps.square().sum() / 2 + 20 * noise
        prior = torch.exp(-2 * walk) * steps / 2 + 30 * walk
        return likelihood + prior + (q / 2).square().sum() / 2

    def moved(q: Tensor) -> Tensor:
        return torch.cat([q[..., :2].exp(), q[..., 2:]], dim=-1)

    return _law("a Brownian motion, 32 dimensions", law, 32, moved, "Brownian")


def item_response() -> Law:
    """Which of 400 students answer which of 100 questions."""
    labels, mask = load("data-irt_labels.npy"), load("data-irt_mask.npy")

    def law(q: Tensor) -> Tensor:
        students, mean, questions = q[:400], q[400], q[401:]
        outputs = mean + students.unsqueeze(1) - questions
        prior = (mean - 0.75).square() + students.square().sum() + questions.square().sum()
        return prior / 2 + (mask * (softplus(outputs) - labels * outputs)).sum()

    return _law("item response, 501 dimensions", law, 501, lambda q: q, "ItemResponseTheory")


def _law(name: str, law: Function, size: int, moved: Function, moments: str) -> Law:
    means, variances = load(f"truth-{moments}-moments.npy")
    return Law(
        name,
        law,
        lambda: 0.1 * torch.randn(size, dtype=torch.float64),
        lambda q: moved(q).square(),
        means,
        variances.sqrt(),
    )


def per_gradient(values: Tensor, law: Law, thin: int = 1) -> float | None:
    """100 over the gradients until the error is small, the median of the chains.

    The error of a chain is the mean over quantities of (average so far − E)²/Var.

    Args:
        values: what is averaged, [chains, draws, k].
        law: with the exact means and deviations.
        thin: gradients of a draw.

    Returns:
        None if half of the chains never get there.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> zero, one = torch.zeros(20).double(), torch.ones(20).double()
        >>> law = Law("", lambda q: q.sum(), lambda: zero, lambda q: q, zero, one)
        >>> found = per_gradient(torch.randn(200, 300, 20).double(), law)
        >>> 0.8 < found < 1.3
        True
    """
    counts = torch.arange(1, values.shape[1] + 1, dtype=torch.float64).view(1, -1, 1)
    gaps = (values.double().cumsum(dim=1) / counts - law.means) / law.deviations
    errors = gaps.square().mean(dim=2).median(dim=0).values
    small = (errors < NEAR).nonzero()
    return ENOUGH / (thin * (float(small[0]) + 1.0)) if len(small) else None


def is_one(law: Law) -> bool:
    """Whether a law is one of these."""
    return any(law.name.startswith(name) for name in PUBLISHED)


def note_of(law: Law, values: Tensor, thin: int = 1) -> str:
    """In words, beside the published figures; nothing for other laws."""
    known: Sequence[str] = [text for name, text in PUBLISHED.items() if law.name.startswith(name)]
    if not known:
        return ""
    found = per_gradient(values, law, thin)
    own = f"fewer than {ENOUGH:.0f} effective draws" if found is None else f"{found:.3f}"
    return f"{own} effective samples per gradient; {known[0]}"
