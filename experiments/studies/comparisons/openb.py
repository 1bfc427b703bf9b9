"""Packing of real pods on real nodes: best fit and FGD beside the best placement and its bound.

As in the paper, pods of the trace arrive in random order, some of them repeatedly, until they
request more GPUs than the cluster has (Figure 9a); the result is the number of allocated GPUs. The
published values are means over the ten seeds in the expected results of the paper's artifact
(github.com/hkust-adsl/kubernetes-scheduler-simulator, analysis_allo_discrete.csv, default list).
Best fit and FGD place pods as they arrive; the exact program knows the whole batch and may leave
out any pod, and so bounds every scheduler.

References
----------
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
    Descent", ATC 2023, section 6. https://www.usenix.org/conference/atc23/presentation/weng
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.pods.generator import arrivals, draw_machines, draw_pods
from goodalloc.data.pods.openb import (
    CORES_ONLY_WORTH,
    gpus_allocated,
    pods_instance,
    read_machines,
    read_pods,
)
from goodalloc.experiments.gap.comparison import with_common_bound
from goodalloc.experiments.reporting.plots import figure_of, looks, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.data.pods.openb import Machine, Pod
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

#: Requested GPUs over those of the cluster.
LOADS = (0.8, 1.0, 1.2)

#: Published allocated GPUs in per cent of the cluster, by solver and load.
PUBLISHED = {
    "best_fit": {0.8: 80.0, 1.0: 92.86, 1.2: 93.00},
    "fgd": {0.8: 80.0, 1.0: 95.23, 1.2: 95.35},
}

LABELS = {"best_fit": "best fit", "fgd": "FGD", "pods": "exact program"}

#: Limits of the exact program on a batch.
LIMITS = Stop(seconds=300.0, gap=1e-5)

#: Factor by which a quick study has fewer nodes.
QUICK = 20


def _lists(plan: Plan, seed: int) -> tuple[list[Machine], list[Pod]]:
    """Return the published nodes and pods, or drawn ones."""
    if plan.artifact is None:
        machines, pods = draw_machines(), draw_pods(seed)
    else:
        machines, pods = read_machines(plan.artifact), read_pods(plan.artifact)
    return machines[::QUICK] if plan.quick else machines, pods


class PodsRow(NamedTuple):
    """GPUs that a solver allocates at a load; published values are None where none compare."""

    load_percent: float
    solver: str
    published_percent: float | None
    allocated_percent: float
    deviation_points: float | None
    allocated_gpus: float
    bound_gpus: float
    gap: float
    bound_source: str
    evidence: str
    pods: int
    placed: int
    without_gpu: int
    without_gpu_placed: int
    worth_without_gpu: float
    gpus: int
    nodes: int
    status: str
    seed: int
    seconds: float


def _rows(plan: Plan) -> list[PodsRow]:
    """Return a row for each seed, load and solver."""
    rows = []
    for seed in plan.seeds:
        machines, pods = _lists(plan, seed)
        gpus = sum(machine.gpus for machine in machines)
        for load in LOADS:
            batch = arrivals(pods, seed, load * gpus)
            instance = pods_instance(machines, batch, f"openb-{load:g}")
            best = solve(instance, "pods", stop=LIMITS)
            found = [solve(instance, name, bound=best.bound) for name in ("best_fit", "fgd")]
            judged = with_common_bound(instance, [*found, best], LIMITS.gap)
            known = plan.artifact is not None and not plan.quick
            rows += [
                _row(
                    instance, result, PUBLISHED.get(result.solver, {}).get(load) if known else None
                )._replace(load_percent=rounded(100 * load), seed=seed)
                for result in judged
            ]
    return rows


def _row(instance: Instance, result: Result, published: float | None) -> PodsRow:
    allocation = result.allocation
    assert allocation is not None  # every one of them starts from an empty one
    share = instance.mode_share[instance.first_mode + allocation.mode]
    gpus = float((allocation.job_replicas * share).sum())
    percent = 100.0 * gpus / instance.cluster.num_gpus
    return PodsRow(
        load_percent=0,
        solver=result.solver,
        published_percent=published,
        allocated_percent=rounded(percent, 4),
        deviation_points=None if published is None else rounded(percent - published, 3),
        allocated_gpus=rounded(gpus, 8),
        bound_gpus=rounded(gpus_allocated(instance, result.bound), 8),
        gap=rounded(result.gap, 3),
        bound_source=result.bound_source,
        evidence=str(result.evidence),
        pods=instance.num_jobs,
        placed=int(np.count_nonzero(allocation.job_replicas)),
        without_gpu=int(((instance.mode_share == 0)[instance.first_mode]).sum()),
        without_gpu_placed=int(((share == 0) & (allocation.job_replicas > 0)).sum()),
        worth_without_gpu=CORES_ONLY_WORTH,
        gpus=instance.cluster.num_gpus,
        nodes=instance.cluster.num_nodes,
        status=result.status.value,
        seed=0,
        seconds=rounded(result.solve_seconds, 3),
    )


def _plot(_: Plan, rows: list[PodsRow]) -> Figure:
    """Draw allocated over requested GPUs, means over the seeds; published as diamonds."""
    ax = new_axes(6.4, 4.4)
    loads = sorted({row.load_percent for row in rows})
    for solver, look in looks(LABELS).items():
        ours = [
            float(np.mean([row.allocated_percent for row in _at(rows, solver, load)]))
            for load in loads
        ]
        ax.plot(loads, ours, label=LABELS[solver], **look)
    bounds = [
        100.0 * float(np.mean([row.bound_gpus for row in _at(rows, "pods", load)])) / rows[0].gpus
        for load in loads
    ]
    ax.plot(loads, bounds, "k_", markersize=18, label="bound on any placement")
    published = [
        (row.load_percent, row.published_percent)
        for row in rows
        if row.published_percent is not None
    ]
    if published:
        ax.plot(
            *zip(*sorted(set(published)), strict=True),
            marker="D",
            color="black",
            markerfacecolor="white",
            linestyle="none",
            label="published",
        )
    ax.set_xticks(loads, [f"{load:g}" for load in loads])
    ax.set_xlabel("requested GPUs (% of the cluster)")
    ax.set_ylabel("allocated GPUs (%)")
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small", loc="lower right")
    return figure_of(ax)


def _at(rows: list[PodsRow], solver: str, load: float) -> list[PodsRow]:
    """Return the rows of `solver` at `load`."""
    return [row for row in rows if (row.solver, row.load_percent) == (solver, load)]


def _shown(rows: list[PodsRow]) -> Rows:
    """Return the columns that fit on a screen."""
    names = (
        "load_percent",
        "seed",
        "solver",
        "published_percent",
        "allocated_percent",
        "deviation_points",
        "allocated_gpus",
        "bound_gpus",
        "gap",
        "placed",
        "seconds",
    )
    return [{name: line[name] for name in names} for line in table_of(rows)]


OPENB = Reproduction(
    "openb: GPUs allocated from a batch of pods (ATC'23, Figure 9a)",
    lambda _: (),
    _rows,
    _plot,
    shown=_shown,
    ignores=("workloads", "pollux", "gaps"),
)
