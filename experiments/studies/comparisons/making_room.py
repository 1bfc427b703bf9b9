"""Room for a gang on fragmented clusters: the fewest moves, and the least loss by stopping jobs.

Clusters whose jobs run and of which a third has just ended; a gang asks for whole nodes, or for
three quarters of the GPUs of nodes, of which as many as are free now and a twentieth of all nodes
more. Jobs move, from whole nodes, at a cost of 1 or of their own; or they are stopped, at a loss of
their own, for each job or each of its GPUs, the latter also under quotas of three groups that
borrow. Each is decided with a proof and greedily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.rounds.scattered import generate_scattered
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.making_room.room_plan import Gang
from goodalloc.solvers.making_room.defragment import fewest_moves, greedy_moves
from goodalloc.solvers.making_room.preempt import greedy_preemption, least_preemption

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.making_room.room_plan import RoomPlan
    from goodalloc.models.round.instance import Instance

#: Nodes and GPUs of each; the first ones for quick runs.
SIZES, QUICK_SIZES = ((64, 4), (500, 4), (2000, 4), (500, 8), (2000, 8)), ((64, 4), (500, 8))

#: Jobs for each GPU before some end, and nodes that are to be freed, as shares.
JOBS_PER_GPU, FREED = 0.6, 0.05

#: Costs of a job, or of each of its GPUs, are drawn evenly between these.
COSTS = (1.0, 10.0)

#: Quotas of the three groups as shares of the GPUs, of which each holds a little more than 0.21.
QUOTAS = {"a": 0.21, "b": 0.2, "c": 0.15}

#: What is asked, in words.
QUESTIONS = (
    "moves",
    "moves at own costs",
    "stops, a loss a job",
    "stops, a loss a GPU",
    "stops under quotas",
)

#: Part of the GPUs of a node that a gang asks for where jobs are stopped.
PART = 0.75


class RoomRow(NamedTuple):
    """One question on one cluster.

    Attributes
    ----------
    nodes, gpus_per_node, seed
        The cluster.
    question
        One of `QUESTIONS`.
    gang_nodes
        Nodes that the gang asks for.
    cost, bound
        Cost of the exact plan, and the proven bound.
    greedy_cost
        Cost of the greedy one; None where it found none.
    exact_seconds, greedy_seconds
        Time of both.
    """

    nodes: int
    gpus_per_node: int
    seed: int
    question: str
    gang_nodes: int
    cost: float
    bound: float
    greedy_cost: float | None
    exact_seconds: float
    greedy_seconds: float


def room_row(nodes: int, gpus: int, seed: int, question: str) -> RoomRow:
    """Return the answers to a question.

    Parameters
    ----------
    nodes, gpus, seed
        Size of the cluster, and seed.
    question
        One of `QUESTIONS`.
    """
    jobs = int(JOBS_PER_GPU * nodes * gpus)
    instance = generate_scattered(seed, jobs=jobs, nodes=nodes, gpus_per_node=gpus)
    wanted = gpus if question.startswith("moves") else int(PART * gpus)
    ready = int(np.count_nonzero(gpus - instance.current.node_replicas >= wanted))
    gang = Gang(ready + max(int(FREED * nodes), 1), wanted)
    exact, greedy = _answers(instance, gang, question, seed)
    return RoomRow(
        nodes=nodes,
        gpus_per_node=gpus,
        seed=seed,
        question=question,
        gang_nodes=gang.nodes,
        cost=rounded(exact.cost, 6),
        bound=rounded(exact.bound, 6),
        greedy_cost=rounded(greedy.cost, 6) if greedy.found else None,
        exact_seconds=rounded(exact.seconds, 4),
        greedy_seconds=rounded(greedy.seconds, 4),
    )


def _answers(instance: Instance, gang: Gang, question: str, seed: int) -> tuple[RoomPlan, RoomPlan]:
    """Return the exact and the greedy plan."""
    drawn = np.random.default_rng(seed).uniform(*COSTS, instance.num_jobs)
    own = {job: float(cost) for job, cost in enumerate(drawn)}
    if question.startswith("moves"):
        costs = None if question == "moves" else own
        exact = fewest_moves(instance, gang, costs=costs)
        return exact, greedy_moves(instance, gang, costs=costs)
    groups, quotas = dict[int, str](), dict[str, int]()
    if question == "stops under quotas":
        groups = {job: "abc"[job % 3] for job in range(instance.num_jobs)}
        quotas = {name: int(share * instance.cluster.num_gpus) for name, share in QUOTAS.items()}
    lost = own
    if question != "stops, a loss a job":
        gpus = instance.current.job_replicas
        lost = {job: cost * float(gpus[job]) for job, cost in own.items()}
    exact = least_preemption(instance, gang, losses=lost, groups=groups, quotas=quotas)
    greedy = greedy_preemption(instance, gang, losses=lost, groups=groups, quotas=quotas)
    return exact, greedy


def _rows(plan: Plan) -> list[RoomRow]:
    return [
        room_row(nodes, gpus, seed, question)
        for nodes, gpus in (QUICK_SIZES if plan.quick else SIZES)
        for question in QUESTIONS
        for seed in plan.workloads
    ]


def above(row: RoomRow) -> float:
    """Return how far the greedy cost is above the exact one, in per cent; NaN without a plan."""
    return np.nan if row.greedy_cost is None else 100.0 * (row.greedy_cost / row.cost - 1.0)


def summarise_room(rows: list[RoomRow]) -> Rows:
    """Return a row for every size and question."""
    shown = []
    for key in dict.fromkeys((row.nodes, row.gpus_per_node, row.question) for row in rows):
        group = [row for row in rows if (row.nodes, row.gpus_per_node, row.question) == key]
        found = [above(row) for row in group if row.greedy_cost is not None]
        proved = sum(row.cost <= row.bound * (1 + 1e-6) for row in group)
        shown.append(
            {
                "nodes": key[0],
                "gpus_per_node": key[1],
                "question": key[2],
                "cost": rounded(float(np.mean([row.cost for row in group])), 4),
                "proved": f"{proved}/{len(group)}",
                "greedy_above_%": rounded(float(np.mean(found)), 4) if found else None,
                "worst_above_%": rounded(max(found), 4) if found else None,
                "greedy_found": f"{len(found)}/{len(group)}",
                "exact_(s)": rounded(float(np.median([r.exact_seconds for r in group])), 3),
                "worst_(s)": rounded(max(row.exact_seconds for row in group), 3),
                "greedy_(s)": rounded(float(np.median([r.greedy_seconds for r in group])), 3),
            }
        )
    return shown


def plot_room(rows: list[RoomRow]) -> Figure:
    """Draw how far the greedy costs are above the exact ones."""
    sizes = list(dict.fromkeys((row.nodes, row.gpus_per_node) for row in rows))
    ax = new_axes(9.0, 4.2)
    for index, question in enumerate(QUESTIONS):
        mine = [row for row in rows if row.question == question]
        places = [sizes.index((row.nodes, row.gpus_per_node)) + 0.16 * (index - 2) for row in mine]
        ax.plot(
            places,
            [above(row) for row in mine],
            marker="os^Dv"[index],
            color=COLOURS[index],
            linestyle="none",
            label=question,
        )
    ax.set_xticks(range(len(sizes)), [f"{nodes:,} × {gpus}" for nodes, gpus in sizes])
    ax.set_xlabel("nodes × GPUs of each")
    ax.set_ylabel("greedy cost above the least (%)")
    ax.set_ylim(bottom=-2.0)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)


MAKING_ROOM = Reproduction(
    "Room for a gang on fragmented clusters: fewest moves, and least loss by stopping jobs",
    lambda _: (),
    _rows,
    lambda _, rows: plot_room(rows),
    shown=summarise_room,
    ignores=("pollux", "seeds", "artifact", "gaps"),
    workloads=(1, 2, 3, 4, 5),
    quick_workloads=(1,),
    times=True,
)
