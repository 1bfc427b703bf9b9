"""Benchmark of our genetic algorithm beside the original one, of the artifact of Pollux.

Run as ``python -m goodalloc.experiments.benchmarks.original --artifact DIR --python INTERPRETER``.
No part of the artifact is included: DIR is a clone of github.com/petuum/adaptdl, branch
osdi21-artifact, and INTERPRETER a Python with its requirements, numpy<1.24 and pymoo==0.4.2. Both
algorithms decide the same generated rounds from the current placements, once per seed, at the
published budget. All decisions are checked and evaluated here, and gaps refer to a proved optimum.
`originals.csv` has a row per run; the printed p value is that of the hypothesis that the fitness of
both has the same distribution (two-sample Kolmogorov-Smirnov test).

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

import numpy as np

from goodalloc.data.rounds.drawn_jobs import State
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.benchmarks.measurements import (
    Table,
    best_allocation,
    ended_by_control_c,
)
from goodalloc.experiments.cli.arguments import Parser
from goodalloc.experiments.cli.types import names, whole
from goodalloc.experiments.reporting.plots import COLOURS, STYLES, save
from goodalloc.experiments.reporting.statistics import share_within
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, speedup_table
from goodalloc.models.round.rules import OSDI21
from goodalloc.models.round.starved_jobs import starvation_of
from goodalloc.solvers.genetic.solver import evolve
from goodalloc.solvers.interface.result import relative_gap

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.models.round.instance import Instance

#: Jobs, nodes of four GPUs, and the state of the generator.
ROUNDS = "40x16-cold,40x16-disturbed,160x16-cold,160x16-disturbed"

#: The algorithms.
WHO = ("original", "ours")

#: Colours of the algorithms: black and blue.
LINES = (COLOURS[6], COLOURS[0])


class Run(NamedTuple):
    """Row of `originals.csv`; seconds exclude compilation and start-up."""

    round: str
    who: str
    seed: int
    fitness: float
    gap: float
    more_starved: int
    served_over_best: float
    processor_seconds: float


class Artifact(NamedTuple):
    """Policy file of the artifact, and an interpreter that can run it."""

    policy: Path
    python: str

    @classmethod
    def find(cls, folder: Path, python: str) -> Artifact:
        """Return the artifact in a folder.

        Raises
        ------
        ValueError
            If the policy file or the interpreter does not exist.
        """
        policy = folder / "simulator" / "pollux.py"
        if not policy.is_file():
            raise ValueError(
                f"--artifact is '{folder}', which holds no simulator/pollux.py; expected a clone "
                "of github.com/petuum/adaptdl, branch osdi21-artifact."
            )
        found = shutil.which(python)
        if found is None:
            raise ValueError(f"--python is '{python}'; expected a Python that can be run.")
        # not resolved, as Python finds a virtual environment by its link
        return cls(policy.resolve(), str(Path(found).absolute()))


class Decisions(NamedTuple):
    """Replicas of shape (runs, jobs, nodes), and processor seconds of shape (runs,)."""

    replicas: NDArray[np.int64]
    processor_seconds: NDArray[np.float64]


def generated_round(name: str, seed: int) -> Instance:
    """Return the instance of a name such as ``40x16-cold``, under the rules of the artifact.

    Raises
    ------
    ValueError
        If `name` does not have the form jobs x nodes - state, or the state is unknown.
    """
    parts = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})-([a-z]+)", name)
    if parts is None or parts[3] not in get_args(State):
        raise ValueError(
            f"--rounds names '{name}'; expected jobs x nodes - state, such as 40x16-cold, "
            f"the state one of {', '.join(get_args(State))}."
        )
    state = cast("State", parts[3])
    return generate(seed, int(parts[1]), int(parts[2]), 4, state=state, rules=OSDI21)


def original_decisions(instance: Instance, artifact: Artifact, seeds: int) -> Decisions:
    """Return decisions of the artifact for seeds from 0, made by its interpreter.

    Raises
    ------
    ValueError
        If the process of the interpreter fails.
    """
    jobs = instance.jobs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # copied, as modules beside it would hide those of the standard library
        shutil.copy(Path(__file__).with_name("original_driver.py"), folder)
        np.savez(
            folder / "round.npz",
            speedups=speedup_table(instance),
            age=instance.age,
            restarts=instance.restarts,
            current=instance.current.matrix(),
            attained_service=np.array([job.attained_service for job in jobs], dtype=float),
            min_replicas=instance.min_replicas,
            max_replicas=instance.max_replicas,
            gpus=instance.cluster.node_gpus,
        )
        command = [
            artifact.python,
            "-E",
            "-W",
            "ignore",
            "original_driver.py",
            str(artifact.policy),
            "round.npz",
            str(seeds),
            "decisions.npz",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not (folder / "decisions.npz").is_file():
            complaint = done.stderr.strip().split("\n")[-1] or f"exit code {done.returncode}"
            raise ValueError(
                f"The artifact's code failed under '{artifact.python}' ({complaint}); "
                "expected a Python with numpy<1.24 and pymoo==0.4.2."
            )
        with np.load(folder / "decisions.npz", allow_pickle=False) as stored:
            return Decisions(stored["replicas"], stored["processor_seconds"])


def our_decisions(instance: Instance, seeds: int) -> Decisions:
    """Return decisions of our algorithm for seeds from 0."""
    evolve(instance, generations=1)  # compiles
    replicas, seconds = [], []
    for seed in range(seeds):
        begin = time.process_time()
        replicas.append(evolve(instance, seed=seed).population[0])
        seconds.append(time.process_time() - begin)
    return Decisions(np.stack(replicas), np.array(seconds))


def compare(name: str, instance: Instance, artifact: Artifact, seeds: int) -> Iterator[Run]:
    """Generate runs of both algorithms on a round; every decision is checked and evaluated.

    Raises
    ------
    ValueError
        If the artifact cannot be run or a decision breaks a rule.
    """
    sys.stderr.write(f"{name}: {seeds} runs of the original\n")
    both = (original_decisions(instance, artifact, seeds), our_decisions(instance, seeds))
    optimum, optimal = best_allocation(instance, seconds=60.0)
    best = starvation_of(instance, optimal)
    sys.stderr.write(f"{name}: optimum {optimum.fitness:.6g}, proven to {optimum.gap:.1e}\n")
    for who, decisions in zip(WHO, both, strict=True):
        runs = zip(decisions.replicas, decisions.processor_seconds.tolist(), strict=True)
        for seed, (replicas, seconds) in enumerate(runs):
            allocation = Allocation.from_matrix(replicas)
            broken = violations(instance, allocation)
            if broken:
                raise ValueError(f"{name}, {who}, seed {seed}: the decision is wrong. {broken[0]}")
            value = fitness(instance, allocation)
            parts = starvation_of(instance, allocation)
            yield Run(
                round=name,
                who=who,
                seed=seed,
                fitness=value,
                gap=relative_gap(value, optimum.bound),
                more_starved=parts.starved - best.starved,
                served_over_best=parts.served / best.served,
                processor_seconds=seconds,
            )


def summary(runs: Sequence[Run]) -> str:
    """Return, by round, quartiles of gaps, median seconds, and the p value of the test.

    Before the gaps are the median excess of starved jobs over the optimum, and the median ratio of
    the fitness of the served jobs to that of the optimum.
    """
    from scipy.stats import ks_2samp

    columns = "".join(
        f"{who + ': starved':>18} {'served':>6} {'gap':>8} (quartiles)         {'cpu s':>6}"
        for who in WHO
    )
    lines = [f"{'round':>18} {'runs':>4}{columns} {'KS p':>6}"]
    for name in dict.fromkeys(run.round for run in runs):
        groups = [[run for run in runs if run[:2] == (name, who)] for who in WHO]
        line = f"{name:>18} {len(groups[0]):>4}"
        for group in groups:
            low, median, high = np.quantile([run.gap for run in group], [0.25, 0.5, 0.75])
            seconds = np.median([run.processor_seconds for run in group])
            more = np.median([run.more_starved for run in group])
            ratio = np.median([run.served_over_best for run in group])
            line += f"{more:>+18g} {ratio:>6.3f} {median:>8.3%} "
            line += f"{f'({low:.3%} to {high:.3%})':<20} {seconds:>6.2f}"
        test = ks_2samp(*([run.fitness for run in group] for group in groups))
        lines.append(f"{line} {test.pvalue:>6.2f}")
    return "\n".join(lines) + "\n"


def plot_originals(runs: Sequence[Run]) -> Figure:
    """Draw the share of runs within a gap, both algorithms in one axes per round."""
    from matplotlib.figure import Figure

    rounds = list(dict.fromkeys(run.round for run in runs))
    columns = min(len(rounds), 2)
    rows = -(-len(rounds) // columns)
    figure = Figure(figsize=(4.2 * columns, 0.5 + 2.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for unused in grid[len(rounds) :]:
        unused.remove()
    for name, ax in zip(rounds, grid, strict=False):
        _draw_round([run for run in runs if run.round == name], ax)
        ax.set_title(name, fontsize="medium")
    for ax in grid[::columns]:
        ax.set_ylabel("share of runs within the gap")
    figure.legend(
        *grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def _draw_round(runs: Sequence[Run], ax: Axes) -> None:
    """Draw a step function for each algorithm, the original dashed above ours."""
    gaps = {who: [100 * run.gap for run in runs if run.who == who] for who in WHO}
    least, most = min(map(min, gaps.values())), max(map(max, gaps.values()))
    margin = 0.08 * (most - least) or 0.1 * most or 1.0
    left, right = max(least - margin, 0.0), most + margin
    for number, (who, values) in enumerate(gaps.items()):
        profile = share_within(values)
        ax.step(
            [left, *profile.value, right],
            [0.0, *profile.share, 1.0],
            where="post",
            label=f"{who}, {len(values)} runs",
            color=LINES[number],
            linestyle=STYLES[1 - number],
            linewidth=(1.3, 2.2)[number],
            zorder=4 - number,
        )
    ax.set_xlim(left, right)
    ax.set_ylim(0.0, 1.03)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("gap to the optimum (%)")
    ax.grid(color="#DDDDDD", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(prog="bench_original", description=__doc__)
    parser.add_argument("--artifact", type=Path, required=True, metavar="DIR", help="the clone")
    parser.add_argument("--python", required=True, metavar="INTERPRETER", help="what can run it")
    parser.add_argument("--rounds", type=names, default=ROUNDS, help="by commas")
    parser.add_argument("--instance-seed", type=whole(0), default=0)
    parser.add_argument("--seeds", type=whole(1), default=20, help="runs of either algorithm")
    parser.add_argument("--out", type=Path, default=Path("results/original"), help="folder")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line; write a table and a picture, print a summary."""
    try:
        given = _parser().parse_args(argv)
        artifact = Artifact.find(given.artifact, given.python)
        rounds = {name: generated_round(name, given.instance_seed) for name in given.rounds}
        given.out.mkdir(parents=True, exist_ok=True)
        table = Table[Run](given.out / "originals.csv", Run._fields)
        for name, instance in rounds.items():
            for run in compare(name, instance, artifact, given.seeds):
                table.add(run)
        sys.stdout.write(summary(table.rows))
        save(plot_originals(table.rows), given.out / "originals.png")
    except (ValueError, OSError) as error:
        sys.stderr.write(f"bench_original: error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
