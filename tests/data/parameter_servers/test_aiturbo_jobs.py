"""Job records of AITurbo: what is read, what is left out, what is refused, what is known when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.parameter_servers.aiturbo_jobs import (
    FEATURES,
    FILE,
    LABEL,
    features_known,
    read_aiturbo_jobs,
)
from tests.support.job_records import made_up_records, write_records

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.parameter_servers.aiturbo_jobs import Known

HEADING = ",".join([*(feature.name for feature in FEATURES), LABEL]) + "\n"

OUTCOMES = {"running_time", "accuracy", "loss"}


def edited(folder: Path, column: str, value: str, row: int = 2) -> None:
    """Put another value into a file of five records, rows counted from 0 after the heading."""
    path = write_records(made_up_records(5), folder)
    lines = [line.split(",") for line in path.read_text().splitlines()]
    lines[row + 1][lines[0].index(column)] = value
    path.write_text("\n".join(map(",".join, lines)) + "\n")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Every number and every label, in order; nothing can be changed afterwards."""
    records = made_up_records(30)
    write_records(records, tmp_path)
    found = read_aiturbo_jobs(tmp_path)
    assert np.array_equal(found.values, records.values)
    assert np.array_equal(found.unpredictable, records.unpredictable)
    assert (len(found), found.incomplete) == (30, 0)
    with pytest.raises(ValueError, match="read-only"):
        found.values[0, 0] = 2.0


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    """Whatever the order in the file; columns that nobody knows are passed over."""
    records = made_up_records(5)
    path = write_records(records, tmp_path)
    rows = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("\n".join(",".join(["x", *reversed(row)]) for row in rows))
    found = read_aiturbo_jobs(tmp_path)
    assert np.array_equal(found.values, records.values)
    loss, kind = found.columns(["loss", "job_type"]).T
    names = [feature.name for feature in FEATURES]
    assert np.array_equal(loss, records.values[:, names.index("loss")])
    assert np.array_equal(kind, records.values[:, names.index("job_type")])


@pytest.mark.parametrize("column", ["ps", LABEL])
def test_incomplete_records_are_left_out_and_counted(tmp_path: Path, column: str) -> None:
    """An empty cell costs its record, and no other."""
    edited(tmp_path, column, "")
    found, whole = read_aiturbo_jobs(tmp_path), made_up_records(5)
    assert found.incomplete == 1
    assert np.array_equal(found.values, np.delete(whole.values, 2, axis=0))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("ps", "nan", "line 4: ps is 'nan'; expected a whole number of at least 0"),
        ("ps", "NA", "ps is 'NA'"),
        ("ps", "-1", "ps is '-1'"),
        ("worker", "1.5", "worker is '1.5'; expected a whole number"),
        ("gpu", "two", "gpu is 'two'"),
        ("gpu", "inf", "gpu is 'inf'"),
        ("job_type", "0", "job_type is '0'; expected a whole number of at least 1"),
        ("batch_size", "0", "batch_size is '0'"),
        ("memory", "-0.5", "memory is '-0.5'; expected a finite number of at least 0"),
        ("learning_rate", "1e999", "learning_rate is '1e999'; expected a finite number"),
        ("resubmit", "2", "resubmit is '2'; expected a whole number from 0 to 1"),
        ("accuracy", "1.01", "accuracy is '1.01'; expected a finite number from 0 to 1"),
        ("loss", "-1", "loss is '-1'"),
        ("throughput", "True", "throughput is 'True'"),
        (LABEL, "0.5", "predictability is '0.5'; expected a whole number from 0 to 1"),
        (LABEL, "yes", "predictability is 'yes'"),
    ],
)
def test_values_that_make_no_sense_are_refused(
    tmp_path: Path, column: str, value: str, words: str
) -> None:
    """In one sentence with the line, the column, the value and what was expected."""
    edited(tmp_path, column, value)
    with pytest.raises(ValueError, match=words):
        read_aiturbo_jobs(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("loss,", "losses,", "column 'loss' is missing"),
        ("predictability", "label", "column 'predictability' is missing"),
        ("\n1", "\n1,1", r"line \d+ has \d+ cells; expected 16"),
        (None, "", "is empty; expected a CSV file"),
        (None, HEADING, "it has no rows"),
        (None, f"{HEADING}1,2\n", "line 2 has 2 cells; expected 16"),
        (None, HEADING + "," * 15 + "\n", "no row is complete"),
    ],
)
def test_files_that_are_no_records_are_refused(
    tmp_path: Path, old: str | None, new: str, words: str
) -> None:
    """The sentence names the file."""
    path = write_records(made_up_records(16), tmp_path)
    path.write_text(new if old is None else path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=words) as caught:
        read_aiturbo_jobs(tmp_path)
    assert str(path) in str(caught.value)


def test_rows_longer_than_the_heading_are_refused(tmp_path: Path) -> None:
    """All of them, so that none is shorter than another."""
    path = write_records(made_up_records(5), tmp_path)
    heading, *rows = path.read_text().splitlines()
    path.write_text("\n".join([heading, *(f"{row},1" for row in rows)]))
    with pytest.raises(ValueError, match="line 2 has 17 cells; expected 16"):
        read_aiturbo_jobs(tmp_path)


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    """Missing, a file, or a folder in place of the file."""
    with pytest.raises(ValueError, match="does not exist"):
        read_aiturbo_jobs(tmp_path / "missing")
    (tmp_path / FILE).mkdir()
    with pytest.raises(ValueError, match="is a directory"):
        read_aiturbo_jobs(tmp_path)


def test_what_is_known_grows() -> None:
    """Each set holds the one before; what a job came to is known at the end only."""
    submission, running, afterwards = (
        features_known(known) for known in ("submission", "running", "afterwards")
    )
    assert (len(submission), len(running), len(afterwards)) == (9, 12, 15)
    assert set(submission) < set(running) < set(afterwards)
    assert afterwards == tuple(feature.name for feature in FEATURES)
    assert set(afterwards) - set(running) == OUTCOMES
    assert set(running) - set(submission) == {"throughput", "step", "epoch"}


@pytest.mark.parametrize("known", ["submission", "running", "afterwards"])
def test_the_kind_of_job_can_be_left_out(known: Known) -> None:
    """It alone."""
    assert ("job_type", *features_known(known, job_type=False)) == features_known(known)


def test_an_unknown_time_is_refused() -> None:
    """The sentence says what there is."""
    with pytest.raises(ValueError, match="known is 'later'; expected one of submission, running"):
        features_known("later")  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [0, -1, 1.5, True])
def test_steps_through_the_records_are_counts(step: int) -> None:
    """Of at least one."""
    with pytest.raises(ValueError, match="Job records: step"):
        made_up_records(5).every(step)


def test_every_second_record_is_half_of_them() -> None:
    """The first, the third, ..."""
    records = made_up_records(7)
    half = records.every(2)
    assert np.array_equal(half.values, records.values[[0, 2, 4, 6]])
    assert np.array_equal(half.unpredictable, records.unpredictable[[0, 2, 4, 6]])


def test_the_published_records_are_read(reference: Path) -> None:
    """8,692 records, of which two lack their parameter servers; 15 % of the others are 1."""
    records = read_aiturbo_jobs(reference / "aiturbo-jobs")
    assert (len(records), records.incomplete) == (8690, 2)
    assert records.unpredictable.mean() == pytest.approx(0.150, abs=5e-4)
    assert set(records.columns(["job_type"])[:, 0]) == set(range(1, 28))
