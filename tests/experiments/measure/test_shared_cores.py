"""A thread that another program kept waiting is told from one that waits of its own accord."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.measure import shared_cores as tested
from goodalloc.experiments.measure.shared_cores import CoreMark, core_share, mark_core

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = st.floats(0.0, 10.0)
START = CoreMark(5.0, 4.0, 3.0, 2.0)


def after(clock: float, process: float, thread: float, waited: float) -> CoreMark:
    """So many seconds after the start."""
    return CoreMark(5.0 + clock, 4.0 + process, 3.0 + thread, 2.0 + waited)


@pytest.mark.parametrize(
    ("seconds", "share"),
    [
        ((10.0, 10.0, 10.0, 0.0), 1.0),
        ((10.0, 4.0, 4.0, 0.0), 1.0),  # it sleeps
        ((10.0, 8.0, 8.0, 2.0), 0.8),
        ((10.0, 4.0, 2.0, 2.0), 1.0),  # its own threads
        ((10.0, 3.0, 2.0, 4.0), 0.7),
        ((10.0, 0.0, 0.0, 12.0), 0.0),
    ],
)
def test_what_was_waited_for_a_core_counts_beyond_the_time_of_its_own_threads(
    seconds: tuple[float, float, float, float], share: float
) -> None:
    """Whether it waits for other processes too or not."""
    for waits in (False, True):
        assert core_share(START, after(*seconds), waits=waits) == pytest.approx(share)


@given(st.floats(1e-3, 10.0), SECONDS, SECONDS, SECONDS)
def test_a_share_is_one(clock: float, process: float, thread: float, waited: float) -> None:
    """From 0 to 1, known or not."""
    end = after(clock, process, thread, waited)
    for known in (end, end._replace(waited=None)):
        for waits in (False, True):
            assert 0.0 <= core_share(START, known, waits=waits) <= 1.0


@pytest.mark.parametrize("text", [None, "", "0 0 0", "nonsense", "1 2"])
def test_where_linux_does_not_say_the_processor_s_time_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    """But not of what waits for other processes."""
    file = tmp_path / "schedstat"
    if text is not None:
        file.write_text(text, encoding="ascii")
    monkeypatch.setattr(tested, "SCHEDULED", file)
    begin = mark_core()
    assert begin.waited is None
    end = begin._replace(clock=begin.clock + 10.0, process=begin.process + 4.0)
    assert core_share(begin, end, waits=False) == pytest.approx(0.4)
    assert core_share(begin, end, waits=True) == 1.0


def test_linux_s_nanoseconds_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second of three numbers."""
    file = tmp_path / "schedstat"
    file.write_text("7000 2500000000 12\n", encoding="ascii")
    monkeypatch.setattr(tested, "SCHEDULED", file)
    assert mark_core().waited == 2.5
