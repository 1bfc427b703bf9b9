"""State of a replay that a checkpoint stores, as JSON.

Everything else follows from the workload, the true applications and the setting, which a resumed
replay is given again. Numbers are written as by `goodalloc.data.documents.json_file.pack_number`;
fields that are None are omitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import (
    check_keys,
    check_list,
    pack_number,
    shown,
    unpack_number,
)
from goodalloc.experiments.replay.job_modes import Measured
from goodalloc.experiments.replay.job_state import BatchBasis, SimulatedJobState
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.validation import require_choice, require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeVar

    from goodalloc.data.documents.json_file import Document
    from goodalloc.experiments.replay.job_modes import Configuration
    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster

    Times = Mapping[Configuration, tuple[float, float]]
    Numbers = TypeVar("Numbers", GradientStatistics, ThroughputParameters)


@dataclass
class SimulatorState:
    """State of a replay beside that of its jobs and of the pool of experience.

    Parameters
    ----------
    cluster
        The nodes that are available now.
    wanted_nodes
        Number of nodes that the policy requested last.
    time
        Seconds since the start.
    progress, last_progress
        Largest sum of the progress of all jobs, and the time at which it was reached.
    """

    cluster: Cluster
    wanted_nodes: int
    time: int = 0
    progress: float = 0.0
    last_progress: int = 0


def pack_simulator(
    state: SimulatorState, experience: Document, jobs: Iterable[SimulatedJob]
) -> Document:
    """Return the state of a replay in terms of JSON.

    Parameters
    ----------
    state
        State of the simulator itself.
    experience
        Packed pool of experience.
    jobs
        The jobs.
    """
    return {
        "time": state.time,
        "last_progress": state.last_progress,
        "progress": pack_number(state.progress),
        "nodes": state.cluster.num_nodes,
        "wanted_nodes": int(state.wanted_nodes),
        "experience": experience,
        "jobs": {job.submission.name: pack_job(job) for job in jobs},
    }


def unpack_simulator(document: object, whole: Cluster) -> tuple[SimulatorState, object, object]:
    """Return the state of a simulator and the packed experience and jobs.

    Parameters
    ----------
    document
        The result of `pack_simulator`.
    whole
        The cluster with the number of nodes that it started with.

    Raises
    ------
    ValueError
        If a key is missing or unknown, or a number is not one or is out of range.
    """
    counts = ("nodes", "wanted_nodes", "time", "last_progress")
    found = check_keys("Simulator", document, (*counts, "progress", "experience", "jobs"))
    for name in counts:
        require_count(f"Simulator: {name}", found[name], int(name.endswith("nodes")))
    require_number("Simulator: progress", found["progress"])
    state = SimulatorState(
        cluster=whole.resized(found["nodes"]),
        wanted_nodes=found["wanted_nodes"],
        time=found["time"],
        progress=float(found["progress"]),
        last_progress=found["last_progress"],
    )
    return state, found["experience"], found["jobs"]


def pack_job(state: SimulatedJobState) -> Document:
    """Return the state of a job in terms of JSON."""
    found: Document = {
        "cores": pack_number(state.cores),
        "delay": pack_number(state.delay),
        "progress": pack_number(state.progress),
        "attained_service": pack_number(state.attained_service),
        "efficiency": pack_number(state.efficiency),
        "share": pack_number(state.share),
        "epoch": state.epoch,
        "atomic_batch_size": state.atomic_batch_size,
        "accumulation_steps": state.accumulation_steps,
        "gpu_type": state.gpu_type,
        "mode": state.mode,
        "host": state.host,
        "placement": [[int(node), int(gpus)] for node, gpus in state.placement],
        "measured": {kind: _pack_measured(one) for kind, one in state.measured.items()},
    }
    if state.first_start is not None:
        found["first_start"] = pack_number(state.first_start)
    if state.completion is not None:
        found["completion"] = pack_number(state.completion)
    if state.busy is not None:
        found["busy"] = pack_number(state.busy)
    if state.gradient is not None:
        found["gradient"] = pack_numbers(state.gradient)
    if state.first_gradient is not None:
        found["first_gradient"] = pack_numbers(state.first_gradient)
    if state.restarts is not None:
        found["restarts"] = state.restarts
    if state.chosen_for is not None:
        model, *gpus = state.chosen_for
        found["chosen_for"] = [pack_numbers(model.throughput), pack_numbers(model.gradient), gpus]
    return found


#: Keys of every packed job: those of a job that was just submitted.
REQUIRED_KEYS = tuple(pack_job(SimulatedJobState(gpu_type="")))

#: Keys of a packed job that are omitted while their value is None.
OPTIONAL_KEYS = (
    "first_start",
    "completion",
    "busy",
    "gradient",
    "first_gradient",
    "restarts",
    "chosen_for",
)


def unpack_job(job: SimulatedJob, document: object, cluster: Cluster) -> None:
    """Restore the state of `job`, which was just submitted.

    Parameters
    ----------
    job
        The job.
    document
        The result of `pack_job`.
    cluster
        The nodes that were available.

    Raises
    ------
    ValueError
        If a key is missing or unknown, a value is not of its type or out of range, or the progress,
        the epoch and the completion contradict each other; the sentence names the job.
    """
    fields = _JobFields(f"Job '{job.submission.name}'", document)
    state = SimulatedJobState(
        gpu_type=fields.gpu_type(job.equipment.gpu_types),
        cores=fields.number("cores"),
        mode=fields.name("mode"),
        host=fields.name("host"),
        placement=fields.placement(cluster),
        delay=fields.number("delay"),
        epoch=fields.count("epoch"),
        progress=fields.number("progress"),
        attained_service=fields.number("attained_service"),
        first_start=fields.optional_number("first_start"),
        completion=fields.optional_number("completion"),
        restarts=fields.count("restarts") if "restarts" in fields.found else None,
        atomic_batch_size=fields.count("atomic_batch_size"),
        accumulation_steps=fields.count("accumulation_steps"),
        measured=fields.measured(job.equipment.gpu_types),
        gradient=fields.gradient("gradient"),
        first_gradient=fields.gradient("first_gradient"),
        efficiency=fields.number("efficiency"),
        busy=fields.optional_number("busy"),
        share=fields.number("share"),
    )
    job.restore(state)
    if "chosen_for" in fields.found:
        item = f"{fields.item}: chosen_for"
        job.chosen_for = _unpack_choice(job, item, fields.found["chosen_for"])
    _check(fields.item, job)


class _JobFields:
    """Typed access to the fields of a packed job; every method refuses a value that is wrong."""

    def __init__(self, item: str, document: object) -> None:
        self.item = item
        self.found = check_keys(item, document, REQUIRED_KEYS, OPTIONAL_KEYS)

    def number(self, name: str) -> float:
        """Return a number of at least 0."""
        require_number(f"{self.item}: {name}", self.found[name], 0.0)
        return float(self.found[name])

    def optional_number(self, name: str) -> float | None:
        """Return a number of at least 0, None where it is omitted."""
        return self.number(name) if name in self.found else None

    def count(self, name: str) -> int:
        """Return a whole number of at least 0."""
        value: int = self.found[name]
        require_count(f"{self.item}: {name}", value, 0)
        return value

    def name(self, name: str) -> str:
        """Return a string."""
        value = self.found[name]
        if not isinstance(value, str):
            raise ValueError(f"{self.item}: {name} is {shown(value)}; expected a string.")
        return value

    def gpu_type(self, known: tuple[str, ...]) -> str:
        """Return the type of GPU, one of `known`."""
        gpu_type = self.name("gpu_type")
        require_choice(f"{self.item}: gpu_type", gpu_type, known)
        return gpu_type

    def placement(self, cluster: Cluster) -> Placement:
        """Return the placement, on nodes of `cluster`."""
        return _unpack_placement(self.item, self.found["placement"], cluster)

    def gradient(self, name: str) -> GradientStatistics | None:
        """Return gradient statistics, None where they are omitted."""
        if name not in self.found:
            return None
        return unpack_numbers(f"{self.item}: {name}", self.found[name], GradientStatistics)

    def measured(self, gpu_types: tuple[str, ...]) -> dict[str, Measured]:
        """Return the measurements by type of GPU."""
        item = f"{self.item}: measured"
        found = check_keys(item, self.found["measured"], (), gpu_types)
        return {kind: _unpack_measured(item, one) for kind, one in found.items()}


def _check(item: str, job: SimulatedJob) -> None:
    """Refuse progress, epoch, completion and placement that contradict each other."""
    epochs, application = job.application.epochs, job.application
    require_count(f"{item}: epoch", job.epoch, 0, epochs)
    begin = application.progress(job.epoch - 1) if job.epoch else 0.0
    end = application.progress(min(job.epoch, epochs - 1))
    if not begin <= job.progress <= end:
        raise ValueError(
            f"{item}: progress is {job.progress:g} in epoch {job.epoch}; expected {begin:g} to "
            f"{end:g}."
        )
    if (job.epoch == epochs) != (job.completion is not None) or (job.placement and job.completion):
        raise ValueError(
            f"{item}: epoch is {job.epoch} of {epochs} and completion {job.completion}; expected "
            "both at the end, and then no placement."
        )
    if job.placement:
        require_count(f"{item}: atomic_batch_size", job.atomic_batch_size, 1)
        if job.pipeline is not None:
            require_number(f"{item}: cores", job.cores, 0.0, strict=True)


def _unpack_placement(item: str, value: object, cluster: Cluster) -> Placement:
    """Return a placement on nodes of `cluster`; refuse any other value."""
    found = []
    for pair in check_list(f"{item}: placement", value):
        node, gpus = _several(f"{item}: a part of its placement", pair, 2)
        require_count(f"{item}: node", node, 0, cluster.num_nodes - 1)
        require_count(f"{item}: GPUs on node {node}", gpus, 1, int(cluster.node_gpus[node]))
        found.append((node, gpus))
    if len({node for node, _ in found}) < len(found):
        raise ValueError(f"{item}: placement is {shown(value)}; expected each node once.")
    return tuple(found)


def _unpack_choice(job: SimulatedJob, item: str, value: object) -> BatchBasis:
    """Return the last choice of a batch size by `job`."""
    throughput, gradient, gpus = _several(item, value, 3)
    nodes, replicas = _several(item, gpus, 2)
    require_count(f"{item}: nodes", nodes, 1)
    require_count(f"{item}: replicas", replicas, 1)
    model = GoodputModel(
        unpack_numbers(item, throughput, ThroughputParameters),
        unpack_numbers(item, gradient, GradientStatistics),
        job.application.batch,
    )
    if job.batch_sizes == "throughput":
        model = model.by_throughput()
    return BatchBasis(model, nodes, replicas)


def _pack_measured(measured: Measured) -> Document:
    """Return measurements in terms of JSON."""
    found: Document = {"times": pack_times(measured.times), "fitted": measured.fitted}
    if measured.parameters is not None:
        found["parameters"] = pack_numbers(measured.parameters)
    if measured.reach:
        found["reach"] = measured.reach
    return found


def _unpack_measured(item: str, value: object) -> Measured:
    """Return the measurements that `_pack_measured` packed."""
    found = check_keys(item, value, ("times", "fitted"), ("parameters", "reach"))
    times, parameters = unpack_times(item, found["times"]), found.get("parameters")
    require_count(f"{item}: fitted", found["fitted"], 0, len(times))
    if parameters is not None:
        parameters = unpack_numbers(f"{item}: parameters", parameters, ThroughputParameters)
    reach = found.get("reach", 0)
    require_count(f"{item}: reach", reach, 0)
    return Measured(times, parameters, found["fitted"], reach)


def pack_times(times: Times) -> list[list[Any]]:
    """Return measured times as rows: nodes, replicas, atomic batch size, and both times."""
    return [[*configuration, *pack_numbers(found)] for configuration, found in times.items()]


def unpack_times(item: str, value: object) -> dict[Configuration, tuple[float, float]]:
    """Return the times of rows that `pack_times` made.

    Raises
    ------
    ValueError
        If a row has not five entries, a count is below 1, or a time is no number.
    """
    times = {}
    for row in check_list(f"{item}: times", value):
        *configuration, without, with_ = _several(f"{item}: a row of times", row, 5)
        for count in configuration:
            require_count(f"{item}: a count of a row of times", count, 1)
        nodes, replicas, atomic = configuration
        found = (unpack_number(item, without), unpack_number(item, with_))
        times[nodes, replicas, atomic] = found
    return times


def pack_numbers(values: Iterable[Any]) -> list[Any]:
    """Return `values` as a list in terms of JSON."""
    return [pack_number(value) for value in values]


def unpack_numbers(item: str, value: object, kind: type[Numbers]) -> Numbers:
    """Return a NamedTuple of the numbers that `pack_numbers` packed.

    Raises
    ------
    ValueError
        If `value` is no list with a number for each field of `kind`.
    """
    numbers = _several(item, value, len(kind._fields))
    return kind._make(unpack_number(item, number) for number in numbers)


def _several(item: str, value: object, count: int) -> list[Any]:
    """Return `value` if it is a list of `count` entries; refuse it otherwise."""
    found = check_list(item, value)
    if len(found) != count:
        raise ValueError(f"{item} is {shown(value)}; expected {count} entries.")
    return found
