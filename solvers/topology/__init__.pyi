from .brute_force import topology_brute_force as topology_brute_force
from .greedy_placement import ALGORITHMS as ALGORITHMS
from .greedy_placement import Algorithm as Algorithm
from .greedy_placement import greedy_placement as greedy_placement
from .greedy_placement import shares_of as shares_of
from .solve_tree import solve_tree as solve_tree
from .solve_tree import tree_result as tree_result
