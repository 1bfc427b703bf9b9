"""Heuristics of Synergy: TUNE, and the two that it is compared with.

Each places the jobs anew, whatever they hold, every one on its requested GPUs (elastic jobs: on the
most they may have) or not at all; only pinned jobs stay and, with the option `keep` of TUNE, all
running jobs. TUNE follows the authors' simulator (github.com/msr-fiddle/synergy) with two
exceptions: a job for which no room can be made stays idle, where the published code ends the
process, and resources taken from others for it in vain are given back. There is no randomness.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
    https://www.usenix.org/conference/osdi22/presentation/mohan
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.formulations.sia_and_synergy.synergy_demands import synergy_modes
from goodalloc.models.round.mode import NO_MODE
from goodalloc.models.support.validation import require_choice, require_flag
from goodalloc.solvers.heuristics.mode_occupancy import ModeOccupancy
from goodalloc.solvers.interface.result import Answer
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from goodalloc.formulations.sia_and_synergy.synergy_demands import SynergyModes
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices

Order = Literal["demand", "gpus", "queue"]


def solve_synergy_tune(
    instance: Instance, *, stop: Stop | None = None, order: Order = "demand", keep: bool = False
) -> Answer:
    """Decide a round by Synergy-TUNE: ideal modes where they fit, else proportional ones.

    A job (1) goes, in its ideal mode, to the node with the fewest free GPUs that holds all of it,
    else over the nodes with the fewest free GPUs; (2) if that fails, the same in its proportional
    mode; (3) if that fails, jobs on nodes with enough GPUs are switched to their proportional modes
    until it should fit: those on the fewest nodes first, then those with most of the first resource
    a GPU, then the second; (4) then it is placed.

    Parameters
    ----------
    instance
        The round; jobs without modes take GPUs only.
    stop
        Limits on the time; jobs that have not had their turn by then stand idle.
    order
        Order of the jobs: ``"demand"``, the largest first, by GPUs, then by each resource, as in
        the paper; ``"gpus"``, by GPUs alone, or ``"queue"``, that of the instance, as in the
        authors' simulator under least attained service and under first in, first out.
    keep
        Whether running jobs stay where they are. Their resources beside GPUs may be taken for
        others as in (3), and in the end they get their ideal modes where there is room.

    Raises
    ------
    ValueError
        If `order` is not one of the choices, or `keep` is not a boolean.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import solve_synergy_tune
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = (Job("a", table, max_replicas=1), Job("b", table, max_replicas=2))
    >>> solve_synergy_tune(Instance(Cluster.uniform(1, 3), jobs)).allocation.placements()
    [((0, 1),), ((0, 2),)]
    """
    require_choice("synergy_tune: order", order, get_args(Order))
    require_flag("synergy_tune: keep", keep)
    watch = Watch(stop or Stop())
    modes = synergy_modes(instance)
    nodes = tune(instance, modes, modes.ideal, order, keep=keep, watch=watch)
    if keep:
        for job in _while_there_is_time(watch, in_order(instance, modes, modes.ideal, order)):
            improve(nodes, job, int(modes.ideal[job]))
    return Answer(nodes.allocation(), limit=watch.limit)


def solve_synergy_proportional(instance: Instance, *, stop: Stop | None = None) -> Answer:
    """Place every job in its GPU-proportional mode, as TUNE places.

    Parameters
    ----------
    instance, stop
        The round, and limits as of `solve_synergy_tune`.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import solve_synergy_proportional
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = (Job("a", table, max_replicas=1), Job("b", table, max_replicas=2))
    >>> instance = Instance(Cluster.uniform(1, 3), jobs)
    >>> solve_synergy_proportional(instance).allocation.placements()
    [((0, 1),), ((0, 2),)]
    """
    watch = Watch(stop or Stop())
    modes, nodes = synergy_modes(instance), ModeOccupancy(instance)
    for job in _while_there_is_time(watch, in_order(instance, modes, modes.proportional)):
        place(nodes, modes, job, int(modes.proportional[job]))
    return Answer(nodes.allocation(), limit=watch.limit)


def solve_synergy_greedy(instance: Instance, *, stop: Stop | None = None) -> Answer:
    """Decide a round by Synergy-GREEDY: first fit of the ideal modes, in order of the jobs.

    GPUs are taken node by node, on one or several, as in the published simulator. Jobs that do not
    fit stand idle.

    Parameters
    ----------
    instance, stop
        The round, and limits as of `solve_synergy_tune`.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import solve_synergy_greedy
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = (Job("a", table, max_replicas=2), Job("b", table, max_replicas=2))
    >>> solve_synergy_greedy(Instance(Cluster.uniform(1, 3), jobs)).allocation.placements()
    [((0, 2),), ()]
    """
    watch = Watch(stop or Stop())
    modes, nodes = synergy_modes(instance), ModeOccupancy(instance)
    first = np.arange(instance.cluster.num_nodes)
    jobs = np.flatnonzero(~instance.pinned & (modes.ideal != NO_MODE)).tolist()
    for job in _while_there_is_time(watch, jobs):
        mode, gpus = int(modes.ideal[job]), int(modes.gpus[job])
        room = nodes.room(mode)
        placement = nodes.spread(room, gpus, first) or nodes.best_fit(room, gpus, nodes.free_gpus)
        if placement:
            nodes.put(job, mode, placement)
    return Answer(nodes.allocation(), limit=watch.limit)


def _while_there_is_time(watch: Watch, jobs: Iterable[int]) -> Iterator[int]:
    """Yield the jobs one by one, as long as no limit is reached."""
    return itertools.takewhile(lambda _: watch.limit is None, jobs)


def tune(
    instance: Instance,
    modes: SynergyModes,
    wanted: Indices,
    order: Order = "demand",
    *,
    keep: bool = False,
    watch: Watch | None = None,
) -> ModeOccupancy:
    """Run TUNE with these modes in place of the ideal ones.

    Parameters
    ----------
    instance, modes
        The round and the modes of its jobs.
    wanted
        Row of the mode wanted for every job, shape (jobs,).
    order, keep
        As of `solve_synergy_tune`.
    watch
        A clock; without one there is no limit.
    """
    nodes = ModeOccupancy(instance, instance.current.job_replicas > 0 if keep else None)
    jobs = in_order(instance, modes, wanted, order)
    for job in _while_there_is_time(watch or Watch(Stop()), jobs):
        if nodes.placements[job]:
            continue
        mode = int(wanted[job])
        if place(nodes, modes, job, mode):
            continue
        if exceeds(instance, mode, int(modes.proportional[job])):
            mode = int(modes.proportional[job])
            if place(nodes, modes, job, mode):
                continue
        switched = reclaim(nodes, modes, job, mode)
        if not place(nodes, modes, job, mode):
            for other, before in reversed(switched):
                nodes.equip(other, before)
    return nodes


def in_order(
    instance: Instance, modes: SynergyModes, wanted: Indices, order: Order = "demand"
) -> list[int]:
    """Return the jobs that can be placed, in an order of `solve_synergy_tune`."""
    jobs = np.flatnonzero(~instance.pinned & (wanted != NO_MODE))
    gpus = modes.gpus[jobs]
    taken = instance.mode_resources[wanted[jobs]] * gpus[:, None]
    keys = {"demand": (*(-taken.T[::-1]), -gpus), "gpus": (-gpus,), "queue": (jobs,)}[order]
    return list(jobs[np.lexsort(keys)].tolist())


def exceeds(instance: Instance, mode: int, other: int) -> bool:
    """Return whether a mode takes more of any resource than another, which must exist."""
    taken = instance.mode_resources
    return other != NO_MODE and bool(np.any(taken[mode] > taken[other]))


def place(nodes: ModeOccupancy, modes: SynergyModes, job: int, mode: int) -> bool:
    """Apply steps (1), (2) and (4): the fullest node with room, else the fullest nodes."""
    if mode == NO_MODE:
        return False
    placement = _fullest(nodes, nodes.room(mode), int(modes.gpus[job]))
    if placement:
        nodes.put(job, mode, placement)
    return bool(placement)


def _fullest(nodes: ModeOccupancy, room: Indices, gpus: int) -> Placement:
    """Return one node with room for all, else several; always those with the fewest free GPUs."""
    free = nodes.free_gpus
    return nodes.best_fit(room, gpus, free) or nodes.spread(
        room, gpus, np.argsort(free, kind="stable")
    )


def reclaim(
    nodes: ModeOccupancy, modes: SynergyModes, job: int, mode: int
) -> list[tuple[int, int]]:
    """Apply step (3): switch others to proportional modes; return them with their old modes.

    The nodes are those with the fewest free GPUs: one if any has enough, else several.
    """
    room = np.where(nodes.instance.mode_nodes[mode], nodes.free_gpus, 0)
    switched = []
    for node, share in _fullest(nodes, room, int(modes.gpus[job])):
        needed = share * nodes.demand[mode]
        for other in _givers(nodes, node):
            if np.all(needed <= nodes.free[node]):
                break
            before, after = int(nodes.modes[other]), int(modes.proportional[other])
            if _gives(nodes, nodes.placements[other], before, after, node, needed):
                nodes.equip(other, after)
                switched.append((other, before))
    return switched


def _givers(nodes: ModeOccupancy, node: int) -> list[int]:
    """Return the jobs on a node in the order in which they are switched."""
    jobs = [job for job in nodes.residents[node] if not nodes.instance.pinned[job]]

    def rank(job: int) -> tuple[object, ...]:
        demand = nodes.demand[nodes.modes[job]]
        return (len(nodes.placements[job]), *(-demand).tolist(), job)

    return sorted(jobs, key=rank)


def _gives(
    nodes: ModeOccupancy,
    placement: Placement,
    before: int,
    after: int,
    node: int,
    needed: NDArray[np.float64],
) -> bool:
    """Return whether a switch frees a resource that is missing on a node, and fits on all nodes."""
    if after in (NO_MODE, before):
        return False
    freed = nodes.demand[before] - nodes.demand[after]
    missing = needed > nodes.free[node]
    return bool(np.any(freed[missing] > 0)) and all(
        nodes.instance.mode_nodes[after, at] and np.all(nodes.free[at] + gpus * freed >= 0)
        for at, gpus in placement
    )


def improve(nodes: ModeOccupancy, job: int, mode: int) -> None:
    """Change the mode of a job that stays where it is, if that fits."""
    if nodes.placements[job]:
        before, placement = int(nodes.modes[job]), nodes.remove(job)
        nodes.put(job, mode if nodes.fits(mode, placement) else before, placement)
