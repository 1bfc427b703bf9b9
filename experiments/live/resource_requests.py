"""Cores and memory that real jobs request for each replica, a file beside their submission.

`goodalloc-request` is an object with an amount for each resource; see `FORMAT.md`. A job without
the file requests nothing beside GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    as_float,
    check_keys,
    in_file,
    read_document,
    rows_text,
)
from goodalloc.models.round.mode import require_resources, resources
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.models.round.mode import Resources

REQUEST, REQUEST_FORMAT = "request.json", "goodalloc-request"

#: Names of the resources: cores, and memory in GiB.
CORES, MEMORY = "cpu", "memory"

#: Bytes of a GiB.
GIB = 2**30

#: Policies that allocate them.
KNOWING = (
    "pollux",
    "pollux-untied",
    "pollux-goodput",
    "pollux-remaining",
    "pollux-greedy",
    "pollux-genetic",
)


def request_of(job: str, cores: float = 0.0, memory: float = 0.0) -> Resources:
    """Return the request of a job for each of its replicas.

    Parameters
    ----------
    job
        Name of the job.
    cores, memory
        Cores, and memory in GiB; 0 for none.

    Raises
    ------
    ValueError
        If an amount is negative, no number or too large.

    Examples
    --------
    >>> from goodalloc.experiments.live import request_of
    >>> request_of("mine", cores=4)
    (('cpu', 4.0),)
    """
    amounts = {CORES: cores, MEMORY: memory}
    for name, amount in amounts.items():
        require_number(f"Job '{job}': {name}", amount, minimum=0.0)
    found = resources(amounts)
    require_resources(f"Job '{job}'", found)
    return found


def bundle(slot: str, request: Resources) -> dict[str, float]:
    """Return what Ray sets aside for a replica: its slot, and its request.

    Where a slot is a CPU, that is the first of the requested cores.

    Parameters
    ----------
    slot
        Resource of a slot, "GPU" or "CPU".
    request
        What a replica takes beside it.

    Examples
    --------
    >>> from goodalloc.experiments.live.resource_requests import bundle
    >>> bundle("GPU", (("cpu", 4.0), ("memory", 2.0)))
    {'GPU': 1.0, 'CPU': 4.0, 'memory': 2147483648.0}
    """
    asked = dict(request)
    found = {slot: 1.0}
    if asked.get(CORES):
        found["CPU"] = max(asked[CORES], found.get("CPU", 0.0))
    if asked.get(MEMORY):
        found["memory"] = float(round(asked[MEMORY] * GIB))
    return found


def write_request(folder: Path, request: Resources) -> None:
    """Write a request into the folder of its job; without one the file is removed.

    Raises
    ------
    ValueError
        If the file cannot be written.
    """
    if request:
        head = {"format": REQUEST_FORMAT, "version": 1, **dict(request)}
        write_atomically(folder / REQUEST, rows_text(head, {}))
    else:
        (folder / REQUEST).unlink(missing_ok=True)


def read_request(folder: Path) -> Resources:
    """Read the request of a job from its folder; empty if there is none.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed; the message names the file and the item.
    """
    path = folder / REQUEST
    if not path.exists():
        return ()
    document = read_document(path, (REQUEST_FORMAT,))
    try:
        given = check_keys("Request", document, ("format", "version"), (CORES, MEMORY))
        return request_of(
            folder.name,
            as_float(given.get(CORES, 0.0)),
            as_float(given.get(MEMORY, 0.0)),
        )
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def require_resources_known(policy: str, names: Sequence[str]) -> None:
    """Refuse a policy that does not allocate the resources of nodes.

    Parameters
    ----------
    policy
        Name of the policy; one of a user's own, as ``package.module:name``, is believed to.
    names
        Names of the resources that nodes have.

    Raises
    ------
    ValueError
        If it does not.

    Examples
    --------
    >>> from goodalloc.experiments.live import require_resources_known
    >>> require_resources_known("pollux", ("cpu", "memory"))
    """
    if names and policy not in KNOWING and ":" not in policy:
        raise ValueError(
            f"Policy '{policy}' allocates GPUs only and the nodes have {', '.join(names)}; "
            f"expected one of {', '.join(KNOWING)}."
        )
