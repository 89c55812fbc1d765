"""Images: bounded and orthogonal weights."""
