"""Noise of a test's own in the place of an optimizer's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from torch import Tensor

from colangevin.optimizers.step.layout import Layout
from colangevin.optimizers.step.noise import BatchNoise


@contextmanager
def noise_from(draw: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let every optimizer take its normals from ``draw``.

    The C kernels make their normals themselves, so the steps are made without them.
    """
    with (
        mock.patch.object(BatchNoise, "draw", lambda self, like: draw(like)),
        mock.patch.object(Layout, "kernel", lambda self, batch: None),
    ):
        yield


def undrawn(like: Tensor) -> Tensor:
    """For ``noise_from``, where none may be drawn."""
    raise AssertionError("noise was drawn")
