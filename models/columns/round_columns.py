"""Round of many jobs as arrays: a value of every job in each, and goodput models by kind.

Jobs of one kind share a goodput model, of which there are far fewer than jobs where jobs train the
same things; jobs that never ran have none. What one job is can be seen in `RoundColumns.instance`,
which makes an object of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.model import BatchLimits, GoodputModel, validate
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.rules import Rules
    from goodalloc.models.support.array_types import Floats, Indices

#: Kind of a job that never ran.
NEVER_RAN = -1

#: Most GPUs of one job.
MOST_REPLICAS = 4096


@dataclass(frozen=True, eq=False)
class RoundColumns:
    """Scheduling round of jobs without modes, as arrays over the jobs.

    Parameters
    ----------
    cluster
        The nodes.
    models
        Goodput models of all kinds, stacked: each number of shape (kinds,).
    kind
        Kind of every job, its index in `models`, or `NEVER_RAN`; shape (jobs,).
    age, restarts, max_replicas
        As in `Job`, shape (jobs,).
    current
        Present placements.
    rules
        Objective and constraints.

    Raises
    ------
    ValueError
        If shapes differ, a number is out of range, present placements overfill a node, or the
        rules' fair share is "least"; the message names the first such job, the value and what was
        expected.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models.columns import RoundColumns
    >>> columns = RoundColumns.of(generate(seed=0, jobs=8, nodes=2, gpus_per_node=4))
    >>> columns.num_jobs, columns.fair_share
    (8, 1)
    """

    cluster: Cluster
    models: GoodputModel
    kind: Int[Indices, " jobs"]
    age: Float[Floats, " jobs"]
    restarts: Int[Indices, " jobs"]
    max_replicas: Int[Indices, " jobs"]
    current: Allocation
    rules: Rules

    def __post_init__(self) -> None:
        jobs, kinds = self.kind.size, self.num_kinds
        if jobs == 0:
            raise ValueError("Round: expected at least one job, got none.")
        if self.rules.fair_share == "least":
            raise ValueError(
                "Round: fair_share is 'least', which is of each job's own; expected another in "
                "columns."
            )
        validate(self.models, "Kind")
        for name in ("kind", "age", "restarts", "max_replicas"):
            shape = getattr(self, name).shape
            if shape != (jobs,):
                raise ValueError(f"Round: {name} has shape {shape}; expected ({jobs},).")
        for name, least, most in (
            ("kind", NEVER_RAN, kinds - 1),
            ("age", 0.0, np.inf),
            ("restarts", 0, np.inf),
            ("max_replicas", 1, MOST_REPLICAS),
        ):
            values = getattr(self, name)
            wrong = ~((values >= least) & (values <= most) & (values < np.inf))
            if wrong.any():
                job = int(np.argmax(wrong))
                raise ValueError(
                    f"Job {job}: {name} is {values[job]}; expected {least:g} to {most:g}."
                )
        shape = (self.current.num_jobs, self.current.num_nodes)
        if shape != (jobs, self.cluster.num_nodes):
            raise ValueError(
                f"Round: present placements are of {shape[0]} jobs on {shape[1]} nodes; expected "
                f"{jobs} on {self.cluster.num_nodes}."
            )
        over = self.current.node_replicas > self.cluster.node_gpus
        if over.any():
            node = int(np.argmax(over))
            raise ValueError(
                f"Node {node}: present placements hold {self.current.node_replicas[node]} GPUs; "
                f"expected at most {self.cluster.node_gpus[node]}."
            )

    @classmethod
    def of(cls, instance: Instance) -> RoundColumns:
        """Return an instance as columns.

        Raises
        ------
        ValueError
            If a job has what columns do not state: modes, a table of speedups, a fewest number of
            GPUs, a weight, a restart delay of its own, or a fixed placement.
        """
        kinds: dict[GoodputModel, int] = {}
        found = []
        for job in instance.jobs:
            special = {
                "modes": bool(job.modes),
                "min_replicas": job.min_replicas > 1,
                "weight": job.weight != 1.0,
                "restart_delay": job.restart_delay is not None,
                "preemptible": job.pinned,
                "model": not (job.model is None or isinstance(job.model, GoodputModel)),
            }
            for name, there in special.items():
                if there:
                    raise ValueError(
                        f"Job '{job.name}': {name} is of its own; expected none in columns."
                    )
            model = job.model
            if isinstance(model, GoodputModel):
                found.append(kinds.setdefault(model, len(kinds)))
            else:
                found.append(NEVER_RAN)
        return cls(
            instance.cluster,
            stack_models(tuple(kinds)) if kinds else no_models(),
            np.array(found, dtype=np.int64),
            instance.age,
            instance.restarts.astype(np.int64),
            np.array([job.max_replicas for job in instance.jobs], dtype=np.int64),
            instance.current,
            instance.rules,
        )

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return int(self.kind.size)

    @property
    def num_kinds(self) -> int:
        """Number of goodput models."""
        return int(np.size(self.models.batch.initial))

    @property
    def fair_share(self) -> int:
        """GPUs of a fair share, ``K_f = ceil(GPUs / jobs)`` (Pollux's artifact)."""
        return -(-self.cluster.num_gpus // self.num_jobs)

    @cached_property
    def most_replicas(self) -> int:
        """Most GPUs that any job may have."""
        return min(int(self.max_replicas.max()), self.cluster.num_gpus)

    def kind_models(self) -> list[GoodputModel]:
        """Return the model of every kind as an object."""
        *numbers, accumulation = (np.asarray(leaf) for leaf in leaves(self.models))
        rows = zip(*(column.tolist() for column in numbers), accumulation.tolist(), strict=True)
        models = []
        for row in rows:
            limits = BatchLimits(*map(int, row[9:13]))._replace(accumulation=bool(row[13]))
            parts = ThroughputParameters(*row[:7]), GradientStatistics(*row[7:9]), limits
            models.append(GoodputModel(*parts))
        return models

    def instance(self, names: Sequence[str] | None = None, name: str = "instance") -> Instance:
        """Return the round with an object for every job.

        Parameters
        ----------
        names
            Names of the jobs; ``job-0``, ``job-1``, … if None.
        name
            Name of the instance.
        """
        models = [*self.kind_models(), None]
        named = [f"job-{index}" for index in range(self.num_jobs)] if names is None else names
        columns = zip(
            named,
            self.kind.tolist(),
            self.age.tolist(),
            self.restarts.tolist(),
            self.current.placements(),
            self.max_replicas.tolist(),
            strict=True,
        )
        jobs = tuple(
            Job(job, models[kind], age, restarts, placement, max_replicas=most)
            for job, kind, age, restarts, placement, most in columns
        )
        return Instance(self.cluster, jobs, self.rules, name)


def stacked_model(numbers: Sequence[Floats]) -> GoodputModel:
    """Return stacked models from their 14 numbers by name, in the order of `GoodputModel`.

    Parameters
    ----------
    numbers
        Arrays of shape (kinds,): seven of throughput, two of gradients, five of batch limits.
    """
    *limits, accumulation = numbers[9:]
    return GoodputModel(
        ThroughputParameters(*numbers[:7]),
        GradientStatistics(*numbers[7:9]),
        BatchLimits(*limits)._replace(accumulation=np.asarray(accumulation) > 0.0),
    )


def no_models() -> GoodputModel:
    """Return stacked models of no kinds."""
    return stacked_model([np.zeros(0)] * 14)
