"""The documentation: no public name is missing, tables name all there is, and examples run."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.experiments.cli.arguments import COMMANDS, build_parser
from goodalloc.experiments.studies.catalogue import ENTRIES, GROUPS
from goodalloc.experiments.studies.documents import stored_names, stored_result, stored_rows
from goodalloc.experiments.studies.framework.result_document import renewed
from goodalloc.solvers import POLICIES
from goodalloc.solvers.interface.base import SOLVERS
from tests.support.house import FOLDERS, ROOT

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Iterator

DOCS = ROOT / ".docs"

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

#: The page whose examples are whole programs, and these.
GUIDE = (DOCS / "developer" / "adding.md").read_text(encoding="utf-8")
EXAMPLES = [body for language, body in FENCE.findall(GUIDE) if language == "python"]


@pytest.fixture(scope="module")
def pages() -> Iterator[Any]:
    """The module that writes the pages; what it imports beside it is forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(DOCS))
    yield importlib.import_module("pages")
    sys.path.remove(str(DOCS))
    for name in ("pages", "faces", "choices", "reference_pages"):
        if name not in before:
            del sys.modules[name]


@pytest.fixture(scope="module")
def site(pages: Any) -> dict[str, str]:
    """All pages of the site."""
    found: dict[str, str] = pages.site_pages()
    return found


def test_every_public_name_has_an_entry(site: dict[str, str]) -> None:
    """The page of every room with a face names what the face offers, and links where that is
    documented."""
    faces = [path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("__init__.pyi")]
    assert len(faces) > 50
    for folder in faces:
        package = "goodalloc." + ".".join(folder.relative_to(ROOT).parts)
        page = site[f"reference/api/{package}.rst"]
        assert f":doc:`{package}`" in site["reference/api/index.rst"]
        for name in importlib.import_module(package).__all__:
            (home,) = re.findall(rf":py:obj:`{name} <(\S+)\.{name}>`", page)
            entry = rf"^\.\. (auto\w+:: {re.escape(home)}\.|py:data:: ){name}$"
            assert re.search(entry, site[f"reference/api/{home}.rst"], re.MULTILINE), name


def test_names_that_pages_refer_to_are_public(site: dict[str, str]) -> None:
    """Those of the role `py:obj` in Markdown, by their path in some face."""
    known = importlib.import_module("faces").entries()
    text = "".join(text for name, text in site.items() if name.endswith(".md"))
    named = re.findall(r"{py:\w+}`(?:[^`<]*<)?~?([^`<>]+)", text)
    assert len(named) > 5
    assert not [name for name in named if name not in known]


def test_every_constant_says_what_it_is(pages: Any) -> None:
    """Also aliases of types: a comment `#: …` stands above each."""
    names = [public for face in pages.faces().values() for public in face]
    assert not [f"{public.module}.{public.name}" for public in names if not public.text]


def test_tables_name_all_solvers_policies_studies_and_commands(site: dict[str, str]) -> None:
    """And nothing that is not there any more."""
    tables = {
        "start/tables/solvers.md": SOLVERS,
        "start/tables/policies.md": POLICIES,
    }
    for page, names in tables.items():
        assert re.findall(r"^\| `([^`]+)`", site[page], re.MULTILINE) == [*names]
    studies = re.findall(r"^\| `goodalloc reproduce (\S+)`", site["start/tables/studies.md"], re.M)
    assert studies == [*ENTRIES]
    commands = re.findall(r"^## `goodalloc (\S+)`", site["reference/command_line.md"], re.MULTILINE)
    assert commands == [*COMMANDS]


@pytest.mark.parametrize(
    ("what", "known"),
    [("solver", SOLVERS), ("policy", POLICIES), ("study", ENTRIES.keys() | GROUPS)],
)
def test_the_advice_names_what_there_is(what: str, known: Iterable[str]) -> None:
    """Names in the second column of the tables of `choose.md`; code with arguments is none."""
    page = (DOCS / "start" / "choose.md").read_text(encoding="utf-8")
    section = page.split(f"## Which {what}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")]
    names = re.findall(r"`([\w-]+)`", " ".join(cells))
    assert len(names) > 8
    assert not set(names) - {*known}


@pytest.mark.usefixtures("pages")
def test_every_study_has_a_page_of_results_beside_it() -> None:
    """Its room is that of its code; a page may serve two studies."""
    listed_pages = importlib.import_module("choices").result_pages()
    listed = {name: page for page, names in listed_pages.items() for name in names}
    for name, entry in ENTRIES.items():
        assert Path(listed[name]).parent.name == entry.path.partition(".")[0], name
        assert (ROOT / "experiments" / listed[name]).is_file()
    written = (ROOT / "experiments" / "studies").rglob("*.md")
    written_pages = {path.relative_to(ROOT / "experiments").as_posix() for path in written}
    assert written_pages == listed_pages.keys()


def test_the_rows_of_every_study_are_described() -> None:
    """In the table of the file formats, by the names of studies in its first column."""
    table = (ROOT / "data/FORMAT.md").read_text("utf-8").split("## Reproduction: a folder")[1]
    first = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([\w-]+)`", first)) == set(ENTRIES)


def test_the_house_is_told_room_by_room(site: dict[str, str]) -> None:
    """In its order, with a sentence each."""
    told = re.findall(r"`(goodalloc\.[\w.]+)`", site["developer/house.md"])
    assert told == [*importlib.import_module("faces").rooms()]


def test_words_of_the_glossary_are_in_order(site: dict[str, str]) -> None:
    """Each once, and none is used as a term that is missing."""
    terms = re.findall(r"^(\w[^\n]*)$", site["reference/glossary.md"].split(":::")[1], re.MULTILINE)
    terms = [term for term in terms if term != "{glossary}"]
    assert len(terms) > 30
    assert terms == sorted(set(terms), key=str.lower)
    for text in site.values():
        for used, named in re.findall(r"{term}`(?:[^`<]*<)?([^`<>]+)(>?)`", text):
            assert used in terms, (used, named)


def test_links_lead_to_pages_of_the_site(pages: Any, site: dict[str, str]) -> None:
    """Those of the pages that somebody wrote; a link to code leads to a page with it, and every
    picture is shown somewhere."""
    pictures, shown = pages.site_pictures(), set()
    assert {"experiments/RESULTS.md", "data/FORMAT.md", "formulations/NOTATION.md"} <= site.keys()
    for name, text in site.items():
        folder = (ROOT / name.replace("/tables/", "/")).parent  # tables are included a level up
        for link in pages.LINK.findall(pages.FENCE.sub("", text)):
            if "://" not in link[0]:
                target = str(folder.joinpath(link[0]).resolve().relative_to(ROOT))
                assert target in site or target in pictures, (name, link[0])
                shown.add(target)
    assert pictures.keys() <= shown


@pytest.mark.parametrize(
    ("link", "led"),
    [
        ("NOTATION.md", "NOTATION.md"),
        ("../data/FORMAT.md#rules", "../data/FORMAT.md#rules"),
        ("../README.md", "../index.md"),
        ("../.docs/start/choose.md", "../start/choose.md"),
        ("basics/program.py", "../source/formulations/basics/program.py.md"),
        ("../.docs/pictures/round.png", "../pictures/round.png"),
        ("../models/round", "../reference/api/goodalloc.models.round.rst"),
        ("https://example.org/a", "https://example.org/a"),
    ],
)
def test_a_link_of_the_repository_is_led_to_the_site(pages: Any, link: str, led: str) -> None:
    """From a page of `formulations/`."""
    text = f"See [it]({link})."
    assert pages.relinked(text, Path("formulations/GAVEL.md"), set()) == f"See [it]({led})."


def test_a_link_that_leads_nowhere_is_refused(pages: Any) -> None:
    """With the page and the link."""
    with pytest.raises(
        ValueError, match=r"^CHANGELOG\.md: the link 'nothing\.md' leads to no file"
    ):
        pages.relinked("[it](nothing.md)", Path("CHANGELOG.md"), set())


def test_writing_the_site_removes_what_is_no_page_any_more(
    pages: Any, site: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves a page alone that did not change."""
    monkeypatch.setattr(pages, "site_pages", lambda: site)
    pages.write_site(tmp_path)
    (tmp_path / "old.md").write_text("# Old\n")
    before = (tmp_path / "index.md").stat().st_mtime_ns
    pages.write_site(tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == site.keys() | pages.site_pictures().keys()
    assert (tmp_path / "pictures/round.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "index.md").stat().st_mtime_ns == before


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_command_lines_of_a_page_are_understood(page: Path) -> None:
    """The command line's own parser accepts each call as it is written."""
    text = page.read_text(encoding="utf-8")
    lines = [
        line for kind, body in FENCE.findall(text) if kind == "sh" for line in body.split("\n")
    ]
    for words in (shlex.split(line, comments=True) for line in lines):
        if words[:1] == ["goodalloc"] and words[1:] != ["--help"]:
            build_parser().parse_args(words[1:])


@pytest.fixture
def findings() -> str:
    """The page of the ten findings; without stored results there is nothing to compare with."""
    if not stored_names():
        pytest.skip("goodalloc is installed without stored results")
    return (DOCS / "results" / "findings.md").read_text(encoding="utf-8")


def test_every_finding_has_the_stored_command_and_its_stored_minutes(findings: str) -> None:
    """One that the parser accepts or a benchmark; no minutes are written by hand."""
    found = re.split(r"^\d+\. ", findings, flags=re.MULTILINE)[1:]
    assert len(found) == 10
    for finding in found:
        (command,) = re.findall(r"`((?:goodalloc|make bench)\s[^`]+)`", finding)
        if command.startswith("goodalloc"):
            build_parser().parse_args(command.split()[1:])
            name = command.split()[2]
        else:
            name = f"bench-{command.partition('BENCH=')[2]}"
        value = f"<!-- value origins: result={name}: {{processor_minutes:.0f}} minutes -->"
        assert f"`{command}` ({value}" in finding
        assert "minutes" not in re.sub(r"<!-- value .*?<!-- /value -->", "", finding, flags=re.S)
        stored = stored_result(name).origin.command
        assert re.sub(r"(--artifact) \S+", r"\1 ARTIFACT", command) == stored


def test_wrong_minutes_of_a_finding_are_found(findings: str) -> None:
    """As any other number that differs from the stored one."""
    wrong = re.sub(r"-->(\d+) min", lambda match: f"-->{int(match[1]) + 1} min", findings)
    rows = cache(stored_rows)  # of which every file is read once
    assert renewed(findings, rows).differences == ()
    assert len(renewed(wrong, rows).differences) == 10


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[0][3:40])
def test_an_example_of_the_developer_guide_runs(
    example: str, run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Each is a whole program, and warns of nothing."""
    done = run_python("-W", "error", "-c", example, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
