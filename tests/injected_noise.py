"""Noise of a test's own in the place of an optimizer's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from torch import Tensor

from colangevin.optimizers.step import plan
from colangevin.optimizers.step.noise import Noise


@contextmanager
def noise_from(draw: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let every optimizer take its normals from ``draw``.

    The C kernels make their normals themselves, so the steps are made without them.
    """
    with (
        mock.patch.object(Noise, "draw", lambda self, like: draw(like)),
        mock.patch.object(plan, "kernel_for", lambda bucket: None),
    ):
        yield


def undrawn(like: Tensor) -> Tensor:
    """For ``noise_from``, where none may be drawn."""
    raise AssertionError("noise was drawn")
