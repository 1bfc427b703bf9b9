"""Job of a replay on a tree: its synchronisation between nodes is slowed down by their level.

A pass of a job on several nodes takes as much longer than its computation as it does without the
tree, times the slowdown of the lowest level that holds the job. Its agent measures what it sees;
one that knows the tree divides by the slowdown what it measures, so that it predicts every level
from the measurements on any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.replay.simulated_job import SimulatedJob
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.topology.level_speeds import slowed_model

if TYPE_CHECKING:
    from goodalloc.models.topology.tree_wishes import TreeWishes


class TreeJob(SimulatedJob):
    """Job of a replay on a tree, as it is when it is submitted.

    Parameters
    ----------
    job
        The job without the tree.
    wishes
        The tree.
    knows_tree
        Whether its agent knows the tree.
    """

    def __init__(self, job: SimulatedJob, wishes: TreeWishes, *, knows_tree: bool) -> None:
        vars(self).update(vars(job))
        self.wishes, self.knows_tree = wishes, knows_tree

    @property
    def slowdown(self) -> float:
        """Slowdown of the level that holds it."""
        return self.wishes.slowdown(self.placement)

    def batch_model(self) -> GoodputModel | None:
        """Return the model by which it chooses its batch size, None before any measurement."""
        model = super().batch_model()
        if model is None or not self.knows_tree:
            return model
        slowed = slowed_model(model, self.slowdown)
        assert isinstance(slowed, GoodputModel)  # as `model` is
        return slowed

    def _measure(self) -> float:
        """Return the true progress per second, and note step times and gradient statistics."""
        noted = sum(len(found.times) for found in self.measured.values())
        super()._measure()
        slowdown = self.slowdown
        if slowdown == 1.0:
            return self.rate
        step, synchronisation = self.application.step_times(self.spread, self.atomic_batch_size)
        level = step + self.accumulation_steps * (step - synchronisation)
        self.rate *= level / (level + (slowdown - 1.0) * synchronisation)
        times = self.measured[self.gpu_type].times
        if not self.knows_tree and len(times) > noted:  # a new configuration
            configuration = (len(self.spread), self.replicas, self.atomic_batch_size)
            passes, whole = times[configuration]
            times[configuration] = (passes, passes + slowdown * (whole - passes))
        return self.rate
