r"""The first program of Synergy-OPT: the modes of the jobs, ignoring the servers.

Jobs *j* with :math:`g_j` GPUs, modes *m* of utility :math:`u_{jm}` (Synergy's :math:`W_j`) that
take :math:`d_{jmr}` of resource *r* beside each GPU; :math:`R_r` is what all nodes have of it
together, GPUs included. With :math:`x_{jm}` one where job *j* runs in mode *m*,

.. math::

    \max \sum_j \sum_m u_{jm} x_{jm}                                                          (1)

    \sum_m x_{jm} = 1                                                   \quad \forall j       (2)

    \sum_j \sum_m g_j d_{jmr} x_{jm} \le R_r                            \quad \forall r       (3)

    \sum_m u_{jm} x_{jm} \ge u_{j,\text{proportional}}                  \quad \forall j       (4)

which is *integer* as the paper's optimum, or *linear* with :math:`0 \le x \le 1`. No mode slower
than (4) allows is in the program, which for integers says the same. (3) holds for every type of GPU
by itself, too, counting the modes that need it.

Two sets of choices give two claims. With `required_choices`, the published ones, every job that
fits runs, no slower than proportionally: the program *bounds all allocations that do so*, TUNE's
and the proportional one among them, and no others, for it may pay to leave a job idle.
`every_choice` adds standing idle, keeping what is held, all modes and all numbers of GPUs: the
program is a *relaxation* of the round at p = 1, and since no power mean with p <= 1 exceeds the
arithmetic mean, it *bounds the fitness at all these powers*.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
    https://www.usenix.org/conference/osdi22/presentation/mohan
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.models.round.mode import NO_MODE
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE, ROUNDING

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.sia_and_synergy.synergy_demands import SynergyModes
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices


class ModeChoices(NamedTuple):
    """Choices of all jobs, job by job; every array is of shape (choices,).

    Parameters
    ----------
    job, mode
        Whose choice it is, and the row of its mode in `Instance.modes`.
    gpus
        Its GPUs; 0 is to stand idle.
    utility
        Greatest utility of the choice, wherever its GPUs are.
    """

    job: Int[Indices, " choices"]
    mode: Int[Indices, " choices"]
    gpus: Int[Indices, " choices"]
    utility: Float[Floats, " choices"]


def required_choices(instance: Instance, modes: SynergyModes) -> ModeChoices:
    """Return the published choices: on the requested GPUs, in no slower a mode than the
    proportional one.

    Of a queue too long for the GPUs the jobs take part that fit, in their order; the others have no
    choice but to stand idle. So have those that cannot run at all.

    Examples
    --------
    >>> from goodalloc.data.rounds import synergy_round
    >>> from goodalloc.formulations.sia_and_synergy import required_choices, synergy_modes
    >>> instance = synergy_round(0, 1, 4)
    >>> choices = required_choices(instance, synergy_modes(instance))
    >>> set(choices.job.tolist())
    {0, 1, 2, 3}
    """
    best = best_utilities(instance)
    job, rows = instance.mode_job, np.arange(len(instance.modes))
    gpus = np.where(taking_part(instance, modes), modes.gpus, 0)
    utility = best[rows, gpus[job]]
    proportional = modes.proportional[job]
    least = np.where(proportional == NO_MODE, -np.inf, utility[proportional])
    allowed = (gpus[job] > 0) & (utility >= least * (1 - ROUNDING))
    allowed &= np.isfinite(utility) & ~instance.pinned[job]
    some = np.logical_or.reduceat(allowed, instance.first_mode)
    idle = np.flatnonzero(~some & ~instance.pinned)
    run = np.flatnonzero(allowed)
    held = _kept(instance, instance.pinned)
    return _joined(
        ModeChoices(job[run], run, gpus[job[run]], utility[run]), _idle(instance, idle), held
    )


def with_idling(instance: Instance, choices: ModeChoices) -> ModeChoices:
    """Return the same choices, and idling for every job that is not pinned.

    Examples
    --------
    >>> from goodalloc.data.rounds import synergy_round
    >>> from goodalloc.formulations.sia_and_synergy import (
    ...     required_choices,
    ...     synergy_modes,
    ...     with_idling,
    ... )
    >>> instance = synergy_round(0, 1, 4)
    >>> choices = required_choices(instance, synergy_modes(instance))
    >>> len(with_idling(instance, choices).job) - len(choices.job)  # one for each of 4 jobs
    4
    """
    runs = choices.gpus > 0
    running = ModeChoices(
        choices.job[runs], choices.mode[runs], choices.gpus[runs], choices.utility[runs]
    )
    return _joined(running, _idle(instance, np.flatnonzero(~instance.pinned)))


def every_choice(instance: Instance) -> ModeChoices:
    """Return all choices that the rules on single jobs allow.

    Examples
    --------
    >>> from goodalloc.data.rounds import synergy_round
    >>> from goodalloc.formulations.sia_and_synergy import every_choice
    >>> instance = synergy_round(0, 1, 4)
    >>> set(every_choice(instance).job.tolist())
    {0, 1, 2, 3}
    """
    best, job = best_utilities(instance), instance.mode_job
    gpus = np.arange(best.shape[1])
    allowed = np.isfinite(best) & (gpus >= instance.min_replicas[job][:, None])
    allowed &= (gpus <= instance.max_replicas[job][:, None]) & (gpus > 0)
    allowed[instance.pinned[job]] = False
    mode, count = np.nonzero(allowed)
    current = instance.current
    held = current.job_replicas
    keeps = (held >= instance.min_replicas) & (held <= instance.max_replicas)
    keeps &= (held > 0) & (current.job_nodes <= instance.rules.max_nodes_per_job)
    return _joined(
        ModeChoices(job[mode], mode, count, best[mode, count]),
        _kept(instance, keeps),
        _idle(instance, np.flatnonzero(~instance.pinned)),
    )


def best_utilities(instance: Instance) -> Float[Floats, "modes gpus"]:
    """Return the best utility of every mode on *K* GPUs placed anew, shape (modes, most GPUs + 1).

    Minus infinity where no nodes of its type have so many; what idling is worth at 0.
    """
    moved = mode_utilities(instance).moved
    gpus = np.arange(moved.shape[-1])
    most, span = instance.cluster.node_gpus, instance.rules.max_nodes_per_job
    kinds = {mode.gpu_type: row for row, mode in enumerate(instance.modes)}
    tops = {
        kind: np.sort(most[instance.mode_nodes[row]])[::-1][:span] for kind, row in kinds.items()
    }
    one = np.array([tops[mode.gpu_type][0] for mode in instance.modes])
    several = np.array(
        [
            tops[mode.gpu_type].sum() if tops[mode.gpu_type].size > 1 else 0
            for mode in instance.modes
        ]
    )
    on_one = np.where(gpus <= one[:, None], moved[:, 0], -np.inf)
    on_several = np.where((gpus >= 2) & (gpus <= several[:, None]), moved[:, 1], -np.inf)
    return np.maximum(on_one, on_several)


def taking_part(instance: Instance, modes: SynergyModes) -> Bool[Flags, " jobs"]:
    """Return the jobs of a queue that fit into the GPUs that those before them leave, and the
    pinned.
    """
    left = instance.cluster.num_gpus - sum(job.replicas for job in instance.jobs if job.pinned)
    fits = instance.pinned.copy()
    for job in np.flatnonzero(~fits & (modes.gpus > 0)).tolist():
        if modes.gpus[job] <= left:
            fits[job] = True
            left -= int(modes.gpus[job])
    return fits


def build_choice_program(instance: Instance, choices: ModeChoices, reference: float) -> Program:
    """Build (1)-(3) as a minimisation: a choice of utility *u* costs ``1 - u / reference``.

    Parameters
    ----------
    instance
        The round.
    choices
        Choices of the jobs.
    reference
        The utility that costs 0.

    Examples
    --------
    >>> from goodalloc.data.rounds import synergy_round
    >>> from goodalloc.formulations.sia_and_synergy import build_choice_program, every_choice
    >>> instance = synergy_round(0, 1, 4)
    >>> choices = every_choice(instance)
    >>> build_choice_program(instance, choices, reference=1.0).num_columns == len(choices.job)
    True
    """
    builder = ProgramBuilder()
    count = choices.job.size
    columns = builder.add_columns(
        "choice",
        count,
        cost=1.0 - choices.utility / reference,
        upper=1.0,
        label=lambda i: f"{choices.job[i]}_{choices.mode[i]}_{choices.gpus[i]}",
    )
    rows = builder.add_rows("job", instance.num_jobs, lower=1.0, upper=1.0)  # (2)
    builder.add_entries(rows[choices.job], columns, 1.0)
    taken = np.column_stack([np.ones(len(instance.modes)), instance.mode_resources])
    taken = taken[choices.mode] * choices.gpus[:, None]
    has = np.column_stack([instance.cluster.node_gpus, instance.cluster.node_resources])
    needed = np.array([mode.gpu_type for mode in instance.modes])[choices.mode]
    types = np.array(instance.cluster.node_types)
    for kind in ("", *sorted(set(needed.tolist()) - {""})):  # (3)
        total = has[(types == kind) | (kind == "")].sum(axis=0)
        scale = np.where(total > 0, total, 1.0)
        most = total / scale * (1 + RESOURCE_TOLERANCE)
        rows = builder.add_rows(f"capacity{kind and '_'}{kind}", total.size, upper=most)
        mine = np.flatnonzero((needed == kind) | (kind == ""))
        column, resource = np.nonzero(taken[mine])
        values = (taken[mine] / scale)[column, resource]
        builder.add_entries(rows[resource], columns[mine[column]], values)
    return builder.build()


def _idle(instance: Instance, jobs: Int[Indices, " idle"]) -> ModeChoices:
    """Return the choice to idle, of these jobs."""
    idle = np.full(jobs.size, instance.rules.idle)
    return ModeChoices(jobs, instance.first_mode[jobs], np.zeros_like(jobs), idle)


def _kept(instance: Instance, keeps: Bool[Flags, " jobs"]) -> ModeChoices:
    """Return the choice to keep the placement, of the jobs that these flags are set for."""
    jobs, current = np.flatnonzero(keeps), instance.current
    rows = instance.first_mode + current.mode
    kept = mode_utilities(instance).kept
    return ModeChoices(jobs, rows[jobs], current.job_replicas[jobs], kept[jobs])


def _joined(*parts: ModeChoices) -> ModeChoices:
    """Return choices in the order of their jobs."""
    job = np.concatenate([part.job for part in parts])
    order = np.argsort(job, kind="stable")
    return ModeChoices(
        job[order],
        np.concatenate([part.mode for part in parts])[order],
        np.concatenate([part.gpus for part in parts])[order],
        np.concatenate([part.utility for part in parts])[order],
    )
