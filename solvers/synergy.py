"""The heuristics of Synergy (OSDI'22): TUNE, and the two that it is compared with.

Each places the jobs anew, whatever they hold, every one on the GPUs it asks for (elastic jobs: on
the most they may have) or not at all; only pinned jobs stay, and where TUNE is told to keep them,
all that run. TUNE follows the authors' simulator
(github.com/msr-fiddle/synergy), but for two things: a job for which no room can be made stays idle,
where the published code ends the process, and what was taken from others for it in vain is given
back. There is no randomness.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.synergy_modes import NO_MODE, SynergyModes, synergy_modes
from goodalloc.models.allocation import Allocation, Placement
from goodalloc.models.instance import Instance
from goodalloc.models.validation import require_choice, require_flag
from goodalloc.solvers.synergy_servers import Servers

Indices = NDArray[np.int64]
Order = Literal["demand", "gpus", "queue"]


def solve_synergy_tune(
    instance: Instance, *, order: Order = "demand", keep: bool = False
) -> Allocation:
    """Synergy-TUNE: ideal modes where they fit, proportional ones where not.

    A job (1) goes, in its ideal mode, to the node with the fewest free GPUs that holds all of it,
    else over the nodes with the fewest free GPUs; (2) if that fails, the same in its proportional
    mode; (3) if that fails, jobs on nodes with enough GPUs are switched to their proportional modes
    until it should fit: those on the fewest nodes first, then those with most of the first resource
    a GPU, then the second; (4) then it is placed.

    Parameters
    ----------
    instance
        The round; jobs without modes take GPUs only.
    order
        In which order jobs come: ``"demand"``, the largest first, by GPUs, then by each resource,
        as the paper does; ``"gpus"``, by GPUs alone, or ``"queue"``, that of the instance, as the
        authors' simulator does under least attained service and under first in, first out.
    keep
        Whether jobs that run stay where they are. What they have beside their GPUs may be taken for
        others as in (3), and in the end they get their ideal modes where there is room.

    Raises
    ------
    ValueError
        If an option is not one of the choices.
    """
    require_choice("synergy_tune: order", order, get_args(Order))
    require_flag("synergy_tune: keep", keep)
    modes = synergy_modes(instance)
    servers = tune(instance, modes, modes.ideal, order, keep=keep)
    if keep:
        for job in in_order(instance, modes, modes.ideal, order):
            servers.improve(job, int(modes.ideal[job]))
    return servers.allocation()


def solve_synergy_proportional(instance: Instance) -> Allocation:
    """GPU-proportional allocation: every job in its proportional mode, placed as TUNE places.

    Parameters
    ----------
    instance
        The round.
    """
    modes, servers = synergy_modes(instance), Servers(instance)
    for job in in_order(instance, modes, modes.proportional):
        place(servers, modes, job, int(modes.proportional[job]))
    return servers.allocation()


def solve_synergy_greedy(instance: Instance) -> Allocation:
    """Synergy-GREEDY: first fit of the ideal modes in the order of the jobs; what misfits is left.

    GPUs are taken node by node, on one or several, as in the published simulator.

    Parameters
    ----------
    instance
        The round.
    """
    modes, servers = synergy_modes(instance), Servers(instance)
    first = np.arange(instance.cluster.num_nodes)
    for job in np.flatnonzero(~instance.pinned & (modes.ideal != NO_MODE)).tolist():
        mode, gpus = int(modes.ideal[job]), int(modes.gpus[job])
        room = servers.room(mode)
        placement = servers.spread(room, gpus, first) or servers.best_fit(room, gpus)
        if placement:
            servers.put(job, mode, placement)
    return servers.allocation()


def tune(
    instance: Instance, modes: SynergyModes, wanted: Indices, order: Order = "demand", *,
    keep: bool = False,
) -> Servers:  # fmt: skip
    """TUNE with these modes in place of the ideal ones.

    Parameters
    ----------
    instance, modes
        The round and what is known of it.
    wanted
        Row of the mode that every job would like, shape (jobs,).
    order, keep
        As of `solve_synergy_tune`.
    """
    servers = Servers(instance, keep=keep)
    for job in in_order(instance, modes, wanted, order):
        if servers.placements[job]:
            continue
        mode = int(wanted[job])
        if place(servers, modes, job, mode):
            continue
        if exceeds(instance, mode, int(modes.proportional[job])):
            mode = int(modes.proportional[job])
            if place(servers, modes, job, mode):
                continue
        switched = reclaim(servers, modes, job, mode)
        if not place(servers, modes, job, mode):
            for other, before in reversed(switched):
                servers.equip(other, before)
    return servers


def in_order(
    instance: Instance, modes: SynergyModes, wanted: Indices, order: Order = "demand"
) -> list[int]:
    """The jobs that can be placed, in an order of `solve_synergy_tune`."""
    jobs = np.flatnonzero(~instance.pinned & (wanted != NO_MODE))
    gpus = modes.gpus[jobs]
    taken = instance.mode_resources[wanted[jobs]] * gpus[:, None]
    keys = {"demand": (*(-taken.T[::-1]), -gpus), "gpus": (-gpus,), "queue": (jobs,)}[order]
    return list(jobs[np.lexsort(keys)].tolist())


def exceeds(instance: Instance, mode: int, other: int) -> bool:
    """Whether a mode takes more of anything than another, which must be one."""
    taken = instance.mode_resources
    return other != NO_MODE and bool(np.any(taken[mode] > taken[other]))


def place(servers: Servers, modes: SynergyModes, job: int, mode: int) -> bool:
    """Steps (1), (2) and (4): on the fullest node that holds all of it, else on the fullest."""
    if mode == NO_MODE:
        return False
    gpus, room = int(modes.gpus[job]), servers.room(mode)
    placement = servers.best_fit(room, gpus) or servers.spread(room, gpus, servers.fullest_first())
    if placement is None:
        return False
    servers.put(job, mode, placement)
    return True


def reclaim(servers: Servers, modes: SynergyModes, job: int, mode: int) -> list[tuple[int, int]]:
    """Step (3): switch others to their proportional modes; returns these jobs and their old modes.

    The nodes are those with the fewest free GPUs: one if any has enough, else several.
    """
    gpus, instance = int(modes.gpus[job]), servers.instance
    room = np.where(instance.mode_nodes[mode], servers.free_gpus, 0)
    nodes = servers.best_fit(room, gpus) or servers.spread(room, gpus, servers.fullest_first())
    switched = []
    for node, share in nodes or ():
        needed = share * instance.mode_resources[mode]
        for other in _givers(servers, node):
            if np.all(needed <= servers.free[node]):
                break
            before, after = int(servers.modes[other]), int(modes.proportional[other])
            if _gives(servers, servers.placements[other], before, after, node, needed):
                servers.equip(other, after)
                switched.append((other, before))
    return switched


def _givers(servers: Servers, node: int) -> list[int]:
    """Jobs on a node in the order in which they are switched."""
    instance = servers.instance
    jobs = [job for job in servers.residents[node] if not instance.pinned[job]]

    def rank(job: int) -> tuple[object, ...]:
        taken = instance.mode_resources[servers.modes[job]]
        return (len(servers.placements[job]), *(-taken).tolist(), job)

    return sorted(jobs, key=rank)


def _gives(
    servers: Servers, placement: Placement, before: int, after: int, node: int,
    needed: NDArray[np.float64],
) -> bool:  # fmt: skip
    """Whether a switch frees something that is missing on a node, and fits on all nodes."""
    if after in (NO_MODE, before):
        return False
    instance = servers.instance
    freed = instance.mode_resources[before] - instance.mode_resources[after]
    missing = needed > servers.free[node]
    return bool(np.any(freed[missing] > 0)) and all(
        instance.mode_nodes[after, at] and np.all(servers.free[at] + gpus * freed >= 0)
        for at, gpus in placement
    )
