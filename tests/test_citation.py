"""How to cite goodalloc: `CITATION.cff` says what the project says."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def test_the_citation_agrees_with_the_project(repository: Path) -> None:
    """Title, version, licence, abstract and keywords, wherever they stand."""
    text = (repository / "CITATION.cff").read_text(encoding="utf-8")
    with (repository / "pyproject.toml").open("rb") as stream:
        project = tomllib.load(stream)["project"]

    def told(key: str) -> set[str]:
        return set(re.findall(rf"^ *{key}: (.+)$", text, flags=re.MULTILINE))

    assert re.search(rf"^title: {project['name']}$", text, flags=re.MULTILINE)
    assert told("version") == {project["version"]}
    assert told("license") == {project["license"]}
    assert told("abstract") == {project["description"]}
    assert re.findall(r"^  - (\w[\w -]*)$", text, flags=re.MULTILINE) == project["keywords"]


def test_the_citation_is_in_the_source_distribution(repository: Path) -> None:
    """`MANIFEST.in` names it."""
    assert "CITATION.cff" in (repository / "MANIFEST.in").read_text(encoding="utf-8").split()
