"""Command `fit`: models of measured profiles, their errors, and jobs of them in an instance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.files.instance import read_instance, write_instance
from goodalloc.data.files.model_file import write_model
from goodalloc.data.files.model_table import model_to_dict
from goodalloc.experiments.cli.output import Output, check_distinct, check_target, counted, drawing
from goodalloc.experiments.cli.types import PICTURE_FORMATS
from goodalloc.experiments.measure.profile_fit import (
    best_fit,
    error_rows,
    fit_profile,
    goodput_model,
    methods_for,
    with_jobs,
)
from goodalloc.experiments.measure.profile_table import (
    error_table,
    fit_remarks,
    read_profiles,
    type_and_file,
)
from goodalloc.experiments.reporting.report import for_machines, text_table

if TYPE_CHECKING:
    import argparse

    from goodalloc.experiments.measure.profile_fit import Method, ProfileFit
    from goodalloc.models.round.instance import Instance


def fit_command(arguments: argparse.Namespace) -> Output:
    """Fit models to profiles, report their errors, and add jobs of them to an instance."""
    if arguments.jobs is not None and arguments.into is None:
        raise ValueError("argument --jobs: expected --into with it.")
    _check_files(arguments)
    check_target(arguments.out, ".json")
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
        batches = [model.batch for model in models.values()]
        if not any(batch.accumulation for batch in batches):
            atomic = max(float(batch.atomic_maximum) for batch in batches)
            _check_batch(added, float(batches[0].initial), atomic)
        write_instance(added, arguments.into)
        texts.append(f"added to {arguments.into}: {counted(jobs, 'job')}, {added.num_jobs} in all")
    shown = {kind: model_to_dict(model) for kind, model in models.items()}
    data = {"models": shown} if several else {"model": next(iter(shown.values()))}
    return Output("\n\n".join(texts), {**data, "errors": for_machines(rows)})


def _check_files(arguments: argparse.Namespace) -> None:
    """Refuse to write over a profile, or two results to one file."""
    read = dict.fromkeys(type_and_file(text)[1] for text in arguments.profile)
    written = [arguments.out, arguments.into]
    if arguments.out is not None:
        written.append(str(_picture(arguments)))
    elif arguments.pictures is not None:
        raise ValueError("argument --pictures: expected --out with it, beside which it draws.")
    check_distinct(*read, *written)


def _picture(arguments: argparse.Namespace) -> Path:
    """Return the file of the figure, beside that of the model."""
    return Path(arguments.out).with_suffix(f".{arguments.pictures or PICTURE_FORMATS[0]}")


def _check_batch(instance: Instance, initial: float, atomic: float) -> None:
    """Refuse an initial batch that no number of replicas can hold without accumulation."""
    most = min(instance.jobs[-1].max_replicas, instance.cluster.num_gpus)
    if (least := math.ceil(initial / atomic)) > most:
        raise ValueError(
            f"argument --initial-batch: a batch of {initial:g} examples needs {least} replicas of "
            f"at most {atomic:g}, without accumulation; expected at most {most}, which a job may "
            "have here."
        )


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

    picture = _picture(arguments)
    with drawing(f"{arguments.out} is whole"):
        save(plot_profile(fit, name), picture)
    return f"written: {arguments.out}, {picture}"
