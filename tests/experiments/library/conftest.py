"""Solvers of these tests are imported by name in processes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def tests_are_importable(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes have the path of the one that starts them."""
    monkeypatch.syspath_prepend(repository)
