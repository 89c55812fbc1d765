"""The spectrum of the Hessian, by Lanczos' method, and what multirate training saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from colangevin import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["HessianSpectrum", "hessian_spectrum", "multirate_speed_up", "plot_spectrum"]


@dataclass(frozen=True)
class HessianSpectrum:
    """The eigenvalues of a Hessian as a measure: nodes with weights that add up to 1.

    Attributes:
        nodes: [draws, steps], the Ritz values of each random start, in rising order.
        weights: [draws, steps], how much of the spectrum each node stands for.
        size: the number of parameters, which is the number of eigenvalues.
    """

    nodes: Tensor
    weights: Tensor
    size: int

    @property
    def largest(self) -> float:
        """The largest eigenvalue; Lanczos' method finds it to many digits."""
        return float(self.nodes.max())

    @property
    def smallest(self) -> float:
        """The smallest eigenvalue."""
        return float(self.nodes.min())

    @property
    def trace(self) -> float:
        """The sum of all eigenvalues, as an estimate over the random starts."""
        return float((self.nodes * self.weights).sum(dim=1).mean()) * self.size

    def share(self, low: float, high: float) -> tuple[float, float]:
        """What share of the eigenvalues lies from ``low`` to ``high``, and its standard error.

        Example:
            >>> found = HessianSpectrum(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.9, 0.1]]), 10)
            >>> round(found.share(-1e-3, 1e-3)[0], 3)
            0.9
        """
        inside = (self.nodes >= low) & (self.nodes <= high)
        shares = (self.weights * inside).sum(dim=1)
        draws = len(shares)
        error = float(shares.std()) / draws**0.5 if draws > 1 else float("nan")
        return float(shares.mean()), error

    def density(self, places: Tensor, width: float) -> Tensor:
        """The density of the eigenvalues at some places, with Gaussians of a width as nodes."""
        kernel = torch.exp(-0.5 * ((places[:, None, None] - self.nodes) / width).square())
        return (kernel * self.weights).sum(dim=2).mean(dim=1) / (width * (2 * torch.pi) ** 0.5)


def hessian_spectrum(
    model: nn.Module | Iterable[Tensor],
    loss: Callable[[], Tensor],
    steps: int = 64,
    draws: int = 4,
    seed: int = 0,
) -> HessianSpectrum:
    """The spectrum of the loss's Hessian, by Lanczos' method with random starts.

    From a random unit vector v, m steps give a tridiagonal matrix T. Its eigenvalues, with the
    squared first entries of its eigenvectors as weights, are a quadrature of the measure
    Σ_i (vᵀu_i)² δ(λ_i), whose mean over v is the density of the eigenvalues λ_i. One step is one
    product of the Hessian and a vector, which costs about two gradients.

    Args:
        model: a network, or its parameters.
        loss: called without arguments; it returns the loss at the present weights.
        steps: m; the ends of the spectrum are found first.
        draws: how many random starts.
        seed: of the random starts.

    Raises:
        ValueError: if no parameter needs a gradient, or a count is not positive.

    Example:
        >>> weights = torch.zeros(3, requires_grad=True)
        >>> scales = torch.tensor([0.0, 1.0, 5.0])
        >>> found = hessian_spectrum([weights], lambda: 0.5 * (scales * weights**2).sum(), steps=3)
        >>> [round(value, 3) + 0.0 for value in found.nodes[0].tolist()]
        [0.0, 1.0, 5.0]
    """
    checks.count("steps", steps)
    checks.count("draws", draws)
    tensors = list(model.parameters()) if isinstance(model, nn.Module) else list(model)
    tensors = [tensor for tensor in tensors if tensor.requires_grad]
    if not tensors:
        raise ValueError("model must have parameters that need a gradient, got none")
    value = loss()
    slopes = torch.autograd.grad(value, tensors, create_graph=True, materialize_grads=True)
    size = sum(tensor.numel() for tensor in tensors)
    source = torch.Generator().manual_seed(seed)

    def product(vector: Tensor) -> Tensor:
        parts = vector.to(value).split([tensor.numel() for tensor in tensors])
        shaped = [part.view_as(t) for part, t in zip(parts, tensors, strict=True)]
        made = torch.autograd.grad(
            slopes, tensors, shaped, retain_graph=True, materialize_grads=True
        )
        return torch.cat([one.reshape(-1) for one in made]).to("cpu", torch.float64)

    tiny = 100 * torch.finfo(value.dtype).eps  # what the rounding of a product leaves
    found = [_lanczos(product, size, min(steps, size), source, tiny) for _ in range(draws)]
    least = min(len(nodes) for nodes, _ in found)
    if any(len(nodes) > least for nodes, _ in found):  # one start lies in a smaller space
        found = [_padded(nodes, weights, min(steps, size)) for nodes, weights in found]
    nodes, weights = (torch.stack(column) for column in zip(*found, strict=True))
    return HessianSpectrum(nodes, weights, size)


def _padded(nodes: Tensor, weights: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Nodes of weight 0, so that all draws have as many."""
    missing = steps - len(nodes)
    return torch.cat([nodes, nodes[-1:].expand(missing)]), torch.cat(
        [weights, nodes.new_zeros(missing)]
    )


def _lanczos(
    product: Callable[[Tensor], Tensor],
    size: int,
    steps: int,
    source: torch.Generator,
    tiny: float,
) -> tuple[Tensor, Tensor]:
    """Ritz values and their weights; every new vector is made orthogonal to all before, twice."""
    vector = torch.randn(size, generator=source, dtype=torch.float64)
    basis = (vector / vector.norm())[None]
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(steps):
        moved = product(basis[-1])
        diagonal.append(float(moved @ basis[-1]))
        for _ in range(2):
            moved = moved - basis.T @ (basis @ moved)
        length = float(moved.norm())
        scale = max(map(abs, [*diagonal, *beside]))
        if step + 1 == steps or length <= tiny * scale:  # the rest of the space has no part in it
            break
        beside.append(length)
        basis = torch.cat([basis, (moved / length)[None]])
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    off = torch.tensor(beside[: len(diagonal) - 1], dtype=torch.float64)
    nodes, vectors = torch.linalg.eigh(matrix + torch.diag(off, 1) + torch.diag(off, -1))
    return nodes, vectors[0].square()


def plot_spectrum(spectra: dict[str, HessianSpectrum], width: float | None = None) -> Figure:
    """The densities of some spectra by name, on a logarithmic scale.

    Args:
        spectra: by name, such as that of the method.
        width: of the Gaussians; a hundredth of the whole range if not given.

    Example:
        >>> found = HessianSpectrum(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.9, 0.1]]), 10)
        >>> len(plot_spectrum({"SGD": found}).axes)
        1
    """
    from matplotlib.figure import Figure

    low = min(one.smallest for one in spectra.values())
    high = max(one.largest for one in spectra.values())
    wide = width or max(high - low, 1e-12) / 100
    places = torch.linspace(low - 5 * wide, high + 5 * wide, 1000, dtype=torch.float64)
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    axis: Any = figure.subplots()
    for name, one in spectra.items():
        axis.semilogy(places, one.density(places, wide).clamp_min(1e-12), label=name)
    axis.set(xlabel="eigenvalue of the Hessian", ylabel="density", ylim=(1e-8, None))
    axis.grid(alpha=0.3)
    axis.legend()
    return figure


def multirate_speed_up(layers: float, fast_layers: float, k: int) -> float:
    """How much cheaper backward passes are if only the last layers are trained in every step (5.6).

    kL / (L + (k − 1)ℓ), with the slow layers trained in every k-th step. The thesis calls the last
    ℓ layers the slow ones there; they are the fast ones.

    Args:
        layers: L, the number of layers, or what a backward pass through all of them costs.
        fast_layers: ℓ, or what a pass through the last ones costs, in the same unit.
        k: the slow layers move in every k-th step.

    Raises:
        ValueError: for a number that is out of range.

    Example:
        >>> round(multirate_speed_up(layers=34, fast_layers=1, k=5), 2)
        4.47
    """
    whole, part = checks.positive("layers", layers), checks.positive("fast_layers", fast_layers)
    checks.count("k", k)
    if part > whole:
        raise ValueError(f"fast_layers must be at most layers, {whole:g}, got {part:g}")
    return k * whole / (whole + (k - 1) * part)
