"""Round of many jobs with modes as arrays: every job has the same modes, and a kind its speeds.

A mode names its type of GPU and what a replica takes beside its GPU (`models/round/mode.py`); the
goodput of a job in a mode is that of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.columns.round_columns import NEVER_RAN, RoundColumns, no_models
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.objective import LEAST_UTILITY
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.round.mode import Mode


@dataclass(frozen=True, eq=False)
class ModeColumns(RoundColumns):
    """Scheduling round of jobs with modes, as arrays over the jobs.

    Parameters
    ----------
    cluster, kind, age, restarts, max_replicas, current, rules
        As in `RoundColumns`; present placements have modes.
    models
        Goodput models of all kinds in all modes, stacked: each number of shape (kinds * modes,),
        the modes of the first kind first.
    modes
        The modes of every job, without models: whole GPUs, and of a type where there are several.

    Raises
    ------
    ValueError
        If `RoundColumns` refuses an array, two modes share a name, a mode has a model, takes part
        of a GPU or names no type of GPU where there are several, or present placements are on nodes
        of another type or take more of a resource than there is.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> columns = generate_mode_columns(seed=0, jobs=40)
    >>> columns.num_jobs, [mode.name for mode in columns.modes][:3]
    (40, ['t4-2', 't4-4', 't4-8'])
    """

    modes: tuple[Mode, ...]

    def __post_init__(self) -> None:
        types = self.cluster.gpu_types
        for mode in self.modes:
            item = f"Mode '{mode.name}'"
            if mode.model is not None:
                raise ValueError(f"{item} has a model of its own; expected one of every kind.")
            if mode.gpu_share != 1.0:
                raise ValueError(f"{item}: gpu_share is {mode.gpu_share}; expected 1 in columns.")
            if not mode.gpu_type and len(types) > 1:
                known = ", ".join(f"'{name}'" for name in types)
                raise ValueError(f"{item}: gpu_type is ''; expected one of {known} in columns.")
        if not self.modes:
            raise ValueError("Round: expected at least one mode, got none.")
        size = int(np.size(self.models.batch.initial))
        if size % len(self.modes):
            raise ValueError(
                f"Round: there are {size} models; expected one of every kind in each of "
                f"{len(self.modes)} modes."
            )
        super().__post_init__()
        self._check_current_modes()

    def _check_current_modes(self) -> None:
        """Refuse present placements that their modes do not allow."""
        current, prototype = self.current, self.prototype
        wrong = ~prototype.mode_nodes[current.mode[current.job], current.node]
        if wrong.any():
            entry = int(np.argmax(wrong))
            job, node = int(current.job[entry]), int(current.node[entry])
            raise ValueError(
                f"Job {job}: its present mode '{self.modes[current.mode[job]].name}' does not run "
                f"on node {node}; expected nodes of its type of GPU."
            )
        used = np.zeros_like(self.cluster.node_resources)
        taken = prototype.mode_resources[current.mode[current.job]] * current.replicas[:, None]
        np.add.at(used, current.node, taken)
        over = used > self.cluster.node_resources * (1.0 + RESOURCE_TOLERANCE)
        if over.any():
            node, resource = (int(at) for at in np.argwhere(over)[0])
            raise ValueError(
                f"Node {node}: present placements take {used[node, resource]:g} "
                f"{self.cluster.resource_names[resource]}; expected at most "
                f"{self.cluster.node_resources[node, resource]:g}."
            )

    @classmethod
    def of(cls, instance: Instance) -> ModeColumns:
        """Return an instance as columns.

        Raises
        ------
        ValueError
            If the modes of two jobs differ in more than their models, a mode has a table of
            speedups, or a job has what `RoundColumns` do not state.
        """
        modes = tuple(replace(mode, model=None) for mode in instance.jobs[0].all_modes)
        kinds: dict[tuple[GoodputModel, ...], int] = {}
        found = []
        for job in instance.jobs:
            if job.pinned:
                raise ValueError(
                    f"Job '{job.name}': preemptible is of its own; expected none in columns."
                )
            if tuple(replace(mode, model=None) for mode in job.all_modes) != modes:
                raise ValueError(
                    f"Job '{job.name}': its modes are not those of '{instance.jobs[0].name}'; "
                    "expected the same of all jobs in columns."
                )
            models = tuple(mode.model for mode in job.all_modes)
            known = tuple(model for model in models if isinstance(model, GoodputModel))
            if len(known) == len(models):
                found.append(kinds.setdefault(known, len(kinds)))
            elif all(model is None for model in models):
                found.append(NEVER_RAN)
            else:
                raise ValueError(
                    f"Job '{job.name}': some of its modes have no goodput model; expected all or "
                    "none in columns."
                )
        stacked = [model for models in kinds for model in models]
        plain = RoundColumns.of(
            instance.replace(
                jobs=tuple(
                    job.replace(modes=(), mode="", placement=(), model=None)
                    for job in instance.jobs
                )
            )
        )
        return cls(
            instance.cluster,
            stack_models(stacked) if stacked else no_models(),
            np.array(found, dtype=np.int64),
            plain.age,
            plain.restarts,
            plain.max_replicas,
            instance.current,
            instance.rules,
            modes,
        )

    @property
    def num_kinds(self) -> int:
        """Number of kinds, each with a goodput model for every mode."""
        return int(np.size(self.models.batch.initial)) // len(self.modes)

    @cached_property
    def prototype(self) -> Instance:
        """Round of one job with these modes, for what depends on cluster and modes alone."""
        return Instance(self.cluster, (Job("any", modes=self.modes),), self.rules)

    @property
    def least_utility(self) -> float:
        """Least utility of a job that runs."""
        return self.rules.floor or LEAST_UTILITY

    def instance(self, names: Sequence[str] | None = None, name: str = "instance") -> Instance:
        """Return the round with an object for every job; arguments as of `RoundColumns`."""
        count, models = len(self.modes), self.kind_models()
        by_kind = [
            tuple(
                replace(mode, model=model)
                for mode, model in zip(self.modes, models[first : first + count], strict=True)
            )
            for first in range(0, len(models), count)
        ]
        by_kind.append(self.modes)  # of a job that never ran
        named = [f"job-{index}" for index in range(self.num_jobs)] if names is None else names
        rows = zip(
            named,
            self.kind.tolist(),
            self.age.tolist(),
            self.restarts.tolist(),
            self.current.placements(),
            self.current.mode.tolist(),
            self.max_replicas.tolist(),
            strict=True,
        )
        jobs = tuple(
            Job(
                job,
                None,
                age,
                restarts,
                placement,
                max_replicas=most,
                modes=by_kind[kind],
                mode=self.modes[mode].name if placement else "",
            )
            for job, kind, age, restarts, placement, mode, most in rows
        )
        return Instance(self.cluster, jobs, self.rules, name)
