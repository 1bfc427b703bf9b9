"""The command that replays workloads: simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.application import profiled_applications
from goodalloc.data.json_file import write_atomically
from goodalloc.data.workload import read_workload
from goodalloc.data.workload_generator import draw_workload
from goodalloc.experiments.cli_experiments import drawing, progress_bar
from goodalloc.experiments.cli_output import Output, flat, make_folder
from goodalloc.experiments.judge import Judge
from goodalloc.experiments.policies import POLICIES, make_policy
from goodalloc.experiments.replay import Replay
from goodalloc.experiments.replay_report import plot_replays, summarise
from goodalloc.experiments.report import for_machines, text_table
from goodalloc.experiments.simulator import Setting, Simulator
from goodalloc.experiments.version import library_version
from goodalloc.models.rules import OSDI21
from goodalloc.models.validation import require_choice
from goodalloc.solvers.result_file import csv_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.data.application import Application
    from goodalloc.data.workload import Submission


def simulate_command(arguments: argparse.Namespace) -> Output:
    """Replay a workload under several policies; each goes on from where it was stopped."""
    policies = flat(arguments.policies)
    for name in policies:
        require_choice("Policy", name, tuple(POLICIES))
    workload = _workload(arguments)
    applications = _applications(arguments)
    folder = make_folder(arguments.out)
    folders = {name: make_folder(str(folder / name)) for name in dict.fromkeys(policies)}
    try:
        for name, target in folders.items():
            _replay(arguments, name, target, workload, applications)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the same command goes on from the last checkpoint in {folder}."
        ) from None
    rows = [summarise(name, target) for name, target in folders.items()]
    columns = tuple(rows[0])
    write_atomically(folder / "summary.csv", csv_text(rows, columns))
    with drawing(f"the table is in {folder}"):
        from goodalloc.experiments.plots import save

        save(plot_replays(folders), folder / "replay.png")
    text = f"{text_table(rows, columns)}\n\nwritten to {folder}: summary.csv, replay.png, and"
    return Output(f"{text} a folder for every policy", for_machines(rows))


def _workload(arguments: argparse.Namespace) -> tuple[Submission, ...]:
    if arguments.workload is not None:
        return read_workload(arguments.workload)
    return draw_workload(arguments.seed, load=arguments.load, requests=arguments.requests)


def _applications(arguments: argparse.Namespace) -> dict[str, Application]:
    if arguments.traces is None:
        return profiled_applications()
    from goodalloc.data.traces import measured_applications

    return measured_applications(arguments.traces)


def _replay(
    arguments: argparse.Namespace, name: str, folder: Path, workload: Sequence[Submission],
    applications: dict[str, Application],
) -> None:  # fmt: skip
    setting = Setting(
        arguments.nodes, arguments.gpus_per_node, arguments.interval, arguments.restart_delay,
        arguments.interference,
    )  # fmt: skip
    rules = OSDI21.replace(
        power=arguments.power, interference_avoidance=arguments.interference_avoidance,
        restart_delay=arguments.restart_delay,
    )  # fmt: skip
    policy = make_policy(name, seed=arguments.seed, seconds=arguments.seconds, rules=rules)
    description: dict[str, Any] = {
        "format": "goodalloc-replay", "version": 1, "library": library_version(), "policy": name,
        "workload": [list(map(str, (j.name, j.time, j.replicas, j.batch_size))) for j in workload],
        "traces": arguments.traces is not None, "seed": arguments.seed,
        "seconds": arguments.seconds, "gaps": arguments.gaps, "nodes": setting.nodes,
        "gpus_per_node": setting.gpus_per_node, "interval": setting.interval,
        "restart_delay": setting.restart_delay, "interference": setting.interference,
        "power": str(rules.power), "interference_avoidance": rules.interference_avoidance,
    }  # fmt: skip
    judge = Judge(rules, arguments.seconds) if arguments.gaps else None
    simulator = Simulator(workload, applications, policy, setting)
    replay = Replay(simulator, folder, description, judge)
    with progress_bar(len(workload), quiet=arguments.json) as bar:
        bar.set_description(name)
        replay.run(lambda s: bar.update(s.completed - bar.n))
