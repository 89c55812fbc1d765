"""Groups with methods of their own, and the methods of the sources."""
