"""Modes of a job: the equipment of each replica, and the speed of the job with it."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.goodput.model import BatchLimits, GoodputModel, plainly_in_order, validate
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.validation import literal, require_name, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Amounts of named resources other than GPUs, as ``(("cpu", 3.0), ("memory", 62.5))``.
Resources = tuple[tuple[str, float], ...]

#: Names reserved for GPUs, which are not resources beside them.
RESERVED = ("gpu", "gpus")

#: Largest amount of a resource: far beyond any node, and sums of it keep their last digits.
MOST_RESOURCES = 1e12


#: Smallest part of a GPU that a replica may take, other than none.
SMALLEST_SHARE = 1e-3

#: Index in place of a mode where a job has none.
NO_MODE = -1


def resources(amounts: Mapping[str, float]) -> Resources:
    """Return amounts by name, in the order of the names, without those of 0.

    Examples
    --------
    >>> from goodalloc.models import resources
    >>> resources({"memory": 62.5, "cpu": 3, "disk": 0})
    (('cpu', 3.0), ('memory', 62.5))
    """
    return tuple((name, float(amounts[name])) for name in sorted(amounts) if amounts[name] != 0)


def require_resources(item: str, amounts: object) -> None:
    """Validate pairs of distinct names, none of them the GPU's, and positive amounts."""
    if not isinstance(amounts, tuple) or any(
        not isinstance(pair, tuple) or len(pair) != 2 for pair in amounts
    ):
        raise ValueError(
            f"{item}: resources is {literal(amounts)}; expected a tuple of (name, amount) pairs."
        )
    last = ""
    for name, amount in amounts:
        require_name(f"{item}: resource", name)
        if name in RESERVED:
            raise ValueError(f"{item}: resource '{name}' is not one; GPUs are counted by replicas.")
        if name <= last:
            raise ValueError(
                f"{item}: resource '{name}' comes after '{last}'; "
                "expected each once, in the order of the names."
            )
        require_number(f"{item}: {name}", amount, minimum=0.0, strict=True)
        if amount > MOST_RESOURCES:
            raise ValueError(f"{item}: {name} is {amount}; expected at most {MOST_RESOURCES:g}.")
        last = name


def require_share(item: str, share: float) -> None:
    """Validate a part of a GPU."""
    require_number(f"{item}: gpu_share", share, minimum=0.0)
    if share > 1 or 0 < share < SMALLEST_SHARE:
        raise ValueError(f"{item}: gpu_share is {share}; expected 0, or {SMALLEST_SHARE:g} to 1.")


def require_type(item: str, gpu_type: object) -> None:
    """Validate a type of GPU; an empty one stands for any."""
    if not isinstance(gpu_type, str):
        raise ValueError(f"{item}: gpu_type is {literal(gpu_type)}; expected a string.")
    if gpu_type:
        require_name(f"{item}: gpu_type", gpu_type)


class SpeedupTable(NamedTuple):
    """Speedups given by the user, in place of a goodput model.

    Entry *k* is the speedup on *k + 1* GPUs, relative to the user's own fair share;
    more GPUs than the table has entries are worth nothing.

    Examples
    --------
    >>> from goodalloc.models import SpeedupTable
    >>> table = SpeedupTable(one_node=(1.0, 1.8), several_nodes=(0.0, 1.5))
    >>> table.several_nodes[1]  # on two GPUs
    1.5
    """

    one_node: tuple[float, ...]
    several_nodes: tuple[float, ...]


#: Model of a job's speed; None for a job that never ran.
JobModel = GoodputModel | SpeedupTable | None


@dataclass(frozen=True, slots=True)
class Mode:
    """Way to run a job: the resources of each replica beside its GPU, and the job's speed.

    All replicas of a job run in the same mode. The modes are those of the multi-mode
    resource-constrained scheduling problem.

    Parameters
    ----------
    name
        Unique within its job.
    model
        As `Job.model`; speedups of all modes of a job are relative to the same share.
    gpu_type
        Required type of GPU; empty for any.
    resources
        Amounts that each replica takes of its node beside a GPU.
    gpu_share
        Part of a GPU that each replica takes: 1 the whole, less if it shares a single GPU with
        other replicas, 0 for work without GPU such as parameter servers.

    Raises
    ------
    ValueError
        If the name is empty, the type or a resource is invalid, `gpu_share` is neither 0 nor from
        0.001 to 1, the mode takes nothing, or the model is invalid.

    Examples
    --------
    >>> from goodalloc.models import Mode, resources
    >>> mode = Mode("half", gpu_share=0.5, resources=resources({"cpu": 3}))
    >>> mode.resources
    (('cpu', 3.0),)
    """

    name: str
    model: JobModel = None
    gpu_type: str = ""
    resources: Resources = ()
    gpu_share: float = 1.0

    def __post_init__(self) -> None:
        require_name("Mode", self.name)
        item = f"Mode '{self.name}'"
        require_type(item, self.gpu_type)
        require_resources(item, self.resources)
        require_share(item, self.gpu_share)
        if self.gpu_share == 0 and not self.resources:
            raise ValueError(f"{item}: takes nothing at all; expected a gpu_share or resources.")
        require_model(item, self.model)


def require_model(item: str, model: object) -> None:
    """Validate a model: a valid goodput model, a table of speedups or None."""
    if isinstance(model, SpeedupTable):
        _require_speedups(item, model)
    elif isinstance(model, GoodputModel):
        _require_goodput(item, model)
    elif model is not None:
        raise ValueError(
            f"{item}: model is of type {type(model).__name__}; "
            "expected a GoodputModel, a SpeedupTable or None."
        )


def _require_goodput(item: str, model: GoodputModel) -> None:
    parts = (ThroughputParameters, GradientStatistics, BatchLimits)
    for name, part, wanted in zip(model._fields, model, parts, strict=True):
        if not isinstance(part, wanted):
            raise ValueError(
                f"{item}: {name} of its model is of type {type(part).__name__}; "
                f"expected {wanted.__name__}."
            )
    if plainly_in_order(model):
        return
    validate(model, item)
    for part in model:
        for name, value in zip(part._fields, part, strict=True):
            if not isinstance(value, Real | np.bool_):
                raise ValueError(
                    f"{item}: {name} of its model is of type {type(value).__name__}; "
                    "expected one number."
                )


def _require_speedups(item: str, table: SpeedupTable) -> None:
    for name, speedups in zip(table._fields, table, strict=True):
        if not isinstance(speedups, tuple):
            raise ValueError(
                f"{item}: {name} speedups are of type {type(speedups).__name__}; "
                "expected a tuple of numbers."
            )
    if not table.one_node:
        raise ValueError(f"{item}: one_node speedups are empty; expected one per GPU count.")
    for name, speedups in zip(table._fields, table, strict=True):
        for gpus, speedup in enumerate(speedups, start=1):
            require_number(f"{item}: {name} speedup on {gpus} GPUs", speedup, minimum=0.0)
