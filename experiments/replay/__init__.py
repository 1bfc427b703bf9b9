"""Discrete-time replay of a workload under a policy."""
