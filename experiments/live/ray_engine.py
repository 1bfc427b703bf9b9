"""Replicas on the nodes of a Ray cluster, and the nodes as a cluster of ours.

A placement becomes a placement group: one bundle a replica, each bound to its node, so that all
replicas start or none. Ray assigns GPUs (`CUDA_VISIBLE_DEVICES`) and notices nodes that join, leave
or die; a replica whose node died counts as killed, and its job starts again from its checkpoint,
where the next decision puts it. All machines must see the cluster's folder under one name, and have
this version of goodalloc.

A slot is a GPU; on a cluster without any it is a CPU. The type of a node's GPUs is the one that Ray
found (its resource ``accelerator_type:NAME``); agents fit a model for each.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.agent.cluster_folder import LAUNCHER_VARIABLE, TYPE_VARIABLE
from goodalloc.experiments.live.engines import NotStarted
from goodalloc.experiments.live.replica_group import last_line, log_of
from goodalloc.experiments.live.resource_requests import CORES, GIB, MEMORY, bundle
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.process_identity import ProcessIdentity
from goodalloc.experiments.support.workers import knock, unreachable
from goodalloc.models.round.cluster import MOST_GPUS, Cluster, NodeGroup
from goodalloc.models.round.mode import resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from goodalloc.experiments.live.engines import Group
    from goodalloc.models.round.mode import Resources

#: Seconds until the slots of a placement are Ray's to give, until the process of a replica is there
#: (from a slow disk, perhaps), and that replicas have to end.
PATIENCE, START, GRACE = 10.0, 60.0, 5.0

#: Label that every node of Ray has.
NODE_LABEL = "ray.io/node-id"

#: Environment variable with the name of a replica's node.
NODE_VARIABLE = "GOODALLOC_NODE"

#: Beginning of the resource by which Ray names the type of a node's GPUs; the type of nodes
#: without one beside others that have one.
TYPE_PREFIX, UNNAMED = "accelerator_type:", "unnamed"

#: Module that runs a replica.
GUARD = "goodalloc.experiments.live.guard"


@dataclass(frozen=True)
class RayNode:
    """Node of a Ray cluster.

    Parameters
    ----------
    name
        Name by Ray, which is unique here.
    identifier
        Identifier by Ray.
    slots
        Number of replicas that it holds.
    resource
        Resource of a slot: "GPU" or "CPU".
    gpu_type
        Type of its GPUs; empty where no node has a named one.
    amounts
        Its cores, and its memory in GiB, by name (`resource_requests.py`).
    """

    name: str
    identifier: str
    slots: int
    resource: str
    gpu_type: str = ""
    amounts: Resources = ()


class RayEngine:
    """Engine of a Ray cluster, of which a process uses one: the first that it has reached.

    Parameters
    ----------
    address
        "auto", "host:6379" or "ray://host:10001".

    Raises
    ------
    ValueError
        If Ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, address: str = "auto") -> None:
        require_extra("ray", f"Cluster 'ray:{address}'")
        import ray

        self._had_gpus = False  # jobs do not go to CPUs when the last node with GPUs is gone
        self._failing: float | None = None
        if ray.is_initialized():
            return
        try:
            knock(address)
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # of any type: the cluster cannot be used
            raise unreachable("ray", address, error) from error

    def nodes(self) -> tuple[RayNode, ...]:
        """Return the nodes that are alive, in the order of their names."""
        import ray

        alive = [node for node in ray.nodes() if node["Alive"]]
        self._had_gpus |= any(node["Resources"].get("GPU") for node in alive)
        resource = "GPU" if self._had_gpus else "CPU"
        names = [node.get("NodeName") or node["NodeManagerHostname"] for node in alive]
        found = []
        for name, node in zip(names, alive, strict=True):
            slots = min(int(node["Resources"].get(resource, 0)), MOST_GPUS)
            identifier = node["NodeID"]
            alone = name if names.count(name) == 1 else f"{name}-{identifier[:6]}"
            if slots > 0:
                kind = _gpu_type(node["Resources"]) if resource == "GPU" else ""
                had = node["Resources"]
                amounts = resources(
                    {CORES: had.get("CPU", 0.0), MEMORY: had.get("memory", 0.0) / GIB}
                )
                found.append(RayNode(alone, identifier, slots, resource, kind, amounts))
        if any(node.gpu_type for node in found):
            found = [replace(node, gpu_type=node.gpu_type or UNNAMED) for node in found]
        return tuple(sorted(found, key=lambda node: node.name))

    def _not_started(
        self, places: Sequence[RayNode], begin: float, error: Exception
    ) -> NotStarted | None:
        """Return a failure after `START` seconds; None while a node may be gone: Ray tells late."""
        self._failing = self._failing or begin
        gone = {one.identifier for one in places} - {one.identifier for one in self.nodes()}
        if not gone and time.monotonic() - self._failing < START:
            return None
        self._failing = None
        return None if gone else NotStarted(len(places), " ".join(str(error).split()))

    @property
    def least(self) -> Resources:
        """What every replica takes at least: where its slot is a CPU, a core."""
        return () if any(node.resource == "GPU" for node in self.nodes()) else ((CORES, 1.0),)

    def cluster(self, *, with_resources: bool = False) -> Cluster | None:
        """Return the nodes as a cluster, with cores and memory if wanted; None if there is none."""
        nodes = self.nodes()
        return _cluster_of(nodes, with_resources=with_resources) if nodes else None

    @contextlib.contextmanager
    def start(
        self,
        command: Sequence[str],
        placement: Mapping[str, int],
        folder: Path,
        variables: Mapping[str, str],
        request: Resources = (),
    ) -> Iterator[Group | None]:
        """Start replicas on their nodes, as `Engine.start` says; None also while a node is gone."""
        import ray
        from ray.exceptions import RayError
        from ray.util.placement_group import placement_group, remove_placement_group

        nodes = self.nodes()
        names = _cluster_of(nodes).node_names if nodes else ()
        known = dict(zip(names, nodes, strict=True))
        if not set(placement) <= set(known):
            yield None
            return
        places = [known[name] for name, count in placement.items() for _ in range(count)]
        bundles = [bundle(place.resource, request) for place in places]
        group = placement_group(
            bundles,
            bundle_label_selector=[{NODE_LABEL: place.identifier} for place in places],
        )
        try:
            ready, _ = ray.wait([group.ready()], timeout=PATIENCE)
            if not ready:
                self._failing = None
                yield None
                return
            begin = time.monotonic()
            try:
                replicas = RayGroup(command, places, bundles, group, folder, variables)
            except RayError as error:
                yield self._not_started(places, begin, error)
                return
            self._failing = None
            try:
                yield replicas
            finally:
                replicas.end()
        finally:
            remove_placement_group(group)


def _cluster_of(nodes: Sequence[RayNode], *, with_resources: bool = False) -> Cluster:
    """Return nodes as a cluster, whose names of nodes are those in allocations."""
    groups = []
    for node in nodes:
        amounts = node.amounts if with_resources else ()
        groups.append(NodeGroup(node.name, 1, node.slots, node.gpu_type, amounts))
    return Cluster(tuple(groups))


def require_nodes(cluster: Cluster | None) -> Cluster:
    """Return the nodes of a Ray cluster.

    Raises
    ------
    ValueError
        If it has none.
    """
    if cluster is None:
        raise ValueError("Ray's cluster has no GPU and no CPU; expected some.")
    return cluster


def _gpu_type(resources: Mapping[str, float]) -> str:
    """Return the type of GPU that Ray found on a node; empty if it found none."""
    names = (name.partition(TYPE_PREFIX)[2] for name in sorted(resources))
    return next(filter(None, names), "")


def torchrun_variables(
    places: Sequence[RayNode], rank: int, address: str, port: int
) -> dict[str, str]:
    """Return the variables of torchrun for a replica, the name of its node, and the type of GPU.

    Ray shows each replica its own GPU alone, whose index is 0 for all of them.

    Parameters
    ----------
    places
        Node of every replica.
    rank
        Index of the replica.
    address, port
        Where the replicas find each other.

    Examples
    --------
    >>> from goodalloc.experiments.live.ray_engine import RayNode, torchrun_variables
    >>> one, other = RayNode("one", "1", 2, "CPU"), RayNode("other", "2", 1, "CPU")
    >>> found = torchrun_variables([one, other, one], 2, "10.0.0.1", 29500)
    >>> found["RANK"], found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"]
    ('2', '1', '2')
    """
    here = [place.identifier == places[rank].identifier for place in places]
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(len(places)),
        "RANK": str(rank),
        "LOCAL_RANK": "0" if places[rank].resource == "GPU" else str(sum(here[:rank])),
        "LOCAL_WORLD_SIZE": str(sum(here)),
        NODE_VARIABLE: places[rank].name,
        TYPE_VARIABLE: "+".join(sorted({place.gpu_type for place in places})),
    }


class RayGroup:
    """Replicas of a job on the nodes of a Ray cluster.

    Parameters
    ----------
    command
        The program and its arguments.
    places, bundles
        Node of every replica, and what Ray sets aside for it.
    group
        Placement group of Ray, of these bundles.
    folder
        Folder of the job, for logs.
    variables
        Environment variables, beside those of torchrun.

    Raises
    ------
    ray.exceptions.RayError
        If the node of the first replica dies before that is there.
    """

    def __init__(
        self,
        command: Sequence[str],
        places: Sequence[RayNode],
        bundles: Sequence[Mapping[str, float]],
        group: Any,
        folder: Path,
        variables: Mapping[str, str],
    ) -> None:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._folder = folder
        actor: Any = ray.remote(_Replica)
        self._actors = [
            actor.options(
                num_cpus=taken.get("CPU", 0.0),
                num_gpus=taken.get("GPU", 0.0),
                memory=taken.get("memory"),
                max_concurrency=2,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=rank
                ),
            ).remote()
            for rank, taken in enumerate(bundles)
        ]
        door = ray.get(self._actors[0].door.remote(), timeout=START)
        self._codes: list[int | None] = [None] * len(places)
        self._running = {
            one.run.remote(
                list(command),
                {**variables, **torchrun_variables(places, rank, *door)},
                str(log_of(folder, rank)),
                os.getcwd(),
            ): rank
            for rank, one in enumerate(self._actors)
        }

    @property
    def codes(self) -> list[int | None]:
        """Exit codes so far, negative for a signal; None for running replicas."""
        import ray
        from ray.exceptions import RayError

        if self._running:
            done, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0.0)
            for one in done:
                rank = self._running.pop(one)
                try:
                    self._codes[rank] = int(ray.get(one))
                except RayError:  # its node or its process is gone
                    self._codes[rank] = -signal.SIGKILL
        return list(self._codes)

    def last_words(self, rank: int) -> str:
        """Return the last line of the output of a replica; empty if there is none."""
        return last_line(log_of(self._folder, rank))

    def end(self) -> None:
        """Ask running replicas to end, and kill the remaining ones, with their children."""
        import ray

        ended = [self._actors[rank].end.remote() for rank in self._running.values()]
        if ended:
            ray.wait(ended, num_returns=len(ended), timeout=GRACE)
        for one in self._actors:
            ray.kill(one)


class _Replica:
    """Replica on a node, in a process of Ray, with whose end it ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def door(self) -> tuple[str, int]:
        """Return the address of this node and a port that is free there."""
        import socket

        import ray

        with socket.socket() as door:
            door.bind(("", 0))
            return str(ray.util.get_node_ip_address()), int(door.getsockname()[1])

    def run(self, command: list[str], variables: dict[str, str], log: str, folder: str) -> int:
        """Run the program in a folder, if there is one here, to its end; return its exit code."""
        own = {LAUNCHER_VARIABLE: str(ProcessIdentity.of(os.getpid()))}
        environment = {"OMP_NUM_THREADS": "1"} | dict(os.environ) | variables | own
        with open(log, "ab") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", GUARD, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder if os.path.isdir(folder) else None,
            )
        return self._process.wait()

    def end(self) -> None:
        """Ask the program to end, and wait for it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
