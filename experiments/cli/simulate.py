"""Command `simulate`: replay a workload, with foresight or on a tree if the arguments say so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.experiments.cli.output import (
    BAD_INPUT,
    Output,
    all_refused,
    check_kept,
    drawing,
    flat,
    make_folder,
    policy_folder,
)
from goodalloc.experiments.cli.replay import (
    cluster_of,
    run_with_progress,
    workload_of,
)
from goodalloc.experiments.cli.replay_arguments import DEFAULT_POLICIES
from goodalloc.experiments.placements.placements_file import PLACEMENTS, writing_placements
from goodalloc.experiments.replay.replay_conditions import MeasurementNoise, Outage, Setting
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.reporting.report import for_machines, text_table
from goodalloc.experiments.studies.hindsight.known_task import KnownTask
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.topology.tree_replay import TreeReplay
from goodalloc.solvers.policies.policy import Terms
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.experiments.hindsight.known_replay import Foresight
    from goodalloc.solvers.policies.policy import Policy

#: Policies that know more than a scheduler can, and what each of them knows.
FORESIGHT: Mapping[str, Foresight] = {
    "foresight-work": "remaining work",
    "foresight-plans": "plans",
    "foresight-hour": "arrivals of an hour",
}

#: What the columns of the table are.
SUMMARY_LEGEND = (
    "knows: what the policy is told of jobs; batch: who chooses their batch sizes; efficiency: "
    "mean statistical\nefficiency of training GPUs; starved: mean number of active jobs without a "
    "GPU; more starved: beyond those of the\nbest known answers; served over best: fitness of the "
    "other jobs over theirs; gap: below the bound of a round"
)

#: Least end of the axis of gaps, in per cent.
LEAST_GAP_SHOWN = 0.01


def simulate_command(arguments: argparse.Namespace) -> Output:
    """Replay a workload under several policies, each from its last checkpoint."""
    # the report loads pandas, which `reproduce list` does without
    from goodalloc.experiments.replay.replay_report import plot_replays, summarise

    if arguments.rates is not None or arguments.plans is not None:
        from goodalloc.experiments.cli.simulate_given import simulate_given_command

        return simulate_given_command(arguments)
    if arguments.bound:
        raise ValueError(
            "argument --bound: the jobs have goodput models; expected --plans with it, or the "
            "command hindsight, which bounds their schedules."
        )
    if arguments.parquet:
        require_extra("parquet", "Argument --parquet")
    inputs = (arguments.workload, arguments.philly, arguments.tree, *(arguments.pairs or ()))
    check_kept(arguments.out, ("summary.csv",), *inputs)
    policies = tuple(dict.fromkeys(flat(arguments.policies or [DEFAULT_POLICIES])))
    if arguments.tree is None:
        require_policies(policies)
    loss = None if arguments.pairs is None else measured_loss(arguments.pairs, policies)
    tasks = tasks_of(arguments, policies, loss)
    folder = make_folder(arguments.out)
    refused = run_with_progress(arguments, tasks, folder, "simulate", arguments.workers)
    if len(refused) == len(tasks):
        raise all_refused(refused, folder)
    complaints = {task.policy: refused[task.folder] for task in tasks if task.folder in refused}
    folders = {task.policy: task.folder for task in tasks if task.policy not in complaints}
    if arguments.parquet:
        from goodalloc.experiments.replay.replay_parquet import write_parquet  # loads pandas

        for target in folders.values():
            write_parquet(target)
    terms = {task.policy: task.terms._asdict() for task in tasks}
    rows = [
        {"policy": name, **terms[name], **summarise(name, target)}
        for name, target in folders.items()
    ]
    write_atomically(folder / "summary.csv", csv_text(rows, tuple(rows[0])))
    with drawing(f"the table is in {folder}"):
        from goodalloc.experiments.reporting.plots import save

        save(with_room_for_gaps(plot_replays(folders)), folder / f"replay.{arguments.pictures}")
    texts = [
        f"{text_table(rows, tuple(rows[0]))}\n{SUMMARY_LEGEND}",
        *(() if loss is None else (f"measured loss of shared GPUs: {loss:.3f}",)),
        *(f"{name} is left out. {complaint}" for name, complaint in complaints.items()),
        f"written to {folder}: summary.csv, replay.{arguments.pictures}, and a folder for every "
        "policy",
    ]
    errors = [{"policy": name, "error": complaint} for name, complaint in complaints.items()]
    code = BAD_INPUT if complaints else 0
    return Output("\n\n".join(texts), for_machines([*rows, *errors]), code)


def with_room_for_gaps(figure: Figure) -> Figure:
    """Return a figure of replays whose axis of gaps is not that of rounding, where all are tiny.

    Parameters
    ----------
    figure
        As `goodalloc.experiments.replay.plot_replays` drew it.
    """
    for ax in figure.axes:
        if ax.get_ylabel().startswith("gap of"):
            ax.set_ylim(top=max(ax.get_ylim()[1], LEAST_GAP_SHOWN))
    return figure


def tasks_of(
    arguments: argparse.Namespace, policies: Sequence[str], loss: float | None
) -> list[ReplayTask]:
    """Return the replay of each policy, with foresight or on a tree if the arguments say so."""
    workload = workload_of(arguments)
    setting = Setting(
        cluster=cluster_of(arguments),
        interval=arguments.interval,
        restart_delay=arguments.restart_delay,
        interference=arguments.interference,
        outages=tuple(Outage(*outage) for outage in flat(arguments.outages)),
        knowledge=arguments.knowledge,
        free_moves=arguments.free_moves,
        input_seed=arguments.seed,
        batch_sizes=arguments.batch_sizes,
        oracle=arguments.oracle,
        noise=MeasurementNoise(
            arguments.step_time_error,
            arguments.noise_scale_error,
            arguments.age_error,
            arguments.seed,
        ),
    )
    traces = None if arguments.traces is None else str(Path(arguments.traces).absolute())
    tasks: list[ReplayTask] = [
        SimulateTask(
            folder=policy_folder(arguments, name),
            policy=name,
            workload=workload,
            setting=setting,
            traces=traces,
            power=arguments.power,
            interference_avoidance=arguments.interference_avoidance,
            seed=arguments.seed,
            seconds=arguments.seconds,
            gaps=arguments.gaps,
            sharing_loss=loss,
        )
        for name in policies
    ]
    if arguments.tree is not None:
        return on_tree(tasks, arguments.tree)
    return list(map(with_foresight, tasks))


def require_policies(names: Sequence[str]) -> None:
    """Refuse policies of a replay without a tree that do not exist, or need one.

    Raises
    ------
    ValueError
        If a name is unknown, or that of a policy with a placing on a tree or for execution plans.
    """
    for name in names:
        if "@" in name:
            raise ValueError(f"Policy '{name}' places jobs on a tree; expected --tree with it.")
        if name in FORESIGHT:
            continue
        if name not in POLICIES:
            from goodalloc.experiments.studies.plans.plan_policies import PLAN_POLICIES

            if name in PLAN_POLICIES:
                raise ValueError(
                    f"Policy '{name}' chooses execution plans; expected --plans with it."
                )
        make_policy(name)


def measured_loss(files: Sequence[str], policies: Sequence[str]) -> float:
    """Return the mean of measured losses of shared GPUs, for policies of which some share them.

    Parameters
    ----------
    files
        What `goodalloc measure A B --beside` wrote.
    policies
        Names of the policies.

    Raises
    ------
    ValueError
        If jobs share GPUs under none of the policies, or as `read_losses`.
    """
    from goodalloc.experiments.measure.beside import fitted_loss, read_losses  # rarely needed

    if not any("@" not in name and name not in FORESIGHT and shares(name) for name in policies):
        raise ValueError(
            f"argument --pairs: jobs share GPUs under none of {', '.join(policies)}; expected a "
            "policy whose jobs do, such as gandiva or antman."
        )
    return fitted_loss([loss for file in files for loss in read_losses(Path(file))])


def shares(policy: str) -> bool:
    """Return whether jobs share GPUs under a policy."""
    return getattr(make_policy(policy), "sharing", None) is not None


@dataclass(frozen=True)
class SimulateTask(ReplayTask):
    """Replay that also writes its placements; see `ReplayTask`.

    Parameters
    ----------
    sharing_loss
        Part of the speed that jobs lose on shared GPUs, None as the policy has it
        (`goodalloc.models.shared_gpus.Sharing`).
    """

    sharing_loss: float | None = None

    def description(self) -> dict[str, Any]:
        """Return the description for `Replay`: all inputs on which the records depend."""
        told = {} if self.sharing_loss is None else {"sharing_loss": self.sharing_loss}
        return super().description() | told

    def made_policy(self) -> Policy:
        """Return the policy, which writes its placements to the folder of the replay.

        Raises
        ------
        ValueError
            As `ReplayTask.made_policy`, or if the loss of its shared GPUs cannot be set.
        """
        policy: Any = super().made_policy()
        sharing = getattr(policy, "sharing", None)
        if self.sharing_loss is not None and sharing is not None:
            try:
                policy.sharing = replace(sharing, loss=self.sharing_loss)
            except (AttributeError, TypeError) as error:
                raise ValueError(
                    f"Policy '{self.policy}': its sharing cannot be changed ({error}); expected a "
                    "field of type Sharing, or no --pairs."
                ) from error
        return writing_placements(policy, self.folder / PLACEMENTS)


@dataclass(frozen=True)
class ForesightTask(SimulateTask, KnownTask):
    """Replay under a policy with foresight, by its name here; see `KnownTask`."""

    @property
    def terms(self) -> Terms:
        """What the policy is told, and who chooses the batch sizes."""
        own = self.setting.batch_sizes
        return Terms("true remaining", "adaptive" if own == "policy" else own)


@dataclass(frozen=True)
class SimulateTreeTask(SimulateTask, TreeReplay):
    """Replay on a tree that also writes its placements; see `TreeReplay`."""


def with_foresight(task: ReplayTask) -> ReplayTask:
    """Return a replay under the policy with foresight that it names, or as it is.

    Jobs know their speed when they start. Decisions are not judged, which follow another objective.

    Parameters
    ----------
    task
        The replay.

    Raises
    ------
    ValueError
        If nodes have several types of GPU or other resources, or as `replayed_problem`.
    """
    if task.policy not in FORESIGHT:
        return task
    cluster = task.setting.cluster
    if len(cluster.gpu_types) > 1:
        raise ValueError(
            f"Policy '{task.policy}' knows one type of GPU and the cluster has "
            f"{', '.join(cluster.gpu_types)}; expected one."
        )
    told = {"setting": replace(task.setting, knowledge="profiled"), "gaps": False}
    known = ForesightTask(**vars(task) | told, foresight=FORESIGHT[task.policy])
    known.made_policy()  # refuses what it cannot serve before anything is written
    return known


def on_tree(tasks: Sequence[ReplayTask], tree: str) -> list[ReplayTask]:
    """Return replays on a tree, of policies with their placings.

    Parameters
    ----------
    tasks
        The replays without the tree, of the same jobs on the same cluster.
    tree
        As in `goodalloc.data.topology.read_wishes`.

    Raises
    ------
    ValueError
        If the file is malformed or does not suit cluster and jobs, or a policy cannot decide on the
        tree.
    """
    from goodalloc.data.topology.topology_file import read_wishes  # few replays need it

    cluster, jobs = tasks[0].setting.cluster, [job.name for job in tasks[0].workload]
    wishes = read_wishes(tree, cluster, jobs)
    found: list[ReplayTask] = []
    for task in tasks:
        if task.policy.partition("@")[0] in FORESIGHT:
            raise ValueError(f"Policy '{task.policy}' knows no tree; expected none with it.")
        replay = SimulateTreeTask(**vars(task), wishes=wishes)
        replay.made_policy()  # refuses unknown names before anything is written
        found.append(replay)
    return found
