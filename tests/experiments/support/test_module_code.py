"""Digests of code: of what runs, and of nothing else."""

from __future__ import annotations

import subprocess
import sys
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.support.module_code import (
    changed_modules,
    code_digests,
    plain_code,
    taking_part,
    used_modules,
)

CODE = '''
"""A module."""

import math


class Circle:
    """A circle."""

    def area(self, radius):
        """Its area."""
        # the text "#" is no comment
        mark = "#"
        return math.pi * radius**2, mark  # exact
'''


def test_words_do_not_count() -> None:
    """Neither docstrings, comments nor blank lines; other text does."""
    plain = plain_code(CODE)
    assert "circle" not in plain
    assert "exact" not in plain
    assert 'mark = "#"' in plain
    reworded = CODE.replace("Its area.", "Return\n\n        the area.").replace("exact", "more")
    assert plain_code(reworded.replace("import math\n", "import math\n\n\n")) == plain
    assert plain_code(CODE.replace('mark = "#"', 'mark = "!"')) != plain
    assert plain_code(CODE.replace("**2", "**3")) != plain


@given(st.sampled_from(["x = 1", "def f():\n    'Say.'\n    return 2", "y = '''a\n# b\n'''"]))
def test_plain_code_is_code_of_the_same_meaning(source: str) -> None:
    """It can be run, and once plain it stays as it is."""
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    exec(source, before)
    exec(plain_code(source), after)
    assert [before.get(name) for name in "xy"] == [after.get(name) for name in "xy"]
    assert plain_code(plain_code(source)) == plain_code(source)


def test_modules_that_count_no_longer_make_nothing_stale() -> None:
    """Those that only list names, show results or run the commands of others."""
    digests = {
        "experiments.live.policy_names": "1234abcd",
        "experiments.studies.renewal": "1234abcd",
        "models.round.job": "1234abcd",
    }
    assert changed_modules(digests) == ("models.round.job",)


def test_the_modules_of_a_process_are_those_that_it_loaded() -> None:
    """Without those that only show results, and without packages."""
    program = (
        "import goodalloc.models.round.job, goodalloc.experiments.reporting.plots\n"
        "from goodalloc.experiments.support.module_code import used_modules\n"
        "print(*used_modules())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    names = done.stdout.split()
    assert "models.round.job" in names
    assert "models.gavel.rate_table" not in names
    assert not {"models", "models.round", "experiments.reporting.plots"} & {*names}
    assert names == sorted(names)


def test_a_module_that_is_gone_has_no_digest_of_code() -> None:
    """Others have eight hexadecimal digits, each its own."""
    found = code_digests(["models.round.job", "models.round.cluster", "models.round.nothing"])
    assert found["models.round.nothing"] == "gone"
    assert len({*found.values()}) == 3
    assert all(len(value) == 8 for value in list(found.values())[:2])
    assert set(used_modules()) == {*code_digests(used_modules())}


def test_source_that_is_no_python_is_an_error() -> None:
    """Nobody takes a broken file for unchanged."""
    with pytest.raises((SyntaxError, tokenize.TokenError)):
        plain_code("def (")


def test_a_study_takes_part_in_those_that_import_it_only() -> None:
    """Directly, through another study, or inside a function; others may be loaded beside it."""
    modules = tuple(
        f"experiments.studies.{name}"
        for name in (
            "classical.hesrpt",
            "comparisons.advantage",
            "comparisons.equal_terms",
            "comparisons.terms",
            "framework.records",
            "pollux.fairness",
        )
    )
    assert taking_part("experiments.studies.comparisons.advantage", modules) == (
        "experiments.studies.comparisons.advantage",
        "experiments.studies.comparisons.terms",
        "experiments.studies.framework.records",
    )
    assert taking_part("experiments.replay.replay_task", modules) == ()
