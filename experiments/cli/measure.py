"""Commands on real trainings: measure, fit."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.files.instance import read_instance, write_instance
from goodalloc.data.files.measured_profile import FITS, read_measured_profile, read_rows
from goodalloc.data.files.model_file import write_model
from goodalloc.data.files.model_table import model_to_dict
from goodalloc.experiments.cli.output import Output, check_target, drawing, make_folder
from goodalloc.experiments.measure.crew import LaunchedCrew, LocalCrew, launched_size
from goodalloc.experiments.measure.devices import Devices, powers_to
from goodalloc.experiments.measure.execution import Execution
from goodalloc.experiments.measure.machine_state import hardware
from goodalloc.experiments.measure.measured_configuration import QUIET_CORE
from goodalloc.experiments.measure.measuring import MeasurePlan, Measuring, doubled
from goodalloc.experiments.measure.profile_fit import (
    best_fit,
    error_rows,
    fit_profile,
    goodput_model,
    methods_for,
    with_jobs,
)
from goodalloc.experiments.measure.profile_table import (
    SHOWN,
    error_table,
    fit_remarks,
    read_profiles,
    shown_row,
    summary,
)
from goodalloc.experiments.reporting.progress import progress_bar
from goodalloc.experiments.reporting.report import for_machines, text_table
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.experiments.tasks.task import find_task, task_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goodalloc.experiments.measure.crew import Crew
    from goodalloc.experiments.measure.profile_fit import Method, ProfileFit

#: Seconds within which the processes of a killed measurement end.
LAST_ORDER = 2.0

#: Accumulated passes, and time limit of a configuration, of one training and of all.
ONE, ALL = ((0, 1), 5.0), ((0,), 1.5)


def measure_command(arguments: argparse.Namespace) -> Output:
    """Measure a training, or all that ship, in every configuration that the files lack."""
    require_extra("measure", "Command measure")
    wanted, why = 1, ""
    if arguments.all:
        wanted, why = 0, " with --all"
    elif arguments.beside:
        wanted, why = 2, " with --beside"
    if len(arguments.model) != wanted:
        raise ValueError(
            f"argument model: got {len(arguments.model)} trainings; expected {wanted}{why}."
        )
    size, devices = launched_size(os.environ), Devices.here(arguments.backend)
    if arguments.on is not None:
        return _measure_on_nodes(arguments, size)
    for name in ("per_node", "gpu_type"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"argument --{name.replace('_', '-')}: expected --on with it.")
    if arguments.all and size is not None:
        raise ValueError("argument --all: got torchrun's processes; expected none.")
    if arguments.all:
        return _measure_all(arguments, devices)
    if arguments.beside:
        if size is not None:
            raise ValueError("argument --beside: got torchrun's processes; expected none.")
        return _measure_beside(arguments, devices)
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

    for name, given in (("all", arguments.all), ("beside", arguments.beside)):
        if given:
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
    """Measure all trainings that ship, and compare their speeds."""
    from goodalloc.experiments.measure.measure_all import (
        BestSpeed,
        best_speeds,
        everything,
        plot_speeds,
    )
    from goodalloc.experiments.reporting.plots import save

    folder, profiles = make_folder(arguments.out), {}
    for name, (task, execution) in everything(devices).items():
        path = folder / f"{name}.csv"
        own = {"model": [task], "precision": execution.precision, "out": str(path)}
        _measure_one(argparse.Namespace(**vars(arguments) | own), None, devices)
        if any(row["outcome"] == FITS for row in read_rows(path)):
            profiles[name] = read_measured_profile(path)
    speeds = best_speeds(profiles)
    rows = [speed._asdict() for speed in speeds]
    write_atomically(folder / "speeds.csv", csv_text(rows, BestSpeed._fields))
    with drawing(f"the tables are in {folder}"):
        save(plot_speeds(speeds), folder / "speeds.png")
    text = f"written to {folder}: speeds.csv, speeds.png, and the profiles"
    return Output(f"{text_table(rows, BestSpeed._fields)}\n\n{text}", for_machines(rows))


def _measure_beside(arguments: argparse.Namespace, devices: Devices) -> Output:
    """Measure two trainings on one device, alone and at once."""
    from goodalloc.experiments.measure.beside import (
        ROUNDS,
        SECONDS,
        Training,
        fitted_sharing,
        rates_beside,
    )

    for name in ("trace", "replicas", "accumulation", "memory", "visits"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"argument --{name}: expected none with --beside.")
    check_target(arguments.out)
    path, sizes = Path(arguments.out), arguments.batch_sizes
    if len(sizes) not in (0, 2):
        raise ValueError(f"argument --batch-sizes: got {len(sizes)}; expected one a training.")
    sizes = sizes or tuple(find_task(name).smallest_batch for name in arguments.model)
    one, other = (Training(*pair) for pair in zip(arguments.model, sizes, strict=True))
    with (
        locked(path.resolve().parent, patience=LAST_ORDER) as lock,
        progress_bar("measure", ROUNDS, quiet=arguments.json) as bar,
    ):
        found = rates_beside(
            one,
            other,
            devices,
            _execution(arguments),
            seconds=SECONDS if arguments.seconds is None else arguments.seconds,
            seed=arguments.seed,
            keeps=lock,
            report=lambda: bar.update(1),
        )
    rows = table_of(found)
    write_atomically(path, csv_text(rows, tuple(rows[0])))
    text = f"loss of fair sharing: {fitted_sharing(found).loss:.3f}\nwritten to {path}"
    if min(rate.quiet for rate in found) < QUIET_CORE:
        text += "\nother programs took the core meanwhile: measure again when they have ended"
    return Output(f"{text_table(rows, tuple(rows[0]))}\n\n{text}", for_machines(rows))


def _measure_one(arguments: argparse.Namespace, size: int | None, devices: Devices) -> Output:
    """Measure a training."""
    accumulation, seconds = ALL if arguments.all else ONE
    plan = MeasurePlan(
        model=arguments.model[0],
        replicas=_replicas(arguments.replicas, size, devices),
        accumulation=accumulation if arguments.accumulation is None else arguments.accumulation,
        batch_sizes=arguments.batch_sizes,
        error=arguments.error,
        seconds=seconds if arguments.seconds is None else arguments.seconds,
        visits=MeasurePlan.visits if arguments.visits is None else arguments.visits,
        memory_gib=arguments.memory,
        seed=arguments.seed,
        execution=_execution(arguments),
    )
    find_task(plan.model)
    check_target(arguments.out)
    _check_machine(plan, size, devices)
    if size is None:
        return _measure(
            plan,
            arguments,
            devices,
            lambda lock: LocalCrew(plan, devices, keeps=lock),
            hardware(devices, max(plan.replicas)),
        )
    crew = LaunchedCrew(plan, devices)
    if not crew.first:
        crew.serve()
        crew.kill()
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
                f"interrupted; {len(measuring.rows)} configurations are in {path}, and the same "
                "command goes on from there."
            ) from None
    return _shown(measuring.rows, path)


def _shown(measured: Sequence[Mapping[str, Any]], path: Path) -> Output:
    """Return the rows of a profile for people and machines."""
    rows = [shown_row(row) for row in measured]
    return Output(f"{text_table(rows, SHOWN)}\n\n{summary(rows, path)}", for_machines(rows))


def _execution(arguments: argparse.Namespace) -> Execution:
    """Return how the training computes."""
    return Execution(arguments.precision, arguments.compiled, channels_last=arguments.channels_last)


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


def _check_machine(plan: MeasurePlan, size: int | None, devices: Devices) -> None:
    """Refuse a plan that this machine cannot measure.

    Raises
    ------
    ValueError
        If replicas would share GPUs without Gloo, CPUs are to round as GPUs do, or a memory limit
        is given with GPUs, under torchrun or on Windows.
    """
    if size is None:
        devices.require_room(max(plan.replicas))
    if plan.execution.precision == "tf32" and not devices.gpus:
        raise ValueError("argument --precision: got tf32; expected fp32 or bf16 on CPUs.")
    if plan.memory_gib is None:
        return
    if devices.gpus or size is not None or sys.platform == "win32":
        raise ValueError(
            f"argument --memory: got {plan.memory_gib:g}; expected none but for processes on the "
            "CPUs of this machine that goodalloc starts."
        )


def fit_command(arguments: argparse.Namespace) -> Output:
    """Fit models to profiles, report their errors, and add jobs of them to an instance."""
    if arguments.jobs is not None and arguments.into is None:
        raise ValueError("argument --jobs: expected --into with it.")
    check_target(arguments.out)
    check_target(arguments.into)
    profiles = read_profiles(arguments.profile)
    several = len(profiles) > 1
    if several and arguments.out is not None:
        raise ValueError(f"argument --out: got {len(profiles)} profiles; expected one with it.")
    instance = None if arguments.into is None else read_instance(arguments.into)
    compared = {
        kind: [fit_profile(one, arguments.seed, method) for method in methods_for(one)]
        for kind, one in profiles.items()
    }
    fits = {kind: _chosen(several_fits, arguments.by) for kind, several_fits in compared.items()}
    models = {
        kind: goodput_model(
            fit,
            noise_scale=arguments.noise_scale,
            initial=arguments.initial_batch,
            maximum=arguments.maximum_batch,
        )
        for kind, fit in fits.items()
    }
    name = Path(next(iter(profiles.values())).facts["model"].rpartition(":")[2]).stem
    rows, texts = list[dict[str, Any]](), list[str]()
    for kind, fit in fits.items():
        own = error_table(fit, compared[kind])
        rows += [{"gpu_type": kind, **row} for row in own] if several else own
        texts += [kind] if several else []
        texts += [text_table(own, tuple(own[0])), *fit_remarks(fit, models[kind])]
    if arguments.out is not None:
        ((kind, fit),) = fits.items()
        write_model(arguments.out, name, models[kind], error_rows(fit), fit.profile.facts)
        texts.append(_draw_fit(arguments, fit, name))
    if instance is not None and arguments.into is not None:
        jobs = 1 if arguments.jobs is None else arguments.jobs
        largest = max(int(profile.replicas.max()) for profile in profiles.values())
        added = with_jobs(instance, name, models, largest, jobs)
        write_instance(added, arguments.into)
        texts.append(f"added to {arguments.into}: {jobs} jobs, {added.num_jobs} in all")
    shown = {kind: model_to_dict(model) for kind, model in models.items()}
    data = {"models": shown} if several else {"model": next(iter(shown.values()))}
    return Output("\n\n".join(texts), {**data, "errors": for_machines(rows)})


def _chosen(fits: list[ProfileFit], method: Method | None) -> ProfileFit:
    """Return the fit by a method, or the best one if that is None."""
    if method is None:
        return best_fit(fits)
    for fit in fits:
        if fit.method == method:
            return fit
    return fit_profile(fits[0].profile, method=method)  # says why there is none


def _draw_fit(arguments: argparse.Namespace, fit: ProfileFit, name: str) -> str:
    """Draw the figure beside the written model, and return the line that names both."""
    from goodalloc.experiments.measure.profile_plot import plot_profile
    from goodalloc.experiments.reporting.plots import save

    picture = Path(arguments.out).with_suffix(f".{arguments.pictures}")
    with drawing(f"{arguments.out} is whole"):
        save(plot_profile(fit, name), picture)
    return f"written: {arguments.out}, {picture}"
