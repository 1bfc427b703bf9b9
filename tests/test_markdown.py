"""Markdown as it is shown: links lead to headings that exist, and comments break no sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: Folders whose pages are written by people.
PLACES = ("*.md", ".docs/**/*.md", *(f"{name}/**/*.md" for name in ("data", "experiments")))
PLACES += ("formulations/**/*.md", "models/**/*.md", "solvers/**/*.md")

PAGES = sorted({page for place in PLACES for page in ROOT.glob(place) if "build" not in page.parts})

#: Link to a heading: the page, empty for the same one, and the anchor.
LINK = re.compile(r"\]\(([^()\s#]*)#([\w-]+)\)")


def prose(page: Path) -> list[tuple[int, str]]:
    """The lines of a page outside blocks of code, with their numbers."""
    found, code = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            found.append((number, line))
    return found


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    found: set[str] = set()
    for _, line in prose(page):
        heading = re.match(r"#+ (.*)", line)
        if heading:
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).lower().replace("`", "")
            found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", words).strip()))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_headings_lead_to_them(page: Path) -> None:
    """On the same page and on others."""
    for number, line in prose(page):
        for path, anchor in LINK.findall(line):
            target = page if not path else (page.parent / path).resolve()
            if target.suffix == ".md" and ":" not in path:
                assert anchor in anchors(target), f"line {number}: {path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_benchmarks_that_a_page_names_are_there(page: Path) -> None:
    """Each is a module of its own; NAME stands for any of them."""
    named = {*re.findall(r"BENCH=(\w+)", page.read_text(encoding="utf-8"))} - {"NAME"}
    there = {path.stem for path in (ROOT / "experiments" / "benchmarks").glob("*.py")}
    assert named <= there


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_blank_line_cuts_a_table_in_two(page: Path) -> None:
    """Rows behind it would be shown as they are written."""
    lines = page.read_text(encoding="utf-8").splitlines()
    cut = [
        number
        for number, (before, line, after, then) in enumerate(
            zip(lines, lines[1:], lines[2:], [*lines[3:], ""], strict=False), start=2
        )
        if not line and before.startswith("|") and after.startswith("|") and "---" not in then
    ]
    assert not cut


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_of_a_sentence_begins_with_a_comment(page: Path) -> None:
    """CommonMark ends the paragraph there: what follows would be shown as raw HTML."""
    lines = [number for number, line in prose(page) if re.match(r"\s*<!-- value", line)]
    assert not lines
