"""Persistent compilation cache of JAX, in the cache folder of the user."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Environment variable of the folder of the cache.
CACHE = "JAX_COMPILATION_CACHE_DIR"

#: Environment variable of the least compilation time, in seconds, of cached programs.
LEAST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def compilation_cache() -> dict[str, str]:
    """Return the environment variables that turn the cache on; those that are set take precedence.

    They are empty if the folder cannot be made.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
    with contextlib.suppress(OSError):
        folder = Path(cache) / "goodalloc" / "jax"
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {CACHE: str(folder), LEAST: "0.1"}
        return {name: os.environ.get(name, value) for name, value in wanted.items()}
    return {}
