from .brute_force import solve_brute_force as solve_brute_force
from .highs import solve_highs as solve_highs
from .parts import solve_in_parts as solve_in_parts
from .pyomo_solver import solve_pyomo as solve_pyomo
from .scip_file import FileAnswer as FileAnswer
from .scip_file import run_scip as run_scip
from .shuffled import solve_shuffled as solve_shuffled
