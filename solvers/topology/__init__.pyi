from .brute_force import topology_brute_force as topology_brute_force
from .solve_tree import solve_tree as solve_tree
from .solve_tree import tree_result as tree_result
