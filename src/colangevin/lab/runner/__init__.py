"""Running experiments: jobs, workers, records, and training as a job."""
