"""Command `topology`: decide a round on a tree, exactly or by a scheduler's placement."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.data.files.allocation import write_allocation
from goodalloc.data.rounds.any_round import read_round
from goodalloc.experiments.cli.output import FAILED, Output, check_distinct, check_target, counted
from goodalloc.experiments.cli.rounds.columns import require_reader
from goodalloc.experiments.cli.rounds.trees import read_tree
from goodalloc.experiments.reporting.report import text_table
from goodalloc.solvers.certificates.tree_certificate import certify_tree
from goodalloc.solvers.certificates.tree_certificate_file import write_tree_certificate
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.topology.exact_tree import solve_tree
from goodalloc.solvers.topology.flat_placement import place_flat_optimum

if TYPE_CHECKING:
    import argparse

    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.interface.result import Result


def topology_command(arguments: argparse.Namespace) -> Output:
    """Decide a round on a tree; exit code 1 if no allocation is found."""
    check_target(arguments.out)
    check_target(arguments.certificate)
    check_distinct(arguments.file, arguments.tree, arguments.out, arguments.certificate)
    require_reader(arguments.file)
    instance = read_round(arguments.file)
    for job in instance.jobs:
        if job.modes:
            raise ValueError(
                f"Instance '{instance.name}': job '{job.name}' has modes; expected none in a round "
                "on a tree, whose levels are modes."
            )
    round_ = read_tree(arguments.tree, instance)
    stop = Stop(seconds=arguments.seconds, gap=arguments.gap)
    if arguments.placement == "exact":
        result = solve_tree(round_, stop=stop)
    else:
        result = place_flat_optimum(round_, arguments.placement, stop=stop)
    if result.allocation is None:
        return _topology_output(round_, result, None)
    certified, written = None, [arguments.out, arguments.certificate]
    if arguments.out is not None:  # first, so that it is there whatever becomes of the proof
        write_allocation(result.allocation, round_.instance, arguments.out)
    if arguments.certificate is not None:
        certificate = certify_tree(round_, result.fitness, stop)
        certified = certificate.bound
        write_tree_certificate(certificate, arguments.certificate)
    output = _topology_output(round_, result, certified)
    text = [output.text, *(f"written {path}" for path in written if path is not None)]
    return Output("\n".join(text), output.data)


def _topology_output(round_: TopologyRound, result: Result, certified: float | None) -> Output:
    """Return a result as text and data."""
    allocation = result.allocation
    bounded = math.isfinite(result.bound)
    data: dict[str, Any] = {
        "solver": result.solver,
        "status": str(result.status),
        "fitness": None if allocation is None else result.fitness,
        "bound": result.bound if bounded else None,
        "gap": result.gap if bounded and allocation is not None else None,
        "proved_by": result.bound_source,
        "starved": result.starved,
        "seconds": result.solve_seconds,
    }
    if allocation is None:
        return Output("no allocation was found within the time limit", data, FAILED)
    level, names = round_.level_of(allocation), round_.topology.level_names
    runs, gpus = allocation.job_replicas > 0, allocation.job_replicas
    rows = [
        {
            "level": name,
            "jobs": int((runs & (level == place)).sum()),
            "GPUs": int(gpus[runs & (level == place)].sum()),
        }
        for place, name in enumerate(names)
    ]
    data["levels"] = rows
    current = round_.instance.current
    ran = current.job_replicas > 0
    data["moved"] = int((ran & ~allocation.unchanged(current)).sum())
    running = counted(int(ran.sum()), "running job")
    moves = f"moved or stopped: {data['moved']} of {running}, " if ran.any() else ""
    proved = ""
    if certified is not None:
        data["certified_bound"] = certified
        gap = certified / result.fitness - 1
        proved = f"\ncertificate: no allocation is above {certified:.6g}, gap {gap:.1e}"
    source = f" (by {result.bound_source})" if result.bound_source else ""
    proof = f"bound {result.bound:.6g}{source}, gap {result.gap:.1e}"
    return Output(
        f"{text_table(rows, tuple(rows[0]))}\n\n{result.status}: fitness {result.fitness:.6g}, "
        f"{proof if bounded else 'without a bound'}, without GPUs: "
        f"{result.starved} of {counted(round_.instance.num_jobs, 'job')}, {moves}"
        f"{result.solve_seconds:.2g} s{proved}",
        data,
    )
