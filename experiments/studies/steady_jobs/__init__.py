"""Studies of policies above bounds and optima of jobs whose rates stay the same."""
