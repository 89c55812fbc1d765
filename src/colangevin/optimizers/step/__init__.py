"""One step: plans, buckets, kernels and noise."""
