"""From names of parameters to groups."""
