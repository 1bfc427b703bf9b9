"""What the world is: cluster, job, allocation; goodput, fitness; the independent checker."""

from goodalloc.models.goodput.model import GoodputModel as GoodputModel
from goodalloc.models.round.allocation import Allocation as Allocation
from goodalloc.models.round.cluster import Cluster as Cluster
from goodalloc.models.round.cluster import NodeGroup as NodeGroup
from goodalloc.models.round.feasibility import violations as violations
from goodalloc.models.round.instance import Instance as Instance
from goodalloc.models.round.job import Job as Job
from goodalloc.models.round.mode import Mode as Mode
from goodalloc.models.round.mode import SpeedupTable as SpeedupTable
from goodalloc.models.round.mode import resources as resources
from goodalloc.models.round.objective import fitness as fitness
from goodalloc.models.round.objective import utilities as utilities
from goodalloc.models.round.rules import OSDI21 as OSDI21
from goodalloc.models.round.rules import SIA as SIA
from goodalloc.models.round.rules import Rules as Rules
