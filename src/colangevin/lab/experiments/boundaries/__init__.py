"""Boundaries between digits."""
