"""Ways to decide a round, behind one front door: `solve`."""

from goodalloc.solvers.base import solver_names as solver_names
from goodalloc.solvers.result import Answer as Answer
from goodalloc.solvers.result import Limit as Limit
from goodalloc.solvers.result import Result as Result
from goodalloc.solvers.result import Status as Status
from goodalloc.solvers.solve import solve as solve
from goodalloc.solvers.stop import Stop as Stop
