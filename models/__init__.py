"""What the world is: cluster, job, allocation; goodput, speedup, fitness; the independent checker."""
