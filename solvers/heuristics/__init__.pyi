from .convex import solve_convex as solve_convex
from .greedy import solve_greedy as solve_greedy
from .knapsack import solve_knapsack as solve_knapsack
from .local_search import solve_local_search as solve_local_search
from .mode_occupancy import ModeOccupancy as ModeOccupancy
from .rounding import round_and_place as round_and_place
from .sharing import knapsack_replicas as knapsack_replicas
