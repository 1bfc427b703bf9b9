"""Which version of the library this is: part of every stored row."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def library_version() -> str:
    """The installed version, or that of the source tree where nothing is installed."""
    try:
        return version("goodalloc")
    except PackageNotFoundError:
        project = Path(__file__).resolve().parent.parent / "pyproject.toml"
        if not project.is_file():
            return "unknown"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
