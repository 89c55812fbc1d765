"""Dynamics at one speed: the kick that turns a velocity and keeps its length.

With a unit velocity u in n dimensions, the force direction e = −g/|g| and δ = ε|g|/(n − 1), where
g is the gradient of −log density, the flow du/dt = (1 − uuᵀ)(−g)/(n − 1) has the solution

    u' = (u + e(sinh δ + (u·e)(cosh δ − 1)))/(cosh δ + (u·e) sinh δ),

and the kinetic energy (n − 1) log(cosh δ + (u·e) sinh δ) grows by what the potential loses
(Robnik, De Luca, Silverstein and Seljak 2023; ver Steeg and Galstyan 2021).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Turn(NamedTuple):
    """What a kick does to a unit velocity: u' = keep · u + toward · e.

    Attributes:
        keep: one number per chain.
        toward: likewise.
        gain: of the kinetic energy, over n − 1.
    """

    keep: Tensor
    toward: Tensor
    gain: Tensor


def turn(cosine: Tensor, reach: Tensor) -> Turn:
    """The kick's solution, written with ζ = e^{−δ} so that a large δ does not overflow.

    Args:
        cosine: u·e.
        reach: δ.

    Example:
        >>> found = turn(torch.tensor(0.0), torch.tensor(50.0))
        >>> bool(found.keep < 1e-20), float(found.toward)
        (True, 1.0)
    """
    along = cosine.clamp(-1.0, 1.0)
    zeta = torch.exp(-reach)
    total = 1.0 + along + (1.0 - along) * zeta.square()
    total = total.clamp_min(torch.finfo(total.dtype).tiny)
    toward = (1.0 - zeta) * (1.0 + zeta + along * (1.0 - zeta)) / total
    return Turn(2.0 * zeta / total, toward, reach - math.log(2.0) + total.log())
