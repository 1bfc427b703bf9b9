"""Rates and jobs of a user's own: what two CSV tables say, and which are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.gavel.measured_rates import read_rate_jobs, read_rate_table
from goodalloc.models.gavel.rate_table import Configuration

if TYPE_CHECKING:
    from pathlib import Path

RATES = """\
model,gpu_type,gpus,nodes,steps_per_s
bert,a100,1,1,4
bert,a100,4,1,14
bert,a100,4,2,11.5
bert,t4,1,1,0.9
resnet,t4,1,1,2.5
resnet,t4,4,1,9
"""

JOBS = """\
job,submit_s,steps,gpus,model,owner
late,600,9000,1,resnet,ann
first,0,5000,4,bert,bob
same,0,100.5,1,bert,bob
"""


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    """A file with a text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rates_are_where_the_rows_say(tmp_path: Path) -> None:
    """Consolidated is the row on fewest nodes, spread the other; what has no row does not run."""
    rates = read_rate_table(written(tmp_path, RATES))
    bert, resnet = Configuration("bert", 0), Configuration("resnet", 0)
    assert rates.types == ("a100", "t4")
    assert rates.configurations == (bert, resnet)
    assert rates.replicas == (1, 4)
    assert rates.rate(bert, 4, "a100") == 14
    assert rates.rate(bert, 4, "a100", consolidated=False) == 11.5
    assert rates.rate(bert, 1, "a100", consolidated=False) == 4
    assert rates.rate(bert, 4, "t4") == 0
    assert rates.rate(resnet, 4, "t4", consolidated=False) == 0
    assert not rates.alone_rates([resnet], [1])[0, 0]
    assert not rates.paired.any()


def test_the_order_of_rows_and_columns_does_not_matter(tmp_path: Path) -> None:
    """But for the order of models and types."""
    lines = [line.split(",")[::-1] for line in RATES.splitlines()]
    turned = "\n".join(",".join(line) for line in [lines[0], *lines[:0:-1]])
    one = read_rate_table(written(tmp_path, RATES))
    other = read_rate_table(written(tmp_path, turned))
    assert set(one.configurations) == set(other.configurations)
    for kind in one.types:
        for configuration in one.configurations:
            for gpus in one.replicas:
                for together in (True, False):
                    rate = one.rate(configuration, gpus, kind, together)
                    assert rate == other.rate(configuration, gpus, kind, together)


def test_jobs_come_in_order_of_submission(tmp_path: Path) -> None:
    """Those submitted together as in the file; other columns are passed over."""
    rates = read_rate_table(written(tmp_path, RATES))
    jobs = read_rate_jobs(written(tmp_path, JOBS, "jobs.csv"), rates)
    assert [job.name for job in jobs] == ["first", "same", "late"]
    np.testing.assert_equal([job.submission for job in jobs], [0, 0, 600])
    assert jobs[1] == ("same", 0.0, Configuration("bert", 0), 1, 100.5)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "bert,t4,1,1,0.9",
            "bert,t4,1,1,0",
            "line 5: steps_per_s is '0'; expected a finite number above 0",
        ),
        ("bert,t4,1,1,0.9", "bert,t4,1,1,fast", "line 5: steps_per_s is 'fast'"),
        ("bert,t4,1,1,0.9", "bert,t4,1,2,0.9", "line 5: nodes is '2'; expected at most the 1 GPUs"),
        ("bert,t4,1,1,0.9", "bert,t4,0,1,0.9", "line 5: gpus is '0'"),
        ("bert,t4,1,1,0.9", ",t4,1,1,0.9", "line 5: model is ''; expected a name"),
        ("bert,t4,1,1,0.9", "bert,,1,1,0.9", "line 5: gpu_type is ''; expected a name"),
        (
            "bert,t4,1,1,0.9",
            "bert,a100,1,1,3",
            "line 5: nodes is '1'; expected another number than line 2",
        ),
        (
            "bert,t4,1,1,0.9",
            "bert,a100,4,4,3",
            "line 5: nodes is '4'; expected at most two rows for 4 GPUs of type 'a100'",
        ),
        (
            "bert,t4,1,1,0.9",
            "bert,t4,4,2,3",
            "line 5: nodes is '2'; expected a row on 1, as another model has",
        ),
        ("bert,t4,1,1,0.9", "bert,t4,1,1,1e308", "expected at most 1e+09"),
        ("nodes,", "servers,", "column 'nodes' is missing"),
    ],
)
def test_bad_rates_are_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    """With a sentence that names the line."""
    with pytest.raises(ValueError, match=r"table\.csv") as caught:
        read_rate_table(written(tmp_path, RATES.replace(old, new)))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        ("late,-1,9000,1,resnet,ann", "line 2: submit_s is '-1'"),
        ("late,600,0,1,resnet,ann", "line 2: steps is '0'"),
        ("late,600,nan,1,resnet,ann", "line 2: steps is 'nan'"),
        ("late,600,1e20,1,resnet,ann", "line 2: steps is '1e20'; expected at most ten years"),
        ("late,600,9000,1.5,resnet,ann", "line 2: gpus is '1.5'"),
        ("late,600,9000,2,resnet,ann", "line 2: gpus is '2'; expected a number on which a rate"),
        ("late,600,9000,1,gpt,ann", "line 2: model is 'gpt'; expected one of bert, resnet"),
        ("first,600,9000,1,resnet,ann", "line 3: job is 'first'; expected another name than that"),
        (",600,9000,1,resnet,ann", "line 2: job is ''; expected a name"),
    ],
)
def test_bad_jobs_are_refused(tmp_path: Path, new: str, sentence: str) -> None:
    """With a sentence that names the line."""
    rates = read_rate_table(written(tmp_path, RATES))
    with pytest.raises(ValueError, match=r"jobs\.csv") as caught:
        read_rate_jobs(
            written(tmp_path, JOBS.replace("late,600,9000,1,resnet,ann", new), "jobs.csv"), rates
        )
    assert sentence in str(caught.value)


def test_a_small_file_of_very_many_rates_is_refused(tmp_path: Path) -> None:
    """Before a table of all pairs of models is made."""
    rows = [f"model-{n},type-{n},{n + 1},1,1" for n in range(300)]
    with pytest.raises(ValueError, match="rates of pairs in all; expected at most 100,000,000"):
        read_rate_table(written(tmp_path, "\n".join([RATES.splitlines()[0], *rows])))


def test_a_duration_is_that_on_the_fastest_type(tmp_path: Path) -> None:
    """It stands for the steps that are made meanwhile on consolidated GPUs."""
    rates = read_rate_table(written(tmp_path, RATES))
    text = "job,submit_s,duration_s,gpus,model\na,0,100,4,bert\nb,0,100,1,bert\nc,5,10,4,resnet\n"
    jobs = read_rate_jobs(written(tmp_path, text), rates)
    assert [job.steps for job in jobs] == [1400.0, 400.0, 90.0]


@pytest.mark.parametrize(
    ("columns", "has"), [("steps,duration_s,", "'steps' and 'duration_s'"), ("", "neither")]
)
def test_either_steps_or_durations_are_given(tmp_path: Path, columns: str, has: str) -> None:
    """Not both, and not none of them."""
    cells = "5," * columns.count(",")
    path = written(tmp_path, f"job,submit_s,{columns}gpus,model\na,0,{cells}1,bert\n")
    with pytest.raises(ValueError, match=rf"it has {has}; expected one of the columns 'steps' and"):
        read_rate_jobs(path, read_rate_table(written(tmp_path, RATES, "rates.csv")))
