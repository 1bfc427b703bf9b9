"""Gavel by the rules of Sia's simulator, and the comparison of two replays, on cases by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.experiments.studies.sia_and_synergy.gavel_of_artifact import (
    GavelOfArtifact,
    RoundsInOrder,
    filled_gpus,
    gavel_as_there,
    gavel_in_order,
    slowed_steps,
)
from goodalloc.experiments.studies.sia_and_synergy.replay_difference import difference
from goodalloc.models.gavel.time_sharing import TimeSharing
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.gavel.share_rounds import ShareRounds
from goodalloc.solvers.policies.policy import Round

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.solvers.gavel.share_rounds import Line

CLUSTER = Cluster((NodeGroup("slow", 2, 4, "t4"), NodeGroup("fast", 1, 8, "a100")))


def test_steps_count_as_slow_as_jobs_train() -> None:
    """CIFAR-10 has more steps as measured and fewer as slowed, 10/1.8 against 8/1.2."""
    jobs = tuple(SimpleNamespace(name=name, application=name) for name in ("cifar10", "bert"))
    sharing = TimeSharing(["cifar10", "bert"], [[10.0], [8.0]], [1], [1, 1])
    shares = slowed_steps(sharing, Round(0, Cluster.uniform(1, 1), jobs))  # type: ignore[arg-type]
    assert shares is not None
    np.testing.assert_allclose(shares, [[0.0], [1.0]], atol=1e-4)


def test_spare_gpus_stay_with_the_first_jobs() -> None:
    """Ours hands them round: whoever had least is next."""
    shares: dict[tuple[Line, str], float] = {
        ((name,), kind): 0.0 for name in "abc" for kind in ("a100", "t4")
    }
    replicas, gpus = dict.fromkeys("abc", 4), {"a100": 4, "t4": 4}
    ours, theirs = ShareRounds(spare=True, lifelong=True), RoundsInOrder(spare=True, lifelong=True)
    theirs.kinds = ("t4", "a100")
    seen: dict[str, list[dict[str, str]]] = {"ours": [], "theirs": []}
    for _ in range(3):
        for name, rounds in (("ours", ours), ("theirs", theirs)):
            chosen = rounds.choose(shares, replicas, gpus)
            rounds.passed(chosen, 360.0)
            seen[name].append({line[0]: kind for line, kind in chosen.items()})
    assert seen["theirs"] == [{"a": "t4", "b": "a100"}] * 3
    assert len({tuple(sorted(one)) for one in seen["ours"]}) > 1


def test_larger_gangs_take_gpus_from_smaller_ones() -> None:
    """The small gang keeps its GPUs only while no larger one is put there."""
    kinds = {"small": "t4", "large": "t4", "other": "a100"}
    gangs = {"small": 2, "large": 6, "other": 4}
    first = filled_gpus(CLUSTER, {"small": "t4"}, gangs, {})
    assert first == {"small": (0, 1)}
    second = filled_gpus(CLUSTER, kinds, gangs, first)
    assert second["large"] == (0, 1, 2, 3, 4, 5)
    assert second["small"] == (6, 7)
    assert second["other"] == (8, 9, 10, 11)
    assert filled_gpus(CLUSTER, kinds, gangs, second) == second


def test_the_versions_of_the_study_build_on_each_other() -> None:
    """The last has every rule."""
    there, before = gavel_as_there(), gavel_in_order()
    assert isinstance(there, GavelOfArtifact)
    assert isinstance(before, GavelOfArtifact)
    assert there.goal is slowed_steps is before.goal
    for gavel in (there, before):
        assert (gavel.spare, gavel.lifelong, gavel.in_order) == (True, True, True)
    assert (there.filled, before.filled) == (True, False)


def _replay(folder: Path, *jobs: tuple[str, float, float]) -> Path:
    folder.mkdir()
    lines = [f"{name},{start},{end}" for name, start, end in jobs]
    (folder / "jobs.csv").write_text("\n".join(["job,start,completion", *lines]))
    return folder


def test_two_replays_part_at_the_first_event_that_differs(tmp_path: Path) -> None:
    """Job b starts later before job a ends; c differs most; rounding does not count."""
    one = _replay(tmp_path / "one", ("a", 0, 3600), ("b", 1800, 7200), ("c", 0, 7200))
    other = _replay(tmp_path / "other", ("a", 0, 4000), ("b", 2160, 7200), ("c", 0, 18000.4))
    found = difference(one, other)
    assert (found.jobs, found.first_job, found.event) == (3, "b", "start")
    assert found.first_hours == 0.5
    assert found.greatest_job == "c"
    assert found.greatest_hours == pytest.approx(-3.0, rel=1e-3)
    near = _replay(tmp_path / "near", ("a", 0, 3600.4), ("b", 1800, 7200), ("c", 0, 7200))
    same = difference(one, near)
    assert (same.jobs, same.first_job, same.event) == (0, "", "")
    assert math.isnan(same.first_hours)


def test_replays_of_other_jobs_are_not_compared(tmp_path: Path) -> None:
    """In one sentence."""
    one, other = (_replay(tmp_path / name, (name, 0, 1)) for name in ("one", "other"))
    with pytest.raises(ValueError, match="are of other jobs; expected one workload"):
        difference(one, other)
