"""The pages of the site: those written here, those that stand beside what they explain, and those
that are written from the code.

`write_site` puts all of them into one folder, which Sphinx reads. Pages keep their paths, but for
`.docs/`, which is the root of the site, so a link that works in the repository works in the site:
its target is found in the repository first.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from choices import choice_tables, gallery_pages, result_list, tutorial_list
from faces import FOLDERS, ROOT, faces
from reference_pages import api_pages, command_page, house_page

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = ROOT / ".docs"

#: Pictures that pages show (`.docs/screenshots.py` makes them).
PICTURES = HERE / "pictures"

#: Pages at the root of the repository that the site has too.
TOP_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")

#: Pages of the repository that have another name in the site.
RENAMED = {"README.md": "index.md"}

FENCE = re.compile(r"(^(`{3,}|~{3,}).*?^\2`*$)", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^()#\s]+)(#[^()\s]*)?(?=\))")


def written_pages() -> Iterator[Path]:
    """The Markdown pages that somebody wrote, relative to the repository."""
    for name in TOP_PAGES:
        yield Path(name)
    for folder in (*FOLDERS, ".docs"):
        for page in sorted((ROOT / folder).rglob("*.md")):
            yield page.relative_to(ROOT)


def generated_pages() -> dict[str, str]:
    """The pages that are written from the code, by their path in the site."""
    return {
        **api_pages(),
        "reference/command_line.md": command_page(),
        "developer/house.md": house_page(),
        **choice_tables(),
        **gallery_pages(),
        **result_list(),
        **tutorial_list(),
    }


def site_pages() -> dict[str, str]:
    """All pages of the site by their path in it."""
    pages = {}
    sources: set[Path] = set()
    for page in written_pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        pages[str(site_path(page))] = relinked(text, page, sources)
    for source in sorted(sources):
        pages[f"source/{source}.md"] = _source_page(source)
    return {**pages, **generated_pages()}


def site_pictures() -> dict[str, Path]:
    """The pictures of the site by their path in it, and where they are in the repository."""
    return {str(site_path(path.relative_to(ROOT))): path for path in sorted(PICTURES.glob("*.png"))}


def site_path(page: Path) -> Path:
    """Where a page of the repository is in the site."""
    if str(page) in RENAMED:
        return Path(RENAMED[str(page)])
    return page.relative_to(".docs") if page.parts[0] == ".docs" else page


def relinked(text: str, page: Path, sources: set[Path]) -> str:
    """A page with its links to files of the repository led to pages of the site.

    Parameters
    ----------
    text
        The page.
    page
        Its path in the repository.
    sources
        Files that are linked and are no pages; they are added here, and get a page each.

    Raises
    ------
    ValueError
        If a link leads nowhere.
    """

    def led(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2] or ""
        if "://" in link or link.startswith("mailto:"):
            return match[0]
        target = Path(os.path.normpath(page.parent / link))
        found = _site_target(target, sources)
        if found is None:
            raise ValueError(f"{page}: the link '{link}' leads to no file of the repository.")
        return os.path.relpath(found, site_path(page).parent) + anchor

    parts = FENCE.split(text)
    # `split` gives text, fence and its backticks in turn; a directive's fence may hold links.
    for index in range(0, len(parts), 3):
        parts[index] = LINK.sub(led, parts[index])
    return "".join(part for index, part in enumerate(parts) if index % 3 != 2)


def write_site(folder: Path) -> None:
    """Write all pages and pictures into a folder and remove others; files that are as they should
    be stay."""
    files = {name: text.encode("utf-8") for name, text in site_pages().items()}
    files |= {name: path.read_bytes() for name, path in site_pictures().items()}
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in files:
            path.unlink()
    for name, content in files.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _site_target(target: Path, sources: set[Path]) -> Path | None:
    if target.suffix == ".md" and target.parts[0] in (*FOLDERS, ".docs", *TOP_PAGES, *RENAMED):
        return site_path(target) if (ROOT / target).is_file() else None
    if ROOT / target in site_pictures().values():
        return site_path(target)
    if (ROOT / target).is_dir():
        package = ".".join(("goodalloc", *target.parts))
        known = package in faces()
        return Path(f"reference/api/{package}.rst" if known else "developer/house.md")
    if (ROOT / target).is_file():
        sources.add(target)
        return Path(f"source/{target}.md")
    return None


def _source_page(source: Path) -> str:
    text = (ROOT / source).read_text(encoding="utf-8")
    language = "python" if source.suffix == ".py" else "text"
    return f"---\norphan: true\n---\n# `{source}`\n\n``````{language}\n{text}\n``````\n"
