"""Parts of GPUs: what fits on the GPUs of a node, and that every road to the optimum agrees."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.files.instance import instance_text
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import Violation, violations
from goodalloc.models.round.gpu_sharing import pack_shares
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.requirements import require_whole_gpus
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from tests.support.agreement import AGREE, check_exact, reordered
from tests.support.few import few
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_share_instance,
)


def fits_somehow(shares: tuple[float, ...], gpus: int) -> bool:
    """By trying every assignment of shares to GPUs."""
    return any(
        all(
            math.fsum(s for s, at in zip(shares, where, strict=True) if at == gpu) <= 1 + 1e-9
            for gpu in range(gpus)
        )
        for where in itertools.product(range(gpus), repeat=len(shares))
    )


@given(
    st.lists(st.sampled_from([0.0, 0.2, 0.25, 0.3, 0.34, 0.4, 0.5, 0.6, 0.7, 1.0]), max_size=7),
    st.integers(1, 3),
)
def test_shares_are_packed_exactly_when_some_assignment_fits(
    shares: list[float], gpus: int
) -> None:
    """A packing is found if there is any, holds every share once, and no GPU is overfull."""
    packed = pack_shares(shares, gpus)
    assert (packed is not None) == fits_somehow(tuple(shares), gpus)
    if packed is not None:
        assert len(packed) <= gpus
        assert sorted(s for gpu in packed for s in gpu) == sorted(s for s in shares if s > 0)
        assert all(math.fsum(gpu) <= 1 + 1e-9 for gpu in packed)


def test_best_fit_decreasing_alone_would_miss_a_packing() -> None:
    """0.6 + 0.4 and 0.4 + 0.3 + 0.3 is nothing that a greedy order must find; two GPUs suffice."""
    shares = (0.44, 0.36, 0.3, 0.3, 0.3, 0.3)  # 0.44 + 0.36 leave 0.2; 0.4 + 0.3 + 0.3 fill
    assert pack_shares(shares, 2) is None
    packed = pack_shares((0.4, 0.3, 0.3, 0.5, 0.25, 0.25, 0.45, 0.35, 0.2), 3)
    assert packed is not None
    assert [round(math.fsum(gpu), 9) for gpu in packed] == [1.0, 1.0, 1.0]


def test_a_share_may_not_span_two_gpus() -> None:
    """Three replicas of 0.6 add up to less than two GPUs and still need three."""
    assert pack_shares((0.6, 0.6, 0.6), 2) is None
    assert pack_shares((0.6, 0.6, 0.6), 3) == ((0.6,), (0.6,), (0.6,))
    assert pack_shares((1 / 3, 1 / 3, 1 / 3), 1) is not None
    assert pack_shares((), 0) == ()
    assert pack_shares((0.1,), 0) is None


HALF = Mode("half", gpu_share=0.6)
SERVER = Mode("server", resources=resources({"cpu": 4}), gpu_share=0.0)
CLUSTER = Cluster(
    (
        NodeGroup("gpu", 1, 2, resources=resources({"cpu": 8})),
        NodeGroup("bare", 1, 0, resources=resources({"cpu": 16})),
    )
)
INSTANCE = Instance(
    CLUSTER, (Job("sharing", modes=(HALF,)), Job("plain"), Job("server", modes=(SERVER,)))
)


@given(
    st.lists(st.sampled_from([0.2, 0.25, 0.3, 0.34, 0.4, 0.5, 0.6, 0.7, 1.0]), max_size=7),
    st.integers(1, 3),
)
def test_the_checker_finds_by_itself_whether_shares_fit(shares: list[float], gpus: int) -> None:
    """Its own search agrees with trying every assignment; a job for every share."""
    jobs = tuple(
        Job(f"job-{index}", modes=(Mode("only", gpu_share=share),))
        for index, share in enumerate(shares)
    )
    cluster = Cluster((NodeGroup("node", 1, gpus),))
    instance = Instance(cluster, (*jobs, Job("idle")))
    found = violations(instance, Allocation.from_matrix([[1]] * len(shares) + [[0]]))
    assert (not found) == fits_somehow(tuple(shares), gpus)


def test_the_checker_ends_on_many_shares_that_do_not_fit() -> None:
    """Forty different shares, each above a third of a GPU, on sixteen: three never fit on one."""
    jobs = tuple(
        Job(f"job-{index}", modes=(Mode("only", gpu_share=0.34 + index / 1000),))
        for index in range(40)
    )
    instance = Instance(Cluster((NodeGroup("node", 1, 16),)), jobs)
    (found,) = violations(instance, Allocation.from_matrix([[1]] * 40))
    assert found.rule == "capacity"


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[2, 0], [0, 0], [2, 4]], ""),
        ([[1, 0], [1, 0], [0, 0]], ""),
        ([[1, 0], [2, 0], [0, 0]], "Node 'gpu-0' gives 2.6 of its GPUs; it has 2."),
        (
            [[3, 0], [0, 0], [0, 0]],
            "Node 'gpu-0' holds shares of 0.6, 0.6, 0.6; they do not fit on 2 GPUs, "
            "none on two at once.",
        ),
        ([[0, 1], [0, 0], [0, 0]], "Node 'bare-0' gives 0.6 of its GPUs; it has 0."),
        ([[0, 0], [0, 1], [0, 0]], "Node 'bare-0' holds 1 replicas; it has 0 GPUs."),
    ],
)
def test_the_checker_packs_shares(matrix: list[list[int]], message: str) -> None:
    """Whole GPUs, parts of them and work without any, on nodes with and without."""
    found = violations(INSTANCE, Allocation.from_matrix(matrix))
    assert found == ((Violation("capacity", message),) if message else ())


def test_replicas_without_gpu_are_limited_by_what_they_take() -> None:
    """Six servers of 4 cores fit on 24; the two halves fit twice; a plain job has the GPUs."""
    assert INSTANCE.max_replicas.tolist() == [2, 2, 6]
    assert INSTANCE.most_on_node.tolist() == [[2, 0], [2, 0], [2, 4]]
    assert INSTANCE.shares_gpus
    assert not INSTANCE.plain


def test_work_without_gpus_is_placed_where_there_are_none() -> None:
    """Two jobs share a GPU that neither could have alone beside the other, a server sits apart."""
    worth = SpeedupTable((1.0, 1.0, 1.0), ())
    jobs = (
        Job("a", modes=(Mode("part", worth, gpu_share=0.4),), max_replicas=1),
        Job("b", modes=(Mode("part", worth, gpu_share=0.6),), max_replicas=1),
        Job(
            "c",
            modes=(Mode("server", worth, resources=SERVER.resources, gpu_share=0.0),),
            max_replicas=1,
        ),
    )
    cluster = Cluster(
        (NodeGroup("gpu", 1, 1), NodeGroup("bare", 1, 0, resources=resources({"cpu": 4})))
    )
    instance = Instance(cluster, jobs, Rules(power=1.0, restart_delay=0.0, speedup_scale="job"))
    for name in ("brute_force", "pyomo"):
        found = solve(instance, name)
        assert found.allocation is not None
        assert found.allocation.matrix().tolist() == [[1, 0], [1, 0], [0, 1]]
        assert found.fitness == pytest.approx(1.001)


@pytest.mark.parametrize("first", few(range(0, 60, 10), 3))
def test_exact_solvers_agree_with_enumeration_where_replicas_share_gpus(first: int) -> None:
    """The optimum, its proof, and the bound of the knapsack."""
    for seed in range(first, first + 10):
        check_exact(seed, ("pyomo",), draw=random_share_instance, concave=False)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 2_000, 100))
def test_exact_solvers_agree_with_enumeration_on_a_thousand(first: int) -> None:
    """1,000 more of them."""
    for seed in range(first, first + 100):
        check_exact(seed, ("pyomo",), draw=random_share_instance, concave=False)


@pytest.mark.parametrize("name", ["pyomo", "brute_force"])
def test_the_order_of_jobs_and_nodes_does_not_matter(name: str) -> None:
    """Renumbering jobs and nodes leaves the optimum where it was."""
    for seed in range(7_000, 7_012):
        instance = random_share_instance(seed)
        one, other = solve(instance, name), solve(reordered(instance), name)
        assert one.bound == pytest.approx(other.bound, rel=2 * AGREE)


def test_where_all_shares_are_whole_nothing_changes() -> None:
    """A share of 1, said or not, is the same instance: same file, same optimum, to the byte."""
    for seed in range(20):
        instance = random_mode_instance(seed)
        jobs = tuple(
            job.replace(modes=tuple(replace(mode, gpu_share=1.0) for mode in job.modes))
            for job in instance.jobs
        )
        said = instance.replace(jobs=jobs)
        assert instance_text(said) == instance_text(instance)
        assert "gpu_share" not in instance_text(instance)
        assert not said.shares_gpus
        require_whole_gpus(said)
        assert solve_brute_force(said) == solve_brute_force(instance)


def test_parts_that_never_meet_are_whole_gpus() -> None:
    """Shares of more than a half never fit together: the optimum is that of whole GPUs."""
    for seed in range(40):
        instance = random_mode_instance(seed)
        jobs = tuple(
            job.replace(modes=tuple(replace(mode, gpu_share=0.9) for mode in job.modes))
            for job in instance.jobs
        )
        whole, parts = solve_brute_force(instance), solve_brute_force(instance.replace(jobs=jobs))
        assert parts.bound == pytest.approx(whole.bound, rel=1e-12)


@pytest.mark.parametrize("solver", ["highs", "greedy", "local_search", "knapsack", "convex"])
def test_solvers_that_know_whole_gpus_only_refuse_shares(solver: str) -> None:
    """In one sentence, before anything is decided."""
    with pytest.raises(ValueError, match="expected one"):
        solve(INSTANCE, solver)


def test_shares_are_refused_on_behalf_of_solvers_with_modes() -> None:
    """The sentence names the job, its mode and the share."""
    with pytest.raises(ValueError, match=r"Job 'sharing': mode 'half' takes 0\.6 of a GPU"):
        require_whole_gpus(INSTANCE)


def test_current_placements_must_fit_as_shares() -> None:
    """Three parts of 0.6 that run on two GPUs are refused with the node and the amounts."""
    running = Job("sharing", modes=(HALF,), placement=((0, 3),), mode="half")
    with pytest.raises(ValueError, match=r"Node 'gpu-0': .* hold 1\.8 GPUs in 3 shares"):
        Instance(CLUSTER, (running,))


@pytest.mark.parametrize("name", ["highs", "pyomo", "greedy", "local_search", "knapsack"])
def test_nodes_without_gpus_add_nothing_where_gpus_are_all_that_counts(name: str) -> None:
    """With a bare node more, every plain solver keeps its bound, and finds what it found."""
    for seed in range(6):
        instance = random_instance(seed)
        if instance.rules.max_nodes_per_job == 1:
            continue
        rules = instance.rules.replace(speedup_scale="job")
        groups = (*instance.cluster.groups, NodeGroup("bare", 1, 0))
        one = solve(instance.replace(rules=rules), name)
        other = solve(instance.replace(rules=rules, cluster=Cluster(groups)), name)
        assert other.fitness == pytest.approx(one.fitness, rel=1e-9)
        assert other.bound == pytest.approx(one.bound, rel=1e-9)
