"""Benchmark of the training agent; `python -m goodalloc.experiments.bench_agent`.

The same network is trained twice in one process on one core, by a plain loop of PyTorch and under
an agent, a step of one and a step of the other by turns, the first of which alternates. Each row of
the CSV is one network, optimiser, number of passes a step and interval of measurement: median
milliseconds of a plain step, and by how much a step under the agent is longer, as the median over
the pairs of steps of their difference, over the plain median: by the processor's seconds of the
thread that trains, which other work of the machine hardly disturbs, with an interval of 95 %, and
by the clock. The last columns are the load of the machine and the largest difference of a weight.

Batches are such that a step takes 20 ms or more. Below the table stand the seconds of a fit in the
agent's child process, for which training does not wait; the first one loads and compiles.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.agent_options import AgentOptions
from goodalloc.experiments.cli_types import whole
from goodalloc.experiments.extras import require_extra
from goodalloc.experiments.fit_process import FitProcess
from goodalloc.experiments.measurements import measurement_parser, write_measurements
from goodalloc.experiments.ps_networks import draw_examples, flat_network
from goodalloc.experiments.training_agent import TrainingAgent
from goodalloc.models.goodput import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

#: Network, optimiser, batch of a pass, passes a step, steps between measurements of the noise.
CASES = (
    ("convolutional", "sgd", 96, 1, 1), ("convolutional", "sgd", 96, 2, 1),
    ("convolutional", "adam", 96, 1, 1), ("convolutional", "adam", 96, 2, 1),
    ("perceptron", "sgd", 512, 1, 1), ("perceptron", "sgd", 512, 2, 1),
    ("perceptron", "sgd", 512, 1, 10), ("perceptron", "adam", 512, 1, 1),
    ("perceptron", "adam", 512, 2, 1), ("perceptron", "adam", 512, 1, 10),
)  # fmt: skip

#: Steps before any is timed.
WARM_UP = 10

RESAMPLES = 1000


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

    from goodalloc.experiments.example_order import batches_of, order_of

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
) -> Training:  # fmt: skip
    """The same under an agent."""
    from torch.nn.functional import cross_entropy

    module, made, loader = _parts(network, optimiser, batch)
    total = batch * passes
    options = AgentOptions(
        f"{network}-{optimiser}-{passes}-{measure_steps}",
        folder / f"{network}-{optimiser}-{passes}-{measure_steps}",
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
    network: str, optimiser: str, batch: int, passes: int, measure_steps: int, pairs: int,
    folder: Path,
) -> Measurement:  # fmt: skip
    """Train both ways by turns.

    Parameters
    ----------
    network, optimiser, batch, passes, measure_steps
        What, as in `CASES`.
    pairs
        Timed steps of each.
    folder
        For the agent's files.
    """
    both = (
        plain_training(network, optimiser, batch, passes),
        agent_training(network, optimiser, batch, passes, measure_steps, folder),
    )
    seconds = np.empty((pairs + WARM_UP, 2, 2))
    for pair in range(pairs + WARM_UP):
        for which in (0, 1) if pair % 2 else (1, 0):
            begin = time.thread_time(), time.perf_counter()
            next(both[which].steps)
            end = time.thread_time(), time.perf_counter()
            seconds[pair, which] = np.subtract(end, begin)
    seconds = seconds[WARM_UP:]
    plain = np.median(seconds[:, 0], axis=0)
    extra = seconds[:, 1] - seconds[:, 0]
    # a step that measures costs more than one that does not: the mean over the interval counts
    share = _typical(extra, measure_steps) / plain
    low, high = _interval(extra[:, 0], measure_steps) / plain[0]
    weights = zip(both[0].module.parameters(), both[1].module.parameters(), strict=True)
    return Measurement(
        network, optimiser, sum(one.numel() for one in both[0].module.parameters()), batch, passes,
        measure_steps, 1e3 * float(plain[0]), float(share[0]), float(low), float(high),
        float(share[1]), os.getloadavg()[0],
        max(float((one - other).detach().abs().max()) for one, other in weights),
    )  # fmt: skip


def _typical(extra: NDArray[np.float64], every: int) -> NDArray[np.float64]:
    """Median of sums of consecutive differences, a step's share of it; by column."""
    whole_rows = extra[: len(extra) // every * every]
    sums = whole_rows.reshape(-1, every, *extra.shape[1:]).mean(axis=1)
    found: NDArray[np.float64] = np.median(sums, axis=0)
    return found


def _interval(extra: NDArray[np.float64], every: int) -> NDArray[np.float64]:
    """Bootstrap interval of `_typical`, 95 %."""
    blocks = extra[: len(extra) // every * every].reshape(-1, every).mean(axis=1)
    draws = np.random.default_rng(0).choice(blocks, (RESAMPLES, len(blocks)))
    found: NDArray[np.float64] = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return found


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
    parser.add_argument("--pairs", type=whole(10), default=300, help="timed steps of each")
    given = parser.parse_args(argv)
    try:
        require_extra("measure", "The benchmark of the agent")
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(*case, given.pairs, Path(folder)) for case in CASES]
    write_measurements(Measurement._fields, rows, given.out)
    first, second = fit_seconds()
    sys.stdout.write(f"a fit in the child: first {first:.2f} s, then {second:.4f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
