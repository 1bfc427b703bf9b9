"""The public names of goodalloc, read from the faces of its rooms without importing them."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The five folders, in the order in which they may import each other.
FOLDERS = ("models", "data", "formulations", "solvers", "experiments")

#: Longest value of a constant that its entry shows.
LONGEST_VALUE = 80


@dataclass(frozen=True)
class PublicName:
    """A name for users.

    Parameters
    ----------
    package
        The package whose face has it, as ``goodalloc.models.round``.
    name
        The name.
    module
        The module that defines it, as ``goodalloc.models.round.cluster``.
    kind
        ``class``, ``function`` or ``data``.
    text
        Its docstring, or the comment on a constant.
    value
        The expression of a short constant or an alias of a type; empty otherwise.
    bases
        What a class derives from.
    """

    package: str
    name: str
    module: str
    kind: str
    text: str
    value: str = ""
    bases: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The first paragraph of its text, on one line."""
        return " ".join(self.text.split("\n\n")[0].split())


def room_path(package: str) -> Path:
    """The folder of a package ``goodalloc.…``."""
    return ROOT.joinpath(*package.split(".")[1:])


def room_sentence(package: str) -> str:
    """What the docstring of a package says it is for."""
    return _docstring(room_path(package) / "__init__.py")


@cache
def rooms() -> tuple[str, ...]:
    """All packages in the order of the house: each folder, then its rooms.

    The order of the rooms is that of the list in ``tests/test_rooms.py``, which a test enforces.
    """
    tree = ast.parse((ROOT / "tests" / "test_rooms.py").read_text(encoding="utf-8"))
    order: dict[str, tuple[str, ...]] = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS"
    )
    found = []
    for folder in FOLDERS:
        found.append(f"goodalloc.{folder}")
        found += [f"goodalloc.{folder}.{room}" for room in order[folder] if room]
    return tuple(found)


@cache
def faces() -> dict[str, tuple[PublicName, ...]]:
    """The public names of every package that has a face, in the order of the house."""
    return {
        package: tuple(_names_of(package))
        for package in rooms()
        if (room_path(package) / "__init__.pyi").is_file()
    }


@cache
def homes() -> dict[str, PublicName]:
    """Where each name is documented: in the smallest room whose face has it.

    The keys are ``module.name`` of the definition.
    """
    found: dict[str, PublicName] = {}
    for names in faces().values():
        for public in names:
            key = f"{public.module}.{public.name}"
            if key not in found or public.package.count(".") > found[key].package.count("."):
                found[key] = public
    return found


def home_of(public: PublicName) -> PublicName:
    """The entry under which a name is documented."""
    return homes()[f"{public.module}.{public.name}"]


@cache
def entries() -> dict[str, str]:
    """The full name of the entry of everything that a text may call a public name.

    That is its path in any face, the path of its definition, and, where only one has it, the bare
    name.
    """
    found = {}
    times = Counter(public.name for public in homes().values())
    for public in (public for names in faces().values() for public in names):
        entry = f"{home_of(public).package}.{public.name}"
        found[f"{public.package}.{public.name}"] = entry
        found[f"{public.module}.{public.name}"] = entry
        if times[public.name] == 1:
            found[public.name] = entry
    return found


def _names_of(package: str) -> list[PublicName]:
    stub = ast.parse((room_path(package) / "__init__.pyi").read_text(encoding="utf-8"))
    found = []
    for node in stub.body:
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        # A lazy face imports relatively: each dot beyond the first goes up by a room.
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        module = ".".join((*above, node.module))
        found += [_described(package, alias.asname or alias.name, module) for alias in node.names]
    return sorted(found, key=lambda public: (_RANK[public.kind], public.name.lower()))


_RANK = {"class": 0, "function": 1, "data": 2}


def _described(package: str, name: str, module: str) -> PublicName:
    path = room_path(module).with_suffix(".py")
    source = path.read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            text, bases = ast.get_docstring(node) or "", tuple(map(ast.unparse, node.bases))
            return PublicName(package, name, module, "class", text, bases=bases)
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return PublicName(package, name, module, "function", ast.get_docstring(node) or "")
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in _assigned(node):
            value = "" if node.value is None else ast.unparse(node.value)
            shown = value if len(value) <= LONGEST_VALUE else ""
            text = _comment_above(source, node.lineno)
            return PublicName(package, name, module, "data", text, shown)
    raise ValueError(f"Face of {package}: '{name}' is not defined in {module}.")


def _assigned(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [
        part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
    ]


def _comment_above(source: str, line: int) -> str:
    """The lines ``#: …`` right above a line."""
    lines, found = source.splitlines()[: line - 1], []
    while lines and lines[-1].startswith("#"):
        found.append(lines.pop().lstrip("#").removeprefix(":").strip())
    return "\n".join(reversed(found))


@cache
def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
