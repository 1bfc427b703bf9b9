"""On the lowest level with room no placement of a tree is faster."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.applications.best_levels import on_best_levels
from goodalloc.data.applications.traces import measured_applications
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.tree_wishes import TreeWishes

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.applications.application import Application

#: Six nodes in islands of two, one of which is alone, and racks of four and two.
NODES = 6


@settings(max_examples=40, deadline=None)
@given(
    slowdowns=st.lists(st.floats(0.1, 5.0), min_size=3, max_size=3).map(sorted),
    spread=st.lists(st.integers(1, 4), min_size=1, max_size=NODES).map(tuple),
    size=st.integers(1, 40),
)
def test_the_time_is_the_least_of_all_placements(
    slowdowns: list[float], spread: tuple[int, ...], size: int
) -> None:
    """Of all choices of nodes, by the level that holds them."""
    levels = [(Level("island", slowdowns[0]), 2), (Level("rack", slowdowns[1]), 4)]
    topology = Topology.regular(NODES, levels, slowdowns[2])
    plain = profiled_applications()["deepspeech2"]
    size = min(size, int(plain.batch.maximum) // sum(spread))
    found = on_best_levels({"it": plain}, topology)["it"].step_times(spread, size)
    step, synchronisation = plain.step_times(spread, size)
    wishes = TreeWishes(topology)
    least = min(
        wishes.slowdown(tuple(zip(nodes, spread, strict=True)))
        for nodes in itertools.combinations(range(NODES), len(spread))
    )
    assert found.step == pytest.approx(step + (least - 1.0) * synchronisation, rel=1e-12)
    assert found.synchronisation == pytest.approx(least * synchronisation, rel=1e-12)


def test_without_levels_only_several_nodes_are_slowed() -> None:
    plain = profiled_applications()["bert"]
    found = on_best_levels({"it": plain}, Topology((), (), slowdown=2.0))["it"]
    assert found.step_times((4,), 8) == plain.step_times((4,), 8)
    one, other = found.step_times((4, 4), 8), plain.step_times((4, 4), 8)
    assert one.synchronisation == pytest.approx(2.0 * other.synchronisation)
    assert one.step == pytest.approx(other.step + other.synchronisation)
    assert found.on("") is found


def test_measured_applications_say_what_was_not_measured(reference: Path) -> None:
    """And have the times of the level where it was."""
    plain = measured_applications(reference / "pollux" / "traces")["bert"]
    topology = Topology.regular(4, [(Level("rack", 0.5), 2)], slowdown=3.0)
    found = on_best_levels({"it": plain}, topology)["it"]
    for spread, slowdown in (((4,), 1.0), ((4, 4), 0.5), ((4, 4, 4), 3.0)):
        step, synchronisation = plain.step_times(spread, 8)
        assert found.step_times(spread, 8) == pytest.approx(
            (step + (slowdown - 1.0) * synchronisation, slowdown * synchronisation)
        )
    with pytest.raises(ValueError, match=r"'bert': 100000 examples a GPU .* outside what was"):
        found.step_times((4, 4), 100_000)


def test_applications_of_other_classes_are_refused() -> None:
    class Other:
        name = "mine"

    applications = {"mine": cast("Application", Other())}
    with pytest.raises(ValueError, match="'mine': it is of the class Other; expected a prof"):
        on_best_levels(applications, Topology((), ()))
