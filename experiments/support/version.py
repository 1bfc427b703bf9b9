"""Version of the library, which is part of every stored row."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import goodalloc.data
import goodalloc.experiments
import goodalloc.formulations
import goodalloc.models
import goodalloc.solvers

#: Packages whose code the digest covers.
PACKAGES = (
    goodalloc.models,
    goodalloc.data,
    goodalloc.formulations,
    goodalloc.solvers,
    goodalloc.experiments,
)


def library_version() -> str:
    """Return the installed version, or that of the source tree if none is installed."""
    try:
        return version("goodalloc")
    except PackageNotFoundError:
        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        if not project.is_file():
            return "unknown"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


@cache
def code_digest() -> str:
    """Return a digest of the code of the library, of twelve characters."""
    found = hashlib.sha256()
    for folder in PACKAGES:
        for path in sorted(Path(folder.__path__[0]).rglob("*.py")):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:12]
