"""Functions shared by Figures 1 to 3 of Pollux: its models beside its measurements."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from goodalloc.data.applications.application import packed
from goodalloc.data.applications.profiles import load_profile
from goodalloc.experiments.replay.simulated_job import published_split
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.goodput.throughput_model import throughput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.studies.framework.records import Record
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.goodput.throughput_model import ThroughputParameters
    from goodalloc.models.support.array_types import Floats


#: Rows of a prediction.
RowT = TypeVar("RowT", bound="Record")

#: GPUs on each node of the published testbed.
GPUS_PER_NODE = 4


def prediction(
    title: str,
    rows: Callable[[str | None], list[RowT]],
    plot: Callable[[str | None], Figure],
    require: Callable[[Plan], object] = lambda _: None,
) -> Reproduction[RowT]:
    """Return a reproduction without replays, from the folder of the artifact's traces."""
    return Reproduction(
        title,
        lambda _: (),
        lambda plan: rows(plan.traces),
        lambda plan, _: plot(plan.traces),
        require,
        ignores=("workloads", "pollux", "seeds", "quick"),
    )


class Pass(NamedTuple):
    """Packed GPUs, examples per GPU and pass, and accumulation steps."""

    gpus: int
    atomic_batch_size: int
    accumulation_steps: int

    @property
    def batch_size(self) -> int:
        """Total batch size of a step, in examples."""
        return self.gpus * self.atomic_batch_size * (self.accumulation_steps + 1)


def require_traces(traces: str | None, figure: int) -> Path:
    """Return the folder of the measurements for a figure.

    Raises
    ------
    ValueError
        If `traces` is None or no folder.
    """
    if traces is None:
        raise ValueError(
            f"Figure {figure} compares with measurements; "
            "expected the folder of the artifact (--artifact)."
        )
    if not Path(traces).is_dir():
        raise ValueError(f"Folder '{traces}' does not exist; expected the artifact's measurements.")
    return Path(traces)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Raise errors of reading traces as one sentence that names `folder`.

    Raises
    ------
    ValueError
        If the block raises an `OSError`, a `LookupError` or a `ValueError`.
    """
    try:
        yield
    except (OSError, LookupError, ValueError) as error:
        raise ValueError(f"Folder '{folder}': cannot be read as traces ({error}).") from error


def plan_pass(batch: int, gpus: int, limits: BatchLimits, *, accumulates: bool = False) -> Pass:
    """Split the total batch size `batch` over `gpus` in the fewest passes, rounded up."""
    return Pass(gpus, *published_split(batch, gpus, limits, accumulates=accumulates))


def measured_throughput(application: Application, one: Pass) -> float:
    """Return the measured examples per second, linear between measured atomic batch sizes.

    Raises
    ------
    ValueError
        If the pass is outside the measured placements or batch sizes.
    """
    step, synchronisation = application.step_times(
        packed(one.gpus, GPUS_PER_NODE), one.atomic_batch_size
    )
    return float(one.batch_size / (step + one.accumulation_steps * (step - synchronisation)))


def predicted_throughput(parameters: ThroughputParameters, passes: Sequence[Pass]) -> Floats:
    """Return the examples per second of every pass by the model, shape (passes,)."""
    gpus, atomic, accumulation = np.array(passes, dtype=float).reshape(-1, 3).T
    nodes = np.ceil(gpus / GPUS_PER_NODE)
    return np.asarray(throughput(parameters, nodes, gpus, atomic, accumulation))


def two_rows(names: Sequence[str]) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """Return a figure with two axes, one above the other, for every application."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.3 * len(names), 5.6), layout="constrained")
    above, below = figure.subplots(2, len(names), squeeze=False)
    for name, ax in zip(names, above, strict=True):
        ax.set_title(load_profile(name).title, fontsize="small")
    for ax in (*above, *below):
        open_axes(ax)
    return figure, list(zip(above, below, strict=True))
