"""The optimizer's own random numbers: one generator a device, saved with the state."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from colangevin.optimizers.counter import CounterNormals

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By the bytes of a number: a sum of integers does not depend on its order."""


class Noise:
    """Draws standard normals from generators of its own.

    Without a generator from the user, the seed comes from a copy of torch's global generator
    and from the first weights, so ``torch.manual_seed`` fixes it, while the global stream (data
    order, dropout) stays as it would be under any other optimizer.

    Args:
        generator: the generator to use on its device.
        salt: tells optimizers apart that are made at the same state of the global generator.
        fused: fill large tensors by a compiled kernel with keys from the generator.

    Example:
        >>> noise = Noise(torch.Generator().manual_seed(0), salt=0)
        >>> noise.draw(torch.zeros(2))
        tensor([ 1.5410, -0.2934])
    """

    def __init__(self, generator: torch.Generator | None, salt: int, fused: bool = False) -> None:
        if generator is not None and not isinstance(generator, torch.Generator):
            raise TypeError(f"generator must be a torch.Generator or None, got {generator!r}")
        self._generators: dict[str, torch.Generator] = {}
        self._counter = CounterNormals() if fused else None
        if generator is not None:
            self._generators[_key(generator.device)] = generator
            self._seed = generator.initial_seed()
        else:
            copy = torch.Generator()
            copy.set_state(torch.get_rng_state())
            drawn = torch.randint(2**62, (), generator=copy)
            self._seed = (int(drawn) + 0x9E3779B97F4A7C15 * (salt + 1)) % 2**63

    def generator(self, device: torch.device) -> torch.Generator:
        """The generator of a device, made when it is first needed."""
        key = _key(device)
        if key not in self._generators:
            made = torch.Generator(device=device)
            made.manual_seed(self._seed)
            self._generators[key] = made
        return self._generators[key]

    def draw(self, like: Tensor) -> Tensor:
        """Standard normals of the shape, dtype and device of ``like``."""
        return self.fill(torch.empty_like(like, memory_format=torch.contiguous_format))

    def fill(self, out: Tensor) -> Tensor:
        """Overwrite a tensor with standard normals."""
        generator = self.generator(out.device)
        if self._counter is None or not self._counter.fill(out, generator):
            out.normal_(generator=generator)
        return out

    def state_dict(self) -> dict[str, object]:
        """Plain values and tensors only, so that it loads with ``weights_only=True``."""
        states = {key: made.get_state() for key, made in self._generators.items()}
        return {"seed": self._seed, "generators": states}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Continue the streams of ``state_dict()``; a device that is not here is left out."""
        self._seed = int(state["seed"])  # type: ignore[call-overload]
        for key, value in state["generators"].items():  # type: ignore[attr-defined]
            if key in self._generators or _available(key):
                self.generator(torch.device(key)).set_state(value.cpu())
        for key in set(self._generators) - set(state["generators"]):  # type: ignore[call-overload]
            self._generators[key].manual_seed(self._seed)

    def __getstate__(self) -> dict[str, object]:
        return {**self.state_dict(), "fused": self._counter is not None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self._generators = {}
        self._counter = CounterNormals() if state.pop("fused", False) else None
        self.load_state_dict(state)


@torch.no_grad()
def checksum(parameters: Iterable[Tensor]) -> int:
    """A number that depends on every bit of some tensors, and on nothing else.

    Example:
        >>> checksum([torch.zeros(3)]) == checksum([torch.zeros(3)]) != checksum([torch.ones(3)])
        True
    """
    total = 0
    for parameter in parameters:
        bits = parameter.detach().contiguous().view(INTEGERS[parameter.element_size()])
        total = (total * 31 + int(bits.sum(dtype=torch.int64)) + bits.numel()) % 2**62
    return total


def _key(device: torch.device) -> str:
    """cpu, or cuda:0 and the like: a device without an index means the first one."""
    if device.type == "cpu":
        return "cpu"
    return f"{device.type}:{device.index or 0}"


def _available(key: str) -> bool:
    try:
        torch.empty(0, device=key)
    except (RuntimeError, AssertionError):
        return False
    return True
