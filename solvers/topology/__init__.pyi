from .brute_force import topology_brute_force as topology_brute_force
from .exact_tree import flat_optimum as flat_optimum
from .exact_tree import solve_tree as solve_tree
from .exact_tree import tree_result as tree_result
from .kueue_placement import ALGORITHMS as ALGORITHMS
from .kueue_placement import Algorithm as Algorithm
from .kueue_placement import greedy_placement as greedy_placement
from .kueue_placement import shares_of as shares_of
