"""Commands `schedule` and `launch`: allocate a cluster to jobs, and train one on its allocation."""

from __future__ import annotations

import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.experiments.cli.output import FAILED, INTERRUPTED, Output, counted, make_folder
from goodalloc.experiments.cli.types import uniform_size
from goodalloc.experiments.live.engines import LocalEngine
from goodalloc.experiments.live.gpu_leases import gpus_of_machine
from goodalloc.experiments.live.launcher import Launcher, LaunchFailed
from goodalloc.experiments.live.live_policies import live_policy
from goodalloc.experiments.live.ray_engine import RayEngine, require_nodes
from goodalloc.experiments.live.resource_requests import (
    CORES,
    MEMORY,
    request_of,
    require_resources_known,
)
from goodalloc.experiments.live.scheduler import LiveScheduler
from goodalloc.experiments.support.stop_request import stop_request
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.policies.policy_table import POLICIES, PolicyOptions
from goodalloc.solvers.policies.registry import require_types_known

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from goodalloc.experiments.live.engines import Engine
    from goodalloc.models.round.mode import Resources


def schedule_command(arguments: argparse.Namespace) -> Output:
    """Schedule until a stop request or, with ``--until-done``, until all jobs are done."""
    watch: Callable[[], Cluster | None] | None = None
    least: Callable[[], Resources] = tuple
    if arguments.on is None:
        cluster = _cluster(arguments)
    else:
        _refuse_nodes(arguments)
        engine = RayEngine(arguments.on)
        watch = partial(_nodes, engine, arguments.policy, with_resources=arguments.resources)
        cluster, least = require_nodes(watch()), lambda: engine.least
    require_resources_known(arguments.policy, cluster.resource_names)
    rules = OSDI21.replace(restart_delay=arguments.restart_delay)
    options = PolicyOptions(rules, arguments.seed, arguments.seconds)
    policy = live_policy(arguments.policy, options)
    folder = make_folder(arguments.cluster)
    log_line(f"schedules the jobs of {folder}; goodalloc launch submits some")
    with stop_request() as stopped:
        scheduler = LiveScheduler(
            folder=folder,
            cluster=cluster,
            policy=policy,
            interval=arguments.interval,
            until_done=arguments.until_done,
            stopped=stopped,
            say=log_line,
            trusting=arguments.policy in POLICIES,
            similar=arguments.similar,
            watch=watch,
            least=least,
        )
        totals = scheduler.run()
        code = INTERRUPTED if stopped() else 0
    text = (
        f"{counted(totals.decisions, 'decision')}, {counted(totals.changes, 'change')}, for "
        f"{counted(totals.jobs, 'job')} in {totals.seconds:.0f} s"
    )
    return Output(text, totals._asdict(), code)


def _cluster(arguments: argparse.Namespace) -> Cluster:
    """Return the cluster.

    Raises
    ------
    ValueError
        If neither ``--group`` nor both ``--nodes`` and ``--gpus-per-node`` are given, or a group
        has a type of GPU.
    """
    if arguments.group is None and (arguments.nodes is None or arguments.gpus_per_node is None):
        raise ValueError("arguments --nodes and --gpus-per-node: expected both, or --group.")
    groups = arguments.group or [("node", *uniform_size(arguments), "")]
    uniform_size(arguments)  # refuses both
    for name, _, _, kind in groups:
        if kind:
            raise ValueError(
                f"argument --group: group '{name}' has GPUs of type '{kind}'; expected none, for "
                "the GPUs of one machine are one type; with --on, Ray tells types apart."
            )
    if arguments.resources:
        raise ValueError(
            "argument --resources: expected it with --on only, where Ray knows what nodes have; "
            "here --cores and --memory say it."
        )
    had = resources({CORES: arguments.cores or 0.0, MEMORY: arguments.memory or 0.0})
    return Cluster(
        tuple(NodeGroup(name, nodes, gpus, resources=had) for name, nodes, gpus, _ in groups)
    )


def _refuse_nodes(arguments: argparse.Namespace) -> None:
    """Refuse nodes that a command names beside those of Ray.

    Raises
    ------
    ValueError
        If it names some.
    """
    for name in ("group", "nodes", "gpus_per_node", "cores", "memory"):
        if getattr(arguments, name) is not None:
            option = name.replace("_", "-")
            raise ValueError(f"argument --{option}: expected none with --on, as Ray has the nodes.")


def _nodes(engine: RayEngine, policy: str, *, with_resources: bool) -> Cluster | None:
    """Return the present nodes of a Ray cluster.

    Raises
    ------
    ValueError
        If the policy does not know their types of GPU.
    """
    found = engine.cluster(with_resources=with_resources)
    if found is not None:
        require_types_known(policy, found)
    return found


def launch_command(arguments: argparse.Namespace) -> Output:
    """Train a job to its end on the slots that its scheduler allocates."""
    program = tuple(arguments.program)
    if shutil.which(program[0]) is None:
        raise ValueError(f"Command '{program[0]}' is not there; expected a program.")
    with stop_request() as stopped:
        launcher = Launcher(
            cluster=Path(arguments.cluster),
            name=arguments.name,
            command=program,
            replicas=arguments.replicas,
            application=arguments.application,
            steps=arguments.steps,
            request=request_of(arguments.name, arguments.cores or 0.0, arguments.memory or 0.0),
            retries=arguments.retries,
            stopped=stopped,
            say=log_line,
            engine=_engine(arguments),
        )
        make_folder(arguments.cluster)
        try:
            launched = launcher.run()
        except LaunchFailed as failure:
            return Output(str(failure), {"job": arguments.name, "error": str(failure)}, FAILED)
    text = (
        f"{launched.job} is done after {launched.seconds:.0f} s, starts: {launched.starts}, "
        f"failures: {launched.failures}"
    )
    return Output(text, {**launched._asdict(), "error": ""})


def _engine(arguments: argparse.Namespace) -> Engine:
    """Return what starts the replicas.

    Raises
    ------
    ValueError
        If GPUs of this machine are given for a cluster of Ray.
    """
    if arguments.on is None:
        gpus = gpus_of_machine() if arguments.gpus is None else arguments.gpus
        return LocalEngine(Path(arguments.cluster), gpus)
    if arguments.gpus is not None:
        raise ValueError("argument --gpus: expected none with --on, as Ray assigns GPUs.")
    return RayEngine(arguments.on)


def log_line(text: str) -> None:
    """Write `text` with the time to the standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
