"""Pods and nodes of openb: what is read, what is drawn, and which lists are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.derivation import fit_openb
from goodalloc.data.files.instance import instance_from_dict, instance_to_dict
from goodalloc.data.pods.generator import (
    PUBLISHED_NODES,
    arrivals,
    draw_machines,
    draw_pods,
    statistics,
)
from goodalloc.data.pods.openb import (
    CORES_ONLY_WORTH,
    NODE_LIST,
    POD_LIST,
    VARIANTS,
    Machine,
    Pod,
    gpus_allocated,
    pods_instance,
    read_openb,
)
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.pods.best_fit import solve_best_fit

if TYPE_CHECKING:
    from pathlib import Path

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,96000,786432,8,V100
n1,32000,65536,0,
n2,96000,786432,8,V100
n3,8000,61440,2,T4
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
a,12000,16384,1,1000,,LS
b,6000,12288,1,460,T4|V100,LS
c,4000,1024,0,0,,BE
d,32000,4096,2,1000,T4|T4,LS
e,1000,1024,1,500,A10,LS
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four nodes and five pods."""
    (tmp_path / NODE_LIST).write_text(NODES)
    (tmp_path / POD_LIST.format("default")).write_text(PODS)
    return tmp_path


def test_lists_become_a_round(folder: Path) -> None:
    """Groups of equal nodes; a job a pod, with a mode for every model that there is."""
    instance = read_openb(folder)
    cluster = instance.cluster
    assert [(g.nodes, g.gpus, g.gpu_type) for g in cluster.groups] == [
        (2, 8, "V100"),
        (1, 0, ""),
        (1, 2, "T4"),
    ]
    assert dict(cluster.groups[2].resources) == {"cpu": 8.0, "memory": 60.0}
    names = [(job.name, tuple(mode.name for mode in job.modes)) for job in instance.jobs]
    assert names == [("a", ("pod",)), ("b", ("T4", "V100")), ("c", ("pod",)), ("d", ("T4",))]
    assert [job.modes[0].gpu_share for job in instance.jobs] == [1.0, 0.46, 0.0, 1.0]
    assert [(job.min_replicas, job.max_replicas) for job in instance.jobs] == [
        (1, 1),
        (1, 1),
        (1, 1),
        (2, 2),
    ]
    assert dict(instance.jobs[3].modes[0].resources) == {"cpu": 16.0, "memory": 2.0}
    assert instance_from_dict(instance_to_dict(instance)) == instance


def test_fitness_counts_gpus(folder: Path) -> None:
    """Utility times jobs is the GPUs allocated, and a little for work without any."""
    instance = read_openb(folder)
    for rows, gpus in (
        ([[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]], 1.46 + CORES_ONLY_WORTH),
        ([[0, 0, 0, 0]] * 4, 0.0),
    ):
        allocation = Allocation.from_matrix(rows)
        assert not violations(instance, allocation)
        found = gpus_allocated(instance, fitness(instance, allocation))
        assert found == pytest.approx(gpus, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (NODE_LIST, "cpu_milli", "cores", "column 'cpu_milli' is missing"),
        (NODE_LIST, "96000,786432,8", "96000,x,8", "memory_mib is 'x'; expected a whole number"),
        (NODE_LIST, NODES.split("\n", 1)[1], "", "has no rows"),
        (POD_LIST.format("default"), "1,460", "1,1460", "pod 'b' takes 1460 thousandths"),
        (POD_LIST.format("default"), "1,460", "3,460", "460 thousandths of each of 3 GPUs"),
        (POD_LIST.format("default"), "12000,", "-1,", "cpu_milli is '-1'"),
        (POD_LIST.format("default"), "\nb,", "\na,", "Job 'a' is named twice"),
    ],
)
def test_lists_that_make_no_sense_are_refused(
    folder: Path, name: str, old: str, new: str, words: str
) -> None:
    """In one sentence that names the item and its value."""
    path = folder / name
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=words):
        read_openb(folder)


def test_unknown_folders_and_variants_are_refused(folder: Path) -> None:
    """The sentence names the file, or what is expected."""
    with pytest.raises(ValueError, match="does not exist"):
        read_openb(folder / "missing")
    with pytest.raises(ValueError, match="variant is 'gpu'"):
        read_openb(folder, "gpu")


@pytest.mark.parametrize("variant", VARIANTS)
def test_published_lists_are_read(variant: str, reference: Path) -> None:
    """Nodes, GPUs, pods and what these ask for, as published."""
    instance = read_openb(reference / "alibaba-openb-2023", variant)
    assert (instance.cluster.num_nodes, instance.cluster.num_gpus) == (1523, 6212)
    pods = {"cpu250": 9420, "multigpu50": 9061}.get(variant, 8152)
    assert instance.num_jobs == pods
    if variant == "default":
        modes = [(job.max_replicas, job.modes[0]) for job in instance.jobs]
        assert sum(n * mode.gpu_share for n, mode in modes) == pytest.approx(6086.8)
        assert sum(0 < mode.gpu_share < 1 for _, mode in modes) == 3078


def test_statistics_are_those_of_the_published_lists(reference: Path) -> None:
    """The script writes what ships."""
    assert fit_openb.statistics(reference / "alibaba-openb-2023") == statistics()


def test_drawn_nodes_are_in_proportion() -> None:
    """The published number gives the published cluster; fewer are as much as rounding allows."""
    machines = draw_machines()
    assert len(machines) == PUBLISHED_NODES
    assert sum(machine.gpus for machine in machines) == 6212
    few = draw_machines(100)
    assert len(few) == 100
    assert sum(machine.gpus for machine in few) == pytest.approx(408, rel=0.05)
    with pytest.raises(ValueError, match="nodes is 0"):
        draw_machines(0)


def test_drawn_pods_follow_the_seed() -> None:
    """Equal seeds give equal pods; the mean request is about the published one."""
    assert draw_pods(3, 50) == draw_pods(3, 50)
    assert draw_pods(3, 50) != draw_pods(4, 50)
    gpus = np.mean([pod.gpus * pod.gpu_share for pod in draw_pods(1, 20_000)])
    assert gpus == pytest.approx(6086.8 / 8152, rel=0.05)


def test_arrivals_repeat_the_list_until_enough_gpus_are_asked_for() -> None:
    """All pods first, then some again under other names; less is the beginning of more."""
    pods = [Pod("a", 1.0, 1.0, 1, 0.5), Pod("b", 1.0, 1.0, 2, 1.0), Pod("c", 1.0, 1.0, 0, 0.0)]
    many, few = arrivals(pods, 1, 20.0), arrivals(pods, 1, 9.0)
    assert {pod.name for pod in many[:3]} == {"a", "b", "c"}
    assert many[: len(few)] == few
    assert len({pod.name for pod in many}) == len(many)
    assert 17.0 < sum(pod.gpus * pod.gpu_share for pod in many) <= 20.0
    with pytest.raises(ValueError, match="no pod takes a GPU"):
        arrivals(pods[2:], 1, 1.0)


def test_a_drawn_round_is_placed() -> None:
    """Thirty nodes, pods for all their GPUs: best fit allocates most, and breaks no rule."""
    machines = draw_machines(30)
    gpus = sum(machine.gpus for machine in machines)
    pods = arrivals(draw_pods(1), 1, gpus)
    instance = pods_instance(machines, pods, "drawn")
    allocation = solve_best_fit(instance).allocation
    assert allocation is not None
    assert not violations(instance, allocation)
    assert 0.5 * gpus < gpus_allocated(instance, fitness(instance, allocation)) <= gpus


def test_pods_that_take_nothing_are_refused() -> None:
    """Not even a core: nobody could say how many fit."""
    with pytest.raises(ValueError, match="takes nothing at all"):
        pods_instance([Machine(1.0, 1.0, 1, "")], [Pod("a", 0.0, 0.0, 0, 0.0)], "none")
