"""Command `measure`: steps of real trainings on this machine, or on nodes."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.files.measured_profile import FITS, read_measured_profile, read_rows
from goodalloc.experiments.cli.output import Output, check_target, counted, drawing, make_folder
from goodalloc.experiments.measure.crew import LaunchedCrew, LocalCrew, launched_size
from goodalloc.experiments.measure.devices import Devices, powers_to
from goodalloc.experiments.measure.execution import PLAIN, Execution
from goodalloc.experiments.measure.machine_state import conditions, device_name, hardware
from goodalloc.experiments.measure.measured_configuration import QUIET_CORE
from goodalloc.experiments.measure.measuring import (
    MeasurePlan,
    Measuring,
    doubled,
    require_machine,
)
from goodalloc.experiments.measure.profile_table import SHOWN, shown_row, summary
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.progress import progress_bar
from goodalloc.experiments.reporting.report import for_machines, text_table
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.experiments.support.stop_request import interrupted_keeping
from goodalloc.experiments.tasks.task import find_task, task_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goodalloc.experiments.measure.crew import Crew

#: Seconds within which the processes of a killed measurement end.
LAST_ORDER = 2.0

#: What is said where the shared core was not theirs alone.
DISTURBED = "other programs took the core meanwhile: measure again when they have ended"

#: Accumulated passes, and time limit of a configuration, of one training and of all.
ONE, ALL = ((0, 1), 5.0), ((0,), 1.5)


def measure_command(arguments: argparse.Namespace) -> Output:
    """Measure a training, or all that ship, in every configuration that the files lack."""
    require_extra("measure", "Command measure")
    if arguments.restart and (arguments.all or arguments.beside):
        raise ValueError("argument --restart: expected neither --all nor --beside with it.")
    if arguments.all and (arguments.beside or arguments.precision or arguments.trace is not None):
        raise ValueError("argument --all: expected none of --beside, --trace, --precision with it.")
    wanted, why = (2, " with --beside") if arguments.beside else (1, "")
    if arguments.all:
        wanted, why = 0, " with --all"
    if len(arguments.model) != wanted:
        got = counted(len(arguments.model), "training")
        raise ValueError(f"argument model: got {got}; expected {wanted}{why}.")
    size = launched_size(os.environ)
    if arguments.on is not None:
        return _measure_on_nodes(arguments, size)
    devices = Devices.here(arguments.backend)
    for name in ("per_node", "gpu_type"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"argument --{name.replace('_', '-')}: expected --on with it.")
    for name in ("all", "beside", "restart"):
        if getattr(arguments, name) and size is not None:
            raise ValueError(f"argument --{name}: got torchrun's processes; expected none.")
    if arguments.all:
        return _measure_all(arguments, devices)
    if arguments.beside:
        return _measure_beside(arguments, devices)
    if arguments.restart:
        return _measure_restart(arguments, devices)
    return _measure_one(arguments, size, devices)


def _measure_on_nodes(arguments: argparse.Namespace, size: int | None) -> Output:
    """Measure a training by the same command on nodes of a Ray cluster.

    Raises
    ------
    ValueError
        If the options exclude each other, or the nodes have too few slots.
    """
    from goodalloc.experiments.live.on_nodes import equal_slots, run_on_nodes
    from goodalloc.experiments.live.ray_engine import RayEngine, require_nodes

    for name in ("all", "beside", "restart"):
        if getattr(arguments, name):
            raise ValueError(f"argument --{name}: expected none with --on.")
    if size is not None:
        raise ValueError("argument --on: got torchrun's processes; expected none.")
    find_task(arguments.model[0])
    check_target(arguments.out)
    engine, path = RayEngine(arguments.on), Path(arguments.out)
    cluster = require_nodes(engine.cluster())
    most = None if arguments.replicas is None else max(arguments.replicas)
    placement = equal_slots(cluster, most, arguments.per_node, arguments.gpu_type)
    words = _without(arguments.words, ("--on", "--per-node", "--gpu-type"))
    command = [sys.executable, "-P", "-m", "goodalloc.experiments.cli.main", *words]

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    run_on_nodes(engine, command, placement, path.resolve().parent, say)
    return _shown(read_rows(path), path)


def _without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of a command without some options and their values."""
    kept, value = list[str](), False
    for word in words:
        if value:
            value = False
        elif word in options:
            value = True
        elif not word.startswith(tuple(f"{option}=" for option in options)):
            kept.append(word)
    return kept


def _measure_all(arguments: argparse.Namespace, devices: Devices) -> Output:
    """Measure all trainings that ship, their restarts, and pairs that share a device."""
    from goodalloc.experiments.measure import measure_all
    from goodalloc.experiments.reporting.plots import save

    folder, profiles = make_folder(arguments.out), {}
    for name, (task, execution) in measure_all.everything(devices).items():
        path = folder / f"{name}.csv"
        own = {"model": [task], "precision": execution.precision, "out": str(path)}
        _measure_one(argparse.Namespace(**vars(arguments) | own), None, devices)
        if any(row["outcome"] == FITS for row in read_rows(path)):
            profiles[name] = read_measured_profile(path)
    device, tasks = device_name(devices, 0), measure_all.trainings(devices)
    couples = measure_all.pairs(devices)
    kept = f"the tables in {folder} are kept, and the same command goes on"
    with locked(folder, patience=LAST_ORDER) as lock, interrupted_keeping(kept):
        with progress_bar("restarts", len(tasks), quiet=arguments.json) as bar:
            restarts = measure_all.continue_table(
                folder / "restarts.csv",
                device,
                ("model",),
                [(task,) for task in tasks],
                lambda task: [_restart(task, devices) for _ in range(measure_all.RESTARTS)],
                lambda: bar.update(1),
            )
        with progress_bar("pairs", len(couples), quiet=arguments.json) as bar:
            pairs = measure_all.continue_table(
                folder / "pairs.csv",
                device,
                ("model", "beside"),
                couples,
                lambda *pair: _beside(pair, arguments, devices, PLAIN, lock),
                lambda: bar.update(1),
            )
    speeds = measure_all.best_speeds(profiles)
    rows = [speed._asdict() for speed in speeds]
    write_atomically(folder / "speeds.csv", csv_text(rows, measure_all.BestSpeed._fields))
    with drawing(f"the tables are in {folder}"):
        for name, figure in measure_all.pictures(speeds, restarts.rows, pairs.rows).items():
            save(figure, folder / f"{name}.png")
    found = {"speeds": rows, "restarts": restarts.rows, "pairs": pairs.rows}
    parts = [text_table(table, measure_all.COLUMNS[name]) for name, table in found.items() if table]
    parts += dict.fromkeys([*restarts.failures, *pairs.failures])
    if _disturbed(pairs.rows):
        parts.append(f"pairs: {DISTURBED}, without pairs.csv")
    parts.append(f"written to {folder}: tables and pictures of these, and a profile of each")
    data = {name: for_machines(table) for name, table in found.items()}
    return Output("\n\n".join(parts), data)


def _measure_beside(arguments: argparse.Namespace, devices: Devices) -> Output:
    """Measure two trainings on one device, alone and at once."""
    from goodalloc.experiments.measure.beside import ROUNDS, fitted_loss
    from goodalloc.experiments.measure.measure_all import COLUMNS

    _refuse(arguments, "beside", "visits", "backend", "error")
    check_target(arguments.out)
    path, count = Path(arguments.out), len(arguments.batch_sizes)
    if count not in (0, 2):
        raise ValueError(f"argument --batch-sizes: got {count}; expected one a training.")
    with (
        locked(path.resolve().parent, patience=LAST_ORDER) as lock,
        progress_bar("measure", ROUNDS, quiet=arguments.json) as bar,
    ):
        rows = _beside(
            arguments.model,
            arguments,
            devices,
            _execution(arguments),
            lock,
            lambda: bar.update(1),
        )
    write_atomically(path, csv_text(rows, tuple(rows[0])))
    loss = fitted_loss([row["loss"] for row in rows])
    text = f"loss of fair sharing: {loss:.3f}\nwritten to {path}"
    if _disturbed(rows):
        text += f"\n{DISTURBED}"
    return Output(f"{text_table(rows, COLUMNS['pairs'])}\n\n{text}", for_machines(rows))


def _refuse(arguments: argparse.Namespace, kind: str, *further: str) -> None:
    """Refuse options that this kind of measurement has no use for."""
    for name in ("trace", "replicas", "accumulation", "memory", *further):
        if getattr(arguments, name) is not None:
            raise ValueError(f"argument --{name}: expected none with --{kind}.")


def _beside(
    models: Sequence[str],
    arguments: argparse.Namespace,
    devices: Devices,
    execution: Execution,
    keeps: Sequence[int],
    report: Callable[[], object] = lambda: None,
) -> list[dict[str, Any]]:
    """Return a row for each of two trainings beside each other."""
    from goodalloc.experiments.measure import beside, measure_all

    usual = measure_all.PAIR_SECONDS if arguments.all else beside.SECONDS
    sizes = () if arguments.all else arguments.batch_sizes
    sizes = sizes or tuple(find_task(name).smallest_batch for name in models)
    one, other = (beside.Training(*pair) for pair in zip(models, sizes, strict=True))
    found = beside.rates_beside(
        one,
        other,
        devices,
        execution,
        seconds=usual if arguments.seconds is None else arguments.seconds,
        seed=arguments.seed or MeasurePlan.seed,
        keeps=keeps,
        report=report,
    )
    facts = execution.columns | conditions(devices)
    return [row | facts for row in table_of(found)]


def _disturbed(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether other programs ran beside two trainings."""
    return any(row["quiet"] < QUIET_CORE for row in rows)


def _measure_restart(arguments: argparse.Namespace, devices: Devices) -> Output:
    """Measure what restarts of a training cost."""
    from goodalloc.experiments.measure.measure_all import COLUMNS

    _refuse(arguments, "restart", "seconds", "backend", "error", "seed")
    if _execution(arguments) != PLAIN:
        raise ValueError("argument --restart: expected single precision, and no other options.")
    if len(arguments.batch_sizes) > 1:
        raise ValueError(
            f"argument --batch-sizes: got {len(arguments.batch_sizes)}; expected one with "
            "--restart."
        )
    check_target(arguments.out)
    path, (model,), rows = Path(arguments.out), arguments.model, list[dict[str, Any]]()
    visits = MeasurePlan.visits if arguments.visits is None else arguments.visits
    batch = next(iter(arguments.batch_sizes), None)
    with (
        locked(path.resolve().parent, patience=LAST_ORDER),
        progress_bar("measure", visits, quiet=arguments.json) as bar,
    ):
        for _ in range(visits):
            rows.append(_restart(model, devices, batch))
            write_atomically(path, csv_text(rows, tuple(rows[0])))
            bar.update(1)
    lost = estimate_of([row["lost_s"] for row in rows]).text(".1f")
    text = f"a restart costs {lost} s\nwritten to {path}"
    return Output(f"{text_table(rows, COLUMNS['restarts'])}\n\n{text}", for_machines(rows))


def _restart(model: str, devices: Devices, batch: int | None = None) -> dict[str, Any]:
    """Return a row for a restart of a training."""
    from goodalloc.experiments.tasks.restart import restart_cost

    cost = restart_cost(model, devices.of(0), batch=batch)
    row = cost._asdict() | {"lost_s": cost.lost}
    row = {
        key: rounded(value, 4) if isinstance(value, float) else value for key, value in row.items()
    }
    return row | conditions(devices)


def _measure_one(arguments: argparse.Namespace, size: int | None, devices: Devices) -> Output:
    """Measure a training."""
    accumulation, seconds = ALL if arguments.all else ONE
    plan = MeasurePlan(
        model=arguments.model[0],
        replicas=_replicas(arguments.replicas, size, devices),
        accumulation=accumulation if arguments.accumulation is None else arguments.accumulation,
        batch_sizes=arguments.batch_sizes,
        error=arguments.error or MeasurePlan.error,
        seconds=seconds if arguments.seconds is None else arguments.seconds,
        visits=MeasurePlan.visits if arguments.visits is None else arguments.visits,
        memory_gib=arguments.memory,
        seed=arguments.seed or MeasurePlan.seed,
        execution=_execution(arguments),
    )
    find_task(plan.model)
    check_target(arguments.out)
    require_machine(plan, devices, size)
    if size is None:
        return _measure(
            plan,
            arguments,
            devices,
            lambda lock: LocalCrew(plan, devices, keeps=lock),
            hardware(devices, max(plan.replicas)),
        )
    with LaunchedCrew(plan, devices) as crew:
        if not crew.first:
            crew.serve()
            return Output(f"process {os.environ['RANK']} of {size} is done", None)
        facts = hardware(devices) | {"device": crew.device}
        return _measure(plan, arguments, devices, lambda _: crew, facts)


def _measure(
    plan: MeasurePlan,
    arguments: argparse.Namespace,
    devices: Devices,
    start: Callable[[tuple[int, ...]], Crew],
    conditions: dict[str, Any],
) -> Output:
    """Measure with processes that `start` creates on first use and that hold the lock."""
    path, task = Path(arguments.out), find_task(plan.model)
    limit: Any = "" if plan.memory_gib is None else f"{plan.memory_gib:g}"
    facts = {
        "model": plan.model,
        "source": task_digest(plan.model),
        "memory_limit_gib": limit,
        "command": plan.command,
        **plan.execution.columns,
        **conditions,
    }
    sizes = plan.batch_sizes or tuple(doubled(task))
    steps = len(sizes) * len(plan.replicas) * len(plan.accumulation) * plan.visits
    with (
        locked(path.resolve().parent, patience=LAST_ORDER) as lock,
        progress_bar("measure", steps, quiet=arguments.json) as bar,
    ):
        measuring = Measuring(
            plan,
            task,
            path,
            facts,
            lambda: start(lock),
            lambda: bar.update(1),
            devices,
            None if arguments.trace is None else make_folder(arguments.trace),
        )
        try:
            measuring.run()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; {counted(len(measuring.rows), 'configuration', ('is', 'are'))} in "
                f"{path}, and the same command goes on from there."
            ) from None
    return _shown(measuring.rows, path)


def _shown(measured: Sequence[Mapping[str, Any]], path: Path) -> Output:
    """Return the rows of a profile for people and machines."""
    rows = [shown_row(row) for row in measured]
    return Output(f"{text_table(rows, SHOWN)}\n\n{summary(rows, path)}", for_machines(rows))


def _execution(arguments: argparse.Namespace) -> Execution:
    """Return how the training computes."""
    precision = arguments.precision or PLAIN.precision
    return Execution(precision, arguments.compiled, channels_last=arguments.channels_last)


def _replicas(given: tuple[int, ...] | None, size: int | None, devices: Devices) -> tuple[int, ...]:
    """Return the numbers of replicas to measure.

    Raises
    ------
    ValueError
        If a number of `given` exceeds the `size` processes that torchrun started.
    """
    if size is None:
        return devices.usual_replicas if given is None else given
    if given is None:
        return powers_to(size)
    if max(given) > size:
        raise ValueError(
            f"argument --replicas: got {max(given)}; expected at most the {size} processes that "
            "torchrun started."
        )
    return given
