"""Policies that go on from what others remember, by way of the text of a checkpoint."""

from __future__ import annotations

import json
from typing import TypeVar

from goodalloc.experiments.checkpoints.policy_memory import Memory

Owner = TypeVar("Owner")


def recalled(memory: Memory, again: Owner) -> Owner:
    """One that was made in the same way, with what the owner of the memory remembers."""
    Memory(again).unpack(json.loads(json.dumps(memory.pack(), allow_nan=False)))
    return again
