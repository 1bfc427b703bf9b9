"""Check a bound on all replays of an offline problem, with this file, its neighbour, and NumPy.

    python verify_replays.py PROBLEM JOBS CERTIFICATE

PROBLEM and CERTIFICATE are as in `data/FORMAT.md`, JOBS is the `jobs.csv` of a replay; exit code 0:
verified, 1: refused, 2: bad input. In a replay jobs keep their whole number of GPUs through rounds
of s seconds, and hold other GPUs than in the round before for d seconds without training. At prices
lambda a job with progress p, on option k (a type and a number n of GPUs, price c = lambda n) in the
round before that of t, costs from t on at least V_k(t, p), with A_k(p, x) its progress after x
seconds of training:

    D(t, p) = min { D(t + s, p), min_k [ c s + V_k(t + s, A_k(p, s - d)) ] },                 (1)
    V_k(t, p) = min { c s + V_k(t + s, A_k(p, s)), D(t, p) },                                 (2)

where one that ends x seconds after t costs w (t + x) + c x, and behind the last round all cost w t.
So sum_j max { D_j - w_j r_j, own bound by multipliers } - sum lambda G bounds all replays, where
in the first round of a job, that of d seconds before its begin, it trains from its begin on. The
bound by multipliers is that of `verify_hindsight.py`, which must lie beside this file.

V is kept at nodes of progress, that cut every phase into equal `parts`, and is never above a line
between two nodes: V_k(A_k(p)) has corners where A_k(p) is a node; at each node it is lowered until
the line to the next one is below all corners between them.

Rounding: every round adds to what is subtracted in the end 64 units of the greatest cost that can
occur, and what a wrong share of a part can change, which is that error times the greatest
difference between neighbouring nodes, of which a part may lead to as many as its time is longer.
The seconds to the end of a job, a difference of sums, are wrong once.
"""

import argparse
import csv
import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
hindsight: Any = importlib.import_module(f"{PACKAGE}verify_hindsight")
document, listed, named, number, array, free, read = (  # both files are one program
    getattr(hindsight, f"_{name}")
    for name in ("document", "listed", "named", "number", "array", "free", "read")
)
supplied, lines_of = (getattr(hindsight, f"_{name}") for name in ("supplied", "Lines"))

UNIT, SLOWEST, NEAR, TOLERANCE, MOST, WORK = 2.0**-53, 1e-6, 1e-9, 1e-9, 1e5, 3e9
CELLS = 16_000  # pairs of an option and a node whose costs are worked out together, in a cache
FORMAT = "goodalloc-replay-bound"
BAD_INPUT = (OSError, ValueError, TypeError, KeyError, AttributeError, csv.Error, RecursionError)
KEYS = "digest bound seconds restart parts edges prices multipliers"


def verify(problem: Any, jobs: list[dict[str, str]] | None, certificate: Any) -> Any:
    """Check a certificate, given the two documents and the rows of the jobs of a replay, if any.

    Raises
    ------
    ValueError
        If a document is malformed.
    """
    case, claim = document(problem, "offline-problem"), _claim(certificate)
    claimed, value, proved, broken = claim["bound"], math.nan, math.nan, ""
    if type(claimed) is not float or not math.isfinite(claimed):
        raise ValueError("bound: expected a finite number.")
    if claim["digest"] != hindsight.digest(problem):
        broken = "the certificate is of another problem"
    else:
        with np.errstate(all="raise", under="ignore"):
            try:
                proved = _proved(case, claim)
            except ArithmeticError:
                broken = "a number is too large"
        if jobs is not None:
            value = _value(case, jobs)
    if not broken and not claimed <= proved:  # also if nothing is proved
        broken = "the prices prove a smaller bound"
    if not broken and value < claimed:
        broken = "the replay is below the bound: it does not live by these rounds"
    gap = 1 - claimed / value if value > 0 else math.nan
    lost = ", ".join(f"{seconds:g} s of '{name}'" for name, seconds in claim["restart"].items())
    rounds = f"the bound is proved for rounds of {claim['seconds']:g} s with restarts of {lost}"
    message = broken or rounds
    return hindsight.Verdict(not broken, value, proved, claimed, gap, message)


def _claim(certificate: Any) -> Any:
    """Return a certificate with all its numbers as floats."""
    head = {"format": FORMAT, "version": 1.0}
    even = json.loads(json.dumps(certificate), parse_int=float)
    if not isinstance(even, dict) or {*even} != {*head, *KEYS.split()} or even | head != even:
        raise ValueError(f"a {FORMAT}, version 1: expected this and the keys {KEYS}.")
    return even


def _value(case: Any, rows: list[dict[str, str]]) -> float:
    """Return the objective of a replay by the rows of its jobs."""
    jobs, values = named(case, "jobs"), []
    if sorted(row["job"] for row in rows) != sorted(jobs):
        raise ValueError("jobs: expected those of the problem, each once.")
    for row in rows:
        job, submission = jobs[row["job"]], float(row["submission"])
        seconds = float(row["completion"]) - submission
        if not abs(submission - job["release"]) <= TOLERANCE * (1 + submission):
            raise ValueError(f"jobs: '{row['job']}' is submitted at another time than released.")
        if not 0 <= seconds < math.inf:
            raise ValueError(f"jobs: '{row['job']}' completes at no time after its submission.")
        values.append(job["weight"] * seconds)
    return math.fsum(values)


def _proved(case: Any, claim: Any) -> float:
    """Return the bound, rounded downwards."""
    seconds, types = claim["seconds"], len(listed(case, "types"))
    if type(seconds) is not float or not 1 <= seconds < math.inf or seconds != int(seconds):
        raise ValueError("seconds: expected a whole number, at least 1.")
    times = array("times", case["times"], (-1,))
    there = array("gpus", case["gpus"], (times.size, types))
    edges = array("edges", claim["edges"], (-1,))
    for name, own in (("times", times), ("edges", edges)):
        if own.size < 1 + (name == "edges") or own[0] or not (np.diff(own) > 0).all():
            raise ValueError(f"{name}: expected to ascend from 0.")
    if edges[-1] > MOST * seconds:
        raise ValueError(f"edges: expected {MOST:g} rounds at most.")
    prices = free("prices", claim["prices"], (edges.size - 1, types))
    kinds: dict[tuple[str, float], list[str]] = {}
    jobs = named(case, "jobs")
    for name, job in jobs.items():
        kinds.setdefault((job["training"], number(job, "weight")), []).append(name)
    trainings, found = named(case, "trainings"), []
    for (training, weight), names in kinds.items():
        one = trainings[training]
        work = array("work", one["work"], (-1,))
        gpus = array("gpus", one["gpus"], (-1,))
        rates = array("rates", one["rates"], (types, work.size, gpus.size))
        own = claim["multipliers"].get(training, [])
        rows = free("multipliers", own, (-1, work.size)) if own else []
        rows = np.concatenate([np.zeros((1, work.size)), np.reshape(rows, (-1, work.size))])
        lines = lines_of(work, gpus, rates, rows, edges, prices)
        lost = min(number(claim["restart"], training), seconds)
        parts = array("parts", claim["parts"][training], (work.size,))
        if not ((parts >= 1) & (parts == np.floor(parts))).all() or parts.sum() > MOST:
            raise ValueError(f"parts: expected whole numbers from 1, {MOST:g} in all at most.")
        programme = _Programme(work, gpus, rates, parts.astype(int), seconds, lost)
        released = [number(jobs[name], "release") for name in names]
        begins = [number(jobs[name], "begin") for name in names]
        by_rounds = programme.least(_round_prices(edges, prices, seconds), begins, weight)
        for release, begin, least in zip(released, begins, by_rounds, strict=True):
            less = least - weight * release - 8 * UNIT * (abs(least) + weight * release)
            both = less, lines.least(release, begin, weight)
            if not all(map(math.isfinite, both)):
                raise OverflowError
            found.append(max(both))
    terms = supplied(times, there, edges) * prices
    worth = math.fsum(terms.ravel()) * (1 + (times.size + 8) * UNIT)
    total = math.fsum(found)
    return float(total - worth - 4 * UNIT * (abs(total) + worth))


def _round_prices(edges: Any, prices: Any, seconds: float) -> Any:
    """Return the least price of every type in each round; there is none behind the last edge."""
    starts = seconds * np.arange(math.ceil(edges[-1] / seconds))
    first = np.searchsorted(edges, starts, side="right") - 1
    stop = np.minimum(np.searchsorted(edges, starts + seconds), len(prices))
    least = np.array([prices[i:j].min(axis=0) for i, j in zip(first, stop, strict=True)])
    least[starts + seconds > edges[-1]] = 0.0
    return least


class _Step(NamedTuple):
    """What a round does on some options: indices are flat over options and nodes.

    Attributes
    ----------
    wrong, late
        Greatest error of a share of a part, and of the seconds to the end.
    at, before, behind
        Part to which each node leads, and the weights of the nodes at its ends.
    ends, ending, trained
        Nodes from which a job ends, their options, and its seconds until then.
    corner, apart
        Node to which the first corner behind each node leads, or one behind all if there is none,
        and how far the next node is behind it, in parts.
    further, leads, option, parts
        Nodes of further corners, to which nodes these lead, on which options, and how far the next
        node is behind each.
    """

    wrong: float
    late: float
    at: Any
    before: Any
    behind: Any
    ends: Any
    ending: Any
    trained: Any
    corner: Any
    apart: Any
    further: Any
    leads: Any
    option: Any
    parts: Any


class _Programme:
    """Costs (1) and (2) of the jobs of a training, for any prices."""

    def __init__(
        self, work: Any, gpus: Any, rates: Any, parts: Any, seconds: float, lost: float
    ) -> None:
        rates = np.maximum(rates, SLOWEST * rates.max(axis=(0, 2))[None, :, None])
        if not (rates > 0).all() or not (work > 0).all() or not (gpus > 0).all():
            raise ValueError("training: expected work, GPUs and in every phase a rate above 0.")
        kinds, columns = (row.ravel() for row in np.indices(rates[:, 0].shape))
        own = rates[kinds, :, columns]
        keep = [
            not any(
                kinds[i] == kinds[j]
                and gpus[columns[i]] < gpus[columns[j]]
                and (own[i] >= own[j]).all()
                for i in range(len(own))
            )
            for j in range(len(own))
        ]  # a job on option j may as well be on i, at a lower price
        self.kinds, self.gpus, self.seconds = kinds[keep], gpus[columns[keep]], seconds
        cut = np.repeat((work / parts), parts)
        if not (cut > 0).all():
            raise ValueError("parts: expected fewer of so little work.")
        lengths = cut / own[keep][:, np.repeat(np.arange(work.size), parts)]
        self.lengths, self.lost = lengths, lost
        together = max(CELLS // lengths.shape[1], 1)
        self.blocks = [slice(row, row + together) for row in range(0, len(lengths), together)]

    def least(self, prices: Any, begins: list[float], weight: float) -> list[float]:
        """Return the least cost of jobs from their first rounds on, rounded downwards."""
        if self.lengths.size * len(prices) > WORK:
            raise ValueError(f"parts: expected {WORK:g} nodes, options and rounds at most.")
        kept, changed = self._steps(0.0), self._steps(self.lost)
        rounds = np.maximum(np.floor((np.array(begins) - self.lost) / self.seconds), 0).astype(int)
        waits = np.clip(np.array(begins) - self.seconds * rounds, self.lost, self.seconds)
        begun = {wait: self._steps(wait) for wait in np.unique(waits).tolist()}
        first = [step for steps in begun.values() for step in steps]
        wrong = sum(max(step.wrong for step in steps) for steps in (kept, changed, first))
        nodes, end = self.lengths.shape[1] + 1, weight * self.seconds * len(prices)
        on, off = np.full((len(self.lengths), nodes), end), np.full(nodes, end)
        second = weight + float((prices[:, self.kinds] * self.gpus).max())
        most, late = end + second * self.seconds, max(step.late for step in kept)
        found, lost, drop = np.full(len(rounds), end), 2 * late * second, 0.0
        for index in range(len(prices) - 1, int(rounds.min()) - 1, -1):
            now = prices[index, self.kinds] * self.gpus, self.seconds * index, weight
            lost += 64 * UNIT * most + wrong * drop
            for wait in np.unique(waits[rounds == index]).tolist():
                costs = min(float(own[:, 0].min()) for _, own in self._before(begun[wait], on, now))
                found[(rounds == index) & (waits == wait)] = min(costs, off[0]) - lost
            for _, own in self._before(changed, on, now):
                off = np.minimum(off, own.min(axis=0))
            drop = 0.0
            for rows, own in self._before(kept, on, now):
                on[rows] = np.minimum(own, off)
                drop = max(drop, float(np.abs(np.diff(on[rows], axis=1)).max()))
        return [float(value) for value in found]

    def _steps(self, dead: float) -> list[_Step]:
        """Return what a round does that trains for all but its first seconds, by blocks."""
        return [_step(self.lengths[rows], self.seconds, dead) for rows in self.blocks]

    def _before(
        self, steps: list[_Step], after: Any, now: tuple[Any, float, float]
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the costs at the beginning of a round, given those at its end, by blocks."""
        paid, time, weight = now
        for rows, step in zip(self.blocks, steps, strict=True):
            own, there = paid[rows], after[rows]
            flat = np.append(there, math.inf)  # the last one is for nodes without corners
            costs = flat.take(step.at, mode="clip") * step.before
            costs += flat[1:].take(step.at, mode="clip") * step.behind
            costs += (own * self.seconds)[:, None]
            costs.ravel()[step.ends] = (weight + own)[step.ending] * step.trained + weight * time
            corner = flat.take(step.corner, mode="clip") + (own * self.seconds)[:, None]
            last = costs.ravel()[step.further + 1]
            further = flat[step.leads] + (own * self.seconds)[step.option]
            further = last + (further - last) / step.parts
            last = costs[:, 1:]
            least = np.minimum(costs[:, :-1], last + (corner[:, :-1] - last) / step.apart[:, :-1])
            costs[:, :-1] = least
            np.minimum.at(costs.ravel(), step.further, further)
            yield rows, costs


def _step(lengths: Any, seconds: float, dead: float) -> _Step:
    """Return what a round does that trains for all but its first seconds."""
    at = np.concatenate([np.zeros((len(lengths), 1)), np.cumsum(lengths, axis=1)], axis=1)
    nodes, trains = at.shape[1], seconds - dead
    size = (nodes + 8) * UNIT * (at[:, -1:] + seconds)
    where = np.stack([np.searchsorted(row[1:-1], row + trains, "right") for row in at])
    share = (at + trains - np.take_along_axis(at, where, 1)) / np.take_along_axis(lengths, where, 1)
    share = np.clip(share, 0.0, 1.0)
    k, j = np.nonzero(at > trains)
    inner = [np.searchsorted(row[1:-1], row[row > trains] - trains, "right") for row in at]
    cell = np.concatenate(inner)
    inside = np.maximum((at[k, j] - trains - at[k, cell]) / lengths[k, cell], 0.0)
    apart = inside < 1 - NEAR  # others are at the next node, but for that much of a part
    k, j, cell, inside = k[apart], j[apart], cell[apart], inside[apart]
    shortest, longest = lengths.min(axis=1, keepdims=True), lengths.max(axis=1, keepdims=True)
    base, left = nodes * np.arange(len(at)), at[:, -1:] - at
    ends, cells = np.nonzero(left <= trains), base[k] + cell
    begins = np.append(True, np.diff(cells) > 0)[: cells.size]  # they ascend
    corner, apart = np.full(at.shape, at.size), np.ones(at.shape)
    corner.ravel()[cells[begins]] = (base[k] + j)[begins]
    apart.ravel()[cells[begins]] = 1 - inside[begins]
    return _Step(
        late=float(size.max()),
        wrong=float((4 * size / shortest + 2 * NEAR * (2 + longest / shortest)).max()),
        at=base[:, None] + where,
        before=1 - share,
        behind=share,
        ends=base[ends[0]] + ends[1],
        ending=ends[0],
        trained=left[ends] + dead,
        corner=corner,
        apart=apart,
        further=cells[~begins],
        leads=(base[k] + j)[~begins],
        option=k[~begins],
        parts=1 - inside[~begins],
    )


def main() -> int:
    """Check three files and return the exit code."""
    parser = argparse.ArgumentParser(description="Check a bound on all replays of a trace.")
    for name in ("problem", "jobs", "certificate"):
        parser.add_argument(name)
    names = vars(parser.parse_args())
    try:
        with Path(names["jobs"]).open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
        headings = reader.fieldnames or ()
        if len({*headings}) < len(headings):
            raise ValueError("jobs: expected every heading once.")
        verdict = verify(read(names["problem"]), rows, read(names["certificate"]))
    except BAD_INPUT as error:
        sys.stderr.write(f"error: {type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write("".join(f"{key}: {value}\n" for key, value in verdict._asdict().items()))
    return 0 if verdict.verified else 1


if __name__ == "__main__":
    sys.exit(main())
