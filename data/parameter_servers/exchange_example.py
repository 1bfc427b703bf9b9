"""Two small examples of AITurbo's exchange (HPDC'21): that of its slides, and one that is stuck.

The slides show two jobs, five kinds of unit, one exchange (`example_tables`). What is certain:
remaining service is 10 of job A and 16 of job B; two tables say what it becomes after a unit more
and a unit less of a server, a worker, a core of the servers, a core of the workers, a GPU; and the
exchange that is chosen leaves a total of 15 in place of 26. The layout of the tables is lost. Of
the legible numbers only 9 + 6 make 15, so here job B comes down from 16 to 9 by a unit that job A
gives, which lessens what A needs to 6, as service does where the unit was badly used. In which
other cells the other numbers stand is this project's own arrangement, such that no pair is below
15.

In the other (`stuck_tables`) two jobs of a drawn round share 12 cores and 3 GPUs, two cores for
each server and worker and a GPU for each worker. Both first gain most by a second server; then no
core is left for the second worker that one of them needs more, and no exchange leads there, because
a server is no worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.parameter_servers.rounds import ps_round
from goodalloc.models.parameter_servers.job import PsChoices, service_table
from goodalloc.models.parameter_servers.tabulated_service import AXES, ServiceTable

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.tabulated_service import Cell

#: What each job needs now.
NOW = {"A": 10.0, "B": 16.0}

#: What it needs after a unit more and a unit less of each, in the order of `AXES`.
MORE = {"A": (16.0, 18.0, 12.0, 12.0, 8.0), "B": (14.0, 9.0, 14.0, 22.0, 13.0)}
LESS = {"A": (12.0, 6.0, 18.0, 10.0, 16.0), "B": (18.0, 26.0, 24.0, 12.0, 15.0)}

#: Where both stand in their tables: a unit more or less is a step along an axis.
CENTRE: Cell = (1,) * len(AXES)


#: The round in which the exchange is stuck: its seed, what its jobs may have, and what there is.
STUCK_SEED = 154
STUCK_CHOICES = PsChoices((1, 2, 3), (1, 2, 3), (2,), (2,), (1.0,))
STUCK_CAPACITY = (12.0, 3.0)


def stuck_tables() -> tuple[ServiceTable, ServiceTable]:
    """Return the remaining seconds of the two jobs for which the exchange stops early."""
    drawn = ps_round(STUCK_SEED, 2, num_nodes=1, choices=STUCK_CHOICES)
    first, second = (service_table(job, "time") for job in drawn.jobs)
    return first, second


def example_tables() -> tuple[ServiceTable, ServiceTable]:
    """Return the tables of jobs A and B, whose axes are resources in units of a step."""
    return _table("A"), _table("B")


def _table(name: str) -> ServiceTable:
    shape = (3,) * len(AXES)
    service = np.full(shape, np.inf)
    service[CENTRE] = NOW[name]
    for axis in range(len(AXES)):
        for step, table in ((1, MORE), (-1, LESS)):
            cell = tuple(1 + step * (index == axis) for index in range(len(AXES)))
            service[cell] = table[name][axis]
    demand = np.moveaxis(np.indices(shape), 0, -1).astype(float)
    return ServiceTable(name, service, demand)
