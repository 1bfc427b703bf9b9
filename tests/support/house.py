"""What the modules of goodalloc import, read from their source."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]

#: A folder may import itself and those before it.
FOLDERS = ("models", "data", "formulations", "solvers", "experiments")


def module_name(path: Path) -> str:
    """The name of a module within goodalloc, as ``solvers.exact.highs``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    """All modules but the faces of packages, by name."""
    return {
        module_name(path): path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "__init__.py"
    }


def room_of(module: str) -> str:
    """The room of a module."""
    return module.rpartition(".")[0]


@cache
def imports(*, at_start: bool) -> Mapping[str, frozenset[str]]:
    """The modules that every module imports.

    Parameters
    ----------
    at_start
        Whether only those that are imported when it is, neither later nor for type checkers alone.
    """
    return {name: found[at_start] for name, found in _imports().items()}


@cache
def _imports() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """The modules that every module imports, whenever that is, and at its start; read once."""
    found = {}
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        later, at_start = (
            frozenset(target for node in _statements(tree.body, only) for target in _targets(node))
            for only in (False, True)
        )
        others = modules().keys() - {name}
        found[name] = (later & others, at_start & others)
    return found


def _statements(body: list[ast.stmt], at_start: bool) -> Iterator[ast.stmt]:
    for node in body:
        if at_start and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if at_start and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        yield from _statements(inner, at_start)


def _targets(node: ast.stmt) -> Iterator[str]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    yield from (name.removeprefix("goodalloc.") for name in names if name.startswith("goodalloc."))


def longest_chain() -> tuple[str, ...]:
    """The longest chain of modules that each import the next when they are imported."""
    graph = imports(at_start=True)

    @cache
    def chain(module: str) -> tuple[str, ...]:
        return (module, *max((chain(target) for target in graph[module]), key=len, default=()))

    return max(map(chain, graph), key=len)


def arrows() -> set[tuple[str, str]]:
    """Pairs of rooms of which the first imports the second, whenever that is."""
    return {
        (room_of(module), room_of(target))
        for module, targets in imports(at_start=False).items()
        for target in targets
        if room_of(module) != room_of(target)
    }
