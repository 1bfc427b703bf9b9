"""Studies of policies above the bound on any schedule of jobs whose rates stay the same."""
