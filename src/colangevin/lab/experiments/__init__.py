"""Experiments: one file per figure or table."""
