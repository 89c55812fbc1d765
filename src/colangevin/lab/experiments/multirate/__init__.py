"""Multirate training: fast and slow parameters."""
