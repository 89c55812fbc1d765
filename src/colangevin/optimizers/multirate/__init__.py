"""Optimizers at several rates."""
