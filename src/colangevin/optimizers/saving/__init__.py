"""State dicts, and the transfer of state between optimizers."""
