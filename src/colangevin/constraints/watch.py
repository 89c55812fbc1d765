"""Keeping an eye on projections without waiting for a device in every step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Watch:
    """Counts failures of the projection; looks at the device once in ``period`` calls."""

    fallbacks: int = 0
    told: bool = False
    synchronous: bool = False
    period: int = 32
    calls: int = 0
    seen: Tensor | None = None

    def note(self, failed: Tensor) -> None:
        """Add up failures on the device, without a look."""
        count = failed.sum()
        self.seen = count if self.seen is None else self.seen + count
        self.calls += 1

    def has_news(self) -> bool:
        """Whether to warn, which is so once; looks at the device from time to time.

        It is asked after a step, so that all parts of a step go by the same rule.
        """
        if self.seen is not None and self.calls >= self.period:
            self.synchronous = bool(self.seen > 0)
            self.calls, self.seen = 0, None
        if self.told or not self.fallbacks:
            return False
        self.told = True
        return True
