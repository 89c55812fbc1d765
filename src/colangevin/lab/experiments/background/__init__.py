"""Multiple time-stepping, chapter 1."""
