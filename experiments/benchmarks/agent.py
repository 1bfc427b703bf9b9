"""Benchmark of the training agent; `python -m goodalloc.experiments.benchmarks.agent`.

The same network is trained twice in one process on one core, by a plain loop of PyTorch and under
an agent, a step of one and a step of the other by turns, the first of which alternates. Where their
memory happens to lie alone makes two plain loops differ by up to two hundredths; so both are built
anew in every round, one or the other first, behind a block of another size. Before, the memory
allocator is settled, as where trainings are measured: it would give pages back in one loop or the
other.

Each row of the CSV is one network, optimiser, number of passes a step and interval of measurement:
median milliseconds of a plain step, and by how much a step under the agent is longer, over that:
the mean over the rounds of the median over the pairs of steps of their difference, by the
processor's seconds of the thread that trains, which other work of the machine hardly disturbs, with
an interval of 95 % (Student's, of the rounds), and by the clock. The last columns are the load of
the machine and the largest difference of a weight.

Batches are such that a step takes 20 ms or more. Below the table stand the seconds of a fit in the
agent's child process, for which training does not wait; the first one loads and compiles.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.agent.fit_process import FitProcess
from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.experiments.benchmarks.measurements import (
    ended_by_control_c,
    measurement_parser,
    write_measurements,
)
from goodalloc.experiments.cli.types import whole
from goodalloc.experiments.measure.rank import settle_allocator
from goodalloc.experiments.studies.parameter_servers.networks import draw_examples, flat_network
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.goodput.model import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

#: Network, optimiser, batch of a pass, passes a step, steps between measurements of the noise.
CASES = (
    ("convolutional", "sgd", 96, 1, 1),
    ("convolutional", "sgd", 96, 2, 1),
    ("convolutional", "adam", 96, 1, 1),
    ("convolutional", "adam", 96, 2, 1),
    ("perceptron", "sgd", 512, 1, 1),
    ("perceptron", "sgd", 512, 2, 1),
    ("perceptron", "sgd", 512, 1, 10),
    ("perceptron", "adam", 512, 1, 1),
    ("perceptron", "adam", 512, 2, 1),
    ("perceptron", "adam", 512, 1, 10),
)

#: Steps of a round before any is timed: in these, Adam's preconditioner is taken anew more often.
WARM_UP = 50

#: Bytes between the memory of one round and that of the next one, at most.
LARGEST_GAP = 2**22


class Measurement(NamedTuple):
    """One row of the table."""

    network: str
    optimiser: str
    parameters: int
    batch: int
    passes: int
    measure_steps: int
    plain_ms: float
    overhead: float
    overhead_low: float
    overhead_high: float
    overhead_wall: float
    load: float
    weight_difference: float


class Training(NamedTuple):
    """A network under training: every turn of the iterator is a step."""

    module: Any
    steps: Iterator[None]


def _parts(network: str, optimiser: str, batch: int) -> tuple[Any, Any, Any]:
    """Module, optimiser and loader, the same every time."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    module = flat_network(network, 0).module
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    rate = {"sgd": 1e-2, "adam": 1e-4}[optimiser]
    made = kinds[optimiser](module.parameters(), lr=rate)
    data = TensorDataset(*draw_examples(network, 0))
    return module, made, DataLoader(data, batch, drop_last=True)


def plain_training(network: str, optimiser: str, batch: int, passes: int) -> Training:
    """Training as people write it, on the examples that the agent sees too."""
    from torch.nn.functional import cross_entropy

    from goodalloc.experiments.agent.example_order import batches_of, order_of

    module, made, loader = _parts(network, optimiser, batch)

    def steps() -> Iterator[None]:
        batches = batches_of(loader, order_of(loader, 0).passes(0, batch, 1, 0), 0)
        while True:
            made.zero_grad()
            for _ in range(passes):
                inputs, classes = next(batches)
                loss = cross_entropy(module(inputs), classes)
                (loss / passes).backward()
            made.step()
            yield

    return Training(module, steps())


def agent_training(
    network: str, optimiser: str, batch: int, passes: int, measure_steps: int, folder: Path
) -> Training:
    """The same under an agent."""
    from torch.nn.functional import cross_entropy

    module, made, loader = _parts(network, optimiser, batch)
    total = batch * passes
    options = AgentOptions(
        folder.name,
        folder,
        BatchLimits(total, total, batch, batch, True),
        measure_steps=measure_steps,
        checkpoint_steps=10**9,
    )
    agent = TrainingAgent(module, made, loader, options)

    def steps() -> Iterator[None]:
        for index, (inputs, classes) in enumerate(agent.batches(10**9), start=1):
            agent.learn(cross_entropy(agent.module(inputs), classes))
            if index % passes == 0:
                yield

    return Training(module, steps())


def measure(
    network: str,
    optimiser: str,
    batch: int,
    passes: int,
    measure_steps: int,
    pairs: int,
    rounds: int,
    folder: Path,
) -> Measurement:
    """Train both ways by turns.

    Parameters
    ----------
    network, optimiser, batch, passes, measure_steps
        What, as in `CASES`.
    pairs
        Timed steps of each in a round.
    rounds
        How often both are built anew.
    folder
        For the agent's files.
    """
    import torch

    plain, extra, apart, parameters = [], [], 0.0, 0
    sizes = np.random.default_rng(0).integers(1, LARGEST_GAP, rounds)
    for index, size in enumerate(sizes.tolist()):
        gap = torch.empty(size, dtype=torch.uint8)
        where = folder / f"{network}-{optimiser}-{passes}-{measure_steps}-{index}"
        made = {
            which: plain_training(network, optimiser, batch, passes)
            if which == 0
            else agent_training(network, optimiser, batch, passes, measure_steps, where)
            for which in ((0, 1) if index % 2 else (1, 0))
        }
        seconds = _seconds(made, pairs)
        plain.append(np.median(seconds[:, 0], axis=0))
        extra.append(_typical(seconds[:, 1] - seconds[:, 0], measure_steps))
        weights = [list(made[which].module.parameters()) for which in (0, 1)]
        parameters = sum(one.numel() for one in weights[0])
        apart = max(
            apart,
            *(float((one - two).detach().abs().max()) for one, two in zip(*weights, strict=True)),
        )
        del gap
    typical = np.mean(plain, axis=0)
    share = np.array(extra) / typical
    low, high = _interval(share[:, 0])
    return Measurement(
        network=network,
        optimiser=optimiser,
        parameters=parameters,
        batch=batch,
        passes=passes,
        measure_steps=measure_steps,
        plain_ms=1e3 * float(typical[0]),
        overhead=float(share[:, 0].mean()),
        overhead_low=low,
        overhead_high=high,
        overhead_wall=float(share[:, 1].mean()),
        load=os.getloadavg()[0],
        weight_difference=apart,
    )


def _seconds(made: dict[int, Training], pairs: int) -> NDArray[np.float64]:
    """Of pairs of steps, shape (pairs, 2, 2): of which one, by the processor and by the clock."""
    seconds = np.empty((pairs + WARM_UP, 2, 2))
    for pair in range(pairs + WARM_UP):
        for which in (0, 1) if pair % 2 else (1, 0):
            begin = time.thread_time(), time.perf_counter()
            next(made[which].steps)
            end = time.thread_time(), time.perf_counter()
            seconds[pair, which] = np.subtract(end, begin)
    return seconds[WARM_UP:]


def _typical(extra: NDArray[np.float64], every: int) -> NDArray[np.float64]:
    """Median of means of so many consecutive differences; by column.

    A step that measures costs more than one that does not: the mean over the interval counts.
    """
    whole_rows = extra[: len(extra) // every * every]
    means = whole_rows.reshape(-1, every, *extra.shape[1:]).mean(axis=1)
    found: NDArray[np.float64] = np.median(means, axis=0)
    return found


def _interval(shares: NDArray[np.float64]) -> tuple[float, float]:
    """Of the mean of independent shares, 95 %."""
    from scipy.stats import t as student

    error = float(shares.std(ddof=1)) / math.sqrt(len(shares))
    reach = float(student.ppf(0.975, len(shares) - 1)) * error
    return float(shares.mean()) - reach, float(shares.mean()) + reach


def fit_seconds() -> tuple[float, float]:
    """Seconds until the first fit and the second one are there, asked of a new child."""
    table = [[1.0, 1.0, m, 0.01 + 0.001 * m, 0.01 + 0.001 * m] for m in (8.0, 16.0, 32.0, 64.0)]
    fits, found = FitProcess(), []
    try:
        for _ in range(2):
            begin = time.perf_counter()
            fits.submit(table)
            while fits.busy and fits.collect() is None:
                time.sleep(1e-3)
            found.append(time.perf_counter() - begin)
    finally:
        fits.close()
    return found[0], found[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = measurement_parser("bench_agent", __doc__)
    parser.add_argument("--pairs", type=whole(10), default=50, help="timed steps in a round")
    parser.add_argument("--rounds", type=whole(2), default=6, help="of both, built anew")
    given = parser.parse_args(argv)
    try:
        require_extra("measure", "The benchmark of the agent")
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    import torch

    torch.set_num_threads(1)
    settle_allocator()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(*case, given.pairs, given.rounds, Path(folder)) for case in CASES]
    write_measurements(Measurement._fields, rows, given.out)
    first, second = fit_seconds()
    sys.stdout.write(f"a fit in the child: first {first:.2f} s, then {second:.4f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
