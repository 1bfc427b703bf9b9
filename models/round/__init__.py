"""One scheduling round: cluster, jobs, modes, rules, allocation, objective and the checker."""
