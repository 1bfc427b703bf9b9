"""Checkpoints of training with parameter servers.

The state is all parameters in single precision, then their momentum, in their order, whoever held
them; `parameter_servers/process.py` writes and reads it. The other file is written last and names
it, so a checkpoint is there as a whole or not at all.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import check_keys, dump, in_file, read_document
from goodalloc.experiments.studies.parameter_servers.networks import NETWORKS
from goodalloc.models.support.validation import require_choice, require_count, require_name

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

#: The file that says what the checkpoint is, and those of states.
CHECKPOINT = "checkpoint.json"
STATE = "state-{}.bin"

FORMAT = "goodalloc-ps-checkpoint"
KEYS = ("format", "version", "network", "steps", "state", "bytes")


class Checkpoint(NamedTuple):
    """State of the training of a network after some steps, and its file."""

    network: str
    steps: int
    file: Path

    @property
    def numbers(self) -> NDArray[np.float32]:
        """Parameters and momentum, of shape (2, parameters)."""
        return np.fromfile(self.file, dtype=np.float32).reshape(2, -1)


def new_state(folder: str | os.PathLike[str]) -> Path:
    """Create an empty file for a state, in a folder that is created if necessary.

    Raises
    ------
    ValueError
        If there cannot be one.
    """
    file = Path(folder).resolve() / STATE.format(secrets.token_hex(8))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(exist_ok=False)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"Folder '{folder}': cannot be written ({reason}).") from error
    return file


def write_checkpoint(folder: str | os.PathLike[str], network: str, steps: int, state: Path) -> None:
    """Make a state that was written the checkpoint of a folder, in place of what was there.

    Parameters
    ----------
    folder
        That of the state.
    network, steps
        Network and number of steps.
    state
        The file.
    """
    document = {
        "format": FORMAT,
        "version": 1,
        "network": network,
        "steps": steps,
        "state": state.name,
        "bytes": state.stat().st_size,
    }
    write_atomically(Path(folder) / CHECKPOINT, dump(document) + "\n")
    for other in state.parent.glob(STATE.format("*")):
        if other != state:
            other.unlink()


def read_checkpoint(folder: str | os.PathLike[str]) -> Checkpoint:
    """Read the checkpoint in a folder.

    Raises
    ------
    ValueError
        If there is no checkpoint, or it is damaged.
    """
    path = Path(folder).resolve() / CHECKPOINT
    document = read_document(path, (FORMAT,))
    try:
        check_keys("The checkpoint", document, KEYS)
        require_choice("network", document["network"], tuple(NETWORKS))
        require_count("steps", document["steps"], 0)
        require_name("state", document["state"])
        file = path.parent / Path(document["state"]).name
        size = file.stat().st_size if file.is_file() else 0
        if size == 0 or size != document["bytes"]:
            raise ValueError(
                f"its state '{file.name}' has {size} bytes; expected {document['bytes']}."
            )
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
    return Checkpoint(document["network"], document["steps"], file)
