"""Experiments: one file a figure or table."""
