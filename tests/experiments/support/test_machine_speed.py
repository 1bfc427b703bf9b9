"""Expected times: minutes of the catalogue at the speed of this machine."""

from __future__ import annotations

import pytest

from goodalloc.experiments.support import machine_speed
from goodalloc.experiments.support.machine_speed import expected_minutes, slowdown


def test_a_machine_has_a_speed() -> None:
    """Above nothing, and finite."""
    assert 0.01 < slowdown() < 1000.0


@pytest.mark.parametrize(
    ("minutes", "factor", "text"),
    [(3.0, 2.0, "about 6 min"), (1.0, 1.0, "about 60 s"), (0.2, 0.5, "about 6 s")],
)
def test_minutes_are_scaled_and_said_in_words(
    monkeypatch: pytest.MonkeyPatch, minutes: float, factor: float, text: str
) -> None:
    """In minutes from one and a half on, else in seconds."""
    monkeypatch.setattr(machine_speed, "slowdown", lambda: factor)
    assert expected_minutes(minutes) == text
