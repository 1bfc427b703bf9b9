"""Replays of a load sweep: one policy, trace, load and seed each; see `load_sweep.py`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.workload import HOUR, GavelWorkload, draw_gavel_jobs
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.gavel.long_replay import COUNTED, RESET, LongReplay
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goodalloc.experiments.support.tasks import Report

#: GPUs of a job and their probabilities, by the name of the trace.
TRACES: Mapping[str, tuple[tuple[int, float], ...]] = {
    "single": ((1, 1.0),),
    "multiple": GavelWorkload().replicas,
}

#: GPUs of every type that loads are given for.
GPUS = 36


class Size(NamedTuple):
    """Size of the replays.

    Attributes
    ----------
    gpus
        GPUs of every type; loads are for `GPUS` and count in proportion.
    warm_up, window, until
        First job that counts, first of the published window, and first after both, by arrival.
    most
        Jobs after which replays end in any case.
    seeds
        Number of seeds.
    """

    gpus: int
    warm_up: int
    window: int
    until: int
    most: int
    seeds: int


class Rounds(NamedTuple):
    """Way to shares and rounds; see `LongReplay`."""

    reset_seconds: float
    spare: bool
    interior: bool


#: Rounds as published, with our reading of what the level leaves; shares computed in every round,
#: and no GPU for jobs without a share of it; and what an interior-point solver leaves, by name.
ROUNDS: Mapping[str, Rounds] = {
    "published": Rounds(RESET, spare=True, interior=False),
    "strict": Rounds(0.0, spare=False, interior=False),
    "interior": Rounds(RESET, spare=True, interior=True),
}


class LoadOutcome(NamedTuple):
    """Outcome of a replay; see `LoadRow`."""

    jct_hours: float
    window_jct_hours: float
    stay_percent: float
    unfinished_percent: float


@dataclass(frozen=True)
class LoadTask(RecordedTask):
    """One replay, done as a whole or not at all.

    Parameters
    ----------
    trace
        Key in `TRACES`.
    load
        Jobs an hour on `GPUS` GPUs of every type.
    rounds
        Key in `ROUNDS`.
    blind
        Whether all types count as equal.
    seed
        Seed of the generator.
    table
        Folder of the published table; the fitted one if None.
    size
        Size of the replay.
    """

    trace: str
    load: float
    rounds: str
    blind: bool
    seed: int
    table: Path | None
    size: Size

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        inputs = {name: value for name, value in asdict(self).items() if name != "folder"}
        return {
            "format": "goodalloc-gavel-load",
            "version": 1,
            "library": library_version(),
            **inputs,
            "table": self.table is not None,
            "size": self.size._asdict(),
            "rounds": ROUNDS[self.rounds]._asdict(),
        }

    def work(self, report: Report) -> dict[str, Any]:
        """Replay."""
        rates, size = gavel_rates(self.table), self.size
        jobs = draw_gavel_jobs(self.seed, size.most, rates, workload_of(self.trace, self.per_hour))
        gpus = (size.gpus,) * len(rates.types)
        found = LongReplay(
            jobs, rates, gpus, self.blind, size.until, self.seed, *ROUNDS[self.rounds]
        ).run(report)
        return {
            "jct": found.jct.round(1).tolist(),
            "unfinished": found.unfinished,
            "present": found.present.tolist(),
            "begin": jobs[size.warm_up].submission,
            "end": jobs[size.until - 1].submission,
        }

    @property
    def per_hour(self) -> float:
        """Jobs that come in an hour."""
        return self.load * self.size.gpus / GPUS

    def outcome(self) -> LoadOutcome:
        """Return what comes of the jobs that count."""
        found = self.record()
        hours = np.array(found["jct"]) / HOUR
        present = np.array(found["present"], dtype=float)
        when = np.arange(present.size) * COUNTED
        counts = (when >= found["begin"]) & (when <= found["end"])
        slope = float(np.polyfit(when[counts] / HOUR, present[counts], 1)[0])
        return LoadOutcome(
            jct_hours=float(hours[self.size.warm_up :].mean()),
            window_jct_hours=float(hours[self.size.window :].mean()),
            stay_percent=100.0 * slope / self.per_hour,
            unfinished_percent=100.0 * found["unfinished"] / (self.size.until - self.size.warm_up),
        )


def workload_of(trace: str, load: float) -> GavelWorkload:
    """Return the parameters of a trace with this many jobs an hour."""
    return GavelWorkload(jobs_per_hour=load, replicas=TRACES[trace])
