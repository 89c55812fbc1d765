"""Parameters and replicas in several processes."""
