"""Rounds recorded in replays of published traces: the state of a cluster at some instants.

What a trace gives of a job are its submission, its GPUs and its seconds. What it trains is drawn
for its GPU time as Pollux's authors drew it for the jobs of Philly
(`goodalloc.data.workloads.philly`); jobs of Arena's traces say themselves what they train, and
choose plans. A replay under some policy then gives every job an age, restarts, progress, a fitted
model and the GPUs that it holds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.data.library.recipes import PLAN_RULES, recipe_text
from goodalloc.data.plans.plan_tables import read_measured_times
from goodalloc.data.plans.plan_traces import NODES, TRACES, read_plan_trace
from goodalloc.data.pods.openb import pods_instance, read_machines, read_pods
from goodalloc.data.topology.tree_rounds import standard_tree
from goodalloc.data.workloads.generator import PUBLISHED_JOBS, draw_workload
from goodalloc.data.workloads.philly import CATEGORIES, SHORTEST, draw_from_philly, read_philly
from goodalloc.data.workloads.rigid_jobs import (
    DAY,
    ITP,
    TIRESIAS,
    read_elasticflow_jobs,
    read_itp_jobs,
    read_tiresias_jobs,
)
from goodalloc.data.workloads.workload import read_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.studies.plans.plan_simulator import PlanSimulator
from goodalloc.models.plans.plans_as_modes import plan_instance
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.rules import Rules
from goodalloc.models.topology.tree_wishes import TreeWishes
from goodalloc.solvers.policies.policy_table import PolicyOptions
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from goodalloc.data.workloads.rigid_jobs import RigidJob
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.library.recordings import OnTree, Recording
    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRound
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound

#: Seconds in an hour.
HOUR = 3600

#: How much faster Arena's artifact takes a model to be than the next larger one.
FASTER = 1.8

#: Number of Microsoft's cluster in the traces of ITP.
ITP_CLUSTER = 2


#: A recorded round: how it was recorded, and the round.
Recorded = tuple[str, "Instance"]


def record(recording: Recording, reference: Path) -> list[Recorded]:
    """Replay, and return rounds of the replay.

    Parameters
    ----------
    recording
        What to replay.
    reference
        Folder of the published data, as `data/ARTIFACTS.md` lists them.

    Raises
    ------
    ValueError
        If the data are not there, or the replay has too few rounds with enough jobs.
    """
    if recording.trace.startswith("openb-"):
        return [_pods(recording, reference)]
    if recording.trace in PLAN_ORIGINS:
        return _plan_rounds(recording, reference)
    jobs = SOURCES[recording.trace](recording, reference)
    rules = Rules(power=recording.power)
    return [
        (_recipe(recording, second=simulator.time), _instance(simulator, rules))
        for simulator in _chosen(recording, partial(_replay, recording, jobs))
    ]


def record_on_tree(recording: Recording, reference: Path) -> list[tuple[str, TopologyRound]]:
    """Replay on a tree, and return rounds of the replay; see `record`.

    The agents of the jobs know the tree, so that their models are those without slowdowns.
    """
    tree = recording.tree
    if tree is None:
        raise ValueError(f"Recording of '{recording.trace}': it has no tree; expected one.")
    jobs = SOURCES[recording.trace](recording, reference)
    wishes, rules = _wishes(recording, tree, jobs), Rules(power=recording.power)
    requested = {job.name: job.replicas for job in jobs} if tree.gangs else {}
    asked = {"requiring": tree.requiring, "uplinks": tree.uplink_jobs or 0, "gangs": tree.gangs}
    found = []
    for simulator in _chosen(recording, partial(_replay_on_tree, recording, jobs, wishes)):
        round_ = wishes.round_of(_as_gangs(_instance(simulator, rules), requested))
        found.append((_recipe(recording, second=simulator.time, **asked), round_))
    return found


def _instance(simulator: Simulator, rules: Rules) -> Instance:
    """Return the round that a policy would decide next."""
    return simulator.observe(simulator.active).instance(rules)


def _as_gangs(instance: Instance, requested: Mapping[str, int]) -> Instance:
    """Return a round whose jobs run on the GPUs that they requested or not at all.

    Parameters
    ----------
    instance, requested
        The round, and the GPUs of each such job by its name.
    """
    jobs = tuple(
        replace(job, min_replicas=requested[job.name], max_replicas=requested[job.name])
        if job.name in requested
        else job
        for job in instance.jobs
    )
    return instance.replace(jobs=jobs)


def _evenly(items: Sequence[Any], count: int) -> list[Any]:
    """Return so many of the items, evenly spread, ends left out."""
    places = (np.arange(count) + 0.5) / count * len(items)
    return [items[int(place)] for place in places]


def _recipe(recording: Recording, **more: Any) -> str:
    """Return how a round was recorded."""
    names = ("trace", "policy", "jobs", "seed", "nodes", "gpus", "power")
    return recipe_text("recorded", {name: getattr(recording, name) for name in names} | more)


def _replay(recording: Recording, jobs: Sequence[Submission]) -> Iterator[Simulator]:
    """Generate the replay before each of its decisions."""
    setting = Setting(Cluster.uniform(recording.nodes, recording.gpus))
    task = ReplayTask(Path(), recording.policy, tuple(jobs), setting)
    # not the task's policy, which has the rules of the published replays
    policy = make_policy(task.policy, PolicyOptions(Rules(power=recording.power), 0, None))
    return _before_decisions(Simulator(jobs, task.applications, policy, setting))


def _wishes(recording: Recording, tree: OnTree, jobs: Sequence[Submission]) -> TreeWishes:
    """Return the tree of a recording, with the jobs that require a rack."""
    asks = np.random.default_rng([recording.seed, 1]).random(len(jobs)) < tree.requiring
    named = tuple((job.name, "rack") for job, ask in zip(jobs, asks.tolist(), strict=True) if ask)
    return TreeWishes(standard_tree(recording.nodes, tree.uplink_jobs), requires=named)


def _replay_on_tree(
    recording: Recording, jobs: Sequence[Submission], wishes: TreeWishes
) -> Iterator[Simulator]:
    """Generate the replay on a tree before each of its decisions."""
    from goodalloc.experiments.topology.tree_replay import TreeReplay  # long chains of imports
    from goodalloc.experiments.topology.tree_simulator import TreeSimulator

    setting = Setting(Cluster.uniform(recording.nodes, recording.gpus))
    task = TreeReplay(Path(), recording.policy, tuple(jobs), setting, wishes=wishes)
    simulator = TreeSimulator(
        jobs, task.applications, task.made_policy(), setting, wishes=wishes, knows_tree=True
    )
    return _before_decisions(simulator)


def _before_decisions(simulator: Simulator) -> Iterator[Simulator]:
    """Generate a replay before each of its decisions, until an hour after the last submission."""
    last = max(job.submission.time for job in simulator.jobs)
    while not simulator.finished and simulator.time <= last + HOUR:
        simulator.advance()
        if simulator.active:
            yield simulator
        simulator.decide()


def _chosen(recording: Recording, replay: Callable[[], Iterator[Simulator]]) -> Iterator[Simulator]:
    """Generate a replay at the instants to record, evenly over those with enough jobs.

    Raises
    ------
    ValueError
        If too few instants have enough jobs.
    """
    enough = [
        simulator.time for simulator in replay() if len(simulator.active) >= recording.least_jobs
    ]
    if len(enough) < recording.rounds:
        raise _too_few(recording, len(enough))
    wanted = set(_evenly(enough, recording.rounds))
    return (one for one in replay() if one.time in wanted)


def _too_few(recording: Recording, count: int) -> ValueError:
    """Return the refusal of a recording of which too few rounds have enough jobs."""
    return ValueError(
        f"Recording of '{recording.trace}': {count} rounds have {recording.least_jobs} jobs or "
        f"more; expected at least {recording.rounds}."
    )


def _pollux(recording: Recording, reference: Path) -> tuple[Submission, ...]:
    folder = reference / "pollux" / "workloads"
    return read_workload(folder / f"workload-{recording.seed}.csv")[: recording.jobs]


def _pollux_day(recording: Recording, _: Path) -> tuple[Submission, ...]:
    """Draw a day of jobs as the package does, which needs no published data."""
    return draw_workload(recording.seed, load=recording.jobs / PUBLISHED_JOBS)


def _drawn(recording: Recording, table: pd.DataFrame, hours: int = 8) -> tuple[Submission, ...]:
    """Draw jobs of a list, none larger than half the cluster."""
    fits = table[table.num_gpus <= recording.nodes * recording.gpus // 2].reset_index(drop=True)
    start = 2 if hours < 24 else 0
    return draw_from_philly(
        fits, recording.seed, recording.jobs, "realistic", start=start, hours=hours
    )


def _philly(recording: Recording, reference: Path) -> tuple[Submission, ...]:
    return _drawn(recording, read_philly(reference / "sia" / "traces" / "philly.csv"))


def _of_rigid(recording: Recording, jobs: Sequence[RigidJob]) -> tuple[Submission, ...]:
    """Draw jobs of a trace of rigid jobs as Pollux's authors did of Philly's list."""
    table = pd.DataFrame(
        {
            "second": [int(job.submission) % DAY for job in jobs],
            "duration": [job.seconds for job in jobs],
            "num_gpus": [job.replicas for job in jobs],
            "gpu_time": [job.seconds * job.replicas for job in jobs],
        }
    )
    short = (table.duration >= SHORTEST) & (table.gpu_time < CATEGORIES[-1][0] * HOUR)
    return _drawn(recording, table[short], hours=24)


def _itp(recording: Recording, reference: Path) -> tuple[Submission, ...]:
    return _of_rigid(recording, read_itp_jobs(reference / ITP, ITP_CLUSTER))


def _tiresias(recording: Recording, reference: Path) -> tuple[Submission, ...]:
    return _of_rigid(recording, read_tiresias_jobs(reference / TIRESIAS))


def _elasticflow(recording: Recording, reference: Path) -> tuple[Submission, ...]:
    return _of_rigid(recording, read_elasticflow_jobs(reference / ITP))


#: Traces of jobs with models of the package, each a function that reads or draws its jobs.
SOURCES: Mapping[str, Callable[[Recording, Path], tuple[Submission, ...]]] = {
    "pollux": _pollux,
    "pollux-days": _pollux_day,
    "philly": _philly,
    "itp": _itp,
    "tiresias": _tiresias,
    "elasticflow": _elasticflow,
}

#: Origins of Arena's traces, of jobs with plans, and their names there.
PLAN_ORIGINS = {"philly-plans": "philly", "helios": "helios", "pai": "pai"}


def _plan_rounds(recording: Recording, reference: Path) -> list[Recorded]:
    """Record rounds of jobs that choose plans, served in their order; nodes are parts of Arena's.

    `Recording.nodes` is that part, as 4 for a quarter; the jobs come in a row, those of the second
    seed after those of the first.
    """
    from goodalloc.experiments.studies.plans.arena_replay import POLICIES, PRUNED  # all policies

    folder = reference / "arena"
    trace = read_plan_trace(folder / TRACES[PLAN_ORIGINS[recording.trace]])
    first = (recording.seed - 1) * recording.jobs
    jobs = trace[first : first + recording.jobs]
    node_gpus = {kind: gpus for kind, (_, gpus) in NODES.items()}
    capacity = {
        kind: max(nodes // recording.nodes, 1) * gpus for kind, (nodes, gpus) in NODES.items()
    }
    seen: list[PlanRound] = []

    def watched(round_: PlanRound, decision: Mapping[str, Configuration]) -> None:
        if len(round_.jobs) >= recording.least_jobs:
            seen.append(round_)

    times = read_measured_times(folder).with_smaller_models(FASTER)
    policy = POLICIES["first come"](PRUNED)
    PlanSimulator(jobs, times, capacity, node_gpus, policy, PRUNED, judge=watched).run()
    if len(seen) < recording.rounds:
        raise _too_few(recording, len(seen))
    rules = PLAN_RULES.replace(power=recording.power)
    return [
        (_recipe(recording, second=int(one.time)), plan_instance(one, node_gpus, rules))
        for one in _evenly(seen, recording.rounds)
    ]


def _pods(recording: Recording, reference: Path) -> Recorded:
    """Return pods of a published list of openb that come in a row, and nodes drawn of its list."""
    folder, variant = reference / "alibaba-openb-2023", recording.trace.removeprefix("openb-")
    random = np.random.default_rng(recording.seed)
    machines, pods = read_machines(folder), read_pods(folder, variant)
    chosen = np.sort(random.choice(len(machines), recording.nodes, replace=False)).tolist()
    first = int(random.integers(len(pods) - recording.jobs))
    some = pods[first : first + recording.jobs]
    instance = pods_instance([machines[index] for index in chosen], some, recording.trace)
    return _recipe(recording, first=first), instance
