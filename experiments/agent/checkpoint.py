"""Checkpoints of a training agent: the complete state of a training, in one file (PyTorch).

The file holds tensors, numbers and their containers only, and is read as such (`weights_only`), so
that no code in a file of another origin is run.
"""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.atomic_write import write_bytes_atomically

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

#: Version of the layout of the file.
VERSION = 2

#: Keys of the file.
KEYS = (
    "version",
    "name",
    "parameters",
    "replicas",
    "module",
    "optimiser",
    "companions",
    "random",
    "meter",
    "average",
    "report",
    "choice",
    "counts",
)


def random_states() -> dict[str, Any]:
    """Return the states of the random number generators of Python, NumPy and PyTorch."""
    import torch

    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": torch.random.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random(states: dict[str, Any]) -> None:
    """Restore the states that `random_states` returned."""
    import torch

    version, inner, gauss = states["python"]
    random.setstate((version, tuple(inner), gauss))
    kind, keys, position, has_gauss, cached = states["numpy"]
    state = (kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached)
    np.random.set_state(state)  # noqa: NPY002
    torch.random.set_rng_state(states["torch"])
    if len(states["cuda"]) == torch.cuda.device_count() > 0:
        torch.cuda.set_rng_state_all(states["cuda"])


def seed_random(entropy: Sequence[int]) -> None:
    """Seed the generators of this process, for a job that is resumed on another number of replicas.

    Parameters
    ----------
    entropy
        Numbers of at least 0 that determine the seeds.
    """
    import torch

    ours, theirs, torchs = np.random.SeedSequence(entropy).generate_state(3).tolist()
    random.seed(ours)
    np.random.seed(theirs)  # noqa: NPY002
    torch.manual_seed(torchs)


def save_checkpoint(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a checkpoint atomically.

    Raises
    ------
    ValueError
        If the file cannot be written.
    """
    import torch

    stream = io.BytesIO()
    torch.save(content | {"version": VERSION}, stream)
    write_bytes_atomically(path, stream.getvalue())


def load_checkpoint(
    path: str | os.PathLike[str],
    name: str,
    parameters: list[tuple[int, ...]],
    companions: Iterable[str],
) -> dict[str, Any] | None:
    """Return the checkpoint in a file, in the memory of the processor; None if there is no file.

    Parameters
    ----------
    path
        The file.
    name
        Name of the job.
    parameters
        Shapes of the trained parameters.
    companions
        Names of the other objects with a state.

    Raises
    ------
    ValueError
        If the file cannot be read or has another version, or is of another job, of parameters of
        other shapes or of other companions.
    """
    import torch

    if not Path(path).exists():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch does not document the errors of a damaged file
        reason = str(error).split("\n", maxsplit=1)[0].split(". ", maxsplit=1)[0]
        raise ValueError(f"Checkpoint '{path}' cannot be read ({reason}).") from error
    if not isinstance(found, dict) or any(key not in found for key in KEYS):
        raise ValueError(f"Checkpoint '{path}' has other parts; expected one of a training agent.")
    if found["version"] != VERSION:
        raise ValueError(
            f"Checkpoint '{path}': version is {found['version']!r}; expected {VERSION}."
        )
    if found["name"] != name:
        raise ValueError(f"Checkpoint '{path}' is of job {found['name']!r}; expected '{name}'.")
    shapes = [tuple(shape) for shape in found["parameters"]]
    if shapes != parameters:
        raise ValueError(
            f"Checkpoint '{path}' has {len(shapes)} parameters of other shapes than the module's "
            f"{len(parameters)}; expected those of the module."
        )
    odd = sorted(set(companions) ^ set(found["companions"]))
    if odd:
        raise ValueError(
            f"Checkpoint '{path}': companion '{odd[0]}' is in only one of checkpoint and agent; "
            "expected it in both."
        )
    return found
