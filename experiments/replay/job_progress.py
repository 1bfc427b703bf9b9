"""What a checkpoint keeps of a simulated job: how far it is, where it runs and what it measured.

All else follows from the workload, the truth and the setting, which a replay that goes on is given
again. Numbers are as in `goodalloc.data.documents.json_file.pack_number`; what is None is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import (
    check_keys,
    check_list,
    pack_number,
    shown,
    unpack_number,
)
from goodalloc.experiments.replay.job_modes import Measured
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

NUMBERS = ("cores", "delay", "progress", "attained_service", "efficiency", "share")
COUNTS = ("epoch", "atomic_batch_size", "accumulation_steps")
NAMES = ("gpu_type", "mode", "host")
KEYS = (*NUMBERS, *COUNTS, *NAMES, "placement", "measured")

#: What may be None.
LATER_NUMBERS = ("first_start", "completion", "busy")
GRADIENTS = ("gradient", "first_gradient")
LATER_KEYS = (*LATER_NUMBERS, *GRADIENTS, "restarts", "chosen_for")


def pack_job(job: SimulatedJob) -> Document:
    """A job under way, in terms of JSON."""
    found: Document = {name: pack_number(getattr(job, name)) for name in NUMBERS}
    for name in (*COUNTS, *NAMES):
        found[name] = getattr(job, name)
    found["placement"] = [[int(node), int(gpus)] for node, gpus in job.placement]
    found["measured"] = {kind: _pack_measured(one) for kind, one in job.measured.items()}
    for name in LATER_NUMBERS:
        if (number := getattr(job, name)) is not None:
            found[name] = pack_number(number)
    for name in GRADIENTS:
        if (gradient := getattr(job, name)) is not None:
            found[name] = pack_numbers(gradient)
    if job.restarts is not None:
        found["restarts"] = job.restarts
    if job.chosen_for is not None:
        model, *gpus = job.chosen_for
        found["chosen_for"] = [pack_numbers(model.throughput), pack_numbers(model.gradient), gpus]
    return found


def unpack_job(job: SimulatedJob, document: object, cluster: Cluster) -> None:
    """Bring a job that was just submitted to where it was.

    Parameters
    ----------
    job
        The job.
    document
        As packed.
    cluster
        The nodes that there were.

    Raises
    ------
    ValueError
        If the document makes no sense; the sentence names the job.
    """
    item = f"Job '{job.submission.name}'"
    found = check_keys(item, document, KEYS, LATER_KEYS)
    for name in (*NUMBERS, *LATER_NUMBERS):
        if name in found:
            require_number(f"{item}: {name}", found[name], 0.0)
            setattr(job, name, float(found[name]))
    for name in (*COUNTS, "restarts"):
        if name in found:
            require_count(f"{item}: {name}", found[name], 0)
            setattr(job, name, found[name])
    for name in NAMES:
        if not isinstance(found[name], str):
            raise ValueError(f"{item}: {name} is {shown(found[name])}; expected a string.")
        setattr(job, name, found[name])
    require_choice(f"{item}: gpu_type", job.gpu_type, job.equipment.gpu_types)
    job.placement = _unpack_placement(item, found["placement"], cluster)
    job.spread = tuple(gpus for _, gpus in job.placement)
    job.replicas = sum(job.spread)
    for name in GRADIENTS:
        if name in found:
            setattr(job, name, unpack_numbers(f"{item}: {name}", found[name], GradientStatistics))
    measured = check_keys(f"{item}: measured", found["measured"], (), job.equipment.gpu_types)
    job.measured = {
        kind: _unpack_measured(f"{item}: measured", one) for kind, one in measured.items()
    }
    if "chosen_for" in found:
        job.chosen_for = _unpack_choice(job, f"{item}: chosen_for", found["chosen_for"])
    _check(item, job)


def _check(item: str, job: SimulatedJob) -> None:
    """Refuse numbers that do not go together."""
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
    found = []
    for pair in check_list(f"{item}: placement", value):
        node, gpus = _several(f"{item}: a part of its placement", pair, 2)
        require_count(f"{item}: node", node, 0, cluster.num_nodes - 1)
        require_count(f"{item}: GPUs on node {node}", gpus, 1, int(cluster.node_gpus[node]))
        found.append((node, gpus))
    if len({node for node, _ in found}) < len(found):
        raise ValueError(f"{item}: placement is {shown(value)}; expected each node once.")
    return tuple(found)


def _unpack_choice(job: SimulatedJob, item: str, value: object) -> tuple[GoodputModel, int, int]:
    """The model by which it chose its batch size last, and on how many nodes and GPUs."""
    throughput, gradient, gpus = _several(item, value, 3)
    nodes, replicas = _several(item, gpus, 2)
    require_count(f"{item}: nodes", nodes, 1)
    require_count(f"{item}: replicas", replicas, 1)
    model = GoodputModel(
        unpack_numbers(item, throughput, ThroughputParameters),
        unpack_numbers(item, gradient, GradientStatistics),
        job.application.batch,
    )
    return model.by_throughput() if job.batch_sizes == "throughput" else model, nodes, replicas


def _pack_measured(measured: Measured) -> Document:
    found: Document = {"times": pack_times(measured.times), "fitted": measured.fitted}
    if measured.parameters is not None:
        found["parameters"] = pack_numbers(measured.parameters)
    return found


def _unpack_measured(item: str, value: object) -> Measured:
    found = check_keys(item, value, ("times", "fitted"), ("parameters",))
    times, parameters = unpack_times(item, found["times"]), found.get("parameters")
    require_count(f"{item}: fitted", found["fitted"], 0, len(times))
    if parameters is not None:
        parameters = unpack_numbers(f"{item}: parameters", parameters, ThroughputParameters)
    return Measured(times, parameters, found["fitted"])


def pack_times(times: Times) -> list[list[Any]]:
    """Measured times as rows: nodes, replicas, atomic batch size, and both times."""
    return [[*configuration, *pack_numbers(found)] for configuration, found in times.items()]


def unpack_times(item: str, value: object) -> dict[Configuration, tuple[float, float]]:
    """The reverse of `pack_times`.

    Raises
    ------
    ValueError
        If the rows make no sense.
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
    """Several numbers, as a list."""
    return [pack_number(value) for value in values]


def unpack_numbers(item: str, value: object, kind: type[Numbers]) -> Numbers:
    """The reverse of `pack_numbers`, as a NamedTuple of numbers.

    Raises
    ------
    ValueError
        If they are none, or too few or too many.
    """
    numbers = _several(item, value, len(kind._fields))
    return kind._make(unpack_number(item, number) for number in numbers)


def _several(item: str, value: object, count: int) -> list[Any]:
    """The value itself, if it is a list of so many entries."""
    found = check_list(item, value)
    if len(found) != count:
        raise ValueError(f"{item} is {shown(value)}; expected {count} entries.")
    return found
