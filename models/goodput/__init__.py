"""Throughput, efficiency, goodput and the best batch size of a job: pure array functions."""
