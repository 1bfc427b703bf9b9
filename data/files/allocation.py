"""Allocations as files: versioned JSON by job and node names, documented in `FORMAT.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    check_format,
    check_keys,
    in_file,
    read_document,
    rows_text,
    shown,
)
from goodalloc.data.files.format_names import ALLOCATION_FORMAT, RESULT_FORMAT
from goodalloc.data.files.instance import placement_from_dict
from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.job import Job

VERSION = 1


def read_allocation(path: str | os.PathLike[str], instance: Instance) -> Allocation:
    """Read the allocation of an instance from an allocation file or a result file.

    It need not obey the rules of the instance; `violations` checks it.

    Raises
    ------
    ValueError
        If the file cannot be read, names an unknown job or node, belongs to an instance of another
        name, or is a result without an allocation; one sentence that names the file and the item.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark, read_allocation, write_allocation
    >>> instance = load_benchmark("tiny-cold")
    >>> write_allocation(instance.current, instance, "current.json")
    >>> read_allocation("current.json", instance) == instance.current
    True
    """
    document = read_document(path, (ALLOCATION_FORMAT, RESULT_FORMAT))
    try:
        if document["format"] == RESULT_FORMAT:
            check_instance_name(document, instance)
            placements = document.get("placements")
            if placements is None:
                raise ValueError("the result holds no allocation.")
            return placements_from_dict(placements, instance, document.get("modes", {}))
        return allocation_from_dict(document, instance)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def write_allocation(
    allocation: Allocation, instance: Instance, path: str | os.PathLike[str]
) -> None:
    """Write an allocation of an instance to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written or the allocation has another shape than the instance.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark, write_allocation
    >>> from goodalloc.models import Allocation
    >>> instance = load_benchmark("tiny-cold")
    >>> allocation = Allocation.from_matrix([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> write_allocation(allocation, instance, "mine.json")
    """
    document = allocation_to_dict(allocation, instance)
    tables = {"placements": document.pop("placements")}
    if "modes" in document:
        tables["modes"] = document.pop("modes")
    write_atomically(path, rows_text(document, tables))


def write_placements(
    path: str | os.PathLike[str], instance: str, placements: dict[str, dict[str, int]]
) -> None:
    """Write GPUs by job and node names as an allocation, atomically.

    Parameters
    ----------
    path
        The file.
    instance
        Name of what was decided.
    placements
        As `read_placements` reads them.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from goodalloc.data.files import read_placement, write_placements
    >>> write_placements("allocation.json", "round-1", {"job-0": {"node-1": 2}})
    >>> read_placement("allocation.json", "job-0")
    {'node-1': 2}
    """
    head = {"format": ALLOCATION_FORMAT, "version": VERSION, "instance": instance}
    write_atomically(path, rows_text(head, {"placements": placements}))


def allocation_to_dict(allocation: Allocation, instance: Instance) -> Document:
    """Return an allocation as JSON has it; see `FORMAT.md`."""
    return {
        "format": ALLOCATION_FORMAT,
        "version": VERSION,
        "instance": instance.name,
        "placements": placements_to_dict(allocation, instance),
        **modes_to_dict(allocation, instance),
    }


def allocation_from_dict(document: object, instance: Instance) -> Allocation:
    """Return the allocation of a document of `allocation_to_dict`.

    Raises
    ------
    ValueError
        If the document is malformed or a value is out of range; the message names the item.
    """
    checked = check_format(document, (ALLOCATION_FORMAT,), VERSION)
    required = ("format", "version", "instance", "placements")
    check_keys("Allocation", checked, required, ("modes",))
    check_instance_name(checked, instance)
    return placements_from_dict(checked["placements"], instance, checked.get("modes", {}))


def check_instance_name(document: Document, instance: Instance) -> None:
    """Refuse a document that belongs to an instance of another name.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.data.files import check_instance_name
    >>> check_instance_name({"instance": "tiny-cold"}, load_benchmark("tiny-cold"))
    """
    name = document.get("instance")
    if name != instance.name:
        raise ValueError(f"instance is {shown(name)}; expected '{instance.name}'.")


def placements_to_dict(allocation: Allocation, instance: Instance) -> dict[str, dict[str, int]]:
    """Return the GPUs by job name and node name, without jobs that hold none.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data import generate
    >>> from goodalloc.data.files import placements_to_dict
    >>> from goodalloc.models import Allocation
    >>> instance = generate(0, jobs=2, nodes=2)
    >>> placements_to_dict(Allocation.from_matrix([[2, 0], [0, 0]]), instance)
    {'ncf-0': {'node-0': 2}}
    """
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    if (allocation.num_jobs, allocation.num_nodes) != shape:
        raise ValueError(
            f"Allocation has {allocation.num_jobs} jobs and {allocation.num_nodes} nodes; "
            f"expected {shape[0]} and {shape[1]}."
        )
    names = instance.cluster.node_names
    return {
        job.name: {names[node]: gpus for node, gpus in pairs}
        for job, pairs in zip(instance.jobs, allocation.placements(), strict=True)
        if pairs
    }


def modes_to_dict(allocation: Allocation, instance: Instance) -> Document:
    """Return the mode of every running job that has modes, under the key ``modes``.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.data.files import modes_to_dict
    >>> from goodalloc.models import Allocation
    >>> instance = generate(0, jobs=2, nodes=2)  # jobs without modes
    >>> modes_to_dict(Allocation.from_matrix([[2, 0], [0, 0]]), instance)
    {}
    """
    if instance.plain:
        return {}
    rows = zip(instance.jobs, allocation.mode.tolist(), allocation.job_nodes.tolist(), strict=True)
    return {
        "modes": {job.name: job.modes[mode].name for job, mode, runs in rows if runs and job.modes}
    }


def placements_from_dict(value: Any, instance: Instance, modes: Any) -> Allocation:
    """Return the placements of a document of `placements_to_dict` and `modes_to_dict`.

    Raises
    ------
    ValueError
        If a job, a node or a mode is unknown, or a job with modes runs in none.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.data.files import placements_from_dict
    >>> instance = generate(0, jobs=2, nodes=2)
    >>> found = placements_from_dict({"ncf-0": {"node-1": 2}}, instance, {})
    >>> found.job_replicas.tolist()
    [2, 0]
    """
    known = {job.name for job in instance.jobs}
    for key, table in (("placements", value), ("modes", modes)):
        if not isinstance(table, dict):
            raise ValueError(f"{key} is {shown(table)}; expected an object of job names.")
        for name in table:
            if name not in known:
                raise ValueError(
                    f"{key}: job {shown(name)} is unknown; expected a job of '{instance.name}'."
                )
    placements = [
        placement_from_dict(f"Job '{job.name}'", value[job.name], instance.cluster)
        if job.name in value
        else ()
        for job in instance.jobs
    ]
    if instance.plain and not modes:
        return Allocation.from_placements(placements, instance.cluster.num_nodes)
    chosen = [
        _mode_index(job, modes.get(job.name)) if pairs or job.name in modes else 0
        for job, pairs in zip(instance.jobs, placements, strict=True)
    ]
    return Allocation.from_placements(placements, instance.cluster.num_nodes, chosen)


def _mode_index(job: Job, name: object) -> int:
    """Return the index of the mode in which a job runs."""
    names = [mode.name for mode in job.modes]
    if not names and name is None:
        return 0
    if name not in names:
        expected = f"one of {', '.join(names)}" if names else "none, it has no modes"
        raise ValueError(f"Job '{job.name}': mode is {shown(name)}; expected {expected}.")
    return names.index(str(name))
