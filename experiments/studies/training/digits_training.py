"""Training with an agent: small networks learn scikit-learn's digits to a validation target.

The 1,797 digits are divided by a seed, a fifth of them for validation, and the same seed fixes the
initial weights and the order of the examples, so that runs that differ only in batch size and rules
begin alike. The validation loss is evaluated regularly, outside the timed steps, and training ends
when it reaches the target.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.adaptation.batch_rules import BATCH_RULES, AdaBatch, Cabs, FixedBatch
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.adaptation.batch_rules import BatchRule
    from goodalloc.models.goodput.throughput_model import ThroughputParameters

#: Digits over digits for validation.
VALIDATION = 5

#: Pixels of an example (8 x 8), their greatest value, and number of classes.
PIXELS, BRIGHTEST, CLASSES = 64, 16.0, 10

#: Hidden neurons of the perceptrons, and channels of the convolutions.
HIDDEN = {"perceptron": (64,), "wide perceptron": (512, 512)}
CHANNELS = 8

#: Steps between decisions of the batch rule, and seconds between fits: trainings are short.
DECISION_STEPS, PUBLISH_SECONDS = 20, 1.0


class DigitsJob(NamedTuple):
    """Network, optimiser and rules of a training.

    Attributes
    ----------
    network
        One of `HIDDEN`, or "convolutional".
    optimiser
        "sgd" or "adam".
    rate
        Learning rate tuned for M0.
    batch_rule
        One of `BATCH_RULES`, or "adabatch".
    learning_rate
        One of `LEARNING_RATE_RULES`.
    initial, maximum
        M0 and M_max.
    total
        M of the rule "fixed"; M0 if None.
    target
        Validation loss at which training ends.
    epochs
        Most epochs.
    evaluate
        Examples between two evaluations.
    growth_epochs
        Epochs between two growths of AdaBatch.
    cabs_constant
        Constant c of CABS.
    decay
        Theta of the moving averages of the gradient statistics.
    seed
        Seed of the division of the digits, the weights and the order of the examples.
    """

    network: str = "perceptron"
    optimiser: str = "sgd"
    rate: float = 0.1
    batch_rule: str = "fixed"
    learning_rate: str = "adascale"
    initial: int = 16
    maximum: int = 1024
    total: int | None = None
    target: float = 0.15
    epochs: int = 100
    evaluate: int = 128
    growth_epochs: int = 20
    cabs_constant: float = 1.0
    decay: float = 0.99
    seed: int = 0

    @property
    def rule(self) -> BatchRule:
        """Rule that sets the batch size."""
        if self.batch_rule == "fixed":
            return FixedBatch(self.total)
        if self.batch_rule == "adabatch":  # without decay, as the rate does not decay otherwise
            return AdaBatch(self.growth_epochs, decay=1.0)
        if self.batch_rule == "cabs":
            return Cabs(self.cabs_constant)
        return BATCH_RULES[self.batch_rule]


class Moment(NamedTuple):
    """State of a training at one of its evaluations.

    Attributes
    ----------
    steps, examples, scale_invariant_steps
        Totals until then.
    seconds, processor_seconds
        Training time until then, by the clock and of the training thread.
    total
        Batch size M of the last step.
    validation_loss
        Mean loss over the validation examples.
    square, variance
        Gradient statistics at M0.
    """

    steps: int
    examples: int
    scale_invariant_steps: float
    seconds: float
    processor_seconds: float
    total: int
    validation_loss: float
    square: float
    variance: float

    @property
    def gradient(self) -> GradientStatistics:
        """Gradient statistics."""
        return GradientStatistics(self.square, self.variance)


class Training(NamedTuple):
    """Outcome of a training.

    Attributes
    ----------
    history
        Its evaluations.
    times
        Medians of its pass times, as in `PassTimes.table`.
    """

    history: list[Moment]
    times: list[list[float]]


def train(
    job: DigitsJob,
    folder: Path,
    throughput: ThroughputParameters | None = None,
    report: Report = lambda _: None,
    most_seconds: float = math.inf,
) -> Training:
    """Train until the target is reached or the epochs are over.

    Parameters
    ----------
    job
        The trained job.
    folder
        Folder of the agent's files.
    throughput
        Parameters that the agent knows beforehand.
    report
        Called with the fraction of the epochs that is over.
    most_seconds
        Time limit.
    """
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.data import TensorDataset

    with one_thread(), torch.random.fork_rng(devices=[]):
        learnt, kept = digits(job.seed)
        torch.manual_seed(job.seed)
        agent = _agent(job, TensorDataset(*learnt), folder, throughput)
        found: list[Moment] = []
        due, begin = job.evaluate, _clocks()
        for inputs, classes in agent.batches(job.epochs):
            agent.learn(cross_entropy(agent.module(inputs), classes))
            if agent.examples < due:
                continue
            with agent.untimed(), torch.no_grad():
                now = _clocks()
                wall, processor = (now - begin).tolist()
                loss = float(cross_entropy(agent.module(kept[0]), kept[1]))
                square, variance = agent.gradient or (0.0, 0.0)
                found.append(
                    Moment(
                        steps=agent.steps,
                        examples=agent.examples,
                        scale_invariant_steps=agent.progress,
                        seconds=wall,
                        processor_seconds=processor,
                        total=agent.total,
                        validation_loss=loss,
                        square=float(square),
                        variance=float(variance),
                    )
                )
                due = agent.examples + job.evaluate
                report(min(agent.epoch / job.epochs, 1.0))
                begin += _clocks() - now  # the evaluation does not count
            if loss <= job.target or wall > most_seconds:
                break
        agent.report.close()
    return Training(found, agent.report.times.table())


def _agent(
    job: DigitsJob, learnt: Any, folder: Path, throughput: ThroughputParameters | None
) -> TrainingAgent:
    """Return the agent of a job with a new network."""
    import torch
    from torch.utils.data import DataLoader

    module = network(job.network)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    return TrainingAgent(
        module,
        kinds[job.optimiser](module.parameters(), lr=job.rate),
        DataLoader(learnt, job.initial),
        AgentOptions(
            "digits",
            folder,
            BatchLimits(job.initial, job.maximum, 1, job.maximum // 2, True),
            job.rule,
            job.learning_rate,
            seed=job.seed,
            checkpoint_steps=10**9,
            decision_steps=DECISION_STEPS,
            publish_seconds=PUBLISH_SECONDS,
            decay=job.decay,
            throughput=throughput,
        ),
    )


def _clocks() -> NDArray[np.float64]:
    """Return the seconds by the clock and of this thread, shape (2,)."""
    return np.array([time.perf_counter(), time.thread_time()])


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread within the block."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def require_training(what: str = "Training on digits") -> None:
    """Refuse to train without the libraries for it.

    Parameters
    ----------
    what
        Subject of the sentence that names the missing library.

    Raises
    ------
    ValueError
        If a library of the extras "measure" and "predict" is missing.
    """
    for extra in ("measure", "predict"):
        require_extra(extra, what)


def digits(seed: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return inputs and classes for training, and those for validation."""
    import torch
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    rows = np.random.default_rng(seed).permutation(len(data.target))
    inputs = torch.tensor(data.data[rows] / BRIGHTEST).float()
    classes = torch.tensor(data.target[rows])
    few = len(rows) // VALIDATION
    return (inputs[few:], classes[few:]), (inputs[:few], classes[:few])


def network(name: str) -> Any:
    """Return a new network by its name."""
    if name == "convolutional":
        return convolutional(CHANNELS, CHANNELS)
    return perceptron(HIDDEN[name])


def perceptron(hidden: Sequence[int]) -> Any:
    """Return a perceptron with these numbers of hidden neurons."""
    from torch import nn

    layers: list[Any] = []
    wide = PIXELS
    for neurons in hidden:
        layers += [nn.Linear(wide, neurons), nn.ReLU()]
        wide = neurons
    return nn.Sequential(*layers, nn.Linear(wide, CLASSES))


def convolutional(first: int, second: int) -> Any:
    """Return a network of two convolutions with these numbers of channels."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, first, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(PIXELS // 4 * second, CLASSES),
    )
