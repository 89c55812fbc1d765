"""Posteriors of networks."""
