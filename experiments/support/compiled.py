"""Where JAX keeps what it compiled, so that the next process need not: in the user's cache."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CACHE = "JAX_COMPILATION_CACHE_DIR"
"""The variable that says where."""

LEAST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
"""The variable that says what is kept: what took so many seconds or more."""


def compilation_cache() -> dict[str, str]:
    """Variables for JAX to keep what it compiles; what a user has set comes first.

    Empty where there can be no folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
    with contextlib.suppress(OSError):
        folder = Path(cache) / "goodalloc" / "jax"
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {CACHE: str(folder), LEAST: "0.1"}
        return {name: os.environ.get(name, value) for name, value in wanted.items()}
    return {}
