"""Ways to decide a round, behind one front door: `solve`."""

from goodalloc.solvers.certificates.solve import solve as solve
from goodalloc.solvers.interface.base import solver_names as solver_names
from goodalloc.solvers.interface.result import Answer as Answer
from goodalloc.solvers.interface.result import Limit as Limit
from goodalloc.solvers.interface.result import Result as Result
from goodalloc.solvers.interface.result import Status as Status
from goodalloc.solvers.interface.stop import Stop as Stop
