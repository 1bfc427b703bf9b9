"""Jobs alone under prices in rounds: drawn ones, and their cheapest schedules by enumeration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.hindsight.price_bound import Multipliers, job_bound
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.rounds import Rounds
from goodalloc.solvers.hindsight.best_prices import HindsightBound, patterns_of

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats

#: Seconds of a round, and rounds until the last edge.
ROUND, NUMBER = 10.0, 7


def drawn_in_rounds(
    seed: int, *, late: float = 4.0
) -> tuple[OfflineProblem, HindsightBound, Rounds]:
    """Draw jobs of up to four phases on up to four options, any prices, and a restart.

    Jobs begin up to `late` seconds after the restart in a round.
    """
    random = np.random.default_rng([seed, 7])
    types = int(random.integers(1, 3))
    phases, gpus = int(random.integers(1, 5)), np.array([1.0, 2.0, 4.0])[: 4 - types]
    rates = random.uniform(0.3, 1.5, (types, phases, 1)) * gpus ** random.uniform(0.2, 1.1)
    if random.random() < 0.3:  # where a phase cannot run
        stuck = int(random.integers(phases))
        rates[0, stuck, 0 if types == 1 else slice(None)] = 0.0
    training = Training("one", random.uniform(2.0, 15.0, phases), gpus, rates)
    restart = float(random.choice([0.0, 3.0, 6.0, 10.0]))
    jobs = tuple(
        OfflineJob(
            f"job {index}",
            "one",
            ROUND * index * random.random(),
            ROUND * index + restart + late * random.random(),
            random.uniform(0.5, 2.0),
        )
        for index in range(2)
    )
    supply = Supply.constant({f"type {row}": 4.0 for row in range(types)})
    problem = OfflineProblem((training,), jobs, supply)
    edges = ROUND * np.arange(NUMBER + 1.0)
    prices = random.gamma(0.5, 1.0, (NUMBER, types)) * random.choice([0.1, 1.0])
    multipliers = Multipliers.of(training, patterns_of(training, 1.0), np.linspace(0.0, 20.0, 2001))
    found = np.array([job_bound(job, multipliers, edges, prices) for job in jobs])
    value = float(found.sum() - (prices * 4.0 * ROUND).sum())
    ends = np.array([job.begin + training.least_seconds for job in jobs])
    bound = HindsightBound(value, edges, prices, found, {"one": multipliers}, (0, 0), ends)
    return problem, bound, Rounds(ROUND, {"one": restart})


def cheapest_by_enumeration(
    problem: OfflineProblem, prices: Floats, rounds: Rounds, job: OfflineJob
) -> float:
    """Return the least cost of a job over all sequences of GPUs, one for each round.

    One that has not ended by the last edge costs what it would if it ended there for nothing more.
    """
    training, lost = problem.training(job.training), rounds.lost(job.training)
    options = [(-1, 0.0), *((row, gpus) for row in range(len(prices[0])) for gpus in training.gpus)]
    best = math.inf

    def visit(index: int, held: tuple[int, float], phase: int, left: float, paid: float) -> None:
        nonlocal best
        time = rounds.seconds * index
        if paid + job.weight * (time - job.release) >= best:
            return
        if index == len(prices):
            best = paid + job.weight * (time - job.release)
            return
        for kind, gpus in options:
            if kind < 0:
                visit(index + 1, (-1, 0.0), phase, left, paid)
                continue
            now = max(0.0 if held == (kind, gpus) else lost, job.begin - time)
            now = min(now, rounds.seconds)
            price = float(prices[index][kind]) * gpus
            at, work = phase, left
            column = training.gpus.tolist().index(gpus)
            while at < training.num_phases:
                rate = max(float(training.rates[kind, at, column]), 1e-30)
                if now + work / rate > rounds.seconds + 1e-12:
                    work -= rate * (rounds.seconds - now)
                    break
                now, at = now + work / rate, at + 1
                work = float(training.work[at]) if at < training.num_phases else 0.0
            if at == training.num_phases:
                whole = paid + price * now + job.weight * (time + now - job.release)
                best = min(best, whole)
            else:
                visit(index + 1, (kind, gpus), at, work, paid + price * rounds.seconds)

    visit(rounds.first(job), (-1, 0.0), 0, float(training.work[0]), 0.0)
    return best
