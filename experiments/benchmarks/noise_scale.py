"""Benchmark of the noise scale of an agent beside brute force.

Run as `python -m goodalloc.experiments.benchmarks.noise_scale`.

A small network is trained on the digits of scikit-learn (extras `goodalloc[measure,predict]`) with
a learning rate of 0, so that there is one true noise scale. Each row of the CSV is one optimiser,
number of passes per step and number of coordinates, of 2,410, that the agent may read: the noise
scale of its moving averages, that of the covariance and the mean of the whole gradients of many
independent batches of M0 examples, and their ratio.

References
----------
McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv:1812.06162
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.agent.gradient_meter import adam_weight
from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.experiments.benchmarks.measurements import (
    ended_by_control_c,
    measurement_parser,
    write_measurements,
)
from goodalloc.experiments.cli.types import whole
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.goodput.statistical_efficiency import noise_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Initial batch size M0.
INITIAL = 32


class Case(NamedTuple):
    """Measured configuration.

    Attributes
    ----------
    optimiser
        ``"sgd"`` or ``"adam"``, which preconditions.
    passes
        Passes per step; with one, the agent compares consecutive gradients.
    most_coordinates
        Coordinates of a gradient that the agent reads; None for all.
    """

    optimiser: str
    passes: int
    most_coordinates: int | None


#: Measured configurations.
CASES = (
    Case("sgd", 1, None),
    Case("sgd", 2, None),
    Case("sgd", 4, None),
    Case("adam", 1, None),
    Case("adam", 2, None),
    Case("sgd", 1, 1200),
    Case("sgd", 2, 1200),
    Case("adam", 2, 1200),
)


class Measurement(NamedTuple):
    """Row of the table."""

    optimiser: str
    passes: int
    most_coordinates: int | None
    steps: int
    agent: float
    batches: int
    brute_force: float
    ratio: float


def measure(case: Case, *, epochs: int, batches: int, folder: Path) -> Measurement:
    """Measure both noise scales.

    Parameters
    ----------
    case
        The configuration.
    epochs
        Epochs of the agent.
    batches
        Batches of the brute force.
    folder
        Folder of the files of the agent.

    Raises
    ------
    ValueError
        If the agent has no gradient statistics after the epochs.
    """
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    digits: Any = load_digits()
    inputs, classes = torch.tensor(digits.data / 16.0).float(), torch.tensor(digits.target)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    optimiser, passes, most_coordinates = case
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    frozen = kinds[optimiser](module.parameters(), lr=0.0)
    limits = BatchLimits(INITIAL, INITIAL, 1, INITIAL // passes, passes > 1)
    options = AgentOptions(
        "digits",
        folder / f"{optimiser}-{passes}-{most_coordinates}",
        limits,
        most_coordinates=most_coordinates,
    )
    agent = TrainingAgent(
        module, frozen, DataLoader(TensorDataset(inputs, classes), INITIAL), options
    )
    for some, wanted in agent.batches(epochs):
        agent.learn(cross_entropy(agent.module(some), wanted))
    (group,) = frozen.param_groups
    weight = torch.cat(
        [adam_weight(frozen.state.get(one, {}), group, one).reshape(-1) for one in group["params"]]
    )
    generator, drawn = torch.Generator().manual_seed(5), []
    for _ in range(batches):
        rows = torch.randint(len(inputs), (INITIAL,), generator=generator)
        loss = cross_entropy(module(inputs[rows]), classes[rows])
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        drawn.append(weight * torch.cat([one.reshape(-1) for one in gradients]))
    gradients = torch.stack(drawn).double()
    trace = gradients.var(dim=0).sum().item()  # of the mean of M0 examples
    square = gradients.mean(dim=0).square().sum().item() - trace / batches
    statistics = agent.gradient
    if statistics is None:
        raise ValueError(f"Agent has no gradient statistics after {epochs} epochs; expected some.")
    found, brute = float(noise_scale(statistics, INITIAL)), INITIAL * trace / square
    return Measurement(
        optimiser=optimiser,
        passes=passes,
        most_coordinates=most_coordinates,
        steps=agent.steps,
        agent=found,
        batches=batches,
        brute_force=brute,
        ratio=found / brute,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = measurement_parser("bench_noise_scale", __doc__)
    parser.add_argument("--epochs", type=whole(1), default=100, help="of the agent")
    parser.add_argument("--batches", type=whole(2), default=5000, help="of the brute force")
    given = parser.parse_args(argv)
    try:
        for extra in ("measure", "predict"):
            require_extra(extra, "The benchmark of the noise scale")
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(case, epochs=given.epochs, batches=given.batches, folder=Path(folder))
            for case in CASES
        ]
    write_measurements(Measurement._fields, rows, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
