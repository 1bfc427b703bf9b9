"""The exact solvers of a round, and the rule that breaks ties."""
