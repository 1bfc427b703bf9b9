"""Comparison of fitted profiles with those that ship."""

from __future__ import annotations

from typing import Any

import pytest


def compare(ours: Any, theirs: Any, path: str = "") -> None:
    """Assert that two documents agree: fitted numbers nearly, all others to the last digit."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), path
        for key in ours:
            compare(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), path
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            compare(*pair, f"{path}[{index}]")
    elif isinstance(ours, float):
        fitted = ".throughput." in path or ".fit_errors." in path
        # Fits end at slightly different points of a flat minimum from platform to platform.
        assert ours == pytest.approx(theirs, rel=1e-3 if fitted else 1e-10), path
    else:
        assert ours == theirs, path
