"""Gandiva (OSDI'18) and AntMan (OSDI'20): what it is worth that jobs share GPUs.

Drawn workloads of several loads, with GPUs as experts tuned them and as users asked for them, are
replayed under each system, with its published heuristic and exactly, and without each of its parts,
beside schedulers that give every job GPUs of its own. How fast jobs are that share is a reading
(`models/shared_gpus/shared_speed.py`), so that figures beside published ones tell the direction,
not the size. Of a GPU that jobs share, the time in which it computes for either counts as busy, and
the memory of both as used; averages are over all GPUs up to the last submission. In Gandiva's
experiment a restart takes a second, as its suspension and migration do; in AntMan's as long as in
all others here. Where AntMan's guests move tensors to the host machine, all of them there would
take five times as long: 16 GB over 12 GB/s both ways are 2.7 s, of steps of about half a second.

In every tenth round the heuristic is compared with the optimum (`shared_gpus/optima.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.documents.json_file import dump, in_file, write_atomically
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.shared_gpus.optima import COMPARE
from goodalloc.experiments.studies.shared_gpus.report import (
    COMPARISONS,
    OVER,
    QUANTITIES,
    REQUESTS,
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
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.shared_gpus.optima import Compared
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.solvers.policies.policy import Policy

#: Jobs in multiples of the published 160; and of quick replays.
LOADS = (0.5, 1.0, 2.0)
QUICK = (1.0,)

#: Workloads, unless others are asked for; quick replays take the first.
WORKLOADS = (1, 2, 3, 4, 5)

#: Who does not look at what users ask for, and takes long: not in quick replays.
BLIND = "equal"

#: One round in so many is compared with the optimum.
EVERY = 10


class System(NamedTuple):
    """What is repeated.

    Attributes
    ----------
    restart_delay
        Seconds of a restart.
    policies
        What is replayed: label for pictures, and a function that makes it. First others, then the
        system, then what it is otherwise.
    published
        Per cent that busy and memory rise by, as published.
    compared
        Which of them is the published one: its rounds are compared with the optimum.
    """

    restart_delay: float
    policies: Mapping[str, tuple[str, Callable[[], Policy]]]
    published: Mapping[str, float]
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
        {"busy_%": 26.0},
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
        {"busy_%": 34.0, "memory_%": 42.0},
        "antman",
    ),
}

#: The file of a replay's numbers.
RECORD = "numbers.json"


def replay_numbers(simulator: Simulator, compared: str = "") -> dict[str, Any]:
    """Hours, per cent and restarts of a replay; and how far heuristics are below the optimum.

    Parameters
    ----------
    simulator
        The replay.
    compared
        Whose rounds are compared, empty for none.
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
    numbers: dict[str, Any] = {
        "jct_h": hours.mean(),
        "p99_h": np.quantile(hours, 0.99),
        "makespan_h": ends.max() / HOUR,
        "busy_%": busy,
        "memory_%": memory,
        "guests": guests,
        "restarts": np.mean([job.restarts or 0 for job in simulator.jobs]),
    }
    if found:
        best = sum(one.optimum.total for one in found)
        for way in found[0].ways:
            numbers[f"{way}_below_%"] = 100.0 * (1.0 - sum(one.ways[way] for one in found) / best)
        numbers["worst_gap"] = max(one.optimum.gap for one in found)
    return {
        **{name: rounded(float(value), 6) for name, value in numbers.items()},
        "compared_rounds": len(found),
        "optimum_ms": rounded(1e3 * max((one.optimum.seconds for one in found), default=0.0), 3),
    }


def _rounds(
    simulator: Simulator, last: int, used: list[tuple[float, float, float]]
) -> Iterator[RoundRecord]:
    """The rounds; up to the last submission the parts of all GPUs that were busy and full, and how
    many guests trained.
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
    """One replay; done at once or not at all.

    Parameters
    ----------
    folder
        Where its numbers go.
    system, policy
        Which of `SYSTEMS`, and of its policies.
    requests, load, seed
        Of the workload.
    """

    folder: Path
    system: str
    policy: str
    requests: Requests
    load: float
    seed: int

    @property
    def setting(self) -> Setting:
        """The conditions."""
        return Setting(restart_delay=SYSTEMS[self.system].restart_delay)

    def description(self) -> dict[str, Any]:
        """Everything that the numbers depend on."""
        return {
            "format": "goodalloc-shared-replay",
            "version": 2,
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
            write_atomically(self.folder / RECORD, dump(replay_numbers(simulator, compared)) + "\n")
        report(1.0)

    def record(self) -> dict[str, Any]:
        """Its numbers."""
        path = self.folder / RECORD
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(in_file(path, error)) from error
        return found


class Way(NamedTuple):
    """A line of the table; its fields are those of `SharedReplay`."""

    requests: Requests
    load: float
    policy: str
    seed: int


def _ways(system: str, plan: Plan) -> Iterator[Way]:
    """Every request, load, policy and workload; of one load and workload if quick."""
    loads, seeds = (QUICK, plan.workloads[:1]) if plan.quick else (LOADS, plan.workloads)
    for way in starmap(Way, product(REQUESTS, loads, SYSTEMS[system].policies, seeds)):
        if not (plan.quick and way.policy == BLIND):
            yield way


def _task(system: str, plan: Plan, way: Way) -> SharedReplay:
    """The replay of a line; who is blind to requests has one for all of them."""
    requests = "tuned" if way.policy == BLIND else way.requests
    task = SharedReplay(plan.folder, system, way.policy, requests, way.load, way.seed)
    name = f"{way.policy}-{digest(task.description())}"
    return replace(task, folder=plan.folder / "replays" / name)


def _tasks(system: str, plan: Plan) -> list[SharedReplay]:
    """A replay for every line."""
    return [_task(system, plan, way) for way in _ways(system, plan)]


def _rows(system: str, plan: Plan) -> Rows:
    """A row for every replay; columns of comparisons are empty where there are none."""
    found: Rows = []
    for way in _ways(system, plan):
        record = _task(system, plan, way).record()
        found.append(
            {
                "system": system,
                "requests": way.requests,
                "load": way.load,
                "policy": way.policy,
                "workload": way.seed,
                **{name: record[name] for name in QUANTITIES},
                **{name: record.get(name, "") for name in COMPARISONS},
                **_published(system, way.policy),
            }
        )
    return found


def _published(system: str, policy: str) -> dict[str, float | str]:
    """Per cent more than others as published, of the policy as published."""
    known = SYSTEMS[system].published if policy == SYSTEMS[system].compared else {}
    return {f"published_{name}": known.get(name, "") for name in OVER}


def _labels(system: str) -> dict[str, str]:
    """What pictures call the policies."""
    return {name: label for name, (label, _) in SYSTEMS[system].policies.items()}


def _reproduction(title: str, system: str) -> Reproduction[dict[str, Any]]:
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
