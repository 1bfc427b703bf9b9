"""Finds best known values and bounds of the library's rounds, with certificates.

    python -m goodalloc.experiments.library.best_known [--seconds 60] [--which open]

Rounds without a value are decided by the package's exact solver and its greedy heuristics. A value
is replaced only by a better one, a bound only by a lesser one that the value does not refute. The
table is written after every round, so that the command goes on where it was interrupted. With
``--adopt FOLDER`` nothing is solved: better values of a submission are taken over, each checked.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.library.catalogue import (
    CATALOGUE,
    catalogue_text,
    read_catalogue,
)
from goodalloc.data.library.library_round import CLOSED_GAP, category_of
from goodalloc.data.library.stored_files import write_compressed
from goodalloc.experiments.gap.comparison import attempt
from goodalloc.experiments.library.checks import checked_submission
from goodalloc.experiments.library.first_solvers import exact_solver
from goodalloc.experiments.library.loaded_round import LoadedRound
from goodalloc.experiments.library.make_library import FOLDER
from goodalloc.experiments.library.submission import ANSWERS
from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.certificates.solve import certify
from goodalloc.solvers.interface.base import call_solver, find_solver
from goodalloc.solvers.interface.result import refutes
from goodalloc.solvers.interface.result_file import read_result, result_to_dict
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.data.library.library_round import LibraryRound
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.interface.result import Result

logger = logging.getLogger(__name__)

#: Most bytes of a certificate that ships; a larger one is made anew by this module.
MOST_CERTIFICATE_BYTES = 12_000

#: Seconds of the search for a certificate.
CERTIFICATE_SECONDS = 20.0


class Best(NamedTuple):
    """What is found of a round.

    Attributes
    ----------
    result
        The best result, whose bound is the best one that is proved, and its certificate; None if it
        rests on the word of the solver.
    seconds
        Seconds of its solver.
    greedy
        Fitness of the better greedy heuristic.
    """

    result: Result
    seconds: float
    greedy: float


def greedy_solvers(instance: Instance) -> tuple[str, ...]:
    """Return the greedy heuristics for a round."""
    if instance.shares_gpus:
        return ("best_fit", "fgd")
    return ("greedy", "local_search") if instance.plain else ("greedy",)


def decide(round_: LoadedRound, seconds: float) -> Best:
    """Decide a round exactly and greedily.

    Parameters
    ----------
    round_
        The round.
    seconds
        Time limit of the exact solver.
    """
    if round_.tree is not None:
        return _decide_on_tree(round_, round_.tree, seconds)
    instance = round_.instance
    mode_utilities(instance)
    stop, name = Stop(seconds=seconds), exact_solver(instance)
    answers = [attempt(instance, greedy, stop=stop) for greedy in greedy_solvers(instance)]
    greedy = max((one.fitness for one in answers if one.allocation is not None), default=math.nan)
    begin = time.perf_counter()
    answer = call_solver(find_solver(name), instance, {"stop": stop, "seed": 0}, name=name)
    spent = time.perf_counter() - begin - answer.compile_seconds
    exact = certify(instance, answer, name, trusted=True, solve_seconds=spent)
    best = max([exact, *answers], key=lambda one: one.fitness if one.allocation else -1.0)
    best = replace(best, bound=exact.bound, evidence=exact.evidence, certificate=exact.certificate)
    return Best(_certified(round_, best), exact.solve_seconds, greedy)


def _decide_on_tree(round_: LoadedRound, tree: TopologyRound, seconds: float) -> Best:
    """Decide a round on a tree exactly, and by placements of the optimum without the tree."""
    from goodalloc.solvers.topology import ALGORITHMS, place_flat_optimum, solve_tree

    stop = Stop(seconds=seconds)
    exact = solve_tree(tree, stop=stop)
    placed = [
        result
        for result in (place_flat_optimum(tree, name, stop=stop) for name in ALGORITHMS)
        if result.allocation is not None
    ]
    greedy = max((one.fitness for one in placed), default=math.nan)
    best = max([exact, *placed], key=lambda one: one.fitness if one.allocation else -1.0)
    best = replace(best, bound=exact.bound, evidence=exact.evidence)
    return Best(_certified(round_, best), exact.solve_seconds, greedy)


def _certified(round_: LoadedRound, best: Result) -> Result:
    """Return a result with the better of its bound and that of prices."""
    proved = round_.certified(best, Stop(seconds=CERTIFICATE_SECONDS))
    weak = proved.bound > best.bound * (1.0 + CLOSED_GAP)
    if weak or not _verified(round_, proved):  # what the stand-alone checker refuses is no proof
        return replace(best, certificate=None)
    return replace(best, bound=proved.bound, certificate=proved.certificate)


def _verified(round_: LoadedRound, result: Result) -> bool:
    """Return whether the stand-alone checker verifies the certificate of a result."""
    certificate = round_.certificate_document(result)
    if certificate is None:
        return False
    answer = result_to_dict(result, round_.instance)
    return bool(round_.verified(answer, certificate).verified)


def updated(line: LibraryRound, best: Best) -> LibraryRound:
    """Return the line of a round with the better of the old and new values."""
    result = best.result
    found = replace(
        line,
        fitness=result.fitness,
        bound=result.bound,
        solver=result.solver,
        seconds=round(best.seconds, 3),
        greedy=best.greedy,
        proof="certificate" if result.certificate is not None else "solver",
    )
    if line.known:
        found = _better(line, found)
    return replace(found, category=category_of(found, degenerate=line.category == "degenerate"))


def _better(old: LibraryRound, new: LibraryRound) -> LibraryRound:
    """Return the greater fitness with the lesser bound that it does not refute."""
    better = new if new.fitness > old.fitness else old
    standing = [one for one in (old, new) if not refutes(better.fitness, one.bound)]
    tightest = min(standing, key=lambda one: one.bound)
    if new in standing and _proves(new.proof, new.bound, old):
        tightest = new
    return replace(better, bound=tightest.bound, proof=tightest.proof)


def _proves(proof: str, bound: float, line: LibraryRound) -> bool:
    """Return whether a certificate proves what was the word of a solver, but for rounding."""
    return proof == "certificate" != line.proof and bound <= line.bound * (1.0 + CLOSED_GAP)


def write_better(folder: Path, round_: LoadedRound, line: LibraryRound, best: Best) -> None:
    """Write the allocation and the certificate of a result, each where it is better than before.

    Certificates of more than `MOST_CERTIFICATE_BYTES` are not kept.

    Parameters
    ----------
    folder, round_
        Folder of the library, and the round.
    line
        What was known of the round.
    best
        What was found.
    """
    name, result = f"{round_.instance.name}.json.gz", best.result
    if not line.known or result.fitness > line.fitness:
        document = result_to_dict(replace(result, history=()), round_.instance)
        write_compressed(folder / "answers" / name, document)
    proves = result.certificate is not None and _proves("certificate", result.bound, line)
    worse = result.bound >= line.bound and not proves
    if line.known and (worse or refutes(line.fitness, result.bound)):
        return
    path, certificate = folder / "certificates" / name, round_.certificate_document(result)
    if certificate is not None:
        write_compressed(path, certificate)
    if certificate is None or path.stat().st_size > MOST_CERTIFICATE_BYTES:
        path.unlink(missing_ok=True)


def adopt(submission: Path, folder: Path) -> list[str]:
    """Take over the better values of a submission, and return the names of their rounds.

    Parameters
    ----------
    submission
        Folder of the submission, of which every run is checked.
    folder
        Folder of the library.
    """
    table = folder / CATALOGUE
    lines = {one.name: one for one in read_catalogue(table)}
    name, runs, _ = checked_submission(submission)
    better = [key for key, run in runs.items() if run.better and not run.refutes]
    for key in better:
        instance, line = LoadedRound.of(key).instance, lines[key]
        result = read_result(submission / ANSWERS / f"{key}.json", instance)
        found = replace(result, bound=line.bound, history=(), claimed_bound=math.inf)
        write_compressed(folder / "answers" / f"{key}.json.gz", result_to_dict(found, instance))
        seconds = round(runs[key].seconds, 3)
        line = replace(line, fitness=runs[key].fitness, solver=name, seconds=seconds)
        degenerate = line.category == "degenerate"
        lines[key] = replace(line, category=category_of(line, degenerate=degenerate))
    write_atomically(table, catalogue_text(lines.values()))
    return better


def main(argv: Sequence[str] | None = None) -> int:
    """Find what is not known yet, what is not proved yet, or all anew."""
    parser = argparse.ArgumentParser(description="Find best known values of the library's rounds.")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each round")
    parser.add_argument(
        "--which",
        choices=("unknown", "open", "all"),
        default="unknown",
        help="rounds without a value, those whose optimum is not proved, or all",
    )
    parser.add_argument("--rounds", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--adopt", type=Path, metavar="FOLDER", help="a submission, to take over")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if arguments.adopt is not None:
        logger.info("taken over: %s", " ".join(adopt(arguments.adopt, arguments.folder)) or "none")
        return 0
    table = arguments.folder / CATALOGUE
    lines = list(read_catalogue(table))
    for index, line in enumerate(lines):
        wanted = arguments.rounds is None or line.name in arguments.rounds
        left = {"unknown": not line.known, "open": not line.closed, "all": True}
        if not (wanted and left[arguments.which]):
            continue
        round_ = LoadedRound.of(line.name)
        best = decide(round_, arguments.seconds)
        found = updated(line, best)
        write_better(arguments.folder, round_, line, best)
        lines[index] = found
        write_atomically(table, catalogue_text(lines))
        logger.info("%s: %s, gap %.2g, %.1f s", line.name, found.category, found.gap, best.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
