"""Parameter-server training: measured and fitted step times, rounds, workloads, job records."""
