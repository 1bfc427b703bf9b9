"""Commands `solve` and `check`."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import pack_number
from goodalloc.data.rounds.any_round import PARQUET, read_round
from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.experiments.cli.output import (
    FAILED,
    INTERRUPTED,
    Output,
    check_distinct,
    check_target,
    counted,
)
from goodalloc.experiments.cli.round_arguments import CROSS_CHECK_SECONDS
from goodalloc.experiments.cli.rounds.columns import require_reader, solve_in_columns
from goodalloc.experiments.cli.rounds.trees import read_tree
from goodalloc.experiments.gap.comparison import check_solvers
from goodalloc.experiments.reporting.report import bound_text, percent
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.solvers.certificates.certificate_file import write_certificate
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.result_file import result_to_dict, write_result
from goodalloc.solvers.interface.stages import StageLog

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.feasibility import Violation
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.interface.stages import Stage

#: What ended a search before a proof, in words.
STOPPED_BY = {
    Limit.TIME: "the time limit",
    Limit.GAP: "the gap limit",
    Limit.ITERATIONS: "the number of iterations",
    Limit.NO_IMPROVEMENT: "a lack of improvement",
    Limit.INTERRUPTED: "an interrupt",
}

#: Jobs up to which the allocation is printed.
MOST_PRINTED_JOBS = 40


def solve_command(arguments: argparse.Namespace) -> Output:
    """Solve an instance."""
    from goodalloc.solvers.certificates.counted_search import certified_by_counts
    from goodalloc.solvers.certificates.solve import solve
    from goodalloc.solvers.interface.stop import Stop

    if arguments.file.endswith(PARQUET):
        return solve_in_columns(arguments)
    instance = find_instance(arguments.file)
    check_solvers([arguments.solver])
    check_target(arguments.out)
    check_target(arguments.certificate)
    check_distinct(arguments.file, arguments.start, arguments.out, arguments.certificate)
    seconds = arguments.cross_check_seconds
    if seconds is not None and arguments.cross_check is None:
        raise ValueError("argument --cross-check-seconds: expected --cross-check with it.")
    if arguments.cross_check is not None:
        require_extra(arguments.cross_check, f"Argument --cross-check {arguments.cross_check}")
    options: dict[str, Any] = {"leximin": True} if arguments.leximin else {}
    log = StageLog()
    if arguments.stages:
        if arguments.solver != "highs":
            raise ValueError(
                f"argument --stages: solver '{arguments.solver}' records no stages; expected highs."
            )
        options["log"] = log
    start = _start(arguments.start, instance)
    mode_utilities(instance)
    stop = Stop(seconds=arguments.seconds, gap=arguments.gap)
    result = solve(
        instance,
        arguments.solver,
        stop=stop,
        seed=arguments.seed,
        start=start,
        certificate=arguments.certificate is not None,
        **options,
    )
    if arguments.certificate is not None:
        result = certified_by_counts(instance, result, stop)
    text = solve_text(instance, result, log.stages)
    if arguments.out is not None:
        write_result(result, instance, arguments.out)
        text += f"\nwritten      {arguments.out}"
    if arguments.certificate is not None:
        if result.certificate is None:
            text += f"\ncertificate  none: {arguments.certificate} is not written"
        else:
            write_certificate(result.certificate, arguments.certificate)
            text += f"\ncertificate  {arguments.certificate}"
    code = 0
    if result.allocation is None:
        code = INTERRUPTED if result.limit is Limit.INTERRUPTED else FAILED
    data = result_to_dict(result, instance)
    if arguments.stages:
        data["stages"] = [
            {**asdict(stage), "bound": pack_number(stage.bound), "outcome": str(stage.outcome)}
            for stage in log.stages
        ]
    if arguments.cross_check is not None and result.limit is not Limit.INTERRUPTED:
        check = _cross_check(instance, result, seconds or CROSS_CHECK_SECONDS)
        text += f"\n{check.text}"
        data["cross_check"] = check.data
        code = check.code or code
    return Output(text, data, code)


def _start(path: str | None, instance: Instance) -> Allocation | None:
    """Read the allocation to start from, which must be feasible."""
    if path is None:
        return None
    from goodalloc.data.files.allocation import read_allocation

    start = read_allocation(path, instance)
    broken = violations(instance, start)
    if broken:
        raise ValueError(f"File '{path}' is no feasible start: {broken[0]}")
    return start


def solve_text(instance: Instance, result: Result, stages: Sequence[Stage] = ()) -> str:
    """Return a result as text, with the stages of the solve."""
    cluster = instance.cluster
    jobs, gpus = counted(instance.num_jobs, "job"), counted(cluster.num_gpus, "GPU")
    limit = "" if result.limit is None else f" (stopped by {STOPPED_BY[result.limit]})"
    lines = [
        ("instance", f"{instance.name}: {jobs}, {counted(cluster.num_nodes, 'node')}, {gpus}"),
        ("solver", result.solver),
        ("status", f"{result.status}{limit}"),
        ("fitness", f"{result.fitness:.12g}"),
        ("bound", bound_text(result.bound, result.bound_source, result.evidence)),
        ("gap", percent(result.gap)),
        ("seconds", f"{result.solve_seconds:.3f}"),
    ]
    if result.claimed_bound != math.inf:
        claim = f"{result.claimed_bound:.12g} (by {result.solver}; unverified)"
        lines.insert(5, ("claimed", claim))
    if result.message:
        lines.append(("message", result.message))
    for index, stage in enumerate(stages):
        told = f"{stage.name}: {stage.outcome} ({stage.seconds:.3f} s)"
        lines.append(("" if index else "stages", told))
    allocation = result.allocation
    if allocation is not None:
        served = int((allocation.job_replicas > 0).sum())
        used = int(allocation.replicas.sum())
        worth = "" if math.isnan(result.served_fitness) else f", worth {result.served_fitness:.9g}"
        starved = instance.num_jobs - served
        starve = "starves" if starved == 1 else "starve"
        lines.append(("served", f"{served} of {jobs}{worth}; {starved} {starve}"))
        lines.append(("used", f"{used} of {gpus}"))
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    if allocation is not None and instance.num_jobs <= MOST_PRINTED_JOBS:
        text += "\n\n" + placement_text(instance, allocation) + "\n"
    return text


def _cross_check(instance: Instance, result: Result, seconds: float) -> Output:
    """Return the outcome of the cross-check of `result` with SCIP."""
    from goodalloc.solvers.exact.scip_check import Verdict, cross_check

    check = cross_check(instance, result, seconds=seconds)
    why = f" ({check.message})" if check.message else ""
    lines = [("cross-check", f"scip: {check.verdict}{why}")]
    if check.status:
        more = f"({check.difference:+.2g} relative to {result.solver})"
        lines += [
            ("  status", check.status),
            ("  fitness", f"{check.fitness:.12g} {more}"),
            ("  bound", f"{check.bound:.12g}"),
            ("  seconds", f"{check.seconds:.3f}"),
        ]
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    data = {
        name: pack_number(value) if isinstance(value, float) else str(value)
        for name, value in asdict(check).items()
    }
    return Output(text, data, FAILED if check.verdict is Verdict.DISAGREE else 0)


def placement_text(instance: Instance, allocation: Allocation) -> str:
    """Return the placement and mode of every job as text, one line each."""
    names = instance.cluster.node_names
    width = max(len(job.name) for job in instance.jobs)
    lines = []
    for index, (job, pairs) in enumerate(zip(instance.jobs, allocation.placements(), strict=True)):
        placed = ", ".join(f"{names[node]}: {gpus}" for node, gpus in pairs) or "-"
        if pairs and job.modes:
            placed += f"  ({job.modes[allocation.mode[index]].name})"
        lines.append(f"{job.name:<{width}}  {placed}")
    return "\n".join(lines)


def check_command(arguments: argparse.Namespace) -> Output:
    """Check an allocation; exit code 1 if it breaks a rule."""
    from goodalloc.data.files.allocation import read_allocation

    require_reader(arguments.file)
    instance = read_round(arguments.file)
    if arguments.allocation.endswith(".csv"):
        raise ValueError(
            f"File '{arguments.allocation}': expected an allocation or a result in JSON; goodalloc "
            "verify checks placements of a round in columns with their certificate."
        )
    allocation = read_allocation(arguments.allocation, instance)
    broken, value = _checked(instance, allocation, arguments.tree)
    if broken:
        count = counted(len(broken), "rule", ("is", "are"))
        text = "\n".join([f"infeasible: {count} broken", *(f"  {item}" for item in broken)])
        found = [{"rule": item.rule, "message": item.message} for item in broken]
        return Output(text, {"feasible": False, "violations": found, "fitness": None}, FAILED)
    served = int((allocation.job_replicas > 0).sum())
    text = f"feasible: fitness {value:.12g}, {served} of {counted(instance.num_jobs, 'job')} served"
    return Output(text, {"feasible": True, "violations": [], "fitness": pack_number(value)})


def _checked(
    instance: Instance, allocation: Allocation, tree: str | None
) -> tuple[tuple[Violation, ...], float]:
    """Return the rules that an allocation breaks, and its fitness if it breaks none."""
    if tree is None:
        broken = violations(instance, allocation)
        return broken, math.nan if broken else fitness(instance, allocation)
    from goodalloc.models.topology.topology_feasibility import topology_violations
    from goodalloc.models.topology.topology_round import topology_fitness

    round_ = read_tree(tree, instance)
    broken = topology_violations(round_, allocation)
    return broken, math.nan if broken else topology_fitness(round_, allocation)
