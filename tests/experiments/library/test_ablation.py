"""The study of the exact road's parts: rounds of every class, and what is told of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from goodalloc.data.library.catalogue import library_rounds
from goodalloc.experiments.library.protocol import PENALTY
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.library.ablation import (
    ABLATION,
    PER_CLASS,
    SECONDS,
    AblationRow,
    sampled_rounds,
    summarise_ablation,
)
from goodalloc.solvers.exact.ablated_roads import ROADS

if TYPE_CHECKING:
    from pathlib import Path


def test_every_class_has_its_rounds_and_none_too_many() -> None:
    """Without those on trees and those in which jobs share GPUs."""
    found = Counter((one.category, "modes" in one.features) for one in sampled_rounds())
    there = Counter(
        (one.category, "modes" in one.features)
        for one in library_rounds().values()
        if not {"shares", "tree"} & {*one.features}
    )
    assert found == {cell: min(number, PER_CLASS) for cell, number in there.items()}
    assert len({one.name for one in sampled_rounds()}) == found.total()


def test_rounds_of_a_class_are_from_the_smallest_to_the_largest() -> None:
    """By jobs times nodes."""
    easy = [
        one for one in sampled_rounds() if one.category == "easy" and "modes" not in one.features
    ]
    sizes = [one.jobs * one.nodes for one in easy]
    every = [
        one.jobs * one.nodes
        for one in library_rounds().values()
        if one.category == "easy" and not {"modes", "shares", "tree"} & {*one.features}
    ]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (min(every), max(every))


def test_a_road_that_does_not_solve_a_round_pays_the_penalty(tmp_path: Path) -> None:
    """In the mean of its class; and the picture is drawn."""
    rows = [
        AblationRow(f"round {index}", "easy", kind, road, 0.5, 0.1, 0.0, solved)
        for kind in ("plain", "modes")
        for road in ROADS
        for index, solved in enumerate((1, 0))
    ]
    summary = summarise_ablation(rows)
    assert len(summary) == 2 * len(ROADS)
    for row in summary:
        assert (row["class"], row["rounds"], row["solved"]) == ("easy", 2, 1)
        assert 0.5 < row["seconds"] < PENALTY * SECONDS
    ABLATION.plot(Plan(tmp_path), rows).savefig(tmp_path / "roads.png")
    assert (tmp_path / "roads.png").stat().st_size > 10_000
