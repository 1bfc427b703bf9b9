"""Benchmark of the training agent; `python -m goodalloc.experiments.benchmarks.agent`.

The same network is trained twice in one process on one core, by a plain loop of PyTorch and under
an agent, in alternating steps, with alternating order. The addresses of their memory alone make two
plain loops differ by up to 2 %; both are therefore rebuilt in every round, in alternating order,
after an allocation of random size. The memory allocator is settled first, as in measurements of
trainings: it would return pages to the system in one loop or the other.

A row of the CSV has one network, optimiser, number of passes per step and interval of measurement:
the median milliseconds of a plain step, and the relative overhead of a step under the agent. The
overhead is the mean over the rounds of the median difference of pairs of steps, in processor
seconds of the training thread, which other work of the machine hardly disturbs, with a 95 %
interval (Student's, over the rounds), and in wall time. The last columns are the load of the
machine and the largest difference of a weight.

Batches are chosen so that a step takes 20 ms or more. Below the table are the seconds of a fit in
the child process of the agent, for which training does not wait; the first loads and compiles.
"""

from __future__ import annotations

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
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.studies.parameter_servers.networks import draw_examples, flat_network
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.torch_allocator import settle_allocator
from goodalloc.models.goodput.model import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


class Case(NamedTuple):
    """Measured configuration.

    Attributes
    ----------
    network, optimiser
        Their names.
    batch, passes
        Examples per pass, and passes per step.
    measure_steps
        Steps between measurements of the gradient noise.
    """

    network: str
    optimiser: str
    batch: int
    passes: int
    measure_steps: int


#: Measured configurations.
CASES = (
    Case("convolutional", "sgd", 96, 1, 1),
    Case("convolutional", "sgd", 96, 2, 1),
    Case("convolutional", "adam", 96, 1, 1),
    Case("convolutional", "adam", 96, 2, 1),
    Case("perceptron", "sgd", 512, 1, 1),
    Case("perceptron", "sgd", 512, 2, 1),
    Case("perceptron", "sgd", 512, 1, 10),
    Case("perceptron", "adam", 512, 1, 1),
    Case("perceptron", "adam", 512, 2, 1),
    Case("perceptron", "adam", 512, 1, 10),
)

#: First steps of a round, which are not timed: the preconditioner is refreshed more often in them.
WARM_UP = 50

#: Most bytes that are allocated between two rounds.
LARGEST_GAP = 2**22


class Measurement(NamedTuple):
    """Row of the table."""

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
    """Network under training, with an iterator that makes a step per iteration."""

    module: Any
    steps: Iterator[None]


def _parts(case: Case) -> tuple[Any, Any, Any]:
    """Return module, optimiser and loader, always with the same initial state."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    module = flat_network(case.network, 0).module
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    rate = {"sgd": 1e-2, "adam": 1e-4}[case.optimiser]
    made = kinds[case.optimiser](module.parameters(), lr=rate)
    data = TensorDataset(*draw_examples(case.network, 0))
    return module, made, DataLoader(data, case.batch, drop_last=True)


def plain_training(case: Case) -> Training:
    """Return a training by a plain loop, on the examples that the agent uses as well."""
    from torch.nn.functional import cross_entropy

    from goodalloc.experiments.agent.example_order import batches_of, order_of

    module, made, loader = _parts(case)

    def steps() -> Iterator[None]:
        batches = batches_of(loader, order_of(loader, 0).passes(0, case.batch, 1, 0), 0)
        while True:
            made.zero_grad()
            for _ in range(case.passes):
                inputs, classes = next(batches)
                loss = cross_entropy(module(inputs), classes)
                (loss / case.passes).backward()
            made.step()
            yield

    return Training(module, steps())


def agent_training(case: Case, folder: Path) -> Training:
    """Return the same training under an agent with files in `folder`."""
    from torch.nn.functional import cross_entropy

    module, made, loader = _parts(case)
    total = case.batch * case.passes
    options = AgentOptions(
        folder.name,
        folder,
        BatchLimits(total, total, case.batch, case.batch, True),
        measure_steps=case.measure_steps,
        checkpoint_steps=10**9,
    )
    agent = TrainingAgent(module, made, loader, options)

    def steps() -> Iterator[None]:
        for index, (inputs, classes) in enumerate(agent.batches(10**9), start=1):
            agent.learn(cross_entropy(agent.module(inputs), classes))
            if index % case.passes == 0:
                yield

    return Training(module, steps())


def measure(case: Case, *, pairs: int, rounds: int, folder: Path) -> Measurement:
    """Train with and without an agent in alternation.

    Parameters
    ----------
    case
        The configuration.
    pairs
        Timed steps of each training in a round.
    rounds
        Number of rounds, in each of which both are rebuilt.
    folder
        Folder of the files of the agents.
    """
    import torch

    plain, extra, apart, parameters = [], [], 0.0, 0
    sizes = np.random.default_rng(0).integers(1, LARGEST_GAP, rounds)
    for index, size in enumerate(sizes.tolist()):
        gap = torch.empty(size, dtype=torch.uint8)
        where = (
            folder / f"{case.network}-{case.optimiser}-{case.passes}-{case.measure_steps}-{index}"
        )
        made = {
            which: plain_training(case) if which == 0 else agent_training(case, where)
            for which in ((0, 1) if index % 2 else (1, 0))
        }
        seconds = _seconds(made, pairs)
        plain.append(np.median(seconds[:, 0], axis=0))
        extra.append(_typical(seconds[:, 1] - seconds[:, 0], case.measure_steps))
        weights = [list(made[which].module.parameters()) for which in (0, 1)]
        parameters = sum(one.numel() for one in weights[0])
        apart = max(
            apart,
            *(float((one - two).detach().abs().max()) for one, two in zip(*weights, strict=True)),
        )
        del gap
    typical = np.mean(plain, axis=0)
    share = np.array(extra) / typical
    mean, half = estimate_of(share[:, 0])
    low, high = mean - half, mean + half
    return Measurement(
        network=case.network,
        optimiser=case.optimiser,
        parameters=parameters,
        batch=case.batch,
        passes=case.passes,
        measure_steps=case.measure_steps,
        plain_ms=1e3 * float(typical[0]),
        overhead=float(share[:, 0].mean()),
        overhead_low=low,
        overhead_high=high,
        overhead_wall=float(share[:, 1].mean()),
        load=os.getloadavg()[0],
        weight_difference=apart,
    )


def _seconds(made: dict[int, Training], pairs: int) -> NDArray[np.float64]:
    """Return processor and wall seconds of pairs of steps, shape (pairs, training, clock)."""
    seconds = np.empty((pairs + WARM_UP, 2, 2))
    for pair in range(pairs + WARM_UP):
        for which in (0, 1) if pair % 2 else (1, 0):
            begin = time.thread_time(), time.perf_counter()
            next(made[which].steps)
            end = time.thread_time(), time.perf_counter()
            seconds[pair, which] = np.subtract(end, begin)
    return seconds[WARM_UP:]


def _typical(extra: NDArray[np.float64], every: int) -> NDArray[np.float64]:
    """Return, by column, the median of means of `every` consecutive differences.

    A step that measures costs more than one that does not, so that means over an interval count.
    """
    whole_rows = extra[: len(extra) // every * every]
    means = whole_rows.reshape(-1, every, *extra.shape[1:]).mean(axis=1)
    found: NDArray[np.float64] = np.median(means, axis=0)
    return found


def fit_seconds() -> tuple[float, float]:
    """Return the seconds of the first and the second fit of a new child process."""
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
    parser.add_argument("--rounds", type=whole(2), default=6, help="of both, rebuilt")
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
        rows = [
            measure(case, pairs=given.pairs, rounds=given.rounds, folder=Path(folder))
            for case in CASES
        ]
    write_measurements(Measurement._fields, rows, given.out)
    first, second = fit_seconds()
    sys.stdout.write(f"a fit in the child: first {first:.2f} s, then {second:.4f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
