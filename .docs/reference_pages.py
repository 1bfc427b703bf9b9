"""The pages of the reference that are written from the code: the API and the command line."""

from __future__ import annotations

import contextlib
import io
import os
from typing import TYPE_CHECKING
from unittest import mock

from faces import FOLDERS, faces, home_of, room_sentence, rooms

from goodalloc.experiments.cli.arguments import COMMANDS, build_parser

if TYPE_CHECKING:
    from collections.abc import Iterable

    from faces import PublicName

DIRECTIVES = {"class": "autoclass", "function": "autofunction"}


def api_pages() -> dict[str, str]:
    """Every page of the API by its path in the site: an index, and a page for every face."""
    pages = {f"reference/api/{package}.rst": _room_page(package) for package in faces()}
    return {"reference/api/index.rst": _index_page(), **pages}


def command_page() -> str:
    """The command line, as its parsers describe it."""
    lines = [
        "# Command line\n",
        "What `goodalloc --help` and `goodalloc COMMAND --help` print.\n",
        _help_block(),
    ]
    for name in COMMANDS:
        lines += [f"(command-{name})=", f"## `goodalloc {name}`\n", _help_block(name)]
    return "\n".join(lines)


def house_page() -> str:
    """The rooms of the house in order, with their sentences."""
    lines = [
        "# The house on a page\n",
        "Five folders are installed as one import package, `goodalloc`. Imports go one way: a",
        "folder imports itself and those above it here, a room itself and the rooms above it.",
        "`tests/test_rooms.py` states the order and refuses an import that runs against it. A room",
        "holds at most 16 modules; a chain of imports is at most 12 modules long.\n",
    ]
    for package in rooms():
        known = package in faces()
        shown = f"[`{package}`](../reference/api/{package}.rst)" if known else f"`{package}`"
        if package.count(".") == 1:
            lines += ["", f"## {shown}\n", _md(room_sentence(package)), ""]
        else:
            lines.append(f"- {shown}: {_md(room_sentence(package))}")
    return "\n".join(lines) + "\n"


def _md(sentence: str) -> str:
    return sentence.replace("*", r"\*")


def _help_block(*arguments: str) -> str:
    printed = io.StringIO()
    width = mock.patch.dict(os.environ, {"COLUMNS": "96", "NO_COLOR": "1"})
    with width, contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        build_parser().parse_args([*arguments, "--help"])
    return f"```text\n{printed.getvalue().rstrip()}\n```\n"


def _index_page() -> str:
    lines = [
        *_title("Programming interface", "="),
        "Import from the folder or from the room, never from a module: its place may change.",
        "",
    ]
    for folder in FOLDERS:
        top = f"goodalloc.{folder}"
        inside = [name for name in faces() if name == top or name.startswith(f"{top}.")]
        lines += [*_title(f"``{top}``", "-"), room_sentence(top), ""]
        lines += [f"- :doc:`{name}`: {room_sentence(name)}" for name in inside]
        lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in inside), ""]
    return "\n".join(lines)


def _room_page(package: str) -> str:
    names = faces()[package]
    lines = [
        *_title(package, "="),
        room_sentence(package),
        "",
        f".. py:module:: {package}",
        "",
        *_table(names),
    ]
    for public in names:
        if home_of(public).package == package:
            lines += _entry(public)
    return "\n".join(lines)


def _title(text: str, rule: str) -> list[str]:
    return [text, rule * len(text), ""]


def _table(names: Iterable[PublicName]) -> list[str]:
    lines = [".. list-table::", "   :widths: 30 70", ""]
    for public in names:
        summary = public.summary or f"See `{public.module}`."
        target = f"{home_of(public).package}.{public.name}"
        lines += [f"   * - :py:obj:`{public.name} <{target}>`", f"     - {summary}"]
    return [*lines, ""]


def _entry(public: PublicName) -> list[str]:
    if public.kind in DIRECTIVES:
        lines = [f".. {DIRECTIVES[public.kind]}:: {public.package}.{public.name}"]
        if public.kind == "class":
            lines.append("   :members:")
        if public.bases:
            lines.append("   :show-inheritance:")
        if any(base.endswith("Enum") for base in public.bases):
            lines.append("   :undoc-members:")
        return [*lines, ""]
    lines = [f".. py:data:: {public.name}"]
    if public.value:
        lines.append(f"   :value: {public.value}")
    return [*lines, "", *(f"   {line}" for line in public.text.splitlines()), ""]
