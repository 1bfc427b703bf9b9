"""Alibaba's GPU clusters hour by hour, 2026: servers with their racks, and the pods on them.

The tables `asi_opensource_server_hourly` and `asi_opensource_pod_hourly` of
github.com/alibaba/clusterdata, `cluster-trace-gpu-v2026`, in Parquet files by day and hour. An
access switch (`asw_id`) is a rack. From one hour comes a round on a tree: nodes with racks, jobs
where they run, and jobs that wait. A pod that is pending counts as waiting, also where it has been
bound to a server already.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from goodalloc.data.documents.json_file import shown
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.validation import require_count
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

SERVERS, PODS = "asi_opensource_server_hourly", "asi_opensource_pod_hourly"
SERVER_COLUMNS = ("server_id", "cluster_id", "asw_id", "gpu_spec_public", "gpu_count")
POD_COLUMNS = (
    "pod_id",
    "workload_id",
    "server_id",
    "cluster_id",
    "state_public",
    "gpu_spec_public",
    "gpu_request",
)
RUNNING, PENDING = "Running", "Pending"

#: Seconds of a restart, and that running jobs are taken to have run: no table tells either. A move
#: then costs a little, so that a job moves only where that lets others run.
RESTART_SECONDS, PRESUMED_AGE = 30.0, 24 * 3600.0

#: Most GPUs of a server or a pod.
MOST_GPUS = 100_000

#: Slowdown of jobs that no rack holds, as of `goodalloc.data.topology.standard_tree`.
BEYOND_RACK = 2.0


@dataclass(frozen=True)
class ServerHour:
    """One hour of a cluster.

    Parameters
    ----------
    round
        Servers as nodes, workloads as jobs of fixed size. What a job is worth is the GPUs that it
        takes, and the objective their sum.
    servers
        Identity of every node.
    left_out
        Number of pods that are not in the round, by the reason.
    """

    round: TopologyRound
    servers: tuple[str, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_server_hour(
    folder: str | os.PathLike[str],
    day: int,
    hour: int,
    cluster: str | None = None,
    gpu_type: str | None = None,
) -> ServerHour:
    """Read the servers and pods of one hour.

    Pods of a workload are one job; a pod without a workload is one of its own. A job that runs has
    its pods' whole GPUs on their servers; one all of whose pods are pending waits for as many. At
    most one distributed job uses a node, as the exact solver of trees requires, unless the hour
    itself has more.

    Parameters
    ----------
    folder
        Folder that holds the tables, as unpacked.
    day, hour
        Day from the start of the trace, and hour of it, from 0 to 23.
    cluster, gpu_type
        Identity of the cluster and type of GPU; None if the hour has one only.

    Raises
    ------
    ValueError
        If pyarrow is missing, a file is unreadable or lacks a column, a number is malformed, the
        hour has several clusters or types and none is chosen, or no job is left.
    """
    require_count("Day", day, minimum=0)
    require_count("Hour", hour, minimum=0, maximum=23)
    servers = _hour(Path(folder), SERVERS, day, hour, SERVER_COLUMNS)
    servers = _chosen(servers, "cluster_id", cluster, "cluster")
    servers = _chosen(servers[servers.gpu_count > 0], "gpu_spec_public", gpu_type, "type of GPU")
    servers = servers.drop_duplicates("server_id").sort_values(
        ["gpu_count", "asw_id", "server_id"], ascending=[False, True, True], kind="stable"
    )
    pods = _hour(Path(folder), PODS, day, hour, POD_COLUMNS)
    of_these = (pods.cluster_id == servers.cluster_id.iloc[0]) & (
        pods.gpu_spec_public == servers.gpu_spec_public.iloc[0]
    )
    pods = pods[(of_these | pods.server_id.isin(servers.server_id)) & ~(pods.gpu_request == 0)]
    again = pods.duplicated("pod_id") & (pods.pod_id != "")
    jobs, left_out = _jobs(pods[~again], servers)
    if not jobs:
        why = "; ".join(f"{count} {reason}" for reason, count in left_out.items()) or "no pods"
        raise ValueError(f"Folder '{folder}': no job is left ({why}); expected one.")
    sizes = Counter(servers.gpu_count.astype(int).tolist())
    groups = tuple(NodeGroup(f"{gpus}g", nodes, gpus) for gpus, nodes in sizes.items())
    distributed = Counter(
        node for job in jobs if len(job.placement) > 1 for node, _ in job.placement
    )
    rules = Rules(
        power=1.0,
        restart_delay=RESTART_SECONDS,
        max_nodes_per_job=len(servers),
        interference_avoidance=max(distributed.values(), default=0) <= 1,
    )
    instance = Instance(Cluster(groups), jobs, rules, f"alibaba-2026-day{day}-hour{hour:02}")
    racks = servers.asw_id.where(servers.asw_id != "", "server-" + servers.server_id)
    tree = Topology((Level("rack"),), (tuple(racks),), BEYOND_RACK)
    return ServerHour(TopologyRound(instance, tree), tuple(servers.server_id), left_out)


def _hour(folder: Path, table: str, day: int, hour: int, columns: Sequence[str]) -> pd.DataFrame:
    """Read the columns of a table for an hour; numbers that are not known are NaN."""
    path = folder / table / f"day={day}" / f"hour={hour:02}" / "part-000.parquet"
    if not path.is_file():
        raise ValueError(f"File '{path}' cannot be read (there is no such file).")
    try:
        from pyarrow.parquet import read_schema

        missing = [name for name in columns if name not in read_schema(path).names]
        found = pd.DataFrame() if missing else pd.read_parquet(path, columns=list(columns))
    except ImportError as error:
        raise ValueError(
            "Parquet files need the module pyarrow: pip install goodalloc[parquet]."
        ) from error
    except (ValueError, OSError) as error:
        complaint = " ".join(str(error).split())[:200]
        raise ValueError(f"File '{path}' cannot be read ({complaint}).") from error
    if missing:
        raise ValueError(f"File '{path}': column '{missing[0]}' is missing.")
    for name in columns:
        if name not in ("gpu_count", "gpu_request"):
            found[name] = found[name].fillna("").astype(str)
            continue
        values = pd.to_numeric(found[name], errors="coerce")
        wrong = found[name].notna() & ~(np.isfinite(values) & (values >= 0))
        wrong |= (name == "gpu_count") & (values % 1 > 0) | (values > MOST_GPUS)
        for row in np.flatnonzero(wrong)[:1].tolist():
            whole = "whole " if name == "gpu_count" else ""
            raise ValueError(
                f"File '{path}': {columns[0]} {shown(str(found.iloc[row, 0]))}: {name} is "
                f"{shown(str(found[name].iloc[row]))}; expected a {whole}number from 0 to "
                f"{MOST_GPUS}."
            )
        found[name] = values.astype(float)
    return found


def _chosen(servers: pd.DataFrame, column: str, chosen: str | None, item: str) -> pd.DataFrame:
    """Return the servers of one cluster or type of GPU."""
    there = sorted(set(servers[column]))
    if chosen is None and len(there) == 1:
        return servers
    if chosen not in there:
        given = "none is given" if chosen is None else f"'{chosen}' is not there"
        raise ValueError(
            f"Hour: {item}: {given}; expected one of {', '.join(there) or 'those with servers'}."
        )
    return servers[servers[column] == chosen]


def _jobs(pods: pd.DataFrame, servers: pd.DataFrame) -> tuple[tuple[Job, ...], dict[str, int]]:
    """Return the jobs of an hour, and how many pods have no part in them."""
    whole = pods.gpu_request % 1 == 0
    known = pods.gpu_request.notna()
    active = pods.state_public.isin([RUNNING, PENDING])
    placed = (pods.state_public != RUNNING) | pods.server_id.isin(servers.server_id)
    left_out = {
        "neither run nor wait": int((~active).sum()),
        "do not say how many GPUs they have": int((active & ~known).sum()),
        "share a GPU": int((active & known & ~whole).sum()),
        "run on a server that is not listed": int((active & known & whole & ~placed).sum()),
    }
    pods = pods[active & known & whole & placed].sort_values("pod_id")
    job = pods.workload_id.where(pods.workload_id != "", "pod-" + pods.pod_id)
    node = pd.Series(np.arange(len(servers)), index=servers.server_id)
    free = servers.gpu_count.to_numpy().astype(np.int64)
    jobs, overfull, mixed = [], 0, 0
    for name, members in pods.groupby(job, sort=True):
        running = members[members.state_public == RUNNING]
        mixed += len(members) - len(running) if len(running) else 0
        size = int((running if len(running) else members).gpu_request.sum())
        held = running.gpu_request.groupby(node.loc[running.server_id].to_numpy()).sum()
        nodes, gpus = held.index.to_numpy(dtype=np.int64), held.to_numpy().astype(np.int64)
        if (free[nodes] < gpus).any():
            overfull += len(running)
            continue
        free[nodes] -= gpus
        speedups = (0.0,) * (size - 1) + (float(size),)
        jobs.append(
            Job(
                str(name),
                SpeedupTable(speedups, speedups if size > 1 else ()),
                min_replicas=size,
                max_replicas=size,
                age=PRESUMED_AGE,
                placement=tuple(zip(nodes.tolist(), gpus.tolist(), strict=True)),
            )
        )
    left_out |= {"wait for a job that runs": mixed, "hold more than their server has": overfull}
    return tuple(jobs), {reason: count for reason, count in left_out.items() if count}
