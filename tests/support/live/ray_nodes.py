"""Ray cluster of several nodes on this machine, with made-up GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from goodalloc.experiments.live.ray_engine import RayEngine

#: GPUs of the nodes, made up: Ray sees none here; and their types.
NODES = {"large": 2, "middle": 1, "small": 1}
TYPES = {"large": "T4", "middle": "V100", "small": "V100"}


#: Ray forks when nodes are started; JAX, which tests before may have used, warns of it.
FORKS = [
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Nodes:
    """Ray cluster of several nodes on this machine."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        alert = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 8,
        }
        head = {"num_cpus": 0, "num_gpus": 0, "_system_config": alert}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: dict[str, Any] = {}
        for name in NODES:
            self.add(name)
        self.address = str(self._cluster.address)
        self.engine = RayEngine(self.address)

    def add(self, name: str) -> None:
        """Let a node join."""
        self.nodes[name] = self._cluster.add_node(
            num_cpus=4,
            num_gpus=NODES[name],
            node_name=name,
            resources={f"accelerator_type:{TYPES[name]}": 1},
            wait=True,
        )

    def named(self, **gpus: int) -> dict[str, int]:
        """Numbers by the names that Ray gave these nodes, which begin with ours."""
        cluster = self.engine.cluster()
        assert cluster is not None
        known = {name.partition("-")[0]: name for name in cluster.node_names}
        return {known[name]: count for name, count in gpus.items()}

    def kill(self, name: str) -> None:
        """Kill a node with all its processes."""
        self._cluster.remove_node(self.nodes.pop(name), allow_graceful=False)

    def close(self) -> None:
        """End all."""
        import ray

        ray.shutdown()
        self._cluster.shutdown()
