"""Benchmarks: what a step costs, next to the optimizers that others use."""
