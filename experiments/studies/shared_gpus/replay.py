"""Gandiva and AntMan: the benefit of sharing GPUs between jobs.

Drawn workloads of several loads, with tuned and with realistic requests for GPUs, are replayed
under each system, with its published heuristic and exactly, and without each of its parts, beside
schedulers that give every job its own GPUs. The speed of jobs that share a GPU is our model
(`models/shared_gpus/shared_speed.py`), so that figures beside published ones tell the direction,
not the size. A shared GPU is busy while it computes for either job, and its used memory is that of
both; averages are over all GPUs up to the last submission. In Gandiva's experiment a restart takes
a second, as its suspension and migration do; in AntMan's as long as in our other replays. Where
AntMan's guests move tensors to host memory, a step with all tensors moved takes five times as long:
16 GB over 12 GB/s both ways are 2.7 s, beside steps of about half a second.

In every tenth round the heuristic is compared with the optimum (`shared_gpus/optima.py`).

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao
Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020.
    https://www.usenix.org/conference/osdi20/presentation/xiao
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump, in_file
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.shared_gpus.optima import COMPARE
from goodalloc.experiments.studies.shared_gpus.report import (
    REQUESTS,
    Outcome,
    SharingRow,
    plot_sharing,
    summarise_sharing,
)
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest
from goodalloc.experiments.support.version import library_version
from goodalloc.models.shared_gpus.shared_speed import GpuUse, Sharing, guest_memory
from goodalloc.solvers.policies.queueing import EqualShare, FirstComeFirstServed
from goodalloc.solvers.policies.tiresias import Tiresias
from goodalloc.solvers.shared_gpus.antman import AntMan
from goodalloc.solvers.shared_gpus.gandiva import Gandiva

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from goodalloc.data.workloads.generator import Requests
    from goodalloc.experiments.replay.round_record import RoundRecord
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.shared_gpus.optima import Compared
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.solvers.policies.policy import Policy

#: Loads, in multiples of the published 160 jobs; the same for quick replays.
LOADS = (0.5, 1.0, 2.0)
QUICK = (1.0,)

#: Default workloads; quick replays take the first.
WORKLOADS = (1, 2, 3, 4, 5)

#: Policy that ignores the users' requests and takes long: not in quick replays.
BLIND = "equal"

#: Rounds from one that is compared with the optimum to the next.
EVERY = 10


class Published(NamedTuple):
    """Published rise of the busy GPU time and of the used memory, in per cent; None if unknown."""

    busy: float | None = None
    memory: float | None = None


class System(NamedTuple):
    """System whose experiment is repeated.

    Attributes
    ----------
    restart_delay
        Seconds of a restart.
    policies
        Label and factory of every replayed policy by name: first other schedulers, then the
        system, then its variants.
    published
        Published rise of the busy time and of the used memory, in per cent.
    compared
        Name of the published policy, whose rounds are compared with the optimum.
    """

    restart_delay: float
    policies: Mapping[str, tuple[str, Callable[[], Policy]]]
    published: Published
    compared: str


_OTHERS: Mapping[str, tuple[str, Callable[[], Policy]]] = {
    "fifo": ("first come, first served", FirstComeFirstServed),
    "tiresias": ("Tiresias", Tiresias),
    "equal": ("equal shares", EqualShare),
}

SYSTEMS: Mapping[str, System] = {
    "gandiva": System(
        1.0,
        {
            **_OTHERS,
            "gandiva": ("Gandiva", Gandiva),
            "gandiva-exact": ("best matching", lambda: Gandiva("matching")),
            "gandiva-alone": ("without pairs", lambda: Gandiva("none")),
            "gandiva-settled": ("without migration", lambda: Gandiva(migrate=False)),
            "gandiva-rigid": ("without growth", lambda: Gandiva(growth="none")),
            "gandiva-larger": ("batches grow, too", lambda: Gandiva(growth="proportional")),
            "gandiva-anywhere": ("without affinity", lambda: Gandiva(affinity=False)),
        },
        Published(26.0),
        "gandiva",
    ),
    "antman": System(
        30.0,
        {
            **_OTHERS,
            "antman": ("AntMan", AntMan),
            "antman-exact": ("best guests", lambda: AntMan(exact=True)),
            "antman-idle": ("idle GPUs only", lambda: AntMan(threshold=0.01)),
            "antman-offload": (
                "tensors moved",
                lambda: AntMan(sharing=Sharing("guaranteed", offload=4.0)),
            ),
            "antman-offload-exact": (
                "tensors moved, best guests",
                lambda: AntMan(True, sharing=Sharing("guaranteed", offload=4.0)),
            ),
        },
        Published(34.0, 42.0),
        "antman",
    ),
}

#: Name of the file of a replay's outcome.
RECORD = "numbers.json"


def replay_outcome(simulator: Simulator, compared: str = "") -> Outcome:
    """Replay all jobs, and return completion times, utilisation and restarts.

    Parameters
    ----------
    simulator
        Simulator before its first round.
    compared
        System whose rounds are compared with the optimum; empty for none.
    """
    last = max(job.submission.time for job in simulator.jobs)
    used: list[tuple[float, float, float]] = []
    found: list[Compared] = []
    for index, record in enumerate(_rounds(simulator, last, used)):
        if compared and index % EVERY == 0:
            one = COMPARE[compared](record, simulator.policy)
            if one is not None and one.optimum.bound > 0:
                found.append(one)
    ends = np.array([job.completion for job in simulator.jobs], dtype=float)
    hours = (ends - [job.submission.time for job in simulator.jobs]) / HOUR
    busy, memory, guests = np.mean(used or [(0.0, 0.0, 0.0)], axis=0) * (100.0, 100.0, 1.0)
    restarts = np.mean([job.restarts or 0 for job in simulator.jobs])
    return Outcome(
        average_jct_hours=_six_digits(hours.mean()),
        p99_jct_hours=_six_digits(np.quantile(hours, 0.99)),
        makespan_hours=_six_digits(ends.max() / HOUR),
        busy_percent=_six_digits(busy),
        memory_percent=_six_digits(memory),
        guests=_six_digits(guests),
        restarts_per_job=_six_digits(restarts),
        **_comparison(found),
    )


def _six_digits(value: np.floating) -> float:
    return rounded(float(value), 6)


def _comparison(found: list[Compared]) -> dict[str, Any]:
    """Return the fields of `Outcome` on the rounds that were compared with the optimum."""
    fields: dict[str, Any] = {
        "compared_rounds": len(found),
        "optimum_ms": rounded(1e3 * max((one.optimum.seconds for one in found), default=0.0), 3),
    }
    if found:
        best = sum(one.optimum.total for one in found)
        for way in found[0].ways:
            below = 100.0 * (1.0 - sum(one.ways[way] for one in found) / best)
            fields[f"{way}_below_percent"] = rounded(below, 6)
        fields["worst_gap"] = rounded(max(one.optimum.gap for one in found), 6)
    return fields


def _rounds(
    simulator: Simulator, last: int, used: list[tuple[float, float, float]]
) -> Iterator[RoundRecord]:
    """Yield all rounds, and append to `used` the busy and the used memory fraction of all GPUs and
    the number of guests in every round up to the time `last`.
    """
    capacity = simulator.cluster.num_gpus * simulator.setting.interval
    jobs = {job.submission.name: job for job in simulator.jobs}
    while not simulator.finished:
        simulator.advance()
        if simulator.time <= last:
            trained = [job for job in simulator.jobs if job.interval.gpu_seconds > 0]
            busy, memory = 0.0, 0.0
            for job in trained:
                use, seconds = job.measure_use(), job.interval.gpu_seconds
                busy += seconds * use.busy * job.share
                host = jobs[job.host].memory if job.host else 0.0
                memory += seconds * guest_memory(GpuUse(0.0, host), use)
            guests = sum(bool(job.host) for job in trained)
            used.append((busy / capacity, memory / capacity, float(guests)))
        record = simulator.decide()
        if record is not None:
            yield record


@dataclass(frozen=True)
class SharedReplay:
    """Task of one replay, done as a whole or not at all.

    Parameters
    ----------
    folder
        Folder of its files.
    system, policy
        Key in `SYSTEMS`, and in its policies.
    requests, load, seed
        Arguments of `draw_workload`.
    """

    folder: Path
    system: str
    policy: str
    requests: Requests
    load: float
    seed: int

    @property
    def setting(self) -> Setting:
        """Setting of the replay."""
        return Setting(restart_delay=SYSTEMS[self.system].restart_delay)

    def description(self) -> dict[str, Any]:
        """Return all inputs that the outcome depends on."""
        return {
            "format": "goodalloc-shared-replay",
            "version": 3,
            "library": library_version(),
            "policy": self.policy,
            "requests": self.requests,
            "load": self.load,
            "seed": self.seed,
            "restart_delay": self.setting.restart_delay,
            "every": EVERY,
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Replay, unless that is done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if not (self.folder / RECORD).exists():
            system = SYSTEMS[self.system]
            workload = draw_workload(self.seed, load=self.load, requests=self.requests)
            policy = system.policies[self.policy][1]()
            simulator = Simulator(workload, profiled_applications(), policy, self.setting)
            compared = system.compared if self.policy == system.compared else ""
            outcome = replay_outcome(simulator, compared)._asdict()
            write_atomically(self.folder / RECORD, dump(outcome) + "\n")
        report(1.0)

    def record(self) -> Outcome:
        """Return the outcome of a task that has run.

        Raises
        ------
        ValueError
            If the file of the outcome is damaged.
        """
        path = self.folder / RECORD
        try:
            return Outcome(**json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(in_file(path, error)) from error


class Way(NamedTuple):
    """Key of a row; its fields are those of `SharedReplay`."""

    requests: Requests
    load: float
    policy: str
    seed: int


def _ways(system: str, plan: Plan) -> Iterator[Way]:
    """Yield every request, load, policy and workload; of one load and workload if quick."""
    loads, seeds = (QUICK, plan.workloads[:1]) if plan.quick else (LOADS, plan.workloads)
    for way in starmap(Way, product(REQUESTS, loads, SYSTEMS[system].policies, seeds)):
        if not (plan.quick and way.policy == BLIND):
            yield way


def _task(system: str, plan: Plan, way: Way) -> SharedReplay:
    """Return the replay of a row; a policy that ignores requests has one for all of them."""
    requests = "tuned" if way.policy == BLIND else way.requests
    task = SharedReplay(plan.folder, system, way.policy, requests, way.load, way.seed)
    name = f"{way.policy}-{digest(task.description())}"
    return replace(task, folder=plan.folder / "replays" / name)


def _tasks(system: str, plan: Plan) -> list[SharedReplay]:
    """Return a replay for every row."""
    return [_task(system, plan, way) for way in _ways(system, plan)]


def _rows(system: str, plan: Plan) -> list[SharingRow]:
    """Return a row for every replay."""
    found: list[SharingRow] = []
    for way in _ways(system, plan):
        outcome = _task(system, plan, way).record()
        published = SYSTEMS[system].published if way.policy == SYSTEMS[system].compared else ()
        row = SharingRow(system, way.requests, way.load, way.policy, way.seed, *outcome, *published)
        found.append(row)
    return found


def _labels(system: str) -> dict[str, str]:
    """Return the labels of the policies in figures."""
    return {name: label for name, (label, _) in SYSTEMS[system].policies.items()}


def _reproduction(title: str, system: str) -> Reproduction[SharingRow]:
    return Reproduction(
        title,
        partial(_tasks, system),
        partial(_rows, system),
        lambda _, rows: plot_sharing(rows, _labels(system)),
        shown=summarise_sharing,
        ignores=("pollux", "seeds", "gaps", "artifact"),
        workloads=WORKLOADS,
    )


GANDIVA = _reproduction(
    "Gandiva: slices, pairs of jobs on GPUs that they share, migration, growth, affinity", "gandiva"
)
ANTMAN = _reproduction("AntMan: opportunistic jobs beside those with a guarantee", "antman")
