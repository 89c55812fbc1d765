"""Keeping an eye on projections without waiting for a device in every step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Watch:
    """Counts failures of the projection; looks at the device only every ``period`` calls."""

    fallbacks: int = 0
    synchronous: bool = False
    period: int = 32
    calls: int = 0
    seen: Tensor | None = None

    def note(self, failed: Tensor) -> None:
        """Add up failures on the device, and look from time to time."""
        count = failed.sum()
        self.seen = count if self.seen is None else self.seen + count
        self.calls += 1
        if self.calls % self.period == 0:
            self.synchronous = bool(self.seen > 0)
