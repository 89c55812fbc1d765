"""Partitioned dynamics: layers with dynamics of their own."""
