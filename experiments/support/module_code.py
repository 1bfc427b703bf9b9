"""Digests of the code of modules, by which results are known to be older than what made them.

Words do not count: comments, docstrings and blank lines are left out before the digest is taken.
"""

from __future__ import annotations

import ast
import hashlib
import io
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.experiments.support.version import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Rooms and modules that show results, list what there is, or run commands as processes of their
#: own, and do not change any result. Entries of the table of policies keep their meaning
#: (`tests/solvers/policies/test_policy_table.py`).
WITHOUT_EFFECT = (
    "experiments.cli",
    "experiments.live.live_policies",
    "experiments.live.policy_names",
    "experiments.reporting.axes",
    "experiments.reporting.figure_layout",
    "experiments.reporting.plots",
    "experiments.reporting.progress",
    "experiments.reporting.range_plot",
    "experiments.reporting.report",
    "experiments.studies.catalogue",
    "experiments.studies.documents",
    "experiments.studies.framework.cell_template",
    "experiments.studies.framework.result_document",
    "experiments.studies.framework.stored_result",
    "experiments.studies.published_entries",
    "experiments.studies.renewal",
    "experiments.support",
    "solvers.policies.policy_table",
)


#: Digest of a module that is gone.
GONE = "gone"


#: Rooms of the studies, none of which affects another that does not import it.
STUDIES = "experiments.studies."


def used_modules() -> tuple[str, ...]:
    """Return the modules of the library that this process has loaded and that affect results.

    Names are those below `goodalloc`, in alphabetical order; packages are left out, which only
    offer the names of their modules.

    Examples
    --------
    >>> from goodalloc.experiments.support.module_code import used_modules
    >>> import goodalloc.models.round.job
    >>> "models.round.job" in used_modules()
    True
    """
    names = (name.partition(".")[2] for name in sys.modules if name.startswith("goodalloc."))
    return tuple(sorted(name for name in names if _counts(name) and _is_module(name)))


def taking_part(root: str, modules: Iterable[str]) -> tuple[str, ...]:
    """Return the modules without those of studies that `root` does not import, however far.

    Several studies may run in one process, which has then loaded the modules of all of them.

    Parameters
    ----------
    root
        Name of the study's module, below `goodalloc`.
    modules
        Names of modules that were loaded.

    Examples
    --------
    >>> from goodalloc.experiments.support.module_code import taking_part
    >>> modules = ("models.round.job", "experiments.studies.classical.allox")
    >>> taking_part("experiments.studies.classical.hesrpt", modules)
    ('models.round.job',)
    """
    imported = _imported_studies(root)
    return tuple(name for name in modules if not name.startswith(STUDIES) or name in imported)


@cache
def _imported_studies(root: str) -> frozenset[str]:
    """Return `root` and the modules of studies that it imports, directly or through such."""
    found, left = {root}, [root]
    while left:
        path = _path(left.pop())
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
        for name in _imports(tree):
            if name.startswith(STUDIES) and name not in found and _is_module(name):
                found.add(name)
                left.append(name)
    return frozenset(found)


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports anywhere, or names by a dotted path, below `goodalloc`.

    Names may be those of objects.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value.partition(":")[0]]
        else:
            continue
        yield from (name.partition(".")[2] for name in names if name.startswith("goodalloc."))


def _is_module(name: str) -> bool:
    return _path(name).name != "__init__.py" and _path(name).is_file()


def code_digests(modules: Iterable[str]) -> dict[str, str]:
    """Return a digest of eight characters of the code of each module, by its name.

    A module that is gone has the digest ``"gone"``.

    Examples
    --------
    >>> from goodalloc.experiments.support.module_code import code_digests
    >>> code_digests(["models.no_such_module"])
    {'models.no_such_module': 'gone'}
    """
    return {name: _digest(name) for name in modules}


def changed_modules(digests: Mapping[str, str]) -> tuple[str, ...]:
    """Return the modules whose code no longer has its digest, in alphabetical order.

    Those that count no longer, as they are known to affect nothing, are left out.

    Parameters
    ----------
    digests
        Digests as `code_digests` returned them.

    Examples
    --------
    >>> from goodalloc.experiments.support.module_code import changed_modules
    >>> changed_modules({"models.no_such_module": "1234abcd", "models.gone": "gone"})
    ('models.no_such_module',)
    """
    now = code_digests(filter(_counts, digests))
    return tuple(name for name in sorted(now) if now[name] != digests[name])


def plain_code(source: str) -> str:
    r"""Return the lines of Python source without comments, docstrings and blank lines.

    Examples
    --------
    >>> from goodalloc.experiments.support.module_code import plain_code
    >>> plain_code('def f():\n    "Say."\n\n    return 1  # one\n')
    'def f():\n    return 1'
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            lines[first : last + 1] = [""] * (last - first + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _counts(name: str) -> bool:
    return not any(name == room or name.startswith(f"{room}.") for room in WITHOUT_EFFECT)


def _path(name: str) -> Path:
    """Return the file of a module or package."""
    folder, *rest = name.split(".")
    roots = {package.__name__.rpartition(".")[2]: package.__path__[0] for package in PACKAGES}
    path = Path(roots.get(folder, "")).joinpath(*rest)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _digest(name: str) -> str:
    path = _path(name)
    if not path.is_file():
        return GONE
    code = plain_code(path.read_text(encoding="utf-8"))
    return hashlib.sha256(code.encode()).hexdigest()[:8]
