"""Whatever a solver or a policy says of its bound: nobody believes it unless it ships."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.figure import Figure

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.files.instance import write_instance
from goodalloc.data.rounds.benchmark_set import best_known, load_benchmark
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.gap.comparison import compare, with_common_bound
from goodalloc.experiments.gap.gap import GapPlan, read_rows, run_gap
from goodalloc.experiments.gap.gap_bounds import with_least_bounds
from goodalloc.experiments.gap.make_benchmark_set import better
from goodalloc.experiments.replay.judge import Judge
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.reporting.plots import plot_comparison
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import OSDI21
from goodalloc.models.support.dotted_path import load_callable
from goodalloc.solvers.certificates.solve import certify, solve
from goodalloc.solvers.interface import base
from goodalloc.solvers.interface.base import SOLVERS, find_solver, ships
from goodalloc.solvers.interface.result import Answer, Evidence, Status
from goodalloc.solvers.interface.result_file import read_result, result_to_dict, write_result
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.pollux import Pollux
from goodalloc.solvers.policies.registry import make_policy
from tests.support.certification import liars
from tests.support.certification.liars import INSTANCE, LIARS, honest, one_gpu_each, worth
from tests.support.replay.replays import SHORT, SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.policies.policy import BatchSizes, Round

#: How a bound of ours is known to hold.
OURS = (Evidence.PRICES, Evidence.SOLVER)

OPTIMUM = solve(INSTANCE, "brute_force").fitness
KNAPSACK = knapsack_bound(INSTANCE)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The liars as a module outside the library, known to worker processes too."""
    source = Path(liars.__file__).read_text(encoding="utf-8")
    (tmp_path / "plugged_liars.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "plugged_liars"


@pytest.fixture
def instance_file(tmp_path: Path) -> str:
    """The instance for worker processes."""
    path = tmp_path / "torn.json"
    write_instance(INSTANCE, path)
    return str(path)


def require_sound(result: Result) -> None:
    """No bound below the optimum, and none of the liar's; a status that follows from the bound."""
    assert result.bound >= OPTIMUM * (1 - 1e-9)
    assert result.evidence in OURS
    assert result.gap == pytest.approx(1 - result.fitness / result.bound)
    if result.fitness < OPTIMUM * (1 - 1e-6):
        assert result.status is not Status.OPTIMAL
        assert result.gap > 0.2


@pytest.mark.parametrize("name", LIARS)
def test_no_liar_is_believed_by_itself(name: str) -> None:
    """The knapsack judges it; what it says stands apart."""
    result = solve(INSTANCE, LIARS[name])
    require_sound(result)
    assert (result.bound, result.bound_source) == (KNAPSACK, "knapsack")
    said = LIARS[name](INSTANCE).bound
    if type(said) is float:
        assert result.claimed_bound == said or math.isnan(said)
    assert all(step.bound == math.inf for step in result.history)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "below_its_own_fitness",
            "claimed bound 0.167116681662 refuted: the allocation is worth 0.334233363324",
        ),
        ("not_a_number", "claimed bound is nan; expected a number"),
        ("minus_infinity", "claimed bound -inf refuted"),
        ("zero", "claimed bound 0 refuted"),
        ("negative", "claimed bound -1 refuted"),
        ("text", "claimed bound is of type str"),
        ("nothing", "claimed bound is of type NoneType"),
        ("a_flag", "is of type bool"),
        ("an_array", "claimed bound is of type ndarray"),
        ("of_another_instance", "claimed bound 0.00112485949093 refuted"),
    ],
)
def test_what_makes_no_sense_is_said(name: str, words: str) -> None:
    """With both numbers where there are two; also where there is no allocation."""
    answer = LIARS[name](INSTANCE)
    assert words in certify(INSTANCE, answer, name).message
    without = certify(INSTANCE, replace(answer, allocation=None), name)
    assert without.bound == KNAPSACK
    assert ("claimed" in without.message) == (
        name not in ("below_its_own_fitness", "zero", "of_another_instance")
    )


@pytest.mark.parametrize("others", [["highs"], ["greedy"], ["greedy", "highs"], []])
@pytest.mark.parametrize("first", [True, False])
def test_no_liar_is_believed_in_a_comparison(plugin: str, others: list[str], first: bool) -> None:
    """By no row, whichever comes first; all rows have one bound, and it says whose it is."""
    said = [f"{plugin}:{name}" for name in LIARS]
    results = compare(INSTANCE, [*said, *others] if first else [*others, *said])
    for result in results:
        require_sound(result)
        assert not any(liar in result.bound_source for liar in LIARS if liar != "highs")
    assert len({(r.bound, r.bound_source, r.evidence) for r in results}) == 1
    if "highs" in others:
        assert results[0].bound_source == "pattern program of highs"
        assert results[0].bound == pytest.approx(OPTIMUM)


def test_a_claim_that_another_answer_refutes_is_named(
    plugin: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, instance_file: str
) -> None:
    """The row, the solver and both numbers, in every command that compares."""
    liar = f"{plugin}:below_the_optimum"
    words = "claimed bound 0.386645356173 refuted: the allocation of {} (seed 0) is worth {:.12g}"
    for other in (f"{plugin}:honest", "greedy"):
        value = solve(INSTANCE, other).fitness
        found = compare(INSTANCE, [liar, other])[0]
        assert found.message == words.format(other, value)
    assert main(["compare", instance_file, "--solvers", f"{liar},greedy"]) == 0
    text = capsys.readouterr().out
    assert f"{liar} (seed 0): {words.format('greedy', value)}" in text
    assert "unverified" in text
    assert f"bound {KNAPSACK:.12g} (knapsack, without certificate)" in text
    out = str(tmp_path / "gap")
    arguments = ["gap", "--instances", instance_file, "--solvers", f"{liar},greedy"]
    assert main([*arguments, "--out", out]) == 0
    text = capsys.readouterr().out
    assert words.format("greedy", value) in text
    assert "bounds, on so many instances: knapsack (solver) on 1" in text


def test_a_bound_of_ours_that_an_answer_refutes_gives_way_to_the_next() -> None:
    """The least that stands, and the knapsack's where none does; the row is named."""
    wrong = replace(
        solve(INSTANCE, "greedy"),
        solver="highs",
        bound=0.4,
        bound_source="program",
        fitness=0.39,
        status=Status.OPTIMAL,
    )
    better_one = solve(INSTANCE, honest)
    right = replace(solve(INSTANCE, "highs"), solver="pyomo", bound=0.7, fitness=0.41)
    for results, bound, source in (
        ([wrong, better_one, right], 0.7, "pattern program of pyomo"),
        ([wrong, replace(better_one, evidence=Evidence.NONE)], KNAPSACK, "knapsack"),
    ):
        judged = with_common_bound(INSTANCE, results)
        assert {(r.bound, r.bound_source) for r in judged} == {(bound, source)}
        assert {r.status for r in judged} == {Status.FEASIBLE}
        assert judged[0].message == (
            "bound 0.4 refuted: the allocation of honest (seed 0) is worth "
            f"{better_one.fitness:.12g}"
        )
        assert not judged[1].message


@pytest.fixture(scope="module")
def gap_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, str]]]:
    """The gap benchmark with all liars, beside greedy; every test changes copies of the rows."""
    folder = tmp_path_factory.mktemp("gap")
    source = Path(liars.__file__).read_text(encoding="utf-8")
    (folder / "gap_liars.py").write_text(source, encoding="utf-8")
    write_instance(INSTANCE, folder / "torn.json")
    solvers = (*(f"gap_liars:{name}" for name in LIARS), "greedy")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        rows = run_gap(GapPlan((str(folder / "torn.json"),), solvers), folder / "gap.csv")
        assert read_rows(folder / "gap.csv")[0]["claimed_bound"]
        yield rows


def require_sound_rows(rows: list[dict[str, str]]) -> None:
    """As `require_sound`, of rows."""
    for row in rows:
        assert float(row["bound"]) >= OPTIMUM * (1 - 1e-9)
        assert "gap_liars" not in row["bound_source"]
        if row["fitness"] and float(row["fitness"]) < OPTIMUM * (1 - 1e-6):
            assert row["status"] == "feasible"
            assert float(row["gap"]) > 0.2


def test_no_liar_is_believed_in_the_gap_benchmark(gap_rows: list[dict[str, str]]) -> None:
    """Not by its own row, nor by those of others; what it claims has a column of its own."""
    assert len(gap_rows) == len(LIARS) + 1
    assert all(row["status"] in ("feasible", "optimal") for row in gap_rows)
    require_sound_rows(gap_rows)
    claims = {row["solver"]: row["claimed_bound"] for row in gap_rows}
    assert float(claims["gap_liars:its_own_fitness"]) == worth(INSTANCE)
    assert claims["greedy"] == claims["gap_liars:text"] == claims["gap_liars:infinity"] == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"bound": "0.34", "evidence": "solver", "bound_source": "pattern program"},
        {"bound": "0.34", "evidence": "prices"},
        {"bound": "0.34", "evidence": "given"},
        {"bound": "0.34", "gap": "0.0", "status": "optimal"},
        {"bound": "nan"},
        {"bound": "-inf"},
        {"evidence": "my word", "bound": "0.34"},
    ],
)
def test_a_row_that_somebody_changed_is_believed_no_more_than_its_solver(
    gap_rows: list[dict[str, str]], changes: dict[str, str]
) -> None:
    """Whether a solver ships is no matter of what its row says."""
    rows = [dict(row) for row in gap_rows]
    rows[0] |= changes
    require_sound_rows(with_least_bounds(rows))
    require_sound_rows(with_least_bounds(rows[:1]))


def test_a_row_worth_more_than_anything_can_be_is_refused(gap_rows: list[dict[str, str]]) -> None:
    """It refutes no bound: there is no such allocation."""
    rows = [dict(row) for row in gap_rows]
    rows[0] |= {"fitness": "5.0"}
    found = with_least_bounds(rows)
    require_sound_rows(found)
    assert (found[0]["status"], found[0]["gap"]) == ("failed", "")
    refused = f"fitness 5 refused: no allocation is worth more than {KNAPSACK:.12g}"
    assert found[0]["message"].startswith(refused)
    assert float(found[-1]["bound"]) == KNAPSACK


def test_a_refuted_bound_of_ours_gives_way_in_the_rows_too(gap_rows: list[dict[str, str]]) -> None:
    """To the knapsack's, worked out anew; without the instance there is none, and no gap."""
    rows = [dict(row) for row in gap_rows]
    rows[-1] |= {"bound": "0.3"}
    rows.append(rows[-1] | {"seed": "1", "bound": "0.35"})
    found = with_least_bounds(rows)
    require_sound_rows(found)
    assert {row["bound_source"] for row in found} == {"knapsack"}
    assert "bound 0.35 refuted: the allocation of greedy (seed 0) is worth" in found[-1]["message"]
    gone = with_least_bounds([row | {"digest": "another"} for row in rows])
    assert {(row["bound"], row["gap"], row["evidence"]) for row in gone} == {("", "", "none")}


def test_numbers_of_rows_are_refused_by_name(gap_rows: list[dict[str, str]]) -> None:
    """One sentence."""
    with pytest.raises(ValueError, match=r"Row of greedy on .*: bound is 'low'; expected a number"):
        with_least_bounds([gap_rows[-1] | {"bound": "low"}])


def test_a_file_named_like_a_shipped_instance_has_no_known_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is what is solved; the value known is that of another instance."""
    assert best_known("tiny-cold") is not None
    monkeypatch.chdir(tmp_path)
    write_instance(INSTANCE, tmp_path / "tiny-cold")
    assert best_known("tiny-cold") is None
    (task,) = GapPlan(("tiny-cold",), ("greedy",)).tasks()
    assert task.bound is None


def test_best_known_values_drop_a_bound_that_a_better_answer_refutes() -> None:
    """What is kept beside the greatest fitness stands."""
    first, second = solve(INSTANCE, one_gpu_each), solve(INSTANCE, "highs")
    old = better(None, replace(first, bound=0.4))
    kept = better(old, second)
    assert (kept.fitness, kept.bound) == (second.fitness, second.bound)


def test_only_solvers_that_ship_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, by path, or as the very function; never for what something is called."""
    for name, path in SOLVERS.items():
        function = load_callable(path, name)
        assert ships(name)
        assert ships(path)
        assert ships(function)

    def forged(instance: Instance) -> Answer:
        return LIARS["its_own_fitness"](instance)

    ours = find_solver("highs")
    forged.__module__, forged.__qualname__ = ours.__module__, ours.__qualname__
    for stranger in (liars.highs, forged, lambda instance: None, "mine:highs", "Highs", ""):
        assert not ships(stranger)
    for name in ("highs", "solve_highs", SOLVERS["highs"]):
        forged.__name__ = name
        result = solve(INSTANCE, forged)
        assert result.solver == f"{name} (not the one that ships)"
        require_sound(result)
    points = [
        EntryPoint(name, "x:y", base.ENTRY_POINT_GROUP) for name in ("highs", SOLVERS["highs"])
    ]
    monkeypatch.setattr(EntryPoint, "load", lambda self: forged)
    monkeypatch.setattr(
        base, "entry_points", lambda group, name=None: [p for p in points if name in (None, p.name)]
    )
    for point in points:
        assert find_solver(point.name) is ours
        assert solve(INSTANCE, point.name).fitness == pytest.approx(OPTIMUM)
    with pytest.raises(TypeError):
        SOLVERS["mine"] = "tests.support.certification.liars:highs"  # type: ignore[index]
    monkeypatch.setattr(liars, "renamed", ours, raising=False)
    assert solve(INSTANCE, f"{liars.__name__}:renamed").status is Status.OPTIMAL


def test_a_claim_is_shown_as_such(
    plugin: str, instance_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the text of `solve`, in its file, in JSON and in the table of a comparison."""
    liar, out = f"{plugin}:its_own_fitness", tmp_path / "out.json"
    assert main(["solve", instance_file, "--solver", liar, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "status       feasible" in text
    assert f"bound        {KNAPSACK:.12g} (knapsack, without certificate)" in text
    assert f"claimed      {worth(INSTANCE):.12g} (by {liar}; unverified)" in text
    kept = read_result(out, INSTANCE)
    assert (kept.claimed_bound, kept.evidence) == (worth(INSTANCE), Evidence.SOLVER)
    folder = tmp_path / "compared"
    arguments = ["compare", instance_file, "--solvers", f"{liar},highs", "--json"]
    assert main([*arguments, "--out", str(folder)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["claimed_bound,_unverified"] for row in rows] == [worth(INSTANCE), ""]
    with (folder / "compare.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    for row in (*rows, *table):
        assert row["bound_source"] == "pattern program of highs"
        assert row["evidence"] in OURS
    assert [row["claimed_bound"] for row in table] == [repr(worth(INSTANCE)), ""]


def test_the_picture_shows_no_gap_that_only_a_liar_sees() -> None:
    """Neither at the end nor over time, though its history says that it was there at once."""
    results = with_common_bound(
        INSTANCE, [solve(INSTANCE, LIARS[name]) for name in ("makes_up_history", "its_own_fitness")]
    )
    gaps, time = Figure().subplots(1, 2)
    plot_comparison(results, gaps, time)
    assert [text.get_text() for text in gaps.texts] == ["67 %", "67 %"]
    assert min(min(line.get_ydata()) for line in time.lines) > 60.0
    unjudged = [replace(result, bound=0.1, evidence=Evidence.NONE) for result in results]
    gaps, time = Figure().subplots(1, 2)
    plot_comparison(unjudged, gaps, time)
    assert not time.lines
    given = solve(INSTANCE, one_gpu_each, bound=worth(INSTANCE))
    gaps, time = Figure().subplots(1, 2)
    plot_comparison([given], gaps, time)
    assert [text.get_text() for text in gaps.texts] == ["0 (by a bound given)"]


def test_a_result_file_of_an_earlier_version_is_believed_as_its_solver_is(tmp_path: Path) -> None:
    """Ours are; the bound of any other is a claim, and its optimality none."""
    ours, theirs = solve(INSTANCE, "highs"), solve(INSTANCE, one_gpu_each)
    for result in (ours, replace(theirs, bound=theirs.fitness, status=Status.OPTIMAL)):
        document = result_to_dict(result, INSTANCE)
        del document["evidence"], document["claimed_bound"]
        (tmp_path / "old.json").write_text(json.dumps(document))
        kept = read_result(tmp_path / "old.json", INSTANCE)
        if result is ours:
            assert (kept.bound, kept.status) == (ours.bound, Status.OPTIMAL)
            assert kept.evidence is Evidence.SOLVER
        else:
            assert (kept.bound, kept.evidence) == (math.inf, Evidence.NONE)
            assert (kept.claimed_bound, kept.status) == (theirs.fitness, Status.FEASIBLE)
            assert math.isnan(kept.gap)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bound": 0.1}, "bound is 0.1; expected at least the fitness"),
        ({"bound": None}, "bound is nan; expected at least the fitness"),
        ({"evidence": "my word"}, "evidence is 'my word'; expected one of prices, solver, given"),
        ({"evidence": "none"}, "evidence is 'none'; expected what the bound or status rests on"),
        ({"claimed_bound": "low"}, "claimed_bound is 'low'; expected a number"),
    ],
)
def test_a_result_file_whose_bound_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    """One sentence that names the file."""
    document = result_to_dict(solve(INSTANCE, "highs"), INSTANCE) | changes
    (tmp_path / "result.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=f"result.json.*{words}"):
        read_result(tmp_path / "result.json", INSTANCE)


def test_a_result_without_a_bound_survives_its_file(tmp_path: Path) -> None:
    """As a solver leaves that failed."""
    (failed,) = compare(INSTANCE, ["tests.support.certification.liars:raises"])
    assert failed.evidence is Evidence.NONE
    write_result(failed, INSTANCE, tmp_path / "failed.json")
    assert read_result(tmp_path / "failed.json", INSTANCE).message == failed.message


class Lying:
    """Gives one GPU to some jobs and says of the very instance that this is the best."""

    batch_sizes: BatchSizes = "goodput"

    def __init__(self, bound: Any = 1e-9) -> None:
        self.bound = bound

    def decide(self, round_: Round) -> Decision:
        """First come, first served."""
        placements = {job.name: ((0, 1),) for job in round_.jobs[:4]}
        return Decision(
            placements,
            instance=round_.instance(OSDI21),
            bound=self.bound,
            bound_source="pattern program",
            evidence=Evidence.PRICES,
        )


def lying_pollux() -> Pollux:
    """Ours, by a solver that lies."""
    return Pollux(liars.highs)


@pytest.mark.parametrize("bound", [1e-9, "0.1", math.nan, -math.inf, 1e9, None])
def test_a_policy_of_ones_own_is_judged_by_a_bound_of_ours(bound: Any) -> None:
    """Whatever its decision says of itself, and whatever the instance it shows is worth."""
    simulator = Simulator(SHORT, profiled_applications(), Lying(bound), SMALL)
    judge, gaps = Judge(OSDI21), []
    for _ in range(6):
        record = simulator.step()
        assert record is not None
        verdict = judge(record.round_, record.decision)
        best = solve(record.round_.instance(OSDI21), "highs").fitness
        assert verdict.bound >= best * (1 - 1e-9)
        assert verdict.bound_source == "knapsack"
        assert verdict.evidence in OURS
        gaps.append(verdict.gap)
    assert max(gaps) > 0.05


@pytest.mark.parametrize("policy", ["Lying", "lying_pollux"])
def test_a_replay_believes_no_policy_of_ones_own(tmp_path: Path, policy: str) -> None:
    """`goodalloc simulate` with it: every round has a bound of ours, and says so."""
    task = ReplayTask(tmp_path / "lying", f"{__name__}:{policy}", SHORT[::2], SMALL)
    task.run()
    with (tmp_path / "lying" / "rounds.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert all(float(row["fitness"]) <= float(row["bound"]) * (1 + 1e-9) for row in rows)
    assert {row["bound_source"] for row in rows} == {"knapsack"}
    assert all(row["evidence"] in OURS for row in rows)
    assert min(float(row["bound"]) for row in rows) > 1e-4


def test_pollux_by_a_liar_passes_no_lie_on() -> None:
    """Its decisions carry the knapsack's bound."""
    simulator = Simulator(SHORT, profiled_applications(), make_policy("tiresias"), SMALL)
    record = simulator.step()
    assert record is not None
    decision = lying_pollux().decide(record.round_)
    assert decision.instance is not None
    assert decision.bound == knapsack_bound(decision.instance)
    assert decision.bound_source == "knapsack"


@pytest.mark.parametrize("name", ["small-running", "under-running"])
def test_the_readmes_heuristic_is_not_optimal_by_its_own_word(name: str) -> None:
    """Its own fitness as bound used to prove it, and to judge the exact solver."""
    instance = load_benchmark(name)
    start = instance.current

    def mine(instance: Instance) -> Answer:
        return Answer(start, fitness(instance, start), proven=True)

    alone = solve(instance, mine, stop=Stop(gap=1e-6))
    both = with_common_bound(instance, [alone, solve(instance, "highs")])
    for result in (alone, both[0]):
        assert result.status is Status.FEASIBLE
        assert result.gap > 1e-3
    assert both[1].status is Status.OPTIMAL
