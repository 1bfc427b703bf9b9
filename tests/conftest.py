"""Fixtures shared by all tests; no global state is set here.

JAX's x64 flag in particular stays off: the library must give float64 by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import goodalloc.models

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent

RunPython = Callable[..., subprocess.CompletedProcess[str]]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `gpu` where PyTorch sees none, and `gpu("jax")` where JAX sees none."""
    marker = item.get_closest_marker("gpu")
    if marker is None:
        return
    if "jax" in marker.args:
        import jax

        if jax.default_backend() == "cpu":
            pytest.skip("JAX sees no GPU")
    else:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("PyTorch sees no GPU")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder of the published reference data; skips the test where there is none."""
    folder = Path(os.environ.get("GOODALLOC_REFERENCE", ROOT / "../shared/reference")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no reference data at {folder}; GOODALLOC_REFERENCE names its folder")
    return folder


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    """PyTorch on one core; skips the test where there is none."""
    found = pytest.importorskip("torch", reason="needs goodalloc[measure]")
    threads = found.get_num_threads()
    found.set_num_threads(1)
    yield found
    found.set_num_threads(threads)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Environment of a new process that imports the same goodalloc as the tests do.

    On one thread, since many threads of several processes wait for each other on few cores.
    """
    importable = str(Path(goodalloc.models.__path__[0]).parent.parent)
    return os.environ | {"PYTHONPATH": importable, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def run_python(environment: dict[str, str]) -> RunPython:
    """Run Python in a new process that imports the same goodalloc as the tests do."""

    def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
