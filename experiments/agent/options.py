"""Options of a training agent: name and files of its job, rules and intervals."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.agent.cluster_folder import (
    CLUSTER_VARIABLE,
    JOB_VARIABLE,
    LAUNCHER_VARIABLE,
    TYPE_VARIABLE,
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
from goodalloc.models.round.mode import require_type
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

#: Exit code of a job that has a new allocation, on which it is to be resumed from its checkpoint;
#: EX_TEMPFAIL of sysexits.h, "try again later".
EXIT_REALLOCATED = 75

#: Largest growth of the batch size from one decision to the next before the statistics settle.
DOUBLE = 2

#: Relative rounding error of weights of averages.
ROUNDING = 1e-9

#: Stand-ins that complete the options to a model that can be validated.
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

#: Coordinates of a gradient that are read, few enough to cost little at any number of parameters.
MOST_COORDINATES = 2**15

#: Seconds between fits and reports of the agent of Pollux.
PUBLISH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Settings of a training agent; the defaults are those of Pollux where it has any.

    Parameters
    ----------
    name
        Name of the job, as in the files of the scheduler.
    folder
        Folder of the checkpoint and the published state; made if it does not exist.
    batch
        Limits of the batch size; None to keep the batch size of the loader.
    batch_rule
        Rule that sets the batch size, one of `models/adaptation/batch_rules.py`.
    learning_rate
        Name of the rule that scales the learning rate (`models/adaptation/learning_rate.py`).
    allocation
        File of the allocation by the scheduler; None if there is no scheduler.
    nodes
        Number of nodes N, unless an allocation states it.
    seed
        Seed of the order of the examples.
    decision_steps
        Steps between two decisions of the batch rule. They are counted in steps rather than in
        seconds, so that a rule that depends on statistics alone decides the same in every run.
    settling_steps
        Steps at M0 whose gradients must be in the statistics before the batch size may more than
        double from one decision to the next: the noise scale of few gradients is often infinite.
    checkpoint_steps
        Steps between two checkpoints.
    measure_steps
        Steps between two measurements of the gradient noise.
    most_coordinates
        Approximate number of coordinates of the gradient that are measured (`gradient_sample.py`);
        None for all, which is better if few of many matter, as in large embeddings.
    publish_seconds
        Seconds between two fits and published states; the first ones follow each other faster.
    look_seconds
        Seconds between two looks at the allocation.
    decay
        Decay theta of the moving averages of the gradient statistics.
    throughput
        Throughput parameters that `goodalloc fit` found for this job, on which the batch rule
        relies until the first fit; None without earlier measurements.
    launcher
        Process that starts the replicas, and restarts them: when it has ended, they write a
        checkpoint and end as for a new allocation. None without a launcher.
    gpu_type
        Type of the GPUs, each of which has a throughput model of its own; empty where types are
        not told apart.

    Raises
    ------
    ValueError
        If `name` is empty, `learning_rate` is unknown, a count or a number of seconds is out of
        range, `decay` is outside [0, 1), or `batch`, `throughput` or `batch_rule` is of another
        type or invalid.

    Examples
    --------
    >>> from goodalloc.experiments import AgentOptions
    >>> from goodalloc.models.goodput import BatchLimits
    >>> limits = BatchLimits(initial=128, maximum=4096, atomic_minimum=32, atomic_maximum=512)
    >>> options = AgentOptions("digits", "jobs/digits", limits, checkpoint_steps=200)
    >>> options.file("checkpoint.pt").as_posix()
    'jobs/digits/checkpoint.pt'
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
    gpu_type: str = ""

    def __post_init__(self) -> None:
        """Refuse invalid options."""
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
        require_type(item, self.gpu_type)
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
        """Return the options of a job that `goodalloc launch` started, from its environment.

        The launcher also sets the variables of torchrun, even for a single replica. A script may
        therefore always begin with ``torch.distributed.init_process_group("gloo")``, and it must
        in order to run on several replicas.

        Parameters
        ----------
        batch
            Limits of the batch size.
        options
            Further options, except name, folder, allocation, launcher and gpu_type.

        Raises
        ------
        ValueError
            If no launcher started this process, or an option is invalid.
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
            gpu_type=os.environ.get(TYPE_VARIABLE, ""),
            **options,
        )

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder of the job."""
        return Path(self.folder) / name
