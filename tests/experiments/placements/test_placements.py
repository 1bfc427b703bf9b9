"""Placements of a replay: what is written while it runs, and the picture of who held which GPUs."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.cli.simulate import SimulateTask
from goodalloc.experiments.pages.replay_files import held_by_jobs, read_replay
from goodalloc.experiments.placements.gpus_held import Held, held_gpus
from goodalloc.experiments.placements.placements_file import (
    PLACEMENTS,
    Change,
    placement_text,
    read_changes,
    read_placement,
    writing_placements,
)
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.replays import SAME, SHORT, SMALL

if TYPE_CHECKING:
    from pathlib import Path


class Killed(BaseException):
    """The end of a process."""


def task(folder: Path, policy: str = "tiresias") -> SimulateTask:
    """Return a replay of a short workload on two nodes of four GPUs."""
    return SimulateTask(folder, policy, SHORT, SMALL, gaps=False)


def replay(folder: Path, policy: str = "pollux") -> Replay:
    """Return the same with a checkpoint every seven rounds."""
    one = task(folder, policy)
    simulator = Simulator(SHORT, one.applications, one.made_policy(), SMALL)
    folder.mkdir(parents=True, exist_ok=True)
    return Replay(simulator, folder, one.description(), every=7)


def test_writing_placements_changes_no_other_file(tmp_path: Path) -> None:
    """The records are those of the replay that does not write them, to the byte."""
    task(tmp_path / "written").run()
    ReplayTask(tmp_path / "plain", "tiresias", SHORT, SMALL, gaps=False).run()
    assert (tmp_path / "written" / PLACEMENTS).is_file()
    assert not (tmp_path / "plain" / PLACEMENTS).exists()
    for name in SAME:
        same = (tmp_path / "plain" / name).read_bytes()
        assert (tmp_path / "written" / name).read_bytes() == same


@pytest.mark.parametrize("policy", ["pollux", "gandiva"])
def test_a_killed_replay_goes_on_with_its_placements(tmp_path: Path, policy: str) -> None:
    """Rows that were written after the checkpoint are cut off and written again."""
    replay(tmp_path / "whole", policy).run()
    for last in (400, 1300):

        def kill(simulator: Simulator, last: int = last) -> None:
            if simulator.time > last:
                raise Killed

        with pytest.raises(Killed):
            replay(tmp_path / "killed", policy).run(kill)
    replay(tmp_path / "killed", policy).run()
    for name in (*SAME, PLACEMENTS):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_placements_that_are_shorter_than_the_checkpoint_says_are_refused(tmp_path: Path) -> None:
    """As the other files of a replay are; or gone."""

    def kill(simulator: Simulator) -> None:
        if simulator.time > 1200:
            raise Killed

    with pytest.raises(Killed):
        replay(tmp_path).run(kill)
    (tmp_path / PLACEMENTS).write_text("time\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"placements\.csv' is shorter than its checkpoint says"):
        replay(tmp_path).run()
    (tmp_path / PLACEMENTS).unlink()
    with pytest.raises(ValueError, match=r"placements\.csv' is gone; expected the file as it was"):
        replay(tmp_path).run()


@pytest.mark.parametrize("policy", ["pollux", "gandiva"])
def test_what_is_read_back_is_what_the_samples_say(tmp_path: Path, policy: str) -> None:
    """So many GPUs on so many nodes at every decision, never one GPU for two jobs of their own."""
    replay(tmp_path, policy).run()
    found = held_by_jobs(read_replay(tmp_path))
    check_apart(found)
    samples = pd.read_csv(tmp_path / "samples.csv")
    assert samples["gpus"].max() > 1
    for time, job, gpus, nodes in samples[["time", "job", "gpus", "nodes"]].itertuples(index=False):
        held = [one for one in found if one.job == job and one.begin <= time < one.end]
        assert sum(one.gpus for one in held) == gpus
        assert len({one.node for one in held}) == nodes
    assert {one.node for one in found} <= {0, 1}
    assert max(one.first + one.gpus for one in found) <= 4


def check_apart(found: list[Held]) -> None:
    """Check that no GPU has two owners, or two guests, at the same time."""
    held: dict[tuple[int, int, bool], list[tuple[float, float]]] = {}
    for one in found:
        assert one.begin < one.end
        for gpu in range(one.first, one.first + one.gpus):
            held.setdefault((one.node, gpu, one.guest), []).append((one.begin, one.end))
    for spans in held.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


@given(st.integers(0, 2**32 - 1))
def test_random_placements_have_gpus_of_their_own(seed: int) -> None:
    """A job has what its last change gave it, until it ends; a node has four GPUs at most."""
    generator = np.random.default_rng(seed)
    held: dict[str, Counter[int]] = {}
    changes, expected = [], []
    ends = {"a": float(generator.integers(1, 40))}
    for time in range(0, 40, 2):
        if ends["a"] <= time:
            held.pop("a", None)
        for job in generator.permutation(["a", "b", "c", "d"])[: generator.integers(1, 4)]:
            if job == "a" and ends["a"] <= time:
                continue
            held[job] = Counter()
        for job in [job for job, nodes in held.items() if not nodes]:
            for node in range(3):
                free = 4 - sum(nodes[node] for nodes in held.values())
                if gpus := int(generator.integers(0, free + 1)):
                    held[job][node] = gpus
            changes.append(Change(time, job, tuple(held[job].items()), ""))
        expected.append({job: +nodes for job, nodes in held.items() if +nodes})
    found = held_gpus(changes, ends, 40.0, (4, 4, 4))
    check_apart(found)
    assert max((one.first + one.gpus for one in found), default=0) <= 4
    for time, wanted in zip(range(0, 40, 2), expected, strict=True):
        had: dict[str, Counter[int]] = {}
        for one in found:
            if one.begin <= time < one.end:
                had.setdefault(one.job, Counter())[one.node] += one.gpus
        assert had == wanted


def test_a_job_keeps_its_gpus_where_their_number_stays() -> None:
    """Its bar goes on; where the number grows, those that it has are among the new ones."""
    changes = [
        Change(0, "a", ((0, 2), (1, 1)), ""),
        Change(0, "b", ((0, 1),), ""),
        Change(60, "a", ((0, 2), (1, 2)), ""),
        Change(120, "b", (), ""),
        Change(120, "a", ((0, 3),), ""),
    ]
    assert [(*one[:5],) for one in held_gpus(changes, {}, 180.0) if one.job == "a"] == [
        (0, 0, 2, 0, 120),
        (1, 0, 1, 0, 60),
        (1, 0, 2, 60, 120),
        (0, 0, 3, 120, 180.0),
    ]


def test_guests_are_on_the_gpus_of_their_hosts() -> None:
    """And follow them; a guest on GPUs that its host does not have is refused."""
    changes = [
        Change(0, "other", ((0, 1),), ""),
        Change(0, "guest", ((0, 1),), "host"),
        Change(0, "host", ((0, 2),), ""),
        Change(60, "host", ((1, 1),), ""),
        Change(60, "guest", ((1, 1),), "host"),
    ]
    guest = [one for one in held_gpus(changes, {}, 120.0) if one.guest]
    assert guest == [Held(0, 1, 1, 0, 60, "guest", True), Held(1, 0, 1, 60, 120.0, "guest", True)]
    with pytest.raises(
        ValueError, match="job 'guest' has 1 GPUs of job 'host' on node 0; expected"
    ):
        held_gpus(changes[1:2], {}, 120.0)
    with pytest.raises(ValueError, match="at most the 0 that it has there"):
        held_gpus(changes[:4], {}, 120.0)  # the host moved, its guest did not


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("60,a,0:x,", "placement is '0:x'; expected node:GPUs pairs"),
        ("60,a,0,", "placement is '0'; expected"),
        ("60,a,0:0,", "placement is '0:0'; expected"),
        ("60,a,-1:2,", "placement is '-1:2'; expected"),
        ("60,a,0:2 0:3,", "placement is '0:2 0:3'; expected"),
        ("60,a,1_0:2,", "placement is '1_0:2'; expected"),
        ("60,a,0:99999999999,", "placement is '0:99999999999'; expected"),
        ("60,a,0:257,", "placement is '0:257'; expected"),
        ("nan,a,0:1,", "time is 'nan'; expected a finite number of at least 0"),
        ("-60,a,0:1,", "time is '-60'; expected a finite number of at least 0"),
        ("30,a,0:1,", "time is '30'; expected seconds in order"),
    ],
)
def test_malformed_placements_are_refused_with_their_row(
    tmp_path: Path, row: str, sentence: str
) -> None:
    """The sentence names file, row and value."""
    path = tmp_path / PLACEMENTS
    path.write_text(f"time,job,placement,host\n40,a,0:1,\n{row}\n", encoding="utf-8")
    named = re.escape(f"File '{path}': line 3: {sentence}")
    with pytest.raises(ValueError, match=named):
        read_changes(path)


def test_names_of_placements_are_text(tmp_path: Path) -> None:
    """Also those that look like numbers, or like nothing."""
    path = tmp_path / PLACEMENTS
    path.write_text("time,job,placement,host\n0,NA,0:2,\n0,01,0:2,NA\n", encoding="utf-8")
    assert read_changes(path) == [Change(0, "NA", ((0, 2),), ""), Change(0, "01", ((0, 2),), "NA")]


def test_placements_of_other_jobs_are_refused(tmp_path: Path) -> None:
    """Files of two replays do not belong together."""
    task(tmp_path).run()
    with (tmp_path / PLACEMENTS).open("a", encoding="utf-8") as stream:
        stream.write("999999,stranger,0:1,\n")
    with pytest.raises(ValueError, match=r"job 'stranger' is not in jobs\.csv"):
        held_by_jobs(read_replay(tmp_path))


def test_more_gpus_than_a_node_has_are_refused(tmp_path: Path) -> None:
    """The nodes are those of the replay's description."""
    task(tmp_path).run()
    job = pd.read_csv(tmp_path / "jobs.csv").job[0]
    with (tmp_path / PLACEMENTS).open("a", encoding="utf-8") as stream:
        stream.write(f"999999,{job},1:9,\n")
    with pytest.raises(ValueError, match=f"job '{job}' has 9 GPUs of node 1, which has 4"):
        held_by_jobs(read_replay(tmp_path))


@given(st.dictionaries(st.integers(0, 999), st.integers(1, 99)))
def test_placements_read_back_as_they_were_written(pairs: dict[int, int]) -> None:
    """In order of the nodes."""
    assert dict(read_placement(placement_text(tuple(pairs.items())))) == pairs


def test_the_policy_that_writes_has_the_traits_of_the_one_that_decides(tmp_path: Path) -> None:
    """Batch sizes, sharing of GPUs, pooling and the name of the class."""
    for name in ("pollux", "gandiva", "fifo"):
        policy = make_policy(name)
        writing = writing_placements(policy, tmp_path / PLACEMENTS)
        assert type(writing).__name__ == type(policy).__name__
        assert writing.batch_sizes == policy.batch_sizes
        assert getattr(writing, "sharing", None) is getattr(policy, "sharing", None)
        assert not getattr(writing, "pooled", True)
