"""Conditions of a replay.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args
from zlib import crc32

import numpy as np

from goodalloc.models.round.cluster import Cluster
from goodalloc.models.support.validation import (
    require_choice,
    require_count,
    require_flag,
    require_number,
)

#: Knowledge of a job when it starts: none (as published), the measurements of finished jobs of its
#: application, or a profile of the whole range; or predictions from similar finished jobs beside
#: the measurements of those of its application ("similar"), or from other applications only
#: ("others").
Knowledge = Literal["explored", "history", "profiled", "similar", "others"]

#: Batch sizes of the jobs: by the rule of the policy, as their users requested, or the best by
#: their own predictions of goodput.
BatchRule = Literal["policy", "requested", "adaptive"]

#: What the oracle of a job tells policies that ask it: the truth, or what can be estimated from
#: the losses and step times that were measured so far.
OracleKind = Literal["true", "estimated"]

#: The cluster of Pollux's evaluation.
TESTBED = Cluster.uniform(16, 4)


@dataclass(frozen=True)
class MeasurementNoise:
    """Errors of what the agents of the jobs observe; the truth by which jobs advance has none.

    Every error is a factor whose logarithm is normal with mean 0.

    Parameters
    ----------
    step_time
        Standard deviation of the logarithm of the measured seconds of a pass: one error for each
        job and configuration, since a job measures a configuration over many steps.
    noise_scale
        That of the measured gradient variance, from which the noise scale follows: one error for
        each job, epoch and batch size.
    age
        That of the age of a job that the scheduler is told: one error for each job.
    seed
        Seed of all errors.

    Raises
    ------
    ValueError
        If a deviation is negative or not a number, or `seed` is negative.

    Examples
    --------
    >>> from goodalloc.experiments import MeasurementNoise
    >>> noise = MeasurementNoise(step_time=0.1)
    >>> noise.factor(0.1, "job-1", 1, 4, 128) == noise.factor(0.1, "job-1", 1, 4, 128)
    True
    >>> noise.factor(0.0, "job-1")
    1.0
    """

    step_time: float = 0.0
    noise_scale: float = 0.0
    age: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("step_time", "noise_scale", "age"):
            require_number(f"Measurement noise: {name}", getattr(self, name), minimum=0.0)
        require_count("Measurement noise: seed", self.seed, minimum=0)

    def factor(self, deviation: float, job: str, *key: int) -> float:
        """Return an error that depends on the seed, the job and `key` only; 1 without deviation."""
        if deviation == 0.0:
            return 1.0
        random = np.random.default_rng([self.seed, crc32(job.encode()), *key])
        return float(np.exp(deviation * random.standard_normal()))


#: Measurements without errors.
EXACTLY = MeasurementNoise()


class Outage(NamedTuple):
    """Outage of the last `nodes` nodes, from second `start` up to `end`, exclusive."""

    start: int
    end: int
    nodes: int


@dataclass(frozen=True)
class Setting:
    """Conditions of a replay; the defaults are those published with Pollux.

    Parameters
    ----------
    cluster
        The nodes, which may have GPUs of several types, and CPU cores.
    interval
        Seconds between decisions.
    restart_delay
        Seconds without progress after a change of allocation, for applications that do not state
        their own.
    interference
        Share of the goodput of a distributed job that is lost while it shares a node with another
        one.
    outages
        Periods in which nodes are missing; of overlapping ones that with the most nodes counts.
        Jobs on missing nodes lose all their GPUs and keep their progress.
    knowledge
        Knowledge of jobs about their application when they start.
    free_moves
        Whether a job that moves to other nodes of the same type, with as many GPUs on each,
        continues without a restart (as in the simulator of Sia).
    input_seed
        Seed of the input pipelines of the jobs, where nodes have cores.
    batch_sizes
        Batch sizes of the jobs. Requested ones are those that a policy by goodput is told to
        predict with, too.
    oracle
        Remaining steps and step times that policies with an oracle are given: ``"true"``, or
        ``"estimated"`` from the measurements so far.
    noise
        Errors of what the agents observe.

    Raises
    ------
    ValueError
        If a node has a resource other than ``"cpu"`` or fewer cores than GPUs, a number is out of
        range, `interference` is 1 or more, `knowledge`, `batch_sizes` or `oracle` is unknown, or an
        outage lies between two decisions.

    Examples
    --------
    >>> from goodalloc.experiments import Setting
    >>> from goodalloc.models.round import Cluster
    >>> setting = Setting(Cluster.uniform(4, 8), interval=120, knowledge="history")
    >>> setting.cluster.num_gpus, setting.restart_delay
    (32, 30.0)
    """

    cluster: Cluster = TESTBED
    interval: int = 60
    restart_delay: float = 30.0
    interference: float = 0.0
    outages: tuple[Outage, ...] = ()
    knowledge: Knowledge = "explored"
    free_moves: bool = False
    input_seed: int = 0
    batch_sizes: BatchRule = "policy"
    oracle: OracleKind = "true"
    noise: MeasurementNoise = EXACTLY

    def __post_init__(self) -> None:
        for name in self.cluster.resource_names:
            if name != "cpu":
                raise ValueError(f"Setting: nodes have '{name}'; expected no resource but 'cpu'.")
        for group in self.cluster.groups:
            cores = dict(group.resources).get("cpu")
            if cores is not None and cores < group.gpus:
                raise ValueError(
                    f"Setting: node group '{group.name}' has {cores:g} cores for {group.gpus} "
                    "GPUs; expected at least one for each."
                )
        require_flag("Setting: free_moves", self.free_moves)
        require_count("Setting: input_seed", self.input_seed, minimum=0)
        require_count("Setting: interval", self.interval, minimum=1)
        require_number("Setting: restart_delay", self.restart_delay, minimum=0.0)
        require_number("Setting: interference", self.interference, minimum=0.0)
        if self.interference >= 1.0:
            raise ValueError(f"Setting: interference is {self.interference}; expected below 1.")
        for start, end, nodes in self.outages:
            require_count("Outage: start", start, minimum=0)
            require_count("Outage: end", end, minimum=start + 1)
            require_count("Outage: nodes", nodes, 1, self.cluster.num_nodes - 1)
            if -(-start // self.interval) * self.interval >= end:
                raise ValueError(
                    f"Outage: {start} to {end} s lies between two decisions; expected one that "
                    f"covers a multiple of the interval, {self.interval} s."
                )
        if not isinstance(self.noise, MeasurementNoise):
            raise ValueError(f"Setting: noise is {self.noise}; expected a MeasurementNoise.")
        for name, choices in (
            ("knowledge", Knowledge),
            ("batch_sizes", BatchRule),
            ("oracle", OracleKind),
        ):
            require_choice(f"Setting: {name}", getattr(self, name), get_args(choices))
