"""Many policies or solvers on one input: traces, mixed clusters, openb."""
