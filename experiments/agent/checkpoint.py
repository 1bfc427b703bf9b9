"""Checkpoints of a training agent: everything that training depends on, in one file (PyTorch).

The file holds tensors, numbers and their containers only, and is read so (`weights_only`): whatever
a file that somebody else has written contains, nothing of it is run.
"""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.json_file import write_bytes_atomically

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

VERSION = 1

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
    """Where the random numbers of this process are: Python's, NumPy's and PyTorch's."""
    import torch

    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": torch.random.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random(states: dict[str, Any]) -> None:
    """Put the random numbers of this process back to where they were."""
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
    """Begin the random numbers of this process anew: what goes on as other replicas has no past.

    Parameters
    ----------
    entropy
        Numbers of at least 0; others give other random numbers.
    """
    import torch

    ours, theirs, torchs = np.random.SeedSequence(entropy).generate_state(3).tolist()
    random.seed(ours)
    np.random.seed(theirs)  # noqa: NPY002
    torch.manual_seed(torchs)


def save_checkpoint(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a checkpoint; it is there as a whole or not at all.

    Raises
    ------
    ValueError
        If it cannot be written.
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
    """The checkpoint in a file, on the processor; None if there is no file.

    Parameters
    ----------
    path
        The file.
    name
        Of the job.
    parameters
        Shapes of what it trains.
    companions
        Names of what else it holds.

    Raises
    ------
    ValueError
        If it cannot be read, or is that of something else.
    """
    import torch

    if not Path(path).exists():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what a damaged file raises is not documented
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
