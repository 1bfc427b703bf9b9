"""Pods and nodes of Alibaba's GPU cluster "openb" as rounds: what packing real requests is worth.

The lists are those published with Weng et al., "Beware of Fragmentation", ATC'23 (the folder
cluster-trace-gpu-v2023 of github.com/alibaba/clusterdata). Nodes: ``sn``, ``cpu_milli`` (1/1000
core), ``memory_mib``, ``gpu`` (how many), ``model``. Pods: ``name``, ``cpu_milli``,
``memory_mib``, ``num_gpu``, ``gpu_milli`` (thousandths of each of them) and, in most lists,
``gpu_spec`` (the models that it runs on, with ``|`` between; none for any).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.csv_table import read_table
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

NODE_LIST = "openb_node_list_all_node.csv"
POD_LIST = "openb_pod_list_{}.csv"

#: Lists of pods: the trace, and variants of it with more work of one kind.
VARIANTS = ("default", "cpu250", "gpushare40", "gpuspec33", "multigpu50")

#: Thousandths and GiB.
MILLI, MIB_PER_GIB = 1000.0, 1024.0

#: What a pod without GPU is worth, in GPUs: something, so that it runs where it is in nobody's way,
#: and so little that all of a trace's together (1,088) are worth one GPU and hinder hardly any.
CORES_ONLY_WORTH = 1e-3

#: Utility is what a pod has of GPUs, and the fitness the mean of it, plus the floor.
RULES = Rules(
    power=1.0,
    floor=1e-3,
    restart_delay=0.0,
    max_nodes_per_job=1,
    fair_share="one_gpu",
    speedup_scale="job",
)


class Machine(NamedTuple):
    """Node: cores, memory (GiB), GPUs and their model, empty without GPUs."""

    cores: float
    memory: float
    gpus: int
    model: str


class Pod(NamedTuple):
    """Request of a pod: cores, memory (GiB), GPUs, the part of each, and their models.

    The part is 1 where it takes several; without GPUs it is 0. No models are any models.
    """

    name: str
    cores: float
    memory: float
    gpus: int
    gpu_share: float
    models: tuple[str, ...] = ()


def read_openb(folder: str | os.PathLike[str], variant: str = "default") -> Instance:
    """Read the nodes and pods of a folder as a round in which nothing runs yet.

    Parameters
    ----------
    folder
        Holds the lists under their published names.
    variant
        Which list of pods.

    Raises
    ------
    ValueError
        If a list is unreadable or malformed, or a value is out of range.
    """
    machines, pods = read_machines(folder), read_pods(folder, variant)
    return pods_instance(machines, pods, f"openb-{variant}")


def read_machines(folder: str | os.PathLike[str]) -> list[Machine]:
    """Read the nodes of a folder, in the order of the list.

    Raises
    ------
    ValueError
        If the list is unreadable or malformed, or a value is out of range.
    """
    path = Path(folder) / NODE_LIST
    table = read_table(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    amounts = (table.counts(column, 0) for column in ("cpu_milli", "memory_mib", "gpu"))
    rows = zip(*amounts, table.columns["model"], strict=True)
    return [Machine(c / MILLI, m / MIB_PER_GIB, gpus, kind) for c, m, gpus, kind in rows]


def read_pods(folder: str | os.PathLike[str], variant: str = "default") -> list[Pod]:
    """Read the pods of a folder, in the order of the list.

    Raises
    ------
    ValueError
        If there is no such variant, or the list is unreadable or malformed.
    """
    require_choice("Pods: variant", variant, VARIANTS)
    path = Path(folder) / POD_LIST.format(variant)
    columns = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    table = read_table(path, ("name", *columns), ("gpu_spec",))
    models = table.columns.get("gpu_spec", ("",) * len(table))
    amounts = (table.counts(column, 0) for column in columns)
    pods = []
    for name, cores, memory, gpus, milli, spec in zip(
        table.columns["name"], *amounts, models, strict=True
    ):
        if gpus and (milli > MILLI or milli <= 0 or (gpus > 1 and milli < MILLI)):
            raise ValueError(
                f"File '{path}': pod '{name}' takes {milli} thousandths of each of {gpus} "
                "GPUs; expected 1 to 1000 of one, or 1000 of each."
            )
        allowed = tuple(sorted(set(spec.split("|")) - {""}))
        share = milli / MILLI if gpus else 0.0
        pods.append(Pod(name, cores / MILLI, memory / MIB_PER_GIB, gpus, share, allowed))
    return pods


def pods_instance(machines: Sequence[Machine], pods: Sequence[Pod], name: str) -> Instance:
    """Return a round of pods on nodes.

    Equal nodes are a group, in the order in which they first come. Every pod is a job of fixed size
    on one node, with a mode for each model of GPU that it may have. It is worth the GPUs that it
    takes, and `CORES_ONLY_WORTH` if none: the mean utility, less the floor, times the jobs is the
    number of GPUs allocated. A pod that asks for models of which there is no node has none of the
    modes that it lists and is left out of the round if that leaves no mode at all.

    Parameters
    ----------
    machines, pods
        The nodes and the pods, the latter with unique names.
    name
        Name of the instance.

    Raises
    ------
    ValueError
        If a pod requests nothing, or a value is out of range.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> instance = pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods")
    >>> instance.num_jobs, instance.shares_gpus
    (20, True)
    """
    groups: dict[Machine, int] = {}
    for machine in machines:
        groups[machine] = groups.get(machine, 0) + 1
    cluster = Cluster(tuple(_group(machine, count) for machine, count in groups.items()))
    models = {machine.model for machine in groups if machine.gpus}
    modes: dict[tuple[object, ...], tuple[Mode, ...]] = {}
    jobs = []
    for pod in pods:
        key = pod[1:]
        if key not in modes:
            modes[key] = _modes(pod, models)
        if modes[key]:
            size = max(pod.gpus, 1)
            jobs.append(Job(pod.name, modes=modes[key], min_replicas=size, max_replicas=size))
    return Instance(cluster, tuple(jobs), RULES, name)


def _group(machine: Machine, count: int) -> NodeGroup:
    kind = machine.model if machine.gpus else ""
    title = f"{kind or 'cpu'}-{machine.gpus}g-{machine.cores:g}c-{machine.memory:g}m"
    amounts = resources({"cpu": machine.cores, "memory": machine.memory})
    return NodeGroup(title, count, machine.gpus, kind, amounts)


def _modes(pod: Pod, models: set[str]) -> tuple[Mode, ...]:
    """Return one mode, or one for every GPU model that the pod allows and a node has."""
    replicas = max(pod.gpus, 1)
    gpus = pod.gpus * pod.gpu_share
    worth = SpeedupTable((0.0,) * (replicas - 1) + (gpus or CORES_ONLY_WORTH,), ())
    takes = resources({"cpu": pod.cores / replicas, "memory": pod.memory / replicas})
    if not pod.models:
        return (Mode("pod", worth, "", takes, pod.gpu_share),)
    allowed = [model for model in pod.models if model in models]
    return tuple(Mode(model, worth, model, takes, pod.gpu_share) for model in allowed)


def gpus_allocated(instance: Instance, fitness: float) -> float:
    """Return the allocated GPUs at a fitness of a round of pods, without pods that take none.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, gpus_allocated, pods_instance
    >>> instance = pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods")
    >>> gpus_allocated(instance, instance.rules.floor)
    0.0
    """
    return (fitness - instance.rules.idle) * instance.num_jobs
