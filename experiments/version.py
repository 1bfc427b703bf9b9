"""Which version of the library this is: part of every stored row."""

import hashlib
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import goodalloc.experiments
import goodalloc.models
import goodalloc.solvers


def library_version() -> str:
    """The installed version, or that of the source tree where nothing is installed."""
    try:
        return version("goodalloc")
    except PackageNotFoundError:
        project = Path(__file__).resolve().parent.parent / "pyproject.toml"
        if not project.is_file():
            return "unknown"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


@cache
def code_digest() -> str:
    """Twelve characters that tell versions of the library's code apart, released or not.

    They are those of what a simulation consists of: models, solvers and experiments.
    """
    found = hashlib.sha256()
    for folder in (goodalloc.models, goodalloc.solvers, goodalloc.experiments):
        for path in sorted(Path(folder.__path__[0]).glob("*.py")):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:12]
