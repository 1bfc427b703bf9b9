"""State of a training job as published by its agent, and the allocation for it.

`goodalloc-job-state` is an object in one file: name of the job, placement, progress, and the
known parts of its goodput model. `JobState.job` converts it to the job of an instance. The
scheduler's decisions come back in the files that it writes anyway (`goodalloc-allocation` or
`goodalloc-result`), in which the job finds its name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    as_float,
    check_keys,
    check_list,
    in_file,
    read_document,
    rows_text,
    shown,
)
from goodalloc.data.files.format_names import ALLOCATION_FORMAT, RESULT_FORMAT
from goodalloc.data.files.instance import placement_from_dict
from goodalloc.data.files.model_table import model_from_dict, model_to_dict
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import require_type
from goodalloc.models.support.validation import (
    require_count,
    require_flag,
    require_name,
    require_number,
)

if TYPE_CHECKING:
    import os

    from goodalloc.models.round.cluster import Cluster

STATE_FORMAT = "goodalloc-job-state"

GROWTH = 2
"""Greatest factor by which a job may exceed its most replicas so far (section 4.1 of Pollux)."""

#: Stands in for what is not known yet, so that the rest can be checked.
_UNKNOWN = GoodputModel(
    ThroughputParameters(
        alpha_grad=1.0,
        beta_grad=0.0,
        alpha_local=0.0,
        beta_local=0.0,
        alpha_node=0.0,
        beta_node=0.0,
        gamma=1.0,
    ),
    GradientStatistics(0.0, 0.0),
    BatchLimits(1, 1, 1, 1),
)
_COUNTS = {
    "replicas": 1,
    "nodes": 1,
    "restarts": 0,
    "most_replicas": 1,
    "atomic": 1,
    "accumulation_steps": 0,
    "steps": 0,
    "examples": 0,
    "epoch": 0,
}
#: Keys that a file may lack.
_OPTIONAL = ("measured", "gpu_type", "elsewhere")
_SECONDS = ("submitted", "published", "attained_service", "scale_invariant_steps")


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job as published by its agent.

    Parameters
    ----------
    name
        Name of the job.
    batch
        Limits of its batch size.
    submitted, published
        First start, and time of writing, in seconds since 1970.
    replicas, nodes
        Current replicas and nodes.
    placement
        GPUs by name of node; empty if unknown.
    restarts
        Number of restarts.
    attained_service
        GPU time so far, in GPU-seconds.
    most_replicas
        Most replicas so far.
    atomic, accumulation_steps
        Current m and s.
    steps, examples, epoch
        Steps made, examples trained on, and whole passes through the data.
    scale_invariant_steps
        The same progress in steps at M0.
    gradient, throughput
        Gradient statistics and fitted parameters; None before there are any.
    finished
        Whether the training is over.
    measured
        Nodes and replicas of the configurations whose step times it measured, in any order.
    gpu_type
        Type of GPU that it runs on; empty where types are not told apart.
    elsewhere
        Fitted parameters on other types of GPU that it ran on, by name.

    Raises
    ------
    ValueError
        If a value is out of range; the message names the job, the value and what was expected.
    """

    name: str
    batch: BatchLimits
    submitted: float
    published: float
    replicas: int = 1
    nodes: int = 1
    placement: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    attained_service: float = 0.0
    most_replicas: int = 1
    atomic: int = 1
    accumulation_steps: int = 0
    steps: int = 0
    examples: int = 0
    epoch: int = 0
    scale_invariant_steps: float = 0.0
    gradient: GradientStatistics | None = None
    throughput: ThroughputParameters | None = None
    finished: bool = False
    measured: tuple[tuple[int, int], ...] = ()
    gpu_type: str = ""
    elsewhere: dict[str, ThroughputParameters] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        require_name("Job state", self.name)
        item = f"Job '{self.name}'"
        for name, least in _COUNTS.items():
            if name == "examples":  # may exceed what a count may be
                require_number(f"{item}: {name}", self.examples, 0.0)
            else:
                require_count(f"{item}: {name}", getattr(self, name), least)
        for name in _SECONDS:
            require_number(f"{item}: {name}", getattr(self, name), 0.0)
        _check_placement(item, self.placement)
        require_flag(f"{item}: finished", self.finished)
        for pair in self.measured:
            if len(pair) != 2:
                raise ValueError(
                    f"{item}: measured has {shown(list(pair))}; expected pairs of nodes and "
                    "replicas."
                )
            nodes, replicas = pair
            require_count(f"{item}: measured nodes", nodes, 1)
            require_count(f"{item}: replicas measured on {nodes} nodes", replicas, nodes)
        require_type(item, self.gpu_type)
        for name in self.elsewhere:
            require_type(item, name)
            if name == self.gpu_type:
                raise ValueError(
                    f"{item}: elsewhere names the type '{name}', which it runs on; expected others."
                )

    @property
    def fits(self) -> dict[str, ThroughputParameters]:
        """Fitted parameters by type of GPU, the present type first."""
        own = {} if self.throughput is None else {self.gpu_type: self.throughput}
        return own | self.elsewhere

    @property
    def max_replicas(self) -> int:
        """Twice the most that it ever had, as far as its largest batch can be shared."""
        shared = int(self.batch.maximum) // int(self.batch.atomic_minimum)
        return max(min(GROWTH * self.most_replicas, shared), 1)

    @property
    def model(self) -> GoodputModel | None:
        """Goodput model of the job; None while a part of it is unknown."""
        if self.gradient is None or self.throughput is None:
            return None
        return GoodputModel(self.throughput, self.gradient, self.batch)

    def job(self, cluster: Cluster, now: float | None = None) -> Job:
        """Return the job in the form of an instance's.

        Parameters
        ----------
        cluster
            Its nodes have the names that the placement knows.
        now
            In seconds since 1970; when the state was published if None.

        Raises
        ------
        ValueError
            If the placement is not one of the cluster's.
        """
        moment = self.published if now is None else now
        placement = placement_from_dict(f"Job '{self.name}'", self.placement, cluster)
        return Job(
            self.name,
            self.model,
            age=max(moment - self.submitted, 0.0),
            restarts=self.restarts,
            placement=placement,
            max_replicas=self.max_replicas,
            attained_service=self.attained_service,
        )


def write_job_state(path: str | os.PathLike[str], state: JobState) -> None:
    """Write a state to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from goodalloc.data.files import JobState, read_job_state, write_job_state
    >>> from goodalloc.models.goodput import BatchLimits
    >>> state = JobState("job-0", BatchLimits(32, 512, 8, 256, True), submitted=0.0, published=60.0)
    >>> write_job_state("state.json", state)
    >>> read_job_state("state.json") == state
    True
    """
    document = {"format": STATE_FORMAT, "version": 1, **asdict(state)}
    throughput, gradient = state.throughput or _UNKNOWN[0], state.gradient or _UNKNOWN[1]
    model = GoodputModel(throughput, gradient, state.batch)
    for name, part in model_to_dict(model).items():
        document[name] = None if getattr(state, name) is None else part
    document["elsewhere"] = {name: fit._asdict() for name, fit in state.elsewhere.items()}
    write_atomically(path, rows_text(document, {}))


def read_job_state(path: str | os.PathLike[str]) -> JobState:
    """Read the state in a file.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range; the message names the
        file, the item, its value and what was expected.

    Examples
    --------
    >>> from goodalloc.data.files import JobState, read_job_state, write_job_state
    >>> from goodalloc.models.goodput import BatchLimits
    >>> limits = BatchLimits(32, 512, 8, 256, True)
    >>> write_job_state("state.json", JobState("job-0", limits, submitted=0.0, published=60.0))
    >>> read_job_state("state.json").finished
    False
    """
    document = read_document(path, (STATE_FORMAT,))
    try:
        names = tuple(entry.name for entry in fields(JobState) if entry.name not in _OPTIONAL)
        required = ("format", "version", *names)
        given = dict(check_keys("Job state", document, required, _OPTIONAL))
        del given["format"], given["version"]
        require_name("Job state", given["name"])
        for name in _SECONDS:
            given[name] = as_float(given[name])
        item = f"Job '{given['name']}': measured"
        pairs = check_list(item, given.get("measured", []))
        given["measured"] = tuple(tuple(check_list(item, pair)) for pair in pairs)
        elsewhere = given.pop("elsewhere", {})
        parts = _model_parts(f"Job '{given['name']}'", given)
        return JobState(**given | parts, elsewhere=_fits_elsewhere(given, elsewhere))
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def _model_parts(item: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return throughput, gradient and batch limits, checked; None for unknown ones."""
    filled = {"batch": given["batch"]}
    for name, stand_in in (("throughput", _UNKNOWN.throughput), ("gradient", _UNKNOWN.gradient)):
        filled[name] = stand_in._asdict() if given[name] is None else given[name]
    model = model_from_dict(item, filled)
    assert isinstance(model, GoodputModel)
    return {name: given[name] and part for name, part in model._asdict().items()}


def _fits_elsewhere(given: dict[str, Any], value: object) -> dict[str, ThroughputParameters]:
    """Return the checked fits on other types of GPU."""
    item = f"Job '{given['name']}'"
    if not isinstance(value, dict):
        raise ValueError(f"{item}: elsewhere is {shown(value)}; expected an object of GPU types.")
    fits = {}
    for name, fit in value.items():
        filled = {
            "batch": given["batch"],
            "throughput": fit,
            "gradient": _UNKNOWN.gradient._asdict(),
        }
        model = model_from_dict(f"{item}: elsewhere '{name}'", filled)
        assert isinstance(model, GoodputModel)
        fits[name] = model.throughput
    return fits


def read_placement(path: str | os.PathLike[str], name: str) -> dict[str, int]:
    """Read a job's GPUs by node from a scheduler's file; empty if the job does not run.

    Parameters
    ----------
    path
        File of an allocation or of a result.
    name
        Name of the job.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or the job's GPUs are not whole numbers above 0.

    Examples
    --------
    >>> from goodalloc.data.files import read_placement, write_placements
    >>> write_placements("allocation.json", "round-1", {"job-0": {"node-1": 2}})
    >>> read_placement("allocation.json", "job-1")  # does not run
    {}
    """
    return _placement(path, name, _placements_in(path).get(name, {}))


def read_placements(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Read the GPUs by node of every running job from a scheduler's file.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a job's GPUs are not whole numbers above 0.

    Examples
    --------
    >>> from goodalloc.data.files import read_placements, write_placements
    >>> write_placements("allocation.json", "round-1", {"job-0": {"node-1": 2}})
    >>> read_placements("allocation.json")
    {'job-0': {'node-1': 2}}
    """
    return {name: _placement(path, name, found) for name, found in _placements_in(path).items()}


def _placement(path: str | os.PathLike[str], name: str, found: object) -> dict[str, int]:
    """Return the checked placement of a job in a file."""
    try:
        return _check_placement(f"Job '{name}'", found)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def _placements_in(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the placements in a file, checked only to be an object."""
    document = read_document(path, (ALLOCATION_FORMAT, RESULT_FORMAT))
    placements = document.get("placements")
    if not isinstance(placements, dict):
        complaint = f"placements is {shown(placements)}; expected an object of job names."
        raise ValueError(in_file(path, ValueError(complaint)))
    return placements


def _check_placement(item: str, value: object) -> dict[str, int]:
    """Refuse a placement other than GPUs by name of node."""
    if not isinstance(value, dict):
        raise ValueError(f"{item}: placement is {shown(value)}; expected an object of node names.")
    for node, gpus in value.items():
        require_name(f"{item}: placement", node)
        require_count(f"{item}: GPUs on node '{node}'", gpus, 1)
    return dict(value)
