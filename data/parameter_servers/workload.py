"""Seeded workloads of jobs with parameter servers, some of which cannot be predicted.

AITurbo (HPDC'21) submits TensorFlow jobs after the traces of three systems, none of which is
published. Ours are drawn: times between submissions exponentially; what is trained, and for how
long, as in `parameter_servers/rounds.py`; what the user asks for evenly among small sensible
configurations.

Which jobs are unpredictable is the order of a number drawn for each: of a larger share are those of
a smaller one and further ones, and nothing else about any job changes (common random numbers) but
its losses, and how sure the classifier is of it. The losses of a predictable job follow the law of
Optimus, those of another do not (`loss_runs.py`); what a scheduler believes of its steps it has to
find out from them (`models/losses/loss_forecast.py`). The classifier's confidence is a quantile of
those of AITurbo's records (`confidence.py`): it takes 95.5 % of the predictable jobs for what they
are, and 65 % of the others.

Other requests (`requests.py`), courses of real losses (`real_losses.py`) and another bandwidth may
take the place of these; all else about a job stays as it was. Over a slower network a job has fewer
steps, so that on the least configuration it takes as long as before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.confidence import confidence_at
from goodalloc.data.parameter_servers.rounds import LEAST, draw_training
from goodalloc.data.workloads.loss_runs import draw_losses
from goodalloc.models.losses.loss_forecast import LossRun
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.job import PsChoices
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.support.validation import (
    require_count,
    require_flag,
    require_name,
    require_number,
    require_share,
)

if TYPE_CHECKING:
    from goodalloc.data.parameter_servers.rounds import Training
    from goodalloc.data.workloads.loss_runs import Course
    from goodalloc.models.parameter_servers.step_time import PsStepTime

#: Up to 8 servers and 8 workers, up to 4 cores for each of them, workers with a GPU or without.
CHOICES = PsChoices(tuple(range(1, 9)), tuple(range(1, 9)), (1, 2, 3, 4), (1, 2, 3, 4), (0.0, 1.0))

#: Part of a real course after which the user of an unpredictable job ends it: from and to.
ENDED = (0.2, 0.8)


class PsRequest(NamedTuple):
    """What users ask for, and how often.

    Attributes
    ----------
    configuration
        One of `CHOICES`.
    weight
        How often, relative to the other requests.
    """

    configuration: PsConfiguration
    weight: float = 1.0


@dataclass(frozen=True)
class PsSubmission:
    """Submission of a job, and its true behaviour.

    Parameters
    ----------
    name
        Unique within a workload.
    time
        Seconds from the start of the workload.
    model
        Name of the trained model.
    step_time, batch_size
        Model of a step's time, and examples of a step.
    steps
        Total steps.
    asked
        Request of its user, one of the choices.
    choices
        Possible allocations.
    predictable
        Whether the job is in truth predictable.
    confidence
        Confidence of the classifier that it is predictable.
    losses
        Losses from which its steps can be predicted; None if a scheduler knows them.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    name: str
    time: float
    model: str
    step_time: PsStepTime
    batch_size: float
    steps: float
    asked: PsConfiguration
    choices: PsChoices = CHOICES
    predictable: bool = True
    confidence: float = 1.0
    losses: LossRun | None = None

    def __post_init__(self) -> None:
        require_name("Job", self.name)
        item = f"Job '{self.name}'"
        require_number(f"{item}: time", self.time, 0.0)
        for name in ("batch_size", "steps"):
            require_number(f"{item}: {name}", getattr(self, name), 0.0, strict=True)
        require_flag(f"{item}: predictable", self.predictable)
        require_share(f"{item}: confidence", self.confidence)
        if self.choices.cell(self.asked) is None:
            raise ValueError(
                f"{item}: asked is {tuple(self.asked)}; expected one of what it may have."
            )


@dataclass(frozen=True)
class PsWorkloadOptions:
    """Parameters of a drawn workload.

    Parameters
    ----------
    jobs
        Number of jobs.
    mean_gap
        Mean seconds between submissions: 480 for 60 jobs in 8 h.
    hours
        Median hours of a job on one server and one GPU worker of one core each.
    most_workers, pod_cores
        Requests are for 1 to `most_workers` workers with a GPU, as many servers, and `pod_cores`
        cores for each.
    unpredictable
        Fraction of unpredictable jobs.
    noise
        Standard deviation of the logarithm of a loss.
    told
        Whether schedulers know of every job from its submission whether it is predictable, and its
        number of steps.
    bandwidth
        Bandwidth between nodes over that at which step times were measured.
    requests
        Requests to draw from in place of those of `most_workers` and `pod_cores`; none for these.
    courses
        Courses of losses, one number an epoch, to draw from in place of drawn ones; none for these.
        An unpredictable job is ended by its user long before the last loss of its course.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    jobs: int = 60
    mean_gap: float = 480.0
    hours: float = 2.0
    most_workers: int = 4
    pod_cores: int = 2
    unpredictable: float = 0.5
    noise: float = 0.005
    told: bool = False
    bandwidth: float = 1.0
    requests: tuple[PsRequest, ...] = ()
    courses: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        require_flag("Workload: told", self.told)
        require_count("Workload: jobs", self.jobs, 1)
        require_count("Workload: most_workers", self.most_workers, 1, len(CHOICES.workers))
        require_count("Workload: pod_cores", self.pod_cores, 1, max(CHOICES.server_cores))
        for name in ("mean_gap", "hours", "bandwidth"):
            require_number(f"Workload: {name}", getattr(self, name), 0.0, strict=True)
        for request in self.requests:
            require_number("Workload: weight of a request", request.weight, 0.0, strict=True)
        if not all(self.courses):
            raise ValueError("Workload: a course has no losses; expected at least one.")
        require_number("Workload: noise", self.noise, 0.0)
        require_share("Workload: unpredictable", self.unpredictable)


DEFAULTS = PsWorkloadOptions()


def ps_workload(seed: int, options: PsWorkloadOptions = DEFAULTS) -> tuple[PsSubmission, ...]:
    """Draw a workload, in order of submission.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    options
        Parameters of the workload. Fewer jobs are the first of more, except for which of them are
        unpredictable.

    Raises
    ------
    ValueError
        If `seed` < 0.

    Examples
    --------
    >>> from goodalloc.data.parameter_servers import PsWorkloadOptions, ps_workload
    >>> [job.predictable for job in ps_workload(0, PsWorkloadOptions(jobs=4, unpredictable=0.5))]
    [False, True, True, False]
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
        quantile = random.random()
        known = job not in unpredictable
        confidence = float(known) if options.told else confidence_at(quantile, predictable=known)
        training = _over_network(training, options.bandwidth)
        jobs.append(
            PsSubmission(
                name=f"job{job}",
                time=time,
                model=training.model,
                step_time=training.step_time,
                batch_size=training.batch_size,
                steps=training.steps,
                asked=_asked(seed, job, pods, options),
                choices=CHOICES,
                predictable=known,
                confidence=confidence,
                losses=None if options.told else _losses(seed, job, training.steps, known, options),
            )
        )
    return tuple(jobs)


def _over_network(training: Training, bandwidth: float) -> Training:
    """Return the training over a network of another bandwidth, as long on `LEAST` as before."""
    if bandwidth == 1.0:
        return training
    before = training.step_time
    transfer = before.coefficients.transfer / bandwidth
    after = replace(before, coefficients=before.coefficients._replace(transfer=transfer))
    least = [seconds_per_step(one, LEAST, training.batch_size) for one in (before, after)]
    steps = max(float(np.ceil(training.steps * least[0] / least[1])), 1.0)
    return training._replace(step_time=after, steps=steps)


def _asked(seed: int, job: int, pods: int, options: PsWorkloadOptions) -> PsConfiguration:
    """Return the request of a job: so many pods of each kind, or drawn from the list."""
    if not options.requests:
        return PsConfiguration(pods, pods, options.pod_cores, options.pod_cores, 1)
    random = np.random.default_rng([seed, job, 3])
    until = np.cumsum([request.weight for request in options.requests])
    index = int(np.searchsorted(until, random.random() * until[-1], side="right"))
    return options.requests[min(index, len(until) - 1)].configuration


def _losses(seed: int, job: int, steps: float, known: bool, options: PsWorkloadOptions) -> LossRun:
    """Draw the losses of a job."""
    random = np.random.default_rng([seed, job, 2])
    if options.courses:
        course = options.courses[int(random.integers(len(options.courses)))]
        part = 1.0 if known else random.uniform(*ENDED)
        epochs = max(round(part * len(course)), 1)
        return LossRun(steps / epochs, course[:epochs], course[-1])
    other: Course = "stepwise" if random.random() < 0.5 else "stopped"
    return draw_losses(random, steps, "lawful" if known else other, noise=options.noise)


def check_ps_workload(workload: tuple[PsSubmission, ...]) -> None:
    """Refuse an empty workload, and names that are given twice.

    Raises
    ------
    ValueError
        With the name.

    Examples
    --------
    >>> from goodalloc.data.parameter_servers import PsWorkloadOptions, ps_workload
    >>> from goodalloc.data.parameter_servers import check_ps_workload
    >>> check_ps_workload(ps_workload(0, PsWorkloadOptions(jobs=4)))
    """
    if not workload:
        raise ValueError("Workload: there are no jobs; expected at least one.")
    names: set[str] = set()
    for job in workload:
        if job.name in names:
            raise ValueError(f"Job '{job.name}' is submitted twice; expected unique names.")
        names.add(job.name)
