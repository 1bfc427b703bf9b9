"""Execution plans of large models: how a training is split over GPUs, and where.

A training of a large model is split in three ways at once: its layers into stages of a pipeline,
its batch among data-parallel copies, and the operations of a layer among tensor-parallel GPUs. A
plan is the three degrees; it takes as many GPUs as their product.

References
----------
Xue et al., "Arena: Efficiently Training Large Models via Dynamic Scheduling and Adaptive
    Parallelism Co-Design", EuroSys 2026. arXiv:2403.16125

Zhang et al., "Rubick: Exploiting Job Reconfigurability for Deep Learning Cluster Scheduling", MLSys
    2025. arXiv:2408.08586
"""

from __future__ import annotations

from typing import NamedTuple


class ExecutionPlan(NamedTuple):
    """Plan of a training.

    The micro-batch is no part of it: Arena's tables do not tell it. That of a language model, whose
    plan is (1, K, 1), is in `goodalloc.models.plans.AccumulatedStep`.

    Attributes
    ----------
    pipeline, data, tensor
        Degrees of pipeline, data and tensor parallelism, at least 1.

    Examples
    --------
    >>> from goodalloc.models.plans import ExecutionPlan
    >>> plan = ExecutionPlan(pipeline=2, data=4, tensor=1)
    >>> plan.gpus, plan.text
    (8, 'pp2 dp4 tp1')
    """

    pipeline: int
    data: int
    tensor: int

    @property
    def gpus(self) -> int:
        """GPUs that the plan takes."""
        return self.pipeline * self.data * self.tensor

    @property
    def text(self) -> str:
        """Degrees as people write them."""
        return f"pp{self.pipeline} dp{self.data} tp{self.tensor}"


class Training(NamedTuple):
    """Training whose plans are compared: all of them make the same progress in a step.

    Attributes
    ----------
    model, parameters
        Family of the model and its number of parameters, as in "bert" and "1.3B".
    global_batch
        Examples of a step, on all GPUs together.
    """

    model: str
    parameters: str
    global_batch: int

    @property
    def size(self) -> float:
        """Number of parameters.

        Examples
        --------
        >>> from goodalloc.models.plans import Training
        >>> Training("bert", "760M", 128).size
        760000000.0
        """
        return float(self.parameters[:-1]) * {"M": 1e6, "B": 1e9}[self.parameters[-1]]


class Shape(NamedTuple):
    """GPUs of one type, as many on every node.

    Attributes
    ----------
    gpu_type
        Type of the GPUs.
    nodes, gpus_per_node
        Number of nodes, and of GPUs on each.
    """

    gpu_type: str
    nodes: int
    gpus_per_node: int

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return self.nodes * self.gpus_per_node


class Configuration(NamedTuple):
    """Type and number of GPUs that a job holds, on as few nodes as they fit on.

    Attributes
    ----------
    gpu_type, gpus
        Type and number.
    """

    gpu_type: str
    gpus: int

    def shape(self, node_gpus: int) -> Shape:
        """Return the shape on nodes of `node_gpus` GPUs: part of one node, or whole nodes.

        Raises
        ------
        ValueError
            If it needs several nodes and does not fill them.

        Examples
        --------
        >>> from goodalloc.models.plans import Configuration
        >>> Configuration("a100", 8).shape(node_gpus=4)
        Shape(gpu_type='a100', nodes=2, gpus_per_node=4)
        """
        if self.gpus <= node_gpus:
            return Shape(self.gpu_type, 1, self.gpus)
        nodes, rest = divmod(self.gpus, node_gpus)
        if rest:
            raise ValueError(
                f"Configuration of {self.gpus} GPUs '{self.gpu_type}': does not fill nodes of "
                f"{node_gpus}; expected a multiple of these."
            )
        return Shape(self.gpu_type, nodes, node_gpus)


def plans_of(gpus: int) -> tuple[ExecutionPlan, ...]:
    """Return all plans of a number of GPUs whose degrees are powers of two.

    Parameters
    ----------
    gpus
        Number of GPUs, a power of two.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> from goodalloc.models.plans import plans_of
    >>> [plan.text for plan in plans_of(2)]
    ['pp1 dp1 tp2', 'pp1 dp2 tp1', 'pp2 dp1 tp1']
    """
    if gpus < 1 or gpus & (gpus - 1):
        raise ValueError(f"Plans of {gpus} GPUs: expected a power of two.")
    degrees = [2**power for power in range(gpus.bit_length())]
    return tuple(
        ExecutionPlan(pipeline, data, gpus // (pipeline * data))
        for pipeline in degrees
        for data in degrees
        if pipeline * data <= gpus
    )
