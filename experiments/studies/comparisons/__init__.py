"""Many policies or solvers on one input: the family, traces, mixed clusters, openb."""
