"""Pages to look at: what they hold, that a browser shows them, and what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from goodalloc.data import generate, load_benchmark
from goodalloc.data.files import write_instance
from goodalloc.experiments.pages.gap_profiles import COLUMNS, gap_page, read_gaps
from goodalloc.experiments.pages.gpus_of_nodes import job_changes, round_page
from goodalloc.experiments.pages.jobs_over_time import (
    Replayed,
    bars,
    read_replay,
    replay_page,
    rounds_and_idleness,
)
from goodalloc.experiments.pages.page_parts import marks, read_frame, shown_number
from goodalloc.experiments.pages.view import view
from goodalloc.models import Allocation, Cluster, Instance, Job
from goodalloc.solvers import solve

if TYPE_CHECKING:
    from pathlib import Path

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


def write_replay(folder: Path, records: Replayed) -> None:
    """Write records as a replay does."""
    folder.mkdir(parents=True)
    for name, frame in records._asdict().items():
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


def test_the_page_of_a_round_names_every_job_and_node_and_loads_nothing() -> None:
    """One file, with the library inside."""
    instance = generate(seed=1, jobs=12, nodes=6, gpus_per_node=4, state="disturbed")
    found = solve(instance).allocation
    assert found is not None
    text = round_page(instance, found)
    assert all(job.name in text for job in instance.jobs)
    assert all(name in text for name in instance.cluster.node_names)
    assert not LOADED.search(text)
    assert len(text) < LARGEST


def test_large_rounds_stay_small_pages() -> None:
    """Two thousand jobs on five hundred nodes."""
    instance = generate(seed=0, jobs=2000, nodes=500, gpus_per_node=4, state="disturbed")
    assert len(round_page(instance, instance.current).encode()) < LARGEST


def test_names_cannot_smuggle_markup_into_a_page() -> None:
    """They are data of whoever submitted the job."""
    evil = "</script><script>alert(1)</script>"
    instance = Instance(Cluster.uniform(1, 2), (Job(evil, placement=((0, 1),)),), name=evil)
    text = round_page(instance, instance.current)
    assert "<script>alert(1)</script>" not in text


def test_allocations_that_break_a_rule_are_not_shown() -> None:
    """One sentence says which."""
    instance = Instance(Cluster.uniform(1, 2), (Job("a"),), name="small")
    with pytest.raises(ValueError, match="Instance 'small'"):
        round_page(instance, Allocation.from_matrix([[5]]))


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


def test_replays_stand_side_by_side_and_pages_of_many_jobs_are_small() -> None:
    """Two policies; two thousand jobs."""
    text = replay_page({"pollux": replayed(), "tiresias": replayed()})
    assert "tiresias (h)" in text
    assert not LOADED.search(text)
    assert len(replay_page({"pollux": replayed(jobs=2000, rounds=12)}).encode()) < LARGEST
    with pytest.raises(ValueError, match="expected at least one"):
        replay_page({})


def test_the_page_of_a_comparison_names_the_solvers() -> None:
    """Also where some run has no gap."""
    text = gap_page(runs())
    assert "greedy" in text
    assert "highs" in text
    assert not LOADED.search(text)


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


@pytest.mark.parametrize(
    "kind", ["round", "replay", "comparison", "round of 2,000 jobs", "replay of 2,000 jobs"]
)
def test_a_real_browser_draws_the_page_without_an_error(kind: str, tmp_path: Path) -> None:
    """Headless Chromium from disk: the pictures are there, and no script failed."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs the browser Chromium")
    instance = load_benchmark("small-running")
    large = generate(seed=0, jobs=2000, nodes=500, gpus_per_node=4, state="disturbed")
    many = replayed(jobs=2000, rounds=12)
    text = {
        "round": lambda: round_page(instance, instance.current),
        "replay": lambda: replay_page({"pollux": replayed(), "tiresias": replayed()}),
        "comparison": lambda: gap_page(runs()),
        "round of 2,000 jobs": lambda: round_page(large, large.current),
        "replay of 2,000 jobs": lambda: replay_page({"pollux": many, "tiresias": many}),
    }[kind]()
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1260,1200"]
    options += ["--virtual-time-budget=8000", "--enable-logging=stderr", "--v=0"]
    shot = tmp_path / "page.png"
    done = subprocess.run(
        [browser, *options, f"--screenshot={shot}", (tmp_path / "page.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Uncaught" not in done.stderr
    assert "Error" not in "".join(re.findall(r"CONSOLE.*", done.stderr))
    from matplotlib.image import imread

    picture = imread(shot)
    ink = (picture[:, :, :3].mean(axis=2) < 0.9).mean()
    assert picture.shape[:2] == (1200, 1260)
    assert ink > 0.01  # headings alone make less


def test_names_that_look_like_missing_values_are_names(tmp_path: Path) -> None:
    names = ["NA", "1", "01", "nan"]
    (tmp_path / "t.csv").write_text("job,gpus\n" + "".join(f"{name},1\n" for name in names))
    assert read_frame(tmp_path / "t.csv", ("job", "gpus")).job.tolist() == names
