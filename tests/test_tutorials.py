"""The tutorials are run: the code cells of each, in order, as one program in an empty folder."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

TUTORIALS = Path(__file__).resolve().parent.parent / "experiments" / "tutorials"

#: Modules beyond the dependencies that a tutorial needs.
EXTRAS = {"measure_and_train": "torch"}

#: Tutorials that take more than a few seconds.
SLOW = {"look_back", "measure_and_train", "own_policy", "results_in_pandas"}

#: Numbers in the tutorials, and those with which they show the same in less time.
SMALLER = {"range(4)": "range(2)", "num_jobs > 160": "num_jobs > 40"}

CELL = re.compile(r"^```\{code-cell\}(?: ipython3)?\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

#: What a cell imports of the library.
IMPORT = re.compile(r"^ *(?:from|import) (goodalloc(?:\.\w+)*)", flags=re.MULTILINE)

HEAD = """\
---
file_format: mystnb
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# """


def pages() -> list[Path]:
    """All tutorials."""
    return sorted(TUTORIALS.glob("*.md"))


def program(text: str) -> str:
    """The code cells of a notebook as a program whose lines have the numbers of the notebook's."""
    lines = [""] * (text.count("\n") + 1)
    for cell in CELL.finditer(text):
        first = text.count("\n", 0, cell.start(1))
        for index, line in enumerate(cell[1].splitlines()):
            lines[first + index] = "" if line.startswith(":") else line
    return "\n".join(lines)


def test_the_program_of_a_notebook_keeps_its_order_and_its_lines() -> None:
    """Text and options of cells are left out; a traceback names the line of the page."""
    page = (
        "# A\n\n```{code-cell} ipython3\n:tags: [hide]\nx = 1\n```\n\nb\n\n```{code-cell}\nx\n```\n"
    )
    assert program(page).split("\n") == ["", "", "", "", "x = 1", "", "", "", "", "", "x", "", ""]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_tutorial_is_a_notebook_that_imports_from_rooms_only(page: Path) -> None:
    """It says first what the reader will have, and imports no single module."""
    text = page.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    title, _, rest = text.removeprefix(HEAD).partition("\n\n")
    assert title
    assert rest.startswith("At the end you have ")
    assert CELL.search(text)
    for name in IMPORT.findall(program(text)):
        folder = TUTORIALS.parent.parent.joinpath(*name.split(".")[1:])
        assert (folder / "__init__.pyi").is_file(), f"{page.name} imports {name}"


def written(page: Path, folder: Path) -> Path:
    """The file with the program of a page; skips the test where the page needs more."""
    if page.stem in EXTRAS:
        pytest.importorskip(EXTRAS[page.stem])
    script = folder / f"{page.stem}.py"
    script.write_text(program(page.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "empty").mkdir()
    return script


def test_what_is_made_smaller_is_in_the_tutorials() -> None:
    """Else a tutorial would run with its own numbers, for a long time."""
    quick = "".join(program(page.read_text("utf-8")) for page in pages() if page.stem not in SLOW)
    assert not [numbers for numbers in SMALLER if numbers not in quick]


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.stem not in SLOW], ids=lambda page: page.stem
)
def test_a_tutorial_has_all_that_it_needs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With smaller numbers and with no other names and no files, its cells raise nothing."""
    script = written(page, tmp_path)
    text = script.read_text(encoding="utf-8")
    for numbers, smaller in SMALLER.items():
        text = text.replace(numbers, smaller)
    script.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "empty")
    plt.switch_backend("Agg")
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_tutorial_runs_in_an_empty_folder(
    page: Path, run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Its cells, one after the other, raise nothing in a process of their own."""
    script = written(page, tmp_path)
    done = run_python(str(script), cwd=tmp_path / "empty")
    assert done.returncode == 0, done.stderr
