"""The program `cola`: command line, experiments, benchmarks, data and models."""
