r"""Seeded workloads of jobs with parameter servers, some of which cannot be predicted.

AITurbo (HPDC'21) submits TensorFlow jobs after the traces of three systems, none of which is
published. Ours are drawn: times between submissions exponentially; what is trained, and for how
long, as in `ps_rounds.py`; what the user asks for evenly among small sensible configurations.

Which jobs are unpredictable is the order of a number drawn for each: of a larger share are those of
a smaller one and further ones, and nothing else about any job changes (common random numbers). Of a
job that trains *N* steps a scheduler believes

.. math:: \hat N = N \exp(\sigma z), \quad z \sim \mathcal N(0, 1),                            (1)

with a small :math:`\sigma` where it is predictable and a large one where it is not. The
classifier's confidence in a predictable job is drawn from a Beta distribution and in another job
from that mirrored at 0.5, so that one accuracy holds for both kinds: 0.908, what a random forest
reaches on AITurbo's data set with what is known at submission (there unpredictable jobs, the fewer,
are recognised less often). It says so only once the job has trained a part of its steps:
predictable jobs are unpredictable at first.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from goodalloc.data.ps_rounds import draw_training
from goodalloc.models.ps_configuration import PsConfiguration
from goodalloc.models.ps_job import PsChoices
from goodalloc.models.ps_step_time import PsStepTime
from goodalloc.models.validation import require_count, require_flag, require_name, require_number

#: Up to 8 servers and 8 workers, up to 4 cores for each of them, workers with a GPU or without.
CHOICES = PsChoices(tuple(range(1, 9)), tuple(range(1, 9)), (1, 2, 3, 4), (1, 2, 3, 4), (0.0, 1.0))

#: Shape of the confidence in a predictable job: 90.8 % of it is above 0.5.
CONFIDENCE = (5.31, 2.0)


def _require_share(item: str, value: float) -> None:
    require_number(item, value, 0.0)
    if value > 1.0:
        raise ValueError(f"{item} is {value!r}; expected a number from 0 to 1.")


@dataclass(frozen=True)
class PsSubmission:
    """A job as it is submitted, and the truth about it.

    Parameters
    ----------
    name
        Unique within a workload.
    time
        Seconds from the start of the workload.
    model
        What it trains, for people.
    step_time, batch_size
        How long a step takes, and its examples.
    steps, believed_steps
        In all, and how many a scheduler believes.
    asked
        What its user asks for, one of the choices.
    choices
        What it may have.
    predictable
        Whether it is, in truth.
    confidence
        The classifier's in that it is.
    known_from
        Share of its steps after which the classifier can tell.

    Raises
    ------
    ValueError
        If a value makes no sense.
    """

    name: str
    time: float
    model: str
    step_time: PsStepTime
    batch_size: float
    steps: float
    believed_steps: float
    asked: PsConfiguration
    choices: PsChoices = CHOICES
    predictable: bool = True
    confidence: float = 1.0
    known_from: float = 0.0

    def __post_init__(self) -> None:
        require_name("Job", self.name)
        item = f"Job '{self.name}'"
        require_number(f"{item}: time", self.time, 0.0)
        for name in ("batch_size", "steps", "believed_steps"):
            require_number(f"{item}: {name}", getattr(self, name), 0.0, strict=True)
        require_flag(f"{item}: predictable", self.predictable)
        for name in ("confidence", "known_from"):
            _require_share(f"{item}: {name}", getattr(self, name))
        if self.choices.cell(self.asked) is None:
            raise ValueError(
                f"{item}: asked is {tuple(self.asked)}; expected one of what it may have."
            )


@dataclass(frozen=True)
class PsWorkloadOptions:
    """What is drawn.

    Parameters
    ----------
    jobs
        How many.
    mean_gap
        Mean seconds between submissions: 480 for 60 jobs in 8 h.
    hours
        Median hours of a job on one server and one GPU worker of one core each.
    most_workers, pod_cores
        Users ask for 1 worker with a GPU to so many, as many servers, and so many cores for each.
    unpredictable
        Share of the jobs.
    known_error, unknown_error
        Of (1), of predictable jobs and of others.
    known_from
        Share of its steps after which the classifier can tell.
    told
        Whether it is right of every job, and at once.

    Raises
    ------
    ValueError
        If a value makes no sense.
    """

    jobs: int = 60
    mean_gap: float = 480.0
    hours: float = 2.0
    most_workers: int = 4
    pod_cores: int = 2
    unpredictable: float = 0.5
    known_error: float = 0.1
    unknown_error: float = 1.0
    known_from: float = 0.1
    told: bool = False

    def __post_init__(self) -> None:
        require_flag("Workload: told", self.told)
        require_count("Workload: jobs", self.jobs, 1)
        require_count("Workload: most_workers", self.most_workers, 1, len(CHOICES.workers))
        require_count("Workload: pod_cores", self.pod_cores, 1, max(CHOICES.server_cores))
        for name in ("mean_gap", "hours"):
            require_number(f"Workload: {name}", getattr(self, name), 0.0, strict=True)
        for name in ("known_error", "unknown_error"):
            require_number(f"Workload: {name}", getattr(self, name), 0.0)
        for name in ("unpredictable", "known_from"):
            _require_share(f"Workload: {name}", getattr(self, name))


DEFAULTS = PsWorkloadOptions()


def ps_workload(seed: int, options: PsWorkloadOptions = DEFAULTS) -> tuple[PsSubmission, ...]:
    """Draw a workload, in order of submission.

    Parameters
    ----------
    seed
        Of everything that is drawn.
    options
        What is drawn. Fewer jobs are the first of more, but for which are unpredictable.

    Raises
    ------
    ValueError
        If the seed makes no sense.
    """
    require_count("Workload: seed", seed, 0)
    turns = [np.random.default_rng([seed, job, 1]).random() for job in range(options.jobs)]
    first = np.argsort(turns, kind="stable")[: round(options.unpredictable * options.jobs)]
    unpredictable = set(first.tolist())
    time = 0.0
    jobs = []
    for job in range(options.jobs):
        random = np.random.default_rng([seed, job, 0])
        time += options.mean_gap * random.standard_exponential()
        training = draw_training(random, options.hours)
        pods = int(random.integers(1, options.most_workers + 1))
        error, quantile = random.standard_normal(), random.random()
        known = job not in unpredictable
        sigma = options.known_error if known else options.unknown_error
        shape = CONFIDENCE if known else CONFIDENCE[::-1]
        confidence = float(known) if options.told else float(betaincinv(*shape, quantile))
        jobs.append(PsSubmission(
            f"job{job}", time, training.model, training.step_time, training.batch_size,
            training.steps, training.steps * float(np.exp(sigma * error)),
            PsConfiguration(pods, pods, options.pod_cores, options.pod_cores, 1), CHOICES,
            known, confidence, 0.0 if options.told else options.known_from,
        ))  # fmt: skip
    return tuple(jobs)


def check_ps_workload(workload: tuple[PsSubmission, ...]) -> None:
    """Refuse an empty workload, and names that are given twice.

    Raises
    ------
    ValueError
        With the name.
    """
    if not workload:
        raise ValueError("Workload: there are no jobs; expected at least one.")
    names: set[str] = set()
    for job in workload:
        if job.name in names:
            raise ValueError(f"Job '{job.name}' is submitted twice; expected unique names.")
        names.add(job.name)
