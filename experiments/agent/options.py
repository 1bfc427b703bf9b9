"""What a training agent is told: who the job is, where its files are, rules and intervals."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.agent.cluster_folder import (
    CLUSTER_VARIABLE,
    JOB_VARIABLE,
    LAUNCHER_VARIABLE,
    allocation_file,
    job_folder,
)
from goodalloc.experiments.support.process_identity import ProcessIdentity
from goodalloc.models.adaptation.batch_rules import FixedBatch
from goodalloc.models.adaptation.gradient_noise import DECAY
from goodalloc.models.adaptation.learning_rate import LEARNING_RATE_RULES
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, validate
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.validation import (
    require_choice,
    require_count,
    require_name,
    require_number,
    require_share,
)

if TYPE_CHECKING:
    from typing import Self

    from goodalloc.models.adaptation.batch_rules import BatchRule

EXIT_REALLOCATED = 75
"""Exit code of a job that has another allocation now and is to be started again on it.

It is EX_TEMPFAIL of sysexits.h, "try again later"; everything is in the checkpoint.
"""


#: How many times its batch size a job may take next while its statistics have not settled.
DOUBLE = 2

#: Relative error that weights of averages may have.
ROUNDING = 1e-9

#: Complete what is given to a model that can be checked.
_PLAIN = (
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
)
_ANY = BatchLimits(1, 1, 1, 1)

#: Options that are counts.
_COUNTS = ("nodes", "decision_steps", "settling_steps", "checkpoint_steps", "measure_steps")

MOST_COORDINATES = 2**15
"""What a gradient is read of, so that it costs little however many parameters there are."""

PUBLISH_SECONDS = 30.0
"""Interval of Pollux's agent between fits and reports."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Settings of a training agent; the defaults are those of Pollux where it has any.

    Parameters
    ----------
    name
        Of the job, as in the scheduler's files.
    folder
        Where checkpoint and published state are; made if there is none.
    batch
        Limits of the batch size; None for the loader's batch size and no other.
    batch_rule
        What sets the batch size: one of `models/adaptation/batch_rules.py`.
    learning_rate
        What scales the learning rate: one of `models/adaptation/learning_rate.py`.
    allocation
        File in which the scheduler says what the job gets; None if nobody does.
    nodes
        N, as long as no allocation says it.
    seed
        Of the order of the examples.
    decision_steps
        Steps between two questions to the batch rule. Steps, not seconds: so a rule that asks only
        for statistics decides the same in every run.
    settling_steps
        Until the gradients of so many steps at M0 are in the statistics, the batch size at most
        doubles from one question to the next: the noise scale of a few is often infinite.
    checkpoint_steps
        Steps between two checkpoints.
    measure_steps
        Gradient noise is measured in every so-manieth step.
    most_coordinates
        Gradient noise is measured by about so many coordinates at most (`gradient_sample.py`);
        by all if None, which is better where few of very many matter, as in large embeddings.
    publish_seconds
        Between two fits and published states; at first they follow each other faster.
    look_seconds
        Between two looks at the allocation.
    decay
        Theta of the moving averages of the gradient statistics.
    throughput
        Throughput parameters as `goodalloc fit` found them for this job, by which the batch rule
        goes until the first fit; None if nothing was measured before.
    launcher
        The process that started the replicas and starts them again: when it is gone, they make a
        checkpoint and end as with another allocation. None if nobody does.

    Raises
    ------
    ValueError
        If a value makes no sense.
    """

    name: str
    folder: str | os.PathLike[str]
    batch: BatchLimits | None = None
    batch_rule: BatchRule = field(default_factory=FixedBatch)
    learning_rate: str = "adascale"
    allocation: str | os.PathLike[str] | None = None
    nodes: int = 1
    seed: int = 0
    decision_steps: int = 100
    settling_steps: int = 100
    checkpoint_steps: int = 1000
    measure_steps: int = 1
    most_coordinates: int | None = MOST_COORDINATES
    publish_seconds: float = PUBLISH_SECONDS
    look_seconds: float = 1.0
    decay: float = DECAY
    throughput: ThroughputParameters | None = None
    launcher: ProcessIdentity | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        require_name("Training agent", self.name)
        item = f"Training agent of '{self.name}'"
        require_choice(f"{item}: learning_rate", self.learning_rate, tuple(LEARNING_RATE_RULES))
        require_count(f"{item}: seed", self.seed, 0)
        for name in _COUNTS:
            require_count(f"{item}: {name}", getattr(self, name), 1)
        if self.most_coordinates is not None:
            require_count(f"{item}: most_coordinates", self.most_coordinates, 1)
        for name in ("publish_seconds", "look_seconds"):
            require_number(f"{item}: {name}", getattr(self, name), 0.0)
        require_share(f"{item}: decay", self.decay)
        if self.decay == 1.0:
            raise ValueError(f"{item}: decay is {self.decay!r}; expected 0 to below 1.")
        if self.batch is not None and not isinstance(self.batch, BatchLimits):
            raise ValueError(f"{item}: batch is {self.batch!r}; expected BatchLimits.")
        if self.throughput is not None and not isinstance(self.throughput, ThroughputParameters):
            raise ValueError(
                f"{item}: throughput is {self.throughput!r}; expected ThroughputParameters."
            )
        validate(GoodputModel(self.throughput or _PLAIN[0], _PLAIN[1], self.batch or _ANY), item)
        if not callable(getattr(self.batch_rule, "choose", None)):
            raise ValueError(
                f"{item}: batch_rule is {self.batch_rule!r}; expected one with `choose`."
            )

    @classmethod
    def of_launcher(cls, batch: BatchLimits | None = None, **options: Any) -> Self:
        """The options of a job that `goodalloc launch` starts, which says who and where it is.

        The launcher also sets torchrun's variables, for a single replica too, so a script may
        begin with ``torch.distributed.init_process_group("gloo")`` whatever it gets; it must where
        it is to run on several.

        Parameters
        ----------
        batch
            Limits of the batch size.
        options
            Further ones, but not name, folder, allocation and launcher.

        Raises
        ------
        ValueError
            If no launcher started this process, or a value makes no sense.
        """
        found = {}
        for name in (JOB_VARIABLE, CLUSTER_VARIABLE, LAUNCHER_VARIABLE):
            found[name] = os.environ.get(name, "")
            if not found[name]:
                raise ValueError(
                    f"Training agent: {name} is not set; expected a program that `goodalloc "
                    "launch` started."
                )
        job, cluster, launcher = found.values()
        return cls(
            job,
            job_folder(cluster, job),
            batch,
            allocation=allocation_file(cluster),
            launcher=ProcessIdentity.parse(launcher),
            **options,
        )

    def file(self, name: str) -> Path:
        """A file of the job's folder."""
        return Path(self.folder) / name
