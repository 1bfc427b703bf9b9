from .best_fit import solve_best_fit as solve_best_fit
from .fragmentation import solve_fgd as solve_fgd
from .solver import solve_pods as solve_pods
