"""Finds best known values and bounds of the library's rounds, with certificates.

    python -m goodalloc.experiments.library.best_known [--seconds 60] [--which open]

Rounds without a value are decided by the package's exact solver and its greedy heuristics. A value
is replaced only by a better one, a bound only by a lesser one that the value does not refute. The
table is written after every round, so that the command goes on where it was interrupted. With
``--adopt FOLDER`` nothing is solved: better values of a submission are taken over, each checked.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.files.instance import instance_to_dict
from goodalloc.data.library.catalogue import (
    CATALOGUE,
    catalogue_text,
    load_round,
    read_catalogue,
)
from goodalloc.data.library.library_round import CLOSED_GAP, category_of
from goodalloc.data.library.stored_files import write_compressed
from goodalloc.experiments.gap.comparison import attempt
from goodalloc.experiments.library.checks import checked_submission
from goodalloc.experiments.library.make_library import FOLDER
from goodalloc.experiments.library.submission import ANSWERS
from goodalloc.experiments.library.wrapped_solvers import exact_solver
from goodalloc.experiments.verification import verify
from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.certificates.certificate_file import certificate_to_dict
from goodalloc.solvers.certificates.solve import certified, certify
from goodalloc.solvers.interface.base import call_solver, find_solver
from goodalloc.solvers.interface.result import refutes
from goodalloc.solvers.interface.result_file import read_result, result_to_dict
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.data.library.library_round import LibraryRound
    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.models.round.instance import Instance
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
        The best result, whose bound is the best one that is proved.
    certificate
        Certificate of its bound; None if that rests on the word of the solver.
    seconds
        Seconds of its solver.
    greedy
        Fitness of the better greedy heuristic.
    """

    result: Result
    certificate: Certificate | None
    seconds: float
    greedy: float


def greedy_solvers(instance: Instance) -> tuple[str, ...]:
    """Return the greedy heuristics for a round."""
    if instance.shares_gpus:
        return ("best_fit", "fgd")
    return ("greedy", "local_search") if instance.plain else ("greedy",)


def decide(instance: Instance, seconds: float) -> Best:
    """Decide a round exactly and greedily.

    Parameters
    ----------
    instance
        The round.
    seconds
        Time limit of the exact solver.
    """
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
    return _certified(instance, best, exact, greedy)


def _certified(instance: Instance, best: Result, exact: Result, greedy: float) -> Best:
    """Return the best result with the better of its bound and that of prices."""
    proved = certified(instance, best, Stop(seconds=CERTIFICATE_SECONDS))
    certificate = proved.certificate
    weak = proved.bound > best.bound * (1.0 + CLOSED_GAP)
    if weak or not _verified(instance, proved):  # what the stand-alone checker refuses is no proof
        return Best(best, None, exact.solve_seconds, greedy)
    return Best(replace(best, bound=proved.bound), certificate, exact.solve_seconds, greedy)


def _verified(instance: Instance, result: Result) -> bool:
    """Return whether the stand-alone checker verifies the certificate of a result."""
    if result.certificate is None:
        return False
    documents = (
        instance_to_dict(instance),
        result_to_dict(result, instance),
        certificate_to_dict(result.certificate),
    )
    return bool(verify.verify(*(json.loads(json.dumps(one)) for one in documents)).verified)


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
        proof="certificate" if best.certificate is not None else "solver",
    )
    if line.known:
        found = _better(line, found)
    return replace(found, category=category_of(found, degenerate=line.category == "degenerate"))


def _better(old: LibraryRound, new: LibraryRound) -> LibraryRound:
    """Return the greater fitness with the lesser bound that it does not refute."""
    better = new if new.fitness > old.fitness else old
    standing = [one for one in (old, new) if not refutes(better.fitness, one.bound)]
    tightest = min(standing, key=lambda one: one.bound)
    return replace(better, bound=tightest.bound, proof=tightest.proof)


def write_best(folder: Path, instance: Instance, best: Best) -> None:
    """Write the best known allocation, and its certificate where that is small."""
    name = instance.name
    document = result_to_dict(replace(best.result, history=()), instance)
    write_compressed(folder / "answers" / f"{name}.json.gz", document)
    path = folder / "certificates" / f"{name}.json.gz"
    path.unlink(missing_ok=True)
    if best.certificate is not None:
        write_compressed(path, certificate_to_dict(best.certificate))
        if path.stat().st_size > MOST_CERTIFICATE_BYTES:
            path.unlink()


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
        instance, line = load_round(key), lines[key]
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
        instance = load_round(line.name)
        best = decide(instance, arguments.seconds)
        found = updated(line, best)
        if not line.known or found.fitness > line.fitness or found.bound < line.bound:
            write_best(arguments.folder, instance, best)
        lines[index] = found
        write_atomically(table, catalogue_text(lines))
        logger.info("%s: %s, gap %.2g, %.1f s", line.name, found.category, found.gap, best.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
