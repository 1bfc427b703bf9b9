"""Instances as files: versioned JSON, documented in `FORMAT.md`."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    as_float,
    check_format,
    check_keys,
    check_list,
    check_text,
    in_file,
    read_document,
    rows_text,
    shown,
)
from goodalloc.data.files.model_table import ModelTable, model_from_dict
from goodalloc.models.round.allocation import MOST_REPLICAS
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode
from goodalloc.models.round.rules import PRESETS, Rules
from goodalloc.models.support.validation import literal, require_count, require_name

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.round.mode import Resources

INSTANCE_FORMAT = "goodalloc-instance"
VERSION = 1

_RULE_NAMES = tuple(field.name for field in fields(Rules))
#: Rules that came later and are left out at their defaults, as in files from before.
_LATER_RULES = {"idle_utility": None, "restart_penalty": "all"}
_JOB_DEFAULTS = {
    field.name: field.default
    for field in fields(Job)
    if field.name not in {"name", "model", "modes"}
}
_FLOAT_FIELDS = ("age", "attained_service", "weight", "restart_delay")


def read_instance(path: str | os.PathLike[str]) -> Instance:
    """Read an instance from a file.

    Raises
    ------
    ValueError
        If the file cannot be read or is malformed; one sentence that names the file, the item, its
        value and what was expected.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark, read_instance, write_instance
    >>> write_instance(load_benchmark("tiny-cold"), "round.json")
    >>> read_instance("round.json") == load_benchmark("tiny-cold")
    True
    """
    document = read_document(path, (INSTANCE_FORMAT,))
    try:
        return instance_from_dict(document, default_name=Path(path).stem)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def write_instance(instance: Instance, path: str | os.PathLike[str]) -> None:
    """Write an instance to a file, atomically; reading it back gives an equal instance.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from goodalloc.data import generate, write_instance
    >>> write_instance(generate(seed=0, jobs=8, nodes=2), "drawn.json")
    """
    write_atomically(path, instance_text(instance))


def instance_text(instance: Instance) -> str:
    """Return an instance as the text of its file: one line for every model and every job.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.data.files import instance_text
    >>> instance_text(load_benchmark("tiny-cold")).splitlines()[1]
    ' "format": "goodalloc-instance",'
    """
    document = instance_to_dict(instance)
    models, jobs = document.pop("models"), document.pop("jobs")
    return rows_text(document, {"models": models, "jobs": jobs})


def instance_digest(instance: Instance) -> str:
    """Return the SHA-256 of the JSON of an instance, keys sorted, without blanks, in hex.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.data.files import instance_digest
    >>> instance = load_benchmark("tiny-cold")
    >>> instance_digest(instance) == instance_digest(instance.replace())
    True
    """
    text = json.dumps(instance_to_dict(instance), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def instance_to_dict(instance: Instance) -> Document:
    """Return an instance as JSON has it; see `FORMAT.md`.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.data.files import instance_to_dict
    >>> instance_to_dict(load_benchmark("tiny-cold"))["name"]
    'tiny-cold'
    """
    table = ModelTable()
    node_names = instance.cluster.node_names
    jobs = [_job_to_dict(job, table, node_names) for job in instance.jobs]
    rules = {name: getattr(instance.rules, name) for name in _RULE_NAMES}
    for name, default in _LATER_RULES.items():
        if rules[name] == default:
            del rules[name]
    if math.isinf(rules["power"]):
        rules["power"] = "inf" if rules["power"] > 0 else "-inf"
    return {
        "format": INSTANCE_FORMAT,
        "version": VERSION,
        "name": instance.name,
        "cluster": [_group_to_dict(group) for group in instance.cluster.groups],
        "rules": {name: _plain(value) for name, value in rules.items()},
        "models": table.entries,
        "jobs": jobs,
    }


def instance_from_dict(document: object, default_name: str = "instance") -> Instance:
    """Return the instance of a document of `instance_to_dict`.

    Raises
    ------
    ValueError
        If the document is malformed or a value is out of range; the message names the item, its
        value and what was expected.
    """
    checked = check_format(document, (INSTANCE_FORMAT,), VERSION)
    required = ("format", "version", "cluster", "jobs")
    check_keys("Instance", checked, required, ("name", "rules", "models"))
    name = checked.get("name", default_name)
    require_name("Instance", name)
    cluster = _cluster(checked["cluster"])
    rules = _rules(checked.get("rules", "default"))
    entries = checked.get("models", {})
    if not isinstance(entries, dict):
        raise ValueError(f"Instance: models is {shown(entries)}; expected an object.")
    models = {
        key: model_from_dict(f"Model {literal(key)}", entry) for key, entry in entries.items()
    }
    listed = check_list("Instance: jobs", checked["jobs"])
    jobs = tuple(_job(i, entry, models, cluster) for i, entry in enumerate(listed))
    return Instance(cluster, jobs, rules, name)


def _plain(value: Any) -> Any:
    """Return a value without numpy types."""
    return value.item() if isinstance(value, np.generic) else value


def _group_to_dict(group: NodeGroup) -> Document:
    """Return a group as a JSON object without default values."""
    document: Document = {"name": group.name, "nodes": int(group.nodes), "gpus": int(group.gpus)}
    if group.gpu_type:
        document["gpu_type"] = group.gpu_type
    if group.resources:
        document["resources"] = dict(group.resources)
    return document


def _cluster(value: object) -> Cluster:
    groups = []
    for index, entry in enumerate(check_list("Cluster", value)):
        item, optional = f"Cluster: group {index}", ("gpu_type", "resources")
        given = dict(check_keys(item, entry, ("name", "nodes", "gpus"), optional))
        if "resources" in given:
            given["resources"] = _resources(item, given["resources"])
        groups.append(NodeGroup(**given))
    return Cluster(tuple(groups))


def _resources(item: str, value: object) -> Resources:
    """Return amounts by name, which are checked where they are used."""
    if not isinstance(value, dict):
        raise ValueError(f"{item}: resources is {shown(value)}; expected an object of amounts.")
    return tuple((name, as_float(value[name])) for name in sorted(value))


def _rules(value: object) -> Rules:
    if isinstance(value, str):
        if value not in PRESETS:
            known = ", ".join(PRESETS)
            raise ValueError(
                f"Rules: preset is {literal(value)}; expected one of {known}, or an object."
            )
        return PRESETS[value]
    given = dict(check_keys("Rules", value, (), _RULE_NAMES))
    for name in ("power", "floor", "restart_delay", "idle_utility"):
        if name in given:
            given[name] = as_float(given[name])
    power = given.get("power")
    if power in ("inf", "-inf"):
        given["power"] = float(str(power))
    elif isinstance(power, float) and math.isinf(power):
        raise ValueError(f"Rules: power is {literal(power)}; expected a number, 'inf' or '-inf'.")
    return Rules(**given)


def _job_to_dict(job: Job, table: ModelTable, node_names: tuple[str, ...]) -> Document:
    """Return a job as a JSON object without default values."""
    document: Document = {"name": job.name}
    if job.modes:
        document["modes"] = {
            mode.name: _mode_to_dict(mode, table, job.application) for mode in job.modes
        }
    else:
        document["model"] = table.name(job.model, job.application)
    for name, default in _JOB_DEFAULTS.items():
        value = getattr(job, name)
        if value == default:
            continue
        if name == "placement":
            document[name] = {node_names[node]: int(gpus) for node, gpus in value}
        else:
            document[name] = float(value) if name in _FLOAT_FIELDS else _plain(value)
    return document


def _mode_to_dict(mode: Mode, table: ModelTable, application: str) -> Document:
    document: Document = {"model": table.name(mode.model, application)}
    if mode.gpu_type:
        document["gpu_type"] = mode.gpu_type
    if mode.resources:
        document["resources"] = dict(mode.resources)
    if mode.gpu_share != 1:
        document["gpu_share"] = float(mode.gpu_share)
    return document


def _modes(item: str, value: object, models: dict[str, Any]) -> tuple[Mode, ...]:
    """Return the modes of a job, by name."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{item}: modes is {shown(value)}; expected an object of modes by name.")
    modes = []
    for name, entry in value.items():
        here, optional = f"{item}: mode '{name}'", ("gpu_type", "resources", "gpu_share")
        given = dict(check_keys(here, entry, ("model",), optional))
        if "resources" in given:
            given["resources"] = _resources(here, given["resources"])
        if "gpu_share" in given:
            given["gpu_share"] = as_float(given["gpu_share"])
        given["model"] = _model(here, given["model"], models)
        try:
            modes.append(Mode(name, **given))
        except ValueError as error:
            raise ValueError(f"{item}: {error}") from error
    return tuple(modes)


def _model(item: str, name: object, models: dict[str, Any]) -> Any:
    """Return the model of that name, or None for null."""
    if name is None:
        return None
    if not isinstance(name, str) or name not in models:
        raise ValueError(
            f"{item}: model is {shown(name)}; expected null or a name in the table of models."
        )
    return models[name]


def _job(index: int, value: object, models: dict[str, Any], cluster: Cluster) -> Job:
    if not isinstance(value, dict) or "name" not in value:
        raise ValueError(f"Job number {index} is {shown(value)}; expected an object with a name.")
    require_name(f"Job number {index}", value["name"])
    item = f"Job '{value['name']}'"
    equipped = "modes" in value
    required, optional = ("name", "modes" if equipped else "model"), tuple(_JOB_DEFAULTS)
    given = dict(check_keys(item, value, required, optional))
    if equipped:
        given["modes"] = _modes(item, given["modes"], models)
    else:
        given["model"] = _model(item, given["model"], models)
    for name in _FLOAT_FIELDS:
        if name in given:
            given[name] = as_float(given[name])
    if "placement" in given:
        given["placement"] = placement_from_dict(item, given["placement"], cluster)
    for name in ("application", "mode"):
        if name in given:
            check_text(f"{item}: {name}", given[name])
    return Job(**given)


def placement_from_dict(item: str, value: object, cluster: Cluster) -> tuple[tuple[int, int], ...]:
    """Return a placement by node names, ``{"node-3": 2}``, as (node index, GPUs) in node order.

    Raises
    ------
    ValueError
        If a node is unknown or a number of GPUs is not a whole number from 1 to 1,000,000.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{item}: placement is {shown(value)}; expected an object of node names.")
    pairs = []
    for name, gpus in value.items():
        node = cluster.node_index.get(name)
        if node is None:
            raise ValueError(
                f"{item}: placement names node {shown(name)}; "
                f"expected one of {_few(cluster.node_names)}."
            )
        require_count(f"{item}: GPUs on node '{name}'", gpus, 1, MOST_REPLICAS)
        pairs.append((node, gpus))
    return tuple(sorted(pairs))


def _few(names: tuple[str, ...]) -> str:
    """Return some of the names, for a message."""
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:3])}, … {names[-1]}"
