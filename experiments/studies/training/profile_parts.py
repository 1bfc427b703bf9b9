r"""Errors of throughput models by the number of configurations that they were fitted to.

Models are fitted to some configurations of a profile, drawn at random with one replica and several
among them, and predict the steps of all others. Fitted are whole steps, as in Pollux (OSDI'21,
section 4.1), or also the parts of a step that the profiler saw (`models/fitting/step_parts.py`),
without and with further terms. The same fit to whole steps alone, weighted by their errors, tells
what is due to the parts and what to the fit.

The profiles are four trainings, measured on two cores (`goodalloc measure`), and two that never
were: the models of Pollux's applications on T4 with lognormal errors, to show what the parts are
worth where the formula holds. `--artifact` takes a folder of other profiles in their place.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, sections 3.2 and 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump, read_text
from goodalloc.data.files.measured_profile import MeasuredProfile, read_measured_profile
from goodalloc.experiments.measure.profile_fit import fits_to, methods_for, predicted_times
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.statistics import rmsle
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest
from goodalloc.experiments.support.version import library_version
from goodalloc.models.fitting.step_parts import StepFit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.support.array_types import Flags, Indices

#: Trainings whose measured profiles ship, as `profiles/measured-NAME.csv` of the data.
MEASURED = ("perceptron", "neumf", "transformer", "resnet")

#: Applications whose models on T4 make profiles, their replicas on one node, and sizes of passes.
SIMULATED, REPLICAS, SIZES = ("cifar10", "bert"), (1, 2, 4), 8

#: Lognormal errors of times, of synchronisation, and normal errors of its hidden part.
TIME_NOISE, SYNCHRONISATION_NOISE, HIDDEN_NOISE = 0.05, 0.2, 0.1

#: Numbers of configurations, and draws of each; in quick runs.
NUMBERS, DRAWS = (2, 3, 4, 6, 8, 10, 12), 40
QUICK_NUMBERS, QUICK_DRAWS = (3, 6), 6

ERRORS = "errors.json"


def simulated_profile(application: str, seed: int) -> MeasuredProfile:
    """Return a profile that follows the model of an application on T4, but for random errors.

    Parameters
    ----------
    application
        Name of the application.
    seed
        Seed of the errors.
    """
    profile, random = load_profile(application), np.random.default_rng(seed)
    batch = profile.batch
    sizes = np.unique(np.geomspace(batch.atomic_minimum, batch.atomic_maximum, SIZES).astype(int))
    atomic, replicas = (
        axis.ravel().astype(float) for axis in np.meshgrid(sizes, REPLICAS, indexing="ij")
    )
    nodes, zero = np.ones_like(atomic), np.zeros_like(atomic)
    true = StepFit(profile.throughput).times(nodes, replicas, atomic, zero)

    def noisy(seconds: Any, error: float) -> Any:
        return seconds * random.lognormal(0.0, error, atomic.size)

    seen = np.where(replicas > 1, noisy(true.synchronisation, SYNCHRONISATION_NOISE), 0.0)
    hidden = np.clip(true.hidden + random.normal(0.0, HIDDEN_NOISE, atomic.size), 0.0, 1.0)
    update = np.full_like(atomic, 0.1 * float(true.passes.min()))
    return MeasuredProfile(
        nodes=nodes,
        replicas=replicas,
        atomic_batch_size=atomic,
        accumulation_steps=zero,
        pass_time=noisy(true.passes, TIME_NOISE) - update,
        update_time=update,
        step_time=noisy(true.steps, TIME_NOISE),
        pass_error=zero + TIME_NOISE,
        step_error=zero + TIME_NOISE,
        synchronisation_time=seen,
        overlap_time=hidden * seen,
        synchronisation_error=zero + SYNCHRONISATION_NOISE,
        overlap_error=zero + HIDDEN_NOISE,
        facts={"model": application, "device": "T4 (simulated)"},
        out_of_memory=None,
        left_out=0,
    )


def draw_configurations(profile: MeasuredProfile, number: int, seed: int) -> Flags:
    """Return a random selection of configurations, with one replica and several among them.

    Parameters
    ----------
    profile
        The profile.
    number
        Number of configurations; those that differ in accumulated passes alone are one.
    seed
        Seed of the selection.

    Raises
    ------
    ValueError
        If all configurations have one replica, or all have several.
    """
    kinds, which = np.unique(profile.configurations, axis=0, return_inverse=True)
    alone = np.flatnonzero(kinds[:, 1] == 1)
    several = np.flatnonzero(kinds[:, 1] > 1)
    if not (alone.size and several.size):
        raise ValueError(
            f"Profile of '{profile.facts['model']}': all its configurations have "
            f"{'one replica' if alone.size else 'several replicas'}; expected some of either kind."
        )
    random = np.random.default_rng([seed, number])
    first: Indices = np.array([random.choice(alone), random.choice(several)])
    rest = np.setdiff1d(np.arange(len(kinds)), first)
    chosen = np.concatenate([first, random.permutation(rest)[: number - 2]])
    drawn: Flags = np.isin(which.reshape(-1), chosen)
    return drawn


@dataclass(frozen=True)
class PartsTask:
    """Task that fits models to selections of one profile.

    Parameters
    ----------
    folder
        Folder of its errors.
    name
        Name of the profile.
    source
        File of the profile; empty for a simulated one.
    numbers
        Numbers of configurations.
    draws
        Selections of each number.
    """

    folder: Path
    name: str
    source: str
    numbers: tuple[int, ...]
    draws: int

    def description(self) -> dict[str, Any]:
        """Return all inputs that the errors depend on."""
        return {
            "format": "goodalloc-profile-parts",
            "version": 1,
            "library": library_version(),
            "name": self.name,
            "source": digest({"text": read_text(self.source, "CSV")}) if self.source else "",
            "numbers": list(self.numbers),
            "draws": self.draws,
        }

    def profile(self) -> MeasuredProfile:
        """Return the profile."""
        if self.source:
            return read_measured_profile(self.source)
        return simulated_profile(self.name, seed=0)

    def run(self, report: Report = lambda _: None) -> None:
        """Fit and predict, unless that was done.

        Raises
        ------
        ValueError
            If the profile is malformed, or `folder` holds other errors.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if (self.folder / ERRORS).exists():
            return
        profile = self.profile()
        kinds = np.unique(profile.configurations, axis=0)
        numbers = [number for number in self.numbers if number < len(kinds)]
        if not numbers:
            raise ValueError(
                f"Profile '{self.name}': it has {len(kinds)} undisturbed configurations; expected "
                f"more than {min(self.numbers)}."
            )
        found: dict[str, dict[str, list[float]]] = {}
        for done, number in enumerate(numbers, start=1):
            masks = [draw_configurations(profile, number, seed) for seed in range(self.draws)]
            found[str(number)] = {}
            for method in methods_for(profile):
                fits = fits_to(profile, masks, method)
                found[str(number)][method] = [
                    rmsle(predicted_times(fit, profile)[1][~mask], profile.step_time[~mask])
                    for fit, mask in zip(fits, masks, strict=True)
                ]
            report(done / len(numbers))
        record = {"configurations": len(kinds), "errors": found}
        write_atomically(self.folder / ERRORS, dump(record) + "\n")

    def errors(self) -> dict[str, Any]:
        """Return the errors of a task that has run."""
        found: dict[str, Any] = json.loads((self.folder / ERRORS).read_text(encoding="utf-8"))
        return found


class PartsRow(NamedTuple):
    """Errors of the steps of configurations that were not fitted.

    Attributes
    ----------
    profile
        The training; `simulated` if its times follow the model but for random errors.
    configurations, of
        Number of fitted configurations, and of all.
    fit_to
        What the model was fitted to.
    rmsle
        Root mean squared logarithmic error, over the draws.
    over_steps
        It over that of the fit to whole steps, by draw.
    """

    profile: str
    simulated: bool
    configurations: int
    of: int
    fit_to: str
    rmsle: Estimate
    over_steps: Estimate


def _sources(plan: Plan) -> dict[str, str]:
    """Return the files of the profiles by name; empty names of files for simulated ones."""
    if plan.artifact is not None:
        files = sorted(plan.artifact.glob("*.csv"))
        if not files:
            raise ValueError(
                f"Artifact '{plan.artifact}': it has no CSV file; expected a folder of profiles "
                "written by goodalloc measure."
            )
        return {file.stem: str(file) for file in files}
    shipped = resources.files("goodalloc.data").joinpath("profiles")
    measured = {name: str(shipped.joinpath(f"measured-{name}.csv")) for name in MEASURED}
    return measured | dict.fromkeys(SIMULATED, "")


def _tasks(plan: Plan) -> list[PartsTask]:
    numbers, draws = (QUICK_NUMBERS, QUICK_DRAWS) if plan.quick else (NUMBERS, DRAWS)
    tasks = []
    for name, source in _sources(plan).items():
        task = PartsTask(plan.folder, name, source, numbers, draws)
        folder = plan.folder / "profile-parts" / digest(task.description())
        tasks.append(replace(task, folder=folder))
    return tasks


def _rows(plan: Plan) -> list[PartsRow]:
    rows = []
    for task in _tasks(plan):
        found = task.errors()
        for number, by_method in found["errors"].items():
            for method, errors in by_method.items():
                ratios = np.asarray(errors) / np.asarray(by_method["steps"])
                rows.append(
                    PartsRow(
                        profile=task.name,
                        simulated=not task.source,
                        configurations=int(number),
                        of=found["configurations"],
                        fit_to=method,
                        rmsle=estimate_of(errors),
                        over_steps=estimate_of([float(ratio) for ratio in ratios]),
                    )
                )
    return rows


def plot_profile_parts(rows: Sequence[PartsRow]) -> Figure:
    """Draw the errors against the number of configurations, a panel for each profile."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.profile for row in rows))
    columns = min(len(names), 3)
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.8 * lines + 0.4), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True).ravel()
    methods = list(dict.fromkeys(row.fit_to for row in rows))
    for panel, name in zip(panels, names, strict=False):
        own = [row for row in rows if row.profile == name]
        for index, method in enumerate(methods):
            shown = [row for row in own if row.fit_to == method]
            panel.errorbar(
                [row.configurations for row in shown],
                [row.rmsle.mean for row in shown],
                [row.rmsle.half_width for row in shown],
                color=COLOURS[index],
                marker=MARKERS[index],
                markersize=4,
                linewidth=1.3,
                capsize=2,
                label=method,
            )
        open_axes(panel)
        panel.set_ylim(bottom=0.0)
        panel.set_title(f"{name}{' (simulated)' * own[0].simulated}", fontsize="medium")
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    figure.supxlabel("configurations fitted", fontsize="medium")
    figure.supylabel("RMSLE of the steps of all others", fontsize="medium")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=len(methods),
        frameon=False,
        fontsize="small",
    )
    return figure


PROFILE_PARTS = Reproduction(
    "Errors of fitted steps by the number of configurations: whole steps, or their parts, too",
    _tasks,
    _rows,
    lambda _, rows: plot_profile_parts(rows),
    ignores=("workloads", "pollux", "seeds", "gaps"),
)
