"""Derive the shipped statistics of openb from the published lists of nodes and pods (ATC'23).

Run as `python -m goodalloc.data.derivation.fit_openb --reference DIR [--out FILE]`; DIR holds the
lists under their published names. What is kept is how often which node and which request comes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import dump
from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.pods.generator import FORMAT, SHIPPED, VERSION
from goodalloc.data.pods.openb import read_machines, read_pods

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


#: Requests that come less often are left out.
FEWEST = 3

SOURCE = {
    "lists": "github.com/alibaba/clusterdata, cluster-trace-gpu-v2023, commit 7a6c496; the same in "
    "github.com/hkust-adsl/kubernetes-scheduler-simulator, commit 8f3d641",
    "licence": "Apache-2.0 (the latter)",
    "note": "Nodes: cores, GiB, GPUs, model, count. Pods: cores, GiB, GPUs, part of each, count.",
}


def statistics(folder: Path) -> dict[str, Any]:
    """Return counts over the published nodes and the default list of pods.

    Raises
    ------
    ValueError
        If a list cannot be read.
    """
    machines = Counter(read_machines(folder))
    pods = Counter(pod[1:5] for pod in read_pods(folder))
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "nodes": [[*kind, count] for kind, count in sorted(machines.items())],
        "pods": [[*kind, count] for kind, count in sorted(pods.items()) if count >= FEWEST],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the statistics and write them; the command line is that of the process if None."""
    run_fit(statistics, SHIPPED, "the lists", arguments, text=dump)


if __name__ == "__main__":
    main()
