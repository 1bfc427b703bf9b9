"""Solutions of an exported node-indexed program, by the names of its columns.

`goodalloc export --formulation node` writes the program of `node_program.py` for any solver. Its
columns are ``choice_J_KIND_K``, job *J* takes a choice of a kind (``idle``, ``keep``, ``one_node``,
``several_nodes``) with *K* GPUs; ``local_J_one_node_K_V``, these *K* GPUs are on node *V*; and
``amount_M_V``, replicas on node *V* of a job on several nodes that runs in the mode in row *M* of
`Instance.modes`. Where jobs have modes the first two have the row of the mode after *K*.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.round.instance import Instance

_CHOICE = re.compile(r"choice_(\d+)_(idle|keep|one_node|several_nodes)_(\d+)(?:_(\d+))?")
_LOCAL = re.compile(r"local_(\d+)_one_node_(\d+)(?:_(\d+))?_(\d+)")
_AMOUNT = re.compile(r"amount_(\d+)_(\d+)")


def decode_columns(instance: Instance, values: Mapping[str, float]) -> Allocation:
    """Return the allocation that a solution of the exported node-indexed program describes.

    Nothing is checked but that every job takes one choice: `goodalloc.models.violations` says what
    the allocation breaks.

    Parameters
    ----------
    instance
        The round that was exported.
    values
        Values of the columns by name; those that are 0 may be left out, others are passed over.

    Raises
    ------
    ValueError
        If a job takes no choice or two, or a name has a job, mode or node that the round does not
        have.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> round_ = Instance(Cluster.uniform(2, 4), (Job("a"), Job("b")))
    >>> values = {"choice_0_one_node_3": 1.0, "local_0_one_node_3_1": 1.0, "choice_1_idle_0": 1.0}
    >>> decode_columns(round_, values).placements()
    [((1, 3),), ()]
    """
    taken = [name for name, value in values.items() if value > 0.5]
    matrix = np.zeros((instance.num_jobs, instance.cluster.num_nodes), dtype=np.int64)
    modes = np.zeros(instance.num_jobs, dtype=np.int64)
    choices: dict[int, str] = {}
    name = ""
    try:
        for name in taken:
            if choice := _CHOICE.fullmatch(name):
                job, mode = int(choice[1]), choice[4]
                placement = instance.jobs[job].placement
                if job in choices:
                    raise ValueError(
                        f"Columns '{choices[job]}' and '{name}' are both taken; expected one "
                        "choice a job."
                    )
                choices[job] = name
                if mode is not None:
                    modes[job] = int(mode) - instance.first_mode[job]
                if choice[2] == "keep":
                    for node, gpus in placement:
                        matrix[job, node] += gpus
            elif local := _LOCAL.fullmatch(name):
                matrix[int(local[1]), int(local[4])] += int(local[2])
            elif amount := _AMOUNT.fullmatch(name):
                job = int(instance.mode_job[int(amount[1])])
                matrix[job, int(amount[2])] += round(values[name])
    except IndexError as error:
        raise ValueError(
            f"Column '{name}': instance '{instance.name}' has {instance.num_jobs} jobs, "
            f"{len(instance.modes)} modes and {instance.cluster.num_nodes} nodes; expected one of "
            "them."
        ) from error
    left = [job.name for index, job in enumerate(instance.jobs) if index not in choices]
    if left:
        raise ValueError(
            f"Job '{left[0]}' takes no choice; expected a solution of the node-indexed program."
        )
    return Allocation.from_matrix(matrix, modes)
