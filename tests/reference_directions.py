"""Directions as they are printed or published, one weight after the other, in plain torch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.775, 2.0315)


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., "Symbolic Discovery of Optimization Algorithms"."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], decay: float) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            (first, second), lr = group["betas"], group["lr"]
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                update = (first * mean + (1.0 - first) * weight.grad).sign()
                weight.sub_(lr * (update + group["decay"] * weight))
                mean.copy_(second * mean + (1.0 - second) * weight.grad)


class Muon(torch.optim.Optimizer):
    """The docstring of ``torch.optim.Muon``, with products in the weight's precision."""

    def __init__(self, params: Any, lr: float, decay: float, adjust: str) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "adjust": adjust})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                buffer = self.state[weight].setdefault("buffer", torch.zeros_like(weight))
                buffer.copy_(0.95 * buffer + 0.05 * weight.grad)
                update = newton_schulz(0.05 * weight.grad + 0.95 * buffer)
                rows, columns = weight.shape
                factor = math.sqrt(max(1.0, rows / columns))
                if group["adjust"] == "match_rms_adamw":
                    factor = 0.2 * math.sqrt(max(rows, columns))
                weight.mul_(1.0 - group["lr"] * group["decay"])
                weight.sub_(group["lr"] * factor * update)


def newton_schulz(matrix: Tensor) -> Tensor:
    first, second, third = COEFFICIENTS
    found = matrix / matrix.norm()
    if matrix.shape[0] > matrix.shape[1]:
        return newton_schulz(matrix.T).T
    for _ in range(5):
        gram = found @ found.T
        found = first * found + (second * gram + third * gram @ gram) @ found
    return found


class NormalisedAdam(torch.optim.Optimizer):
    """Adam's update, after which every row is divided by its norm.

    ``relative``: the update of a row has norm 1, as in Hyperball with one ball per row.
    ``tangent``: it is orthogonal to its row, as in ObliqueAdam: u − w⟨w, u⟩.
    """

    def __init__(self, params: Any, lr: float, relative: bool, tangent: bool = False) -> None:
        super().__init__(params, {"lr": lr, "relative": relative, "tangent": tangent})
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    weight.div_(weight.norm(dim=1, keepdim=True))

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                own = self.state[weight]
                if not own:
                    own.update(t=0, m=torch.zeros_like(weight), v=torch.zeros_like(weight))
                own["t"] += 1
                own["m"] = 0.9 * own["m"] + 0.1 * weight.grad
                own["v"] = 0.999 * own["v"] + 0.001 * weight.grad**2
                mean = own["m"] / (1.0 - 0.9 ** own["t"])
                update = mean / ((own["v"] / (1.0 - 0.999 ** own["t"])).sqrt() + 1e-8)
                if group["tangent"]:
                    update = update - weight * (weight * update).sum(dim=1, keepdim=True)
                if group["relative"]:
                    update = update / update.norm(dim=1, keepdim=True)
                moved = weight - group["lr"] * update
                weight.copy_(moved / moved.norm(dim=1, keepdim=True))


class Hyperball(torch.optim.Optimizer):
    """W ← R n(W − lr · R · n(u)), n(x) = x/‖x‖, R = ‖W₀‖, with Adam's or Muon's u."""

    def __init__(self, params: Any, lr: float, kind: str) -> None:
        super().__init__(params, {"lr": lr})
        self.kind = kind

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                own = self.state[weight]
                if not own:
                    own.update(t=0, m=torch.zeros_like(weight), v=torch.zeros_like(weight))
                    own["radius"] = weight.norm()
                own["t"] += 1
                if self.kind == "adam":
                    own["m"] = 0.9 * own["m"] + 0.1 * weight.grad
                    own["v"] = 0.999 * own["v"] + 0.001 * weight.grad**2
                    mean = own["m"] / (1.0 - 0.9 ** own["t"])
                    update = mean / ((own["v"] / (1.0 - 0.999 ** own["t"])).sqrt() + 1e-8)
                else:
                    own["m"] = 0.95 * own["m"] + 0.05 * weight.grad
                    update = newton_schulz(0.05 * weight.grad + 0.95 * own["m"])
                moved = weight - group["lr"] * own["radius"] * update / update.norm()
                weight.copy_(own["radius"] * moved / moved.norm())


class HypersphericalDescent(torch.optim.Optimizer):
    """a = G − W⟨W, G⟩; W ← n(W − lr · a/‖a‖), with norms of whole matrices."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    weight.div_(weight.norm())

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                slope = weight.grad - weight * (weight * weight.grad).sum()
                moved = weight - group["lr"] * slope / slope.norm()
                weight.copy_(moved / moved.norm())


def manifold_muon(weight: Tensor, slope: Tensor, rounds: int, rate: float = 0.1) -> Tensor:
    """Dual ascent for A = msign(G + 2WΛ), as published with "Modular Manifolds"."""
    dual = -0.25 * (weight.T @ slope + slope.T @ weight)
    found = slope
    for k in range(rounds):
        left, _, right = torch.linalg.svd(slope + 2.0 * weight @ dual, full_matrices=False)
        found = left @ right
        dual = dual - rate * (1.0 - k / rounds) * (weight.T @ found + found.T @ weight)
    return found


class Pogo(torch.optim.Optimizer):
    """A tangent step and a normal step for rows XXᵀ = 1, as ``pogo-torch`` 1.0 makes them.

    ``vector_adam``: its base is Adam with one second moment for each matrix, else the gradient.
    """

    def __init__(self, params: Any, lr: float, vector_adam: bool = False) -> None:
        super().__init__(params, {"lr": lr, "vector_adam": vector_adam})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                slope = weight.grad
                if group["vector_adam"]:
                    slope = self._adam(self.state[weight], slope)
                relative = 0.5 * (weight @ weight.mT @ slope - weight @ slope.mT @ weight)
                middle = weight - group["lr"] * relative
                weight.copy_(middle + 0.5 * (middle - middle @ middle.mT @ middle))

    @staticmethod
    def _adam(own: dict[str, Any], slope: Tensor) -> Tensor:
        own["t"] = own.get("t", 0) + 1
        own["m"] = 0.9 * own.get("m", 0.0) + 0.1 * slope
        square = slope.square().sum(dim=(-2, -1), keepdim=True)
        own["v"] = 0.999 * own.get("v", 0.0) + 0.001 * square
        mean = own["m"] / (1.0 - 0.9 ** own["t"])
        return mean / ((own["v"] / (1.0 - 0.999 ** own["t"])).sqrt() + 1e-8)
