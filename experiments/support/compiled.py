"""What JAX compiled: its persistent cache in the folder of the user, and that of a process."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import platform
import sys
from pathlib import Path

#: Environment variable of the folder of the cache.
CACHE = "JAX_COMPILATION_CACHE_DIR"

#: Environment variable of the least compilation time, in seconds, of cached programs.
LEAST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"

#: Where Linux tells the features of its processors, and how their line begins on x86 and Arm.
PROCESSORS = Path("/proc/cpuinfo")
FEATURES = ("flags", "Features")

#: Where Linux tells the memory maps of this process, and the most that one may have.
MAPS, MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")

#: Part of these maps above which compiled programs are forgotten: each has several, and a process
#: without any left ends with a segmentation fault.
FULL = 0.25


def compilation_cache() -> dict[str, str]:
    """Return the environment variables that turn the cache on; those that are set take precedence.

    Machines whose processors differ have different folders, as they may share a home, and what is
    compiled for one may end another with an illegal instruction. The variables are none if the
    folder cannot be made, or the user has no home.
    """
    with contextlib.suppress(OSError, RuntimeError):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
        folder = Path(cache) / "goodalloc" / "jax" / _processor()
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {CACHE: str(folder), LEAST: "0.1"}
        return {name: os.environ.get(name, value) for name, value in wanted.items()}
    return {}


def forget_programs() -> bool:
    """Forget the programs that JAX compiled in this process if it has too many memory maps.

    They are compiled, or read from the persistent cache, once more where they are called again.

    Returns
    -------
    bool
        Whether they were forgotten; never where JAX is not loaded, or the system is not Linux.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    try:
        with MAPS.open("rb") as lines:
            full = sum(1 for _ in lines) > FULL * int(MOST_MAPS.read_text())
    except (OSError, ValueError):
        return False
    if full:
        jax.clear_caches()
        gc.collect()
    return full


def _processor() -> str:
    """Return a name that processors share which have the same features."""
    with contextlib.suppress(OSError), PROCESSORS.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(FEATURES):
                features = " ".join(sorted(line.partition(":")[2].split()))
                return hashlib.sha256(features.encode()).hexdigest()[:12]
    return platform.machine() or "unknown"
