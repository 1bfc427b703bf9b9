"""The tutorials are run: the code cells of each, in order, as one program in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

TUTORIALS = Path(__file__).resolve().parent.parent / "experiments" / "tutorials"

#: Modules beyond the dependencies that a tutorial needs.
EXTRAS = {"measure_and_train": "torch"}

#: Tutorials that take at most a few seconds.
FAST = {"compare_heuristic", "add_constraint"}

CELL = re.compile(r"^```\{code-cell\}(?: ipython3)?\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

#: What a cell may import: the library by its faces, a room at most.
DEEP_IMPORT = re.compile(r"^(?:from|import) (goodalloc(?:\.\w+)*)", flags=re.MULTILINE)


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
    """It has the front matter of a notebook, a title, cells, and no import of a single module."""
    text = page.read_text(encoding="utf-8")
    head, title = re.match(r"---\n(.*?)^---\n\n# (.+)\n", text, re.DOTALL | re.MULTILINE).groups()  # type: ignore[union-attr]
    assert "file_format: mystnb" in head
    assert "name: python3" in head
    assert title
    assert CELL.search(text)
    for name in DEEP_IMPORT.findall(program(text)):
        folder = TUTORIALS.parent.parent.joinpath(*name.split(".")[1:])
        assert (folder / "__init__.pyi").is_file(), f"{page.name} imports {name}"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.stem in FAST else pytest.mark.slow, id=page.stem)
        for page in pages()
    ],
)
def test_a_tutorial_runs_in_an_empty_folder(
    page: Path, run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Its cells, one after the other, raise nothing."""
    if page.stem in EXTRAS:
        pytest.importorskip(EXTRAS[page.stem])
    script = tmp_path / f"{page.stem}.py"
    script.write_text(program(page.read_text(encoding="utf-8")), encoding="utf-8")
    (tmp_path / "empty").mkdir()
    done = run_python(str(script), cwd=tmp_path / "empty")
    assert done.returncode == 0, done.stderr
