"""What the world is: cluster, job, allocation; goodput, fitness; the independent checker."""

from goodalloc.models.allocation import Allocation as Allocation
from goodalloc.models.cluster import Cluster as Cluster
from goodalloc.models.cluster import NodeGroup as NodeGroup
from goodalloc.models.feasibility import violations as violations
from goodalloc.models.goodput import GoodputModel as GoodputModel
from goodalloc.models.instance import Instance as Instance
from goodalloc.models.job import Job as Job
from goodalloc.models.mode import Mode as Mode
from goodalloc.models.mode import SpeedupTable as SpeedupTable
from goodalloc.models.mode import resources as resources
from goodalloc.models.objective import fitness as fitness
from goodalloc.models.objective import utilities as utilities
from goodalloc.models.rules import OSDI21 as OSDI21
from goodalloc.models.rules import SIA as SIA
from goodalloc.models.rules import Rules as Rules
