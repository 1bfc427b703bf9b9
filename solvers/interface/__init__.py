"""The contract of a solver: stopping rules, answers, results, bounds."""
