"""The table of policies: an entry keeps its meaning.

Stored results do not count the table among the code that they depend on, since every command loads
all of it. So an entry that would decide otherwise needs another name.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from goodalloc.solvers.policies.policy_table import POLICIES

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy_table import Named

#: Digest of every entry, its description left out.
ENTRIES = {
    "pollux": "9beaea88",
    "pollux-untied": "1dc2834b",
    "pollux-shuffled": "2165f6ca",
    "pollux-goodput": "300460e0",
    "pollux-remaining": "669a6931",
    "pollux-robust": "e02a56d1",
    "pollux-worst": "5ba170ee",
    "pollux-genetic": "5bd5f7c6",
    "pollux-priced": "d6799668",
    "pollux-greedy": "3a609e02",
    "sia": "96f6a874",
    "sia-exact": "8182963c",
    "pollux-proportional": "d8a26c87",
    "synergy-tune": "74feaba3",
    "autoscaling-goodput": "56a9fe71",
    "autoscaling-throughput": "3e33c79f",
    "optimus": "16538d35",
    "slaq": "e1069d41",
    "slaq-exact": "66065a96",
    "tiresias": "b1f2c2bd",
    "tiresias-gittins": "10ac23bd",
    "themis": "87121106",
    "themis-exact": "31200d2c",
    "themis-maxmin": "3645202c",
    "fifo": "dc2f4326",
    "srtf": "0cfb8e1b",
    "equal": "929174dc",
    "allox": "a168d7cb",
    "gavel": "d086199d",
    "gavel-makespan": "a1c9c569",
    "gavel-finish-time": "afffd833",
    "gavel-completion": "436f7970",
    "gavel-throughput": "8a273232",
    "gavel-blind": "cd743034",
    "gavel-levels": "6731c1a4",
    "gavel-cost": "a7e7bcf1",
    "gavel-packed": "0b8133f6",
    "gandiva": "0bc5541b",
    "gandiva-exact": "f2455487",
    "antman": "e281ca46",
    "antman-exact": "056007df",
    "hesrpt": "f64dee25",
}


def told(value: Any) -> str:
    """A value in words that are the same in every process."""
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, dict):
        return str({key: told(one) for key, one in value.items()})
    return repr(value)


def digest(entry: Named) -> str:
    """A digest of all but the description."""
    words = [told(getattr(entry, one.name)) for one in fields(entry) if one.name != "text"]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


def test_a_policy_that_changes_has_another_name() -> None:
    """Or else all its stored results are renewed, and the digest here with them."""
    assert {name: digest(entry) for name, entry in POLICIES.items()} == ENTRIES
