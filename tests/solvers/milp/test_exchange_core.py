"""One configuration for every job under a few capacities: exact, whatever the ties."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds.typed import generate_typed, sia_cluster
from goodalloc.experiments.benchmarks.sia import draw_knapsack, main
from goodalloc.formulations.basics.counted_columns import count_columns
from goodalloc.formulations.sia_and_synergy.sia import (
    build_sia_program,
    encode_rows,
    enumerate_configurations,
)
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp import counted_program, exchange_core
from goodalloc.solvers.milp.exchange_core import Exchanges, decide_configurations
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.sia_and_synergy.sia import decide_published

if TYPE_CHECKING:
    from pathlib import Path
from tests.support.few import few


def draw(
    generator: np.random.Generator, jobs: int, most: int, digits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Configurations of some jobs, idling (cost 0 to 1) among them: job, cost, demand, capacity."""
    rows = [
        (job, float(generator.integers(-(10**digits), 10**digits)) / 10**digits, *demand)
        for job in range(jobs)
        for demand in [(0, 0), *generator.integers(0, 5, (int(generator.integers(0, most)), 2))]
    ]
    table = np.array(rows)
    return (
        table[:, 0].astype(int),
        table[:, 1],
        table[:, 2:].astype(int),
        generator.integers(0, 2 * jobs + 1, 2),
    )


def by_enumeration(
    job: np.ndarray, cost: np.ndarray, demand: np.ndarray, capacity: np.ndarray
) -> float:
    """The least cost of all combinations that fit."""
    choices = [np.flatnonzero(job == j) for j in range(int(job[-1]) + 1)]
    combinations = np.array(list(itertools.product(*choices)))
    fits = (demand[combinations].sum(axis=1) <= capacity).all(axis=1)
    return float(cost[combinations].sum(axis=1)[fits].min())


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("first", few(range(0, 800, 100), 4))
def test_it_is_the_best_of_all_combinations(
    first: int, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """800 tiny programs, half of them with hardly anything but ties, by counts and without."""
    monkeypatch.setattr(counted_program, "SHARED", 0 if counted else 10**9)
    for seed in range(first, first + 100):
        generator = np.random.default_rng(seed)
        program = draw(generator, int(generator.integers(1, 6)), 5, digits=1 if seed % 2 else 6)
        job, cost, demand, capacity = program
        found = decide_configurations(*program, Watch(Stop()), gap=1e-7)
        optimum = by_enumeration(*program)
        assert found.values is not None
        assert found.objective == pytest.approx(optimum, abs=1e-6)
        assert optimum - 1e-6 <= found.bound + 1e-7 <= optimum + 2e-6
        assert (demand[found.values > 0.5].sum(axis=0) <= capacity).all()
        assert np.bincount(job[found.values > 0.5]).tolist() == [1] * (int(job[-1]) + 1)
        assert cost @ found.values == pytest.approx(found.objective, abs=1e-9)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("seed", few(range(8), 4))
def test_it_is_as_good_as_the_whole_program(
    seed: int, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 jobs of up to 30 configurations: HiGHS on everything finds nothing better."""
    monkeypatch.setattr(counted_program, "SHARED", 0 if counted else 10**9)
    program = draw(np.random.default_rng(seed), 60, 30, digits=2 if seed % 2 else 6)
    found = decide_configurations(*program, Watch(Stop()), gap=1e-6)
    whole = run_mixed_integer(build_sia_program(*program), Watch(Stop()), gap=1e-6)
    assert found.objective == pytest.approx(whole.objective, abs=3e-6)
    assert found.objective - found.bound <= 1e-6 + 1e-9


def test_an_exchange_that_cannot_matter_is_dropped_and_no_other() -> None:
    """Of equal changes of four jobs the third may matter only if the first two are paid for."""
    job = np.repeat(np.arange(4), 2)
    demand = np.tile([[0], [1]], (4, 1))
    reduced = np.array([0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0])
    exchanges = Exchanges(job, demand, reduced, np.arange(0, 8, 2))
    for delta, kept in ((0.9, 0), (1.0, 1), (2.9, 1), (3.0, 2), (6.0, 3), (9.9, 3), (10.0, 4)):
        assert np.count_nonzero(exchanges.useful(delta)) == 4 + kept, delta
    assert np.flatnonzero(exchanges.cheapest(2)).tolist() == [0, 1, 2, 3, 4, 6]


def test_of_a_jobs_equal_changes_the_dearer_go() -> None:
    """Two modes that take the same: only the cheaper one is an exchange."""
    demand = np.array([[0], [1], [1], [2]])
    exchanges = Exchanges(np.zeros(4, int), demand, np.array([0.0, 2.0, 1.0, 5.0]), np.array([0]))
    assert np.flatnonzero(exchanges.useful(9.0)).tolist() == [0, 2, 3]


@pytest.mark.parametrize("seed", range(20))
def test_counting_changes_nothing(seed: int) -> None:
    """With counted demands, the only whole columns, the relaxation and the optimum are the same."""
    program = draw(np.random.default_rng(seed), 6, 8, digits=3)
    plain = build_sia_program(*program)
    counted = count_columns(plain)
    assert not counted.integer[: plain.num_columns].any()
    values = []
    for built in (plain, counted):
        everything = np.ones(built.num_columns, dtype=bool)
        values.append(run_relaxation(built, everything, Watch(Stop())).objective)
        values.append(run_mixed_integer(built, Watch(Stop()), gap=1e-9).objective)
    assert values[:2] == pytest.approx(values[2:], abs=1e-8)


def test_rows_are_told_apart_however_large() -> None:
    """Equal rows have equal numbers and others do not, also where no number holds them all."""
    generator = np.random.default_rng(1)
    for most, columns in ((3, 3), (10**9, 4)):
        table = generator.integers(-most, most, (200, columns))
        table = table[generator.integers(0, 50, 300)]
        code = encode_rows(table)
        _, first = np.unique(code, return_index=True)
        assert len(first) == len({tuple(row) for row in table.tolist()})
        assert (table[first][np.searchsorted(code[first], code)] == table).all()


def test_time_that_has_run_out_leaves_nothing_wrong() -> None:
    """No values and no bound, rather than wrong ones."""
    program = draw(np.random.default_rng(5), 60, 30, digits=6)
    found = decide_configurations(*program, Watch(Stop(seconds=1e-9)), gap=1e-6)
    optimum = decide_configurations(*program, Watch(Stop()), gap=1e-6).objective
    assert found.bound <= optimum
    assert found.objective >= optimum - 1e-6


def test_a_large_program_starts_from_the_prices_of_a_sample() -> None:
    """So large that a sample of the jobs prices it first: as good as HiGHS on everything."""
    program = draw_knapsack(seed=0, jobs=500)
    found = decide_configurations(*program, Watch(Stop()), gap=1e-3)
    whole = build_sia_program(*program)
    everything = np.ones(whole.num_columns, dtype=bool)
    bound = run_relaxation(whole, everything, Watch(Stop())).objective
    assert found.bound >= bound - 1e-6
    assert 0 <= found.objective - bound <= 1e-2


def test_a_sample_prices_jobs_of_few_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer configurations than the relaxation may start with: it starts with all."""
    monkeypatch.setattr(exchange_core, "SAMPLE", 20)
    program = draw(np.random.default_rng(3), 60, 3, digits=3)
    found = decide_configurations(*program, Watch(Stop()), gap=1e-6)
    whole = run_mixed_integer(build_sia_program(*program), Watch(Stop()), gap=1e-6)
    assert found.objective == pytest.approx(whole.objective, abs=3e-6)


def test_changes_are_told_apart_however_large() -> None:
    """Codes of changes times eight jobs would wrap around: still both exchanges of the first."""
    job = np.concatenate([[0], np.repeat(np.arange(8), 2)])
    demand = np.concatenate([[2**60, 0, 2**61], np.zeros(14, dtype=np.int64)])[:, None]
    base = np.concatenate([[0], np.arange(3, 17, 2)])
    exchanges = Exchanges(job, demand, np.ones(17), base)
    assert exchanges.useful(100.0).all()


@pytest.mark.slow
def test_a_round_full_of_ties_is_proved_in_time() -> None:
    """Published costs of 2,000 jobs, four gaps above the relaxation: 12 s by configurations."""
    instance = generate_typed(12, 2000, cluster=sia_cluster(64))
    found = enumerate_configurations(instance)
    decision, gap, _ = decide_published(instance, found, Watch(Stop(seconds=60.0)))
    assert decision.objective == pytest.approx(-1608.14, abs=1e-6)
    assert decision.objective - decision.bound <= gap * (1 + 1e-6)


@pytest.mark.slow
def test_a_million_configurations_take_seconds() -> None:
    """10,000 jobs of 100 configurations on three types, to a relative gap of 1e-6."""
    program = draw_knapsack(seed=0, jobs=10_000)
    found = decide_configurations(*program, Watch(Stop(seconds=60.0)), gap=0.02)
    assert found.objective - found.bound <= 1e-6 * abs(found.bound)


def test_the_benchmark_proves_what_it_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for every round and knapsack, in the CSV and in the table."""
    out = tmp_path / "bench.csv"
    options = ["--sizes", "10x1", "--knapsacks", "20", "--seeds", "1", "--out", str(out)]
    assert main(options) == 0
    header, *rows = out.read_text(encoding="utf-8").splitlines()
    proven = header.split(",").index("proven")
    assert len(rows) == 5
    assert all(row.split(",")[proven] == "True" for row in rows)
    assert "round" in capsys.readouterr().out
