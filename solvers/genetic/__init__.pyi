from .options import GeneticOptions as GeneticOptions
from .problem import carried_over as carried_over
from .solver import Evolution as Evolution
from .solver import evolve as evolve
from .solver import solve_genetic as solve_genetic
