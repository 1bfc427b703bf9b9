"""Synergy-OPT: the best modes as if the cluster were one server, then placed on servers.

The first program (`formulations/sia_and_synergy/synergy.py`) chooses modes, the second places them
(`formulations/sia_and_synergy/synergy_placement.py`). Chosen modes may be impossible to place, as
the first program ignores servers; then, as in the authors' simulator, jobs are re-fitted greedily:
here by TUNE, with the chosen modes or the ideal ones, in the best of its orders. The same goes for
a second program too large to be solved in seconds. The answer's bound is that of the first program
with every choice, or of the knapsack where that is tighter.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
    https://www.usenix.org/conference/osdi22/presentation/mohan
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.formulations.sia_and_synergy.synergy import (
    build_choice_program,
    every_choice,
    required_choices,
    with_idling,
)
from goodalloc.formulations.sia_and_synergy.synergy_demands import synergy_modes
from goodalloc.formulations.sia_and_synergy.synergy_placement import (
    Room,
    build_placement_program,
    decode_placement,
    group_items,
    placement_columns,
)
from goodalloc.models.round.mode import NO_MODE
from goodalloc.models.round.objective import fitness
from goodalloc.models.support.tolerances import LEAST_GAP
from goodalloc.solvers.heuristics.mode_occupancy import ModeOccupancy
from goodalloc.solvers.interface.result import Answer
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.milp.price_and_core import decide
from goodalloc.solvers.sia_and_synergy.synergy import Order, in_order, tune

if TYPE_CHECKING:
    from goodalloc.formulations.sia_and_synergy.synergy import ModeChoices
    from goodalloc.formulations.sia_and_synergy.synergy_demands import SynergyModes
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices


#: Largest second program, in columns, that is tried where best fit does not place all; with jobs
#: that may be split, and to the least splitting rather than to any placement.
MOST_COLUMNS, MOST_SPLITTING, MOST_EXACT = 500, 300, 100


#: Least seconds for TUNE, whatever time remains.
FALL_BACK_SECONDS = 0.5


class Optimum(NamedTuple):
    """Outcome of a first program.

    Parameters
    ----------
    value
        Mean utility of the best choices found, -inf if there are none.
    bound
        Mean utility that no choices exceed; -inf if there are none.
    mode, gpus
        Row of the chosen mode and GPUs of every job, shape (jobs,); None without a solution.
    """

    value: float
    bound: float
    mode: Indices | None = None
    gpus: Indices | None = None


def solve_synergy_opt(instance: Instance, *, stop: Stop | None = None) -> Answer:
    """Decide a round by Synergy's two programs.

    All jobs for which there are GPUs must run, no slower than proportionally, as published; where
    not even the first program can do that, jobs may stand idle in it.

    Parameters
    ----------
    instance
        The round. Whatever its power, the modes maximise the mean utility, as published; beyond
        p = 1 no bound is claimed.
    stop
        Limits on both programs together; TUNE's allocation stands in for a program that does not
        end in time.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import solve_synergy_opt
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = (Job("a", table, max_replicas=1), Job("b", table, max_replicas=2))
    >>> solve_synergy_opt(Instance(Cluster.uniform(1, 3), jobs)).allocation.placements()
    [((0, 1),), ((0, 2),)]
    """
    watch, modes = Watch(stop or Stop()), synergy_modes(instance)
    chosen = Optimum(-math.inf, math.inf)
    if watch.limit is None:
        choices = required_choices(instance, modes)
        chosen = integer_optimum(instance, choices, watch)
        if chosen.mode is None and watch.limit is None:
            chosen = integer_optimum(instance, with_idling(instance, choices), watch)
    bound, source = _bound(instance, watch)
    placing = watch
    if math.isfinite(watch.left):
        placing = Watch(Stop(seconds=max(watch.left, FALL_BACK_SECONDS)))
    if chosen.mode is None or chosen.gpus is None:
        allocation = tune(instance, modes, modes.ideal, watch=placing).allocation()
    else:
        wanted = np.where(chosen.gpus > 0, chosen.mode, NO_MODE)
        allocation = place_modes(instance, modes, wanted, placing)
    return Answer(allocation, bound, source, limit=watch.limit)


def _bound(instance: Instance, watch: Watch) -> tuple[float, str]:
    """Return a bound on the fitness, infinite beyond p = 1, and its source."""
    power = instance.rules.power
    if power > 1.0:
        return math.inf, ""
    bound = math.inf
    if watch.limit is None:
        bound = integer_optimum(instance, every_choice(instance), watch).bound
    knapsack = knapsack_bound(instance) if power < 1.0 else math.inf
    if knapsack < bound:  # it takes the power into account, but no resources
        return knapsack, "knapsack"
    return bound, "first program of Synergy-OPT"


def integer_optimum(
    instance: Instance, choices: ModeChoices, watch: Watch | None = None
) -> Optimum:
    """Solve the first program in integers.

    Parameters
    ----------
    instance, choices
        The round and the choices of its jobs.
    watch
        A clock; without one there is no limit.

    Examples
    --------
    >>> from goodalloc.formulations.sia_and_synergy import every_choice
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import integer_optimum
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), age=3600.0)
    >>> instance = Instance(Cluster.uniform(1, 2), (job,))
    >>> integer_optimum(instance, every_choice(instance)).gpus.tolist()
    [2]
    """
    watch, reference = watch or Watch(Stop()), _reference(choices)
    program = build_choice_program(instance, choices, reference)
    gap = max(watch.stop.gap, LEAST_GAP) * instance.num_jobs
    found = decide(program, np.ones(program.num_columns, dtype=bool), watch, gap=gap)
    bound = _mean(found.bound, instance, reference)
    if found.values is None:
        return Optimum(-math.inf, bound)
    taken = np.flatnonzero(found.values > 0.5)
    mode = np.empty(instance.num_jobs, dtype=np.int64)
    gpus = np.empty_like(mode)
    mode[choices.job[taken]] = choices.mode[taken]
    gpus[choices.job[taken]] = choices.gpus[taken]
    return Optimum(_mean(found.objective, instance, reference), bound, mode, gpus)


def linear_optimum(instance: Instance, choices: ModeChoices) -> float:
    """Return the mean utility of the first program's linear relaxation; -inf if infeasible.

    Examples
    --------
    >>> from goodalloc.formulations.sia_and_synergy import every_choice
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import integer_optimum, linear_optimum
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), age=3600.0)
    >>> instance = Instance(Cluster.uniform(1, 2), (job,))
    >>> choices = every_choice(instance)
    >>> linear_optimum(instance, choices) >= integer_optimum(instance, choices).value - 1e-9
    True
    """
    reference = _reference(choices)
    program = build_choice_program(instance, choices, reference)
    every = np.ones(program.num_columns, dtype=bool)
    return _mean(run_relaxation(program, every, Watch(Stop())).objective, instance, reference)


def _reference(choices: ModeChoices) -> float:
    return float(choices.utility.max())


def _mean(cost: float, instance: Instance, reference: float) -> float:
    """Return the mean utility of a total cost."""
    return reference * (1.0 - cost / instance.num_jobs)


def place_modes(
    instance: Instance, modes: SynergyModes, wanted: Indices, watch: Watch | None = None
) -> Allocation:
    """Return the jobs in these modes on nodes, split as little as possible, else re-fitted.

    Best fit, the largest jobs first, is tried before the second program is.

    Parameters
    ----------
    instance, modes
        The round and the modes of its jobs.
    wanted
        Row of the mode of every job, shape (jobs,); `NO_MODE` where it stands idle.
    watch
        A clock; without one there is no limit.

    Examples
    --------
    >>> from goodalloc.formulations.sia_and_synergy.synergy_demands import synergy_modes
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import place_modes
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), max_replicas=2)
    >>> instance = Instance(Cluster.uniform(1, 2), (job,))
    >>> modes = synergy_modes(instance)
    >>> place_modes(instance, modes, modes.ideal).placements()
    [((0, 2),)]
    """
    nodes, watch = ModeOccupancy(instance), watch or Watch(Stop())
    jobs = np.array(in_order(instance, modes, wanted), dtype=np.int64)
    for job in jobs.tolist():
        if watch.limit is not None:
            break
        room = nodes.room(int(wanted[job]))
        placement = nodes.best_fit(room, int(modes.gpus[job]), nodes.free_gpus)
        if not placement:
            break
        nodes.put(job, int(wanted[job]), placement)
    else:
        return nodes.allocation()
    placed = _second_program(instance, modes, wanted, jobs, watch)
    if placed is not None:
        return placed
    tuned = []
    for asked, order in itertools.product((wanted, modes.ideal), get_args(Order)):
        tuned.append(tune(instance, modes, asked, order, watch=watch).allocation())
        if watch.limit is not None:
            break
    return max(tuned, key=lambda allocation: fitness(instance, allocation))


def _second_program(
    instance: Instance, modes: SynergyModes, wanted: Indices, jobs: Indices, watch: Watch
) -> Allocation | None:
    """Return the allocation by the second program; None where it finds none."""
    nodes = ModeOccupancy(instance)
    gpus, taken = modes.gpus[jobs], instance.mode_resources[wanted[jobs]]
    items = group_items(jobs, gpus, taken, instance.mode_nodes[wanted[jobs]])
    room = Room(nodes.free_gpus, nodes.free[:, 1:], nodes.distributed > 0)
    most_nodes = instance.rules.max_nodes_per_job
    size = placement_columns(items, room, exclusive=nodes.exclusive)
    if size > (MOST_SPLITTING if gpus.max() > 1 else MOST_COLUMNS):
        return None
    program = build_placement_program(items, room, most_nodes, exclusive=nodes.exclusive)
    gap = 0.5 if size <= MOST_EXACT else float(gpus.sum())
    outcome = run_mixed_integer(program.program, watch, gap=gap)
    if outcome.values is None:
        return None
    for job, placement in decode_placement(items, program, outcome.values).items():
        nodes.put(job, int(wanted[job]), placement)
    return nodes.allocation()
