"""Program that runs the genetic algorithm of the artifact of Pollux on a stored round.

`bench_original` runs this file under the interpreter of the artifact, whose libraries are older
than ours: it imports NumPy and the artifact, and nothing of goodalloc. Arguments: `pollux.py` of
the artifact, the round (`.npz`), the number of seeds, the file for the decisions (`.npz`).
"""

from __future__ import annotations

import importlib.util
import sys
import time
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from numpy.typing import NDArray

#: Name of the resource in the artifact.
GPU = "nvidia.com/gpu"


class Speedup:
    """Speedup of one job by a table of shape (one node or several, GPUs + 1).

    The artifact sets `_base_goodput` to the value of the goodput function at the fair share. Here
    goodput is in units of that at the fair share, so that the value is 1.
    """

    def __init__(self, table: NDArray[np.float64]) -> None:
        self._table = table
        self._base_goodput = 1.0
        self._goodput_fn = SimpleNamespace(optimize=fair_share_goodput)
        self._max_batch_size = self._atomic_bsz_range = self._accumulation = None

    def __call__(self, nodes: NDArray[np.int64], replicas: NDArray[np.int64]) -> Any:
        several = (np.asarray(nodes) > 1).astype(int)
        known = np.minimum(replicas, self._table.shape[-1] - 1)
        return self._table[several, known] / self._base_goodput


def fair_share_goodput(**_: Any) -> tuple[float, int, int]:
    """Return the goodput at the fair share in units of itself; the rest is not used."""
    return 1.0, 1, 0


def job_objects(given: Mapping[str, NDArray[Any]]) -> dict[int, SimpleNamespace]:
    """Return the jobs in the form of the policy of the artifact, by number."""
    return {
        job: SimpleNamespace(
            resources={GPU: 1},
            speedup_fn=Speedup(table),
            creation_timestamp=-float(given["age"][job]),
            age=float(given["age"][job]),
            attained_service=float(given["attained_service"][job]),
            num_restarts=int(given["restarts"][job]),
            min_replicas=int(given["min_replicas"][job]),
            max_replicas=int(given["max_replicas"][job]),
            preemptible=True,
        )
        for job, table in enumerate(given["speedups"])
    }


def decide(policy: Any, given: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return a decision of a policy: replicas of shape (jobs, nodes)."""
    nodes = {
        node: SimpleNamespace(resources={GPU: int(gpus)}, preemptible=False)
        for node, gpus in enumerate(given["gpus"])
    }
    current = {
        job: np.repeat(np.arange(len(nodes)), row).tolist()
        for job, row in enumerate(given["current"])
    }
    placed, _ = policy.optimize(job_objects(given), nodes, current, nodes[0])
    replicas = np.zeros(given["current"].shape, dtype=np.int64)
    for job, held in placed.items():
        np.add.at(replicas[job], np.array(held, dtype=np.int64), 1)
    return replicas


def load_module(path: str) -> ModuleType:
    """Return the module of the artifact, without its folder on the path of imports."""
    loader = SourceFileLoader("pollux", path)
    module = importlib.util.module_from_spec(ModuleSpec("pollux", loader, origin=path))
    module.__file__ = path
    loader.exec_module(module)
    return module


def main(policy_file: str, round_file: str, seeds: str, out: str) -> None:
    """Decide the round once per seed, each time with a new policy, and write the decisions."""
    module = load_module(policy_file)
    with np.load(round_file, allow_pickle=False) as stored:
        given = dict(stored)
    decisions, seconds = [], []
    for seed in range(int(seeds)):
        np.random.seed(seed)  # noqa: NPY002 - the artifact draws from this generator
        begin = time.process_time()
        decisions.append(decide(module.PolluxPolicy(), given))
        seconds.append(time.process_time() - begin)
    np.savez(out, replicas=np.stack(decisions), processor_seconds=np.array(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
