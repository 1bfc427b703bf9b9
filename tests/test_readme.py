"""README, guide and library are run: Python blocks as programs, commands through the parser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli.arguments import build_parser
from goodalloc.experiments.studies.catalogue import ENTRIES
from goodalloc.experiments.support.extras import MODULES
from goodalloc.solvers.policies.policy_table import POLICIES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent

PAGES = [
    page.read_text(encoding="utf-8")
    for page in (
        ROOT / "README.md",
        ROOT / "experiments" / "GUIDE.md",
        ROOT / "experiments" / "LIBRARY.md",
        *sorted((ROOT / "experiments" / "guide").glob("*.md")),
    )
]

#: Numbers in the blocks, and those with which they show the same in less time.
SMALLER = {
    "jobs=2000, nodes=1000": "jobs=200, nodes=100",
    "range(10)": "range(2)",
    "interval=300.0": "interval=4800.0",
    "range(5)": "range(3)",
    "(20)": "(4)",
    "(20,": "(4,",
    "epochs=20": "epochs=2",
}

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def blocks(*languages: str) -> list[str]:
    """Code blocks of the pages in any of the languages."""
    found = [block for page in PAGES for block in FENCE.findall(page)]
    return [body for language, body in found if language in languages]


def command_lines() -> list[list[str]]:
    """Arguments of every call of `goodalloc` in a shell block, continuation lines joined."""
    text = "\n".join(blocks("sh", "bash", "shell", "console")).replace("\\\n", " ")
    words = (shlex.split(line.removeprefix("$ "), comments=True) for line in text.splitlines())
    return [line[1:] for line in words if line[:1] == ["goodalloc"]]


def test_the_readme_is_one_screen() -> None:
    """At most 6 KB; what is more belongs into the guide or the documentation."""
    assert (ROOT / "README.md").stat().st_size <= 6_000


def test_the_readme_counts_the_policies() -> None:
    """As many as there are names."""
    assert f"under {len(POLICIES)} policies" in PAGES[0]


def test_the_readme_counts_the_reproductions() -> None:
    """As many as `goodalloc reproduce list` has."""
    count = re.search(r"(\d+) tables, figures and studies", PAGES[0])
    assert count is not None
    assert int(count[1]) == len(ENTRIES)


def test_what_is_made_smaller_is_in_the_pages() -> None:
    """Else a block would run with its own numbers, for a long time."""
    assert not [numbers for numbers in SMALLER if numbers not in "".join(blocks("python"))]


@pytest.mark.parametrize("block", blocks("python"))
def test_a_python_block_has_all_that_it_needs(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With smaller numbers and with no other names than its own, it runs in an empty folder."""
    if "import torch" in block:
        pytest.importorskip("torch", reason="needs goodalloc[measure]")
    for numbers, smaller in SMALLER.items():
        block = block.replace(numbers, smaller)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("python"))
def test_a_python_block_runs_by_itself(
    block: str, run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Each block is a whole program that runs in an empty folder."""
    done = run_python("-c", block, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments", {" ".join(line): line for line in command_lines()}.values(), ids=" ".join
)
def test_a_command_line_is_understood(arguments: list[str]) -> None:
    """The command line's own parser accepts each call as it is written."""
    for extra, modules in MODULES.items():
        if any(word.startswith(f"{extra}:") for word in arguments):
            pytest.importorskip(modules[0], reason=f"needs goodalloc[{extra}]")
    build_parser().parse_args(arguments)
