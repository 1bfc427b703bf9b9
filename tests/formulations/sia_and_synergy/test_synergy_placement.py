"""The second program of Synergy-OPT: its size is known before it is built."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.formulations.sia_and_synergy.synergy_placement import (
    Room,
    build_placement_program,
    group_items,
    placement_columns,
)


@given(seed=st.integers(0, 10**6), most=st.integers(1, 4), exclusive=st.booleans())
def test_the_columns_are_counted_without_building(seed: int, most: int, exclusive: bool) -> None:
    """Jobs of up to so many GPUs, nodes of some, none of them and closed ones included."""
    random = np.random.default_rng(seed)
    jobs, nodes = int(random.integers(1, 7)), int(random.integers(1, 6))
    gpus = random.integers(1, most + 1, jobs)
    items = group_items(
        np.arange(jobs),
        gpus,
        random.choice([1.0, 2.0], (jobs, 1)),
        random.random((jobs, nodes)) < 0.8,
    )
    room = Room(
        random.integers(0, 4, nodes), random.uniform(0, 9, (nodes, 1)), random.random(nodes) < 0.2
    )
    built = build_placement_program(items, room, 16, exclusive=exclusive).program
    assert placement_columns(items, room, exclusive=exclusive) == built.num_columns
