"""Pages to look at: what they hold, that a browser shows them, and what is refused."""

from __future__ import annotations

import importlib.util
import math
import re
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.data import generate, load_benchmark
from goodalloc.data.files import write_instance
from goodalloc.data.library import find_round, library_rounds
from goodalloc.experiments.library import Submission, judge, rank_page, run_submission
from goodalloc.experiments.library.ranking_page import submission_page
from goodalloc.experiments.pages import replay_files
from goodalloc.experiments.pages.gap_profiles import (
    COLUMNS,
    gap_page,
    percent,
    profiles,
    read_gaps,
)
from goodalloc.experiments.pages.gpus_of_nodes import job_changes, round_page
from goodalloc.experiments.pages.jobs_over_time import bars, replay_page, rounds_and_idleness
from goodalloc.experiments.pages.page_parts import (
    MOST_ROWS,
    WIDEST,
    decimals,
    marks,
    page,
    read_frame,
    shown_number,
    table,
)
from goodalloc.experiments.pages.replay_files import Replayed, read_replay
from goodalloc.experiments.pages.view import view
from goodalloc.experiments.placements.placements_file import Change
from goodalloc.experiments.support import records
from goodalloc.models import Allocation, Cluster, Instance, Job
from goodalloc.solvers import solve
from tests.support.few import few
from tests.support.house import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.library.protocol import Runs

pytest.importorskip("bokeh", reason="needs goodalloc[view]")

#: Largest page, in bytes.
LARGEST = 5_000_000

#: Addresses that a page must not load anything from.
LOADED = re.compile(r"<(script|link|img)[^>]+(src|href)=[\"']?https?://")


def replayed(jobs: int = 3, rounds: int = 5) -> Replayed:
    """Return the records of a replay in which jobs grow."""
    samples = [
        {"time": 60 * step, "job": f"job{job}", "gpus": min(step, 2), "restarts": min(step, 2)}
        for job in range(jobs)
        for step in range(rounds)
    ]
    frame = pd.DataFrame(
        {
            "job": [f"job{job}" for job in range(jobs)],
            "application": "ncf",
            "submission": np.arange(jobs),
            "start": 60.0,
            "completion": 60.0 * rounds,
            "jct": 60.0 * rounds - np.arange(jobs),
            "restarts": 2,
        }
    )
    time = 60 * np.arange(rounds)
    columns = {"time": time, "active_jobs": jobs, "running_jobs": jobs, "allocated_gpus": jobs}
    columns |= {"goodput": 10.0, "gap": [np.nan, 0.01] + [0.0] * (rounds - 2)}
    return Replayed(frame, pd.DataFrame(columns), pd.DataFrame(samples))


def placed(jobs: int = 3, rounds: int = 5) -> Replayed:
    """Return the same with the placements, every job on a node of its own."""
    changes = tuple(
        Change(60.0 * step, f"job{job}", ((job, step),), "")
        for step in (1, 2)
        for job in range(jobs)
    )
    records = replayed(jobs, rounds)
    return records._replace(changes=changes, cluster=Cluster.uniform(jobs, 2))


def write_replay(folder: Path, records: Replayed) -> None:
    """Write records as a replay does."""
    folder.mkdir(parents=True)
    for name, frame in zip(("jobs", "rounds", "samples"), records, strict=False):
        assert isinstance(frame, pd.DataFrame)
        frame.to_csv(folder / f"{name}.csv", index=False)


def runs() -> pd.DataFrame:
    """Return runs of two solvers, one of which fails once."""
    rows = [("a", "highs", 0, "optimal", 1.0, 1.0, 0.0, 0.1)]
    rows += [("b", "highs", 0, "optimal", 2.0, 2.0, 0.0, 0.3)]
    rows += [("a", "greedy", 0, "feasible", 0.9, 1.0, 0.1, 0.01)]
    rows += [("b", "greedy", 0, "timeout", float("nan"), 2.0, float("nan"), 9.0)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_what_an_allocation_changes_is_told_for_every_job() -> None:
    """Kept, moved, resized, started, stopped, and waits."""
    placements = (((0, 1),), ((0, 1),), ((1, 1),), (), ((1, 1),), ())
    jobs = tuple(Job(f"job{i}", placement=one) for i, one in enumerate(placements))
    instance = Instance(Cluster.uniform(2, 4), jobs)
    matrix = [[1, 0], [0, 1], [0, 2], [1, 0], [0, 0], [0, 0]]
    changes = job_changes(instance, Allocation.from_matrix(matrix))
    assert changes == ["kept", "moved", "resized", "started", "stopped", "waits"]


def test_the_page_of_a_round_names_every_job_and_node() -> None:
    """Whether they hold something or not."""
    instance = generate(seed=1, jobs=12, nodes=6, gpus_per_node=4, state="disturbed")
    found = solve(instance).allocation
    assert found is not None
    text = round_page(instance, found)
    assert all(job.name in text for job in instance.jobs)
    assert all(name in text for name in instance.cluster.node_names)


def test_names_cannot_smuggle_markup_into_a_page() -> None:
    """They are data of whoever submitted the job."""
    evil = "</script><script>alert(1)</script>"
    instance = Instance(Cluster.uniform(1, 2), (Job(evil, placement=((0, 1),)),), name=evil)
    text = round_page(instance, instance.current)
    assert "<script>alert(1)</script>" not in text


def test_the_description_of_a_replay_is_read_where_replays_write_it() -> None:
    """Pages name its file themselves."""
    assert replay_files.DESCRIPTION == records.DESCRIPTION


def test_allocations_that_break_a_rule_are_not_shown() -> None:
    """One sentence says which."""
    instance = Instance(Cluster.uniform(1, 2), (Job("a"),), name="small")
    with pytest.raises(ValueError, match="Instance 'small'"):
        round_page(instance, Allocation.from_matrix([[5]]))
    both = tuple(Job(name, placement=((0, 1), (1, 1))) for name in "ab")
    shared = Instance(Cluster.uniform(2, 2), both, name="small")
    with pytest.raises(ValueError, match="present placements; --allocation shows others"):
        round_page(shared, shared.current)


def test_bars_are_the_times_with_one_number_of_gpus() -> None:
    """Waiting is left out; the last bar ends with the job."""
    found = bars(replayed(jobs=1))
    assert found[["begin", "end", "gpus"]].to_numpy().tolist() == [
        [pytest.approx(1 / 60), pytest.approx(2 / 60), 1],
        [pytest.approx(2 / 60), pytest.approx(5 / 60), 2],
    ]


def test_jobs_that_never_end_have_bars_to_the_last_round() -> None:
    """A replay that was stopped."""
    records = replayed(jobs=1)
    records.jobs["completion"] = np.nan
    assert bars(records)["end"].max() == pytest.approx(4 / 60)


def test_an_idle_cluster_is_drawn_idle() -> None:
    """No round is decided without jobs: zeros follow the last completion before such a time."""
    records = replayed(jobs=2, rounds=5)
    jobs = records.jobs.assign(submission=[0.0, 1000.0], completion=[300.0, 1200.0])
    rounds = records.rounds.assign(time=[60, 120, 240, 1020, 1080])
    found = rounds_and_idleness(Replayed(jobs, rounds, records.samples))
    assert found["time"].tolist() == [60, 120, 240, 300, 1020, 1080, 1200]
    assert found["allocated_gpus"].tolist() == [2, 2, 2, 0, 2, 2, 0]
    assert found["goodput"].tolist()[3] == 0.0
    assert np.isnan(found["gap"].tolist()[3])


def test_a_cluster_with_a_job_that_never_ends_is_never_idle() -> None:
    """Later jobs change nothing."""
    records = replayed(jobs=2, rounds=5)
    jobs = records.jobs.assign(submission=[0.0, 1000.0], completion=[np.nan, 1200.0])
    found = rounds_and_idleness(Replayed(jobs, records.rounds, records.samples))
    assert found["time"].tolist() == records.rounds["time"].tolist()


def test_replays_stand_side_by_side() -> None:
    """Two policies, and a sentence on what the bars do not tell."""
    text = replay_page({"pollux": replayed(), "tiresias": replayed()})
    assert "tiresias (h)" in text
    assert "how many GPUs a job held, not which" in text
    assert "GPUs of every node" not in text
    with pytest.raises(ValueError, match="expected at least one"):
        replay_page({})


def test_pages_of_replays_tell_which_gpus_a_job_held() -> None:
    """Where the placements were written; the page of one without them says so."""
    text = replay_page({"pollux": placed()})
    assert "GPUs of every node" in text
    assert "node-2" in text
    assert "not which" not in text
    mixed = replay_page({"pollux": placed(), "older": replayed()})
    assert "GPUs of every node" in mixed
    assert "many GPUs a job held, not which" in mixed


#: Script that selects a bar of a page as a click does, then none, and tells how many bars of how
#: many jobs are selected in every picture.
CLICK = """
<script>
const later = () => new Promise((resolve) => setTimeout(resolve, 1500));
window.addEventListener("load", async () => {
    await later();
    const models = [...Bokeh.documents[0]._all_models.values()];
    const bars = models.filter((one) => one.type === "GlyphRenderer" && one.name === "bars");
    const sources = bars.map((one) => one.data_source);
    const counts = () => sources.map((source) => {
        const jobs = source.selected.indices.map((bar) => source.data.job[bar]);
        return [jobs.length, new Set(jobs).size];
    });
    sources[0].selected.indices = [0];
    await later();
    const one = counts();
    sources[1].selected.indices = [];
    await later();
    document.body.dataset.said = JSON.stringify([one, counts()]);
});
</script>
"""


def test_a_click_on_a_bar_marks_the_job_in_every_picture(tmp_path: Path) -> None:
    """And a click beside the bars none."""
    browser = screenshots().browser()
    if browser is None:
        pytest.skip("needs the browser Chromium")
    page = tmp_path / "page.html"
    text = replay_page({"pollux": placed(), "tiresias": placed()})
    page.write_text(CLICK.join(text.rsplit("</body>", 1)), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    command = [browser, *options, "--dump-dom", page.as_uri()]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert 'data-said="[[[2,1],[2,1],[2,1],[2,1]],[[0,0],[0,0],[0,0],[0,0]]]"' in drawn


def test_pages_of_too_many_placements_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than become too large: a page of several replays holds as many bars as one of one."""
    monkeypatch.setattr("goodalloc.experiments.pages.jobs_over_time.MOST_BARS", 6)
    assert "GPUs of every node" in replay_page({"pollux": placed()})
    text = replay_page({"pollux": placed(), "tiresias": placed()})
    assert "GPUs of every node" not in text
    assert "too many to draw" in text


def test_descriptions_without_a_cluster_are_refused(tmp_path: Path) -> None:
    """In one sentence; without a description the nodes are those that were used."""
    folder = tmp_path / "pollux"
    write_replay(folder, replayed())
    assert read_replay(folder).cluster is None
    (folder / "replay.json").write_text('{"cluster": {"groups": [{"name": "a"}]}}')
    with pytest.raises(ValueError, match=r"replay\.json' has no cluster .*; expected the file"):
        read_replay(folder)
    found = replay_page({"pollux": placed()._replace(cluster=None)})
    assert "node-2" in found


def test_the_page_of_a_comparison_names_the_solvers() -> None:
    """Also where some run has no gap."""
    text = gap_page(runs())
    assert "greedy" in text
    assert "highs" in text


def test_fills_and_patterns_of_neighbours_differ() -> None:
    """Sixty-four jobs in a row have marks of their own."""
    pairs = list(zip(*marks(64), strict=True))
    assert len(set(pairs)) == 64
    assert shown_number(float("nan")) == "–"


def test_view_finds_out_what_a_path_is(tmp_path: Path) -> None:
    """A round by file or name, one replay, several, a comparison by folder or file."""
    write_instance(load_benchmark("tiny-cold"), str(tmp_path / "round.json"))
    assert "Round tiny-cold" in view(str(tmp_path / "round.json"))
    assert "Round tiny-cold" in view("tiny-cold")
    for name in ("pollux", "tiresias"):
        write_replay(tmp_path / "replays" / name, replayed())
    assert "Replay under pollux, tiresias" in view(str(tmp_path / "replays"))
    assert "Replay under tiresias" in view(str(tmp_path / "replays"), policies=("tiresias",))
    assert "Replay under pollux" in view(str(tmp_path / "replays" / "pollux"))
    write_replay(tmp_path / "replays" / "mine.Policy", replayed())
    own = view(str(tmp_path / "replays"), policies=("mine:Policy",))
    assert "Replay under mine.Policy" in own  # the folder of a policy of one's own
    runs().to_csv(tmp_path / "gap.csv", index=False)
    assert "Solvers on 2 rounds" in view(str(tmp_path))
    assert "Solvers on 2 rounds" in view(str(tmp_path / "gap.csv"))


def test_what_no_page_can_show_is_refused(tmp_path: Path) -> None:
    """In one sentence each."""
    with pytest.raises(ValueError, match=r"has neither gap\.csv nor a replay"):
        view(str(tmp_path))
    with pytest.raises(ValueError, match="--policies"):
        view("tiny-cold", policies=("pollux",))
    write_replay(tmp_path / "pollux", replayed())
    with pytest.raises(ValueError, match=r"no replay 'polux'.*pollux"):
        view(str(tmp_path), policies=("polux",))
    with pytest.raises(ValueError, match=r"has no jobs\.csv"):
        read_replay(tmp_path)
    (tmp_path / "pollux" / "rounds.csv").write_text("time\n1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="column 'active_jobs' is missing"):
        read_replay(tmp_path / "pollux")
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "compare.csv").write_text("solver\n", encoding="utf-8")
    with pytest.raises(ValueError, match="holds a comparison of one round; expected the round"):
        view(str(tmp_path / "compared"))
    (tmp_path / "gap.csv").write_text("instance,solver\n", encoding="utf-8")
    with pytest.raises(ValueError, match="column 'seed' is missing"):
        read_gaps(tmp_path / "gap.csv")
    (tmp_path / "gap.csv").write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no runs"):
        read_gaps(tmp_path / "gap.csv")


@cache
def screenshots() -> Any:
    """The script that makes the pictures of the guide."""
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / ".docs" / "screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the greedy heuristic on a round of the library."""
    folder = tmp_path_factory.mktemp("library") / "mine"
    run_submission(Submission("greedy", "greedy", seconds=5.0), [find_round("tiny-cold")], folder)
    return folder


def page_of(kind: str, submitted: Path) -> str:
    """Return a page of each kind."""
    small = load_benchmark("small-running")
    if kind == "round":
        return round_page(small, small.current)
    if kind == "round of 2,000 jobs":
        large = generate(seed=0, jobs=2000, nodes=500, gpus_per_node=4, state="disturbed")
        return round_page(large, large.current)
    if kind == "comparison":
        return gap_page(runs())
    if kind == "library run":
        return submission_page(submitted)
    if kind == "library of all rounds":
        return rank_page(all_runs(), list(library_rounds()))
    if kind == "replay":
        return replay_page({"pollux": placed()})
    many = placed(jobs=2000 if kind.endswith("of 2,000 jobs") else 3, rounds=12)
    return replay_page({"pollux": many, "tiresias": many})


def all_runs() -> dict[str, Runs]:
    """Judged runs of a dozen solvers on every round of the library."""
    return {
        f"solver-{place}": {
            line.name: judge(line, f"solver-{place}", 10.0, place + 0.123, 0.987 * line.fitness)
            for line in library_rounds().values()
        }
        for place in range(12)
    }


KINDS = ("round", "replay", "comparison", "library run", "replay of two policies")
LARGE_KINDS = ("round of 2,000 jobs", "replay of 2,000 jobs", "library of all rounds")


@pytest.mark.parametrize("kind", [*KINDS, *LARGE_KINDS])
def test_pages_are_small_and_load_nothing(kind: str, submitted: Path) -> None:
    """One file with the library inside, of at most 5 MB."""
    text = page_of(kind, submitted)
    assert len(text.encode()) <= LARGEST
    assert not LOADED.search(text)


@pytest.mark.parametrize("kind", few([*KINDS, *LARGE_KINDS], len(KINDS)))
def test_a_real_browser_draws_the_page_without_an_error(
    kind: str, submitted: Path, tmp_path: Path
) -> None:
    """Headless Chromium from disk: the pictures are there, and no script failed."""
    browser = screenshots().browser()
    if browser is None:
        pytest.skip("needs the browser Chromium")
    page, shot = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(page_of(kind, submitted), encoding="utf-8")
    said = screenshots().screenshot(browser, page, shot, (1260, 1200))
    assert "Uncaught" not in said
    assert "Error" not in "".join(re.findall(r"CONSOLE.*", said))
    from matplotlib.image import imread

    picture = imread(shot)
    ink = (picture[:, :, :3].mean(axis=2) < 0.9).mean()
    assert picture.shape[:2] == (1200, 1260)
    assert ink > 0.01  # headings alone make less


def test_pictures_of_the_guide_are_small_and_cut_below_what_they_show() -> None:
    """At most 256 colours."""
    from PIL import Image

    white = Image.new("RGB", (40, 100), "white")
    white.paste((200, 30, 30), (5, 5, 20, 31))
    found = screenshots().reduced(white)
    assert found.size == (40, 40)
    assert found.mode == "P"
    stored = sorted(screenshots().PICTURES.glob("*.png"))
    assert {path.stem.removesuffix("_grey") for path in stored} == set(screenshots().PAGES)
    assert all(path.stat().st_size <= 150_000 for path in stored)


def table_columns(drawn: Any) -> dict[str, Any]:
    """The columns of a table by their fields."""
    return {column.field: column for column in drawn.columns}


def test_columns_of_tables_are_as_wide_as_what_they_hold() -> None:
    """Names are not cut before they are very long; numbers have as many decimals as they need."""
    names = ["a", "a-job-with-a-long-name", "x" * 300]
    frame = pd.DataFrame({"n": [1, 2, 3], "job": names, "worth": [0.25, math.nan, -77.4]})
    columns = table_columns(table(frame))
    assert columns["n"].width < columns["worth"].width < columns["job"].width == WIDEST
    assert table_columns(table(frame[:2]))["job"].width > 6 * len(names[1])
    assert columns["n"].formatter.format == "0,0"
    assert columns["worth"].formatter.format == "0,0.0000"
    assert "title=" in columns["job"].formatter.template


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 2e9], 0), ([], 0), ([math.nan], 0), ([0.5], 4), ([100.5], 3), ([0.1, 1e7], 1)],
)
def test_large_numbers_have_few_decimals(values: list[float], expected: int) -> None:
    """Whole ones none."""
    assert decimals(np.array(values, dtype=float)) == expected


def test_tables_say_where_they_end() -> None:
    """Only the first rows of a very long one are shown, which a line above tells."""
    rows = pd.DataFrame({"n": np.arange(MOST_ROWS + 1), "solved": True})
    assert "The first 5,000 of 5,001 rows." in page("long", [table(rows)])
    assert len(table(rows[:MOST_ROWS]).columns) == 2


def test_runs_without_an_allocation_are_in_no_share() -> None:
    """Neither in that of the gaps nor in that of the seconds: one of two runs is 50 %."""
    for figure in profiles(percent(runs()), ["highs", "greedy"]):
        shares = [line.data_source.data["y"] for line in figure.renderers]
        assert [max(one) for one in shares] == [100.0, 50.0]
        assert [min(one) for one in shares] == [0.0, 0.0]


def test_a_text_in_place_of_a_number_is_named(tmp_path: Path) -> None:
    """An empty cell is a missing number, and no text."""
    path = tmp_path / "t.csv"
    path.write_text("job,gpus,status\na,1,done\nb,,done\nc,abc,done\n")
    with pytest.raises(ValueError, match="line 4: gpus is 'abc'; expected a number"):
        read_frame(path, ("job", "gpus", "status"))
    path.write_text("job,gpus,status\na,1,done\nb,,done\nc,inf,done\n")
    assert read_frame(path, ("job", "gpus", "status")).gpus.tolist()[::2] == [1.0, math.inf]


def test_names_that_look_like_missing_values_are_names(tmp_path: Path) -> None:
    names = ["NA", "1", "01", "nan"]
    (tmp_path / "t.csv").write_text("job,gpus\n" + "".join(f"{name},1\n" for name in names))
    assert read_frame(tmp_path / "t.csv", ("job", "gpus")).job.tolist() == names
