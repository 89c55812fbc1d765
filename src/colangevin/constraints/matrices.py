"""The layout of weights that are matrices: tall ones, also of convolutions, blocks and stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.base import Constraint, State
from colangevin.constraints.sums import Alone, Cut
from colangevin.errors import ConstraintError


class Matrices(Constraint):
    """A geometry of matrices, which are read as r × s with r ≥ s; wide ones are transposed.

    A kernel of a convolution is out × (in · height · width).
    """

    batch_dims: int
    """How many leading dimensions count separate matrices."""
    turned: ClassVar[bool | None] = None
    """Whether a part of a weight is transposed, which its own shape does not tell."""

    def _check_layout(self) -> None:
        checks.count("batch_dims", self.batch_dims, least=0)
        checks.count("blocks", self.blocks)

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        for shape in shapes:
            if len(shape) - self.batch_dims < 2:
                raise ConstraintError(
                    f"a weight of {type(self).__name__} needs at least 2 dimensions besides "
                    f"batch_dims={self.batch_dims}, got shape {tuple(shape)}"
                )
            self.block(shape, self.batch_dims)
        return self

    def matrix(self, shape: torch.Size) -> tuple[int, int]:
        """Rows and columns of the weight, or of a block of it, read as a matrix."""
        inner = self.block(shape, self.batch_dims)[self.batch_dims :]
        return inner[0], inner.numel() // inner[0]

    def copies(self, shape: torch.Size) -> int:
        """How many matrices a weight of this shape has."""
        return self.blocks * shape[: self.batch_dims].numel()

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        """Matrices × r × s with r ≥ s; a wide weight is transposed (4.49)."""
        leading = batch_dims + self.batch_dims
        if self.blocks > 1:
            tensor, leading = tensor.unflatten(leading, (self.blocks, -1)), leading + 1
        matrix = tensor.flatten(leading + 1)
        turned = matrix.shape[-2] < matrix.shape[-1] if self.turned is None else self.turned
        if turned:
            matrix = matrix.mT
        return matrix.flatten(0, leading - 1) if leading else matrix.unsqueeze(0)

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        return (batch.mT if self._is_turned(shape) else batch).reshape(shape)

    def _is_turned(self, shape: torch.Size) -> bool:
        if self.turned is not None:
            return self.turned
        rows, columns = self.matrix(shape)
        return rows < columns

    def excess(self, position: Tensor) -> float:
        return float(self.residual(State(position)).abs().max())

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        return Cut.BETWEEN if dim < self.batch_dims else Cut.NEVER

    def part(
        self, shape: torch.Size, first: Sequence[int], size: Sequence[int], over: Alone
    ) -> Constraint:
        rows, columns = self.matrix(shape)
        across = list(size[self.batch_dims + 1 :]) != list(shape[self.batch_dims + 1 :])
        return self._with(over=over, turned=rows < columns or (rows == columns and across))
