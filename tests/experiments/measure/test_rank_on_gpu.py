"""A measured process on a GPU, in a group of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.experiments.measure.rank import MeasuredRank

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

torch = pytest.importorskip("torch", reason="needs goodalloc[measure]")

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["nccl", "gloo"])
def rank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MeasuredRank]:
    """The only process of a group."""
    distributed: Any = torch.distributed
    store = f"file://{tmp_path / 'store'}"
    distributed.init_process_group(request.param, init_method=store, rank=0, world_size=1)
    yield MeasuredRank("perceptron", (1,), 0, "cuda:0")
    distributed.destroy_process_group()


def test_passes_updates_and_steps_have_times_above_zero(rank: MeasuredRank) -> None:
    """As many as asked for."""
    assert rank.obey({"order": "probe", "replicas": 1, "atomic_batch_size": 64}) == {"fits": True}
    order = {"order": "train", "replicas": 1, "accumulation_steps": 1, "repetitions": 4}
    found = rank.obey(order)
    for kind in ("passes", "updates", "steps"):
        assert len(found[kind]) == 4
        assert min(found[kind]) > 0.0
    assert found["core"] == 1.0
    assert sum(found["steps"]) > sum(found["passes"])  # a step of two passes and an update


def test_parts_of_a_step_come_from_the_device(rank: MeasuredRank) -> None:
    """None of them is a launch alone."""
    rank.obey({"order": "probe", "replicas": 1, "atomic_batch_size": 4096})
    found = rank.obey({"order": "split", "replicas": 1, "repetitions": 3})
    assert len(found["parts"]) == 3
    for parts in found["parts"]:
        step = parts.loading + parts.forward + parts.backward + parts.optimiser
        assert min(parts.loading, parts.forward, parts.backward, parts.optimiser) > 0.0
        assert parts.synchronisation == parts.overlap == 0.0  # one replica exchanges nothing
        assert 0.0 <= parts.idle < step
    assert 0.0 < found["memory"] < 80_000.0


def test_steps_of_some_seconds_are_counted(rank: MeasuredRank) -> None:
    """By the clock of the machine; no core is pinned."""
    rank.obey({"order": "probe", "replicas": 1, "atomic_batch_size": 64})
    order = {"order": "run", "replicas": 1, "begin": time.monotonic(), "seconds": 0.2}
    found = rank.obey({**order, "core": None})
    assert found["steps"] > 1
    assert 0.2 <= found["seconds"] < 2.0


def test_a_batch_that_memory_does_not_hold_leaves_room_for_the_next(rank: MeasuredRank) -> None:
    """The caching allocator gives back what the failed one took."""
    order = {"order": "probe", "replicas": 1}
    assert rank.obey({**order, "atomic_batch_size": 64}) == {"fits": True}
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    others = torch.empty(free - 2**29, dtype=torch.uint8, device="cuda")  # leaves half a gigabyte
    before = torch.cuda.memory_reserved()
    assert rank.obey({**order, "atomic_batch_size": 2**18}) == {"fits": False}
    assert torch.cuda.memory_reserved() <= before
    assert rank.obey({**order, "atomic_batch_size": 64}) == {"fits": True}
    assert others.numel() == free - 2**29
