"""Pollux's genetic algorithm where jobs have modes: types of GPU, cores, memory."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.genetic.operators import Genes, grow_and_repair, recombine
from goodalloc.solvers.genetic.options import GeneticOptions
from goodalloc.solvers.genetic.problem import (
    build_problem,
    carried_over,
    repair_order,
    without_broken_rows,
)
from goodalloc.solvers.genetic.solver import evolve, solve_genetic
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import renamed

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.genetic.solver import Evolution

jitted_repair = jax.jit(grow_and_repair)
jitted_recombine = jax.jit(recombine, static_argnames="options")

NODES = Cluster(
    (
        NodeGroup("a", 1, 4, "a100", resources({"cpu": 8.0, "memory": 3.3})),
        NodeGroup("b", 1, 4, "a100", resources({"cpu": 5.0, "memory": 10.0})),
        NodeGroup("c", 1, 2, "t4", resources({"cpu": 6.0})),
        NodeGroup("d", 1, 8, "", resources({"cpu": 40.0, "memory": 20.0})),
    )
)

#: As many nodes and resources as above, which decide what is compiled, and few GPUs.
FEW_GPUS = Cluster(
    (
        NodeGroup("a", 1, 2, "a100", resources({"cpu": 3.0})),
        NodeGroup("t", 1, 1, "t4", resources({"cpu": 2.0, "memory": 2.0})),
        NodeGroup("u", 2, 1, "t4", resources({"cpu": 3.0})),
    )
)

#: Modes of the jobs, in turn: their total decides what is compiled, so it is always the same.
NUM_MODES = (1, 2, 3, 6)


def make_mode(generator: np.random.Generator, index: int, cluster: Cluster) -> Mode:
    """A mode for some type of GPU or any, which may take cores and memory, or has never run."""
    amounts = {
        name: float(generator.choice([0.1, 0.5, 1.0, 2.0, 3.0]))
        for name in cluster.resource_names
        if generator.random() < 0.7
    }
    kind = str(generator.choice(["", *cluster.gpu_types]))
    model = None
    if generator.random() < 0.8:
        speedups = generator.uniform(0.5, 1.5) * np.arange(1, 19) ** generator.uniform(0.3, 1.0)
        model = SpeedupTable(tuple(speedups.tolist()), tuple((0.8 * speedups).tolist()))
    return Mode(f"mode{index}", model, kind, resources(amounts))


def make_instance(seed: int, jobs: int = 8, cluster: Cluster = NODES, **rules: Any) -> Instance:
    """A round of jobs of every kind, some running and some of these pinned."""
    generator = np.random.default_rng(seed)
    free, left = cluster.node_gpus.copy(), cluster.node_resources.copy()
    made: list[Job] = []
    for index in range(jobs):
        modes = tuple(
            make_mode(generator, number, cluster) for number in range(NUM_MODES[index % 4])
        )
        chosen = modes[int(generator.integers(len(modes)))]
        demand = np.array([dict(chosen.resources).get(n, 0.0) for n in cluster.resource_names])
        placement: list[tuple[int, int]] = []
        for node in generator.permutation(free.size)[: int(generator.integers(0, 3))].tolist():
            if chosen.gpu_type not in ("", cluster.node_types[node]):
                continue
            room = min([int(free[node]), *(left[node] // np.where(demand, demand, 0.01)).tolist()])
            held = int(generator.integers(0, int(room) + 1))
            if held:
                placement.append((node, held))
                free[node] -= held
                left[node] -= held * demand
        row: Placement = tuple(sorted(placement))
        total = sum(held for _, held in row)
        least = int(generator.choice([0, 0, 0, 1, 2]))
        most = 18 if index == 0 else least + int(generator.choice([1, 2, 3, 6]))
        keeps = least <= total <= most and len(row) == 1
        made.append(
            Job(
                f"job{index}",
                modes=modes,
                mode=chosen.name if row else "",
                placement=row,
                age=float(generator.uniform(0, 5000)),
                restarts=int(generator.integers(0, 3)),
                min_replicas=least,
                max_replicas=most,
                preemptible=not (keeps and index % 3 == 0),
                attained_service=float(generator.uniform(0, 1e4)),
            )
        )
    return Instance(cluster, tuple(made), Rules(**rules))


def random_member(instance: Instance, seed: int, density: float = 0.5) -> Allocation:
    """Any matrix within the GPUs of single nodes, in any modes."""
    generator = np.random.default_rng([seed, 1])
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    matrix = generator.integers(0, instance.cluster.node_gpus + 1, shape)
    modes = generator.integers(np.bincount(instance.mode_job))
    return Allocation.from_matrix(matrix * (generator.random(shape) < density), modes)


def members_of(evolution: Evolution) -> list[Allocation]:
    """All members."""
    return [evolution.member(index) for index in range(len(evolution.population))]


@pytest.fixture(scope="module")
def instance() -> Instance:
    """A round for tests that need no other."""
    return make_instance(5)


@pytest.fixture(scope="module")
def evolution(instance: Instance) -> Evolution:
    """A short run."""
    return evolve(instance, seed=3, generations=20)


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10**6),
    density=st.floats(0.05, 0.9),
    max_nodes=st.integers(1, 4),
    avoid=st.booleans(),
    grow=st.booleans(),
)
def test_repaired_members_obey_every_rule(
    seed: int, density: float, max_nodes: int, avoid: bool, grow: bool
) -> None:
    """Whatever rows and modes go in, with or without mutation, what comes out is feasible."""
    instance = make_instance(seed, max_nodes_per_job=max_nodes, interference_avoidance=avoid)
    order = repair_order(instance)
    given = [random_member(instance, seed + number, density) for number in range(16)]
    with jax.enable_x64(True):
        problem = build_problem(instance, order)
        jobs, nodes = problem.current.shape
        rows, modes = np.zeros((jobs, 16, nodes), np.int8), np.zeros((jobs, 16), np.int32)
        for number, member in enumerate(given):
            rows[: order.size, number] = member.matrix()[order]
            modes[: order.size, number] = member.mode[order]
        words = jax.random.bits(jax.random.key(seed), (jobs, 2, 2), jnp.uint32)
        strikes = jnp.full((16, nodes), 2**30 if grow else 0, jnp.uint32)
        genes = Genes(jnp.asarray(rows), jnp.asarray(modes))
        repaired = jitted_repair(problem, genes, (strikes, strikes), words)
    assert repaired.genes.modes is not None
    found, chosen = (np.asarray(part)[: order.size] for part in repaired.genes)
    for number in range(16):
        matrix, mode = np.zeros((order.size, nodes), int), np.zeros(order.size, int)
        matrix[order], mode[order] = found[:, number], chosen[:, number]
        member = Allocation.from_matrix(matrix, mode)
        assert violations(instance, member) == ()
        unchanged = np.asarray(repaired.unchanged)[: order.size, number]
        assert np.array_equal(unchanged, member.unchanged(instance.current)[order])


def test_every_member_is_feasible_and_distinct(instance: Instance, evolution: Evolution) -> None:
    """The last population passes the checker and holds no duplicate."""
    members = members_of(evolution)
    assert all(violations(instance, member) == () for member in members)
    flat = {member.matrix().tobytes() + member.mode.tobytes() for member in members}
    assert len(flat) == len(members) == 100
    assert len({member.mode.tobytes() for member in members}) > 1


def test_fitness_is_that_of_the_objective(instance: Instance, evolution: Evolution) -> None:
    """The compiled fitness equals the one recomputed by job, mode and placement."""
    expected = [fitness(instance, member) for member in members_of(evolution)]
    assert np.allclose(evolution.fitness, expected, rtol=1e-12)
    assert evolution.history[-1].fitness == evolution.fitness[0]


def test_pinned_jobs_keep_their_rows_and_modes(instance: Instance, evolution: Evolution) -> None:
    """A job that is not preemptible keeps its placement and its mode in every member."""
    pinned, current = instance.pinned, instance.current
    assert current.mode[pinned].any()
    assert (evolution.population[:, pinned] == current.matrix()[pinned]).all()
    assert (evolution.modes[:, pinned] == current.mode[pinned]).all()


def test_equal_seeds_give_equal_populations(instance: Instance, evolution: Evolution) -> None:
    """The seed decides everything; another seed differs."""
    again = evolve(instance, seed=3, generations=20)
    assert again.population.tobytes() == evolution.population.tobytes()
    assert again.modes.tobytes() == evolution.modes.tobytes()
    other = evolve(instance, seed=4, generations=20)
    assert other.population.tobytes() != evolution.population.tobytes()


def test_names_of_types_and_resources_change_nothing(
    instance: Instance, evolution: Evolution
) -> None:
    """Names in the opposite order give the same population, bit by bit."""
    types = {"": "", "a100": "z", "t4": "b"}
    found = evolve(renamed(instance, types, {"cpu": "y", "memory": "disk"}), seed=3, generations=20)
    assert found.population.tobytes() == evolution.population.tobytes()
    assert found.modes.tobytes() == evolution.modes.tobytes()


def test_members_and_a_start_come_back_with_their_modes(
    instance: Instance, evolution: Evolution
) -> None:
    """What is handed over is the first generation, modes included, and nothing is lost later."""
    front = evolution.non_dominated()
    found = evolve(instance, warm_population=front, generations=1)
    assert set(members_of(found)) == set(front)
    later = solve_genetic(instance, start=evolution.best, seed=9, generations=3)
    assert later.allocation is not None
    assert fitness(instance, later.allocation) >= evolution.fitness[0] * (1 - 1e-12)


def test_nodes_are_filled_to_the_last_replica_that_the_checker_allows() -> None:
    """Three times 0.1 of 0.3 fit, though 0.3 / 0.1 is below 3 in floating point."""
    mode = Mode("m", SpeedupTable((1.0, 2.0, 3.0), (1.0,)), "", resources({"memory": 0.1}))
    cluster = Cluster((NodeGroup("n", 1, 4, "", resources({"memory": 0.3})),))
    instance = Instance(cluster, (Job("job", modes=(mode,), max_replicas=4),))
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(1))
        rows = jnp.zeros((problem.current.shape[0], 16, 1), jnp.int8).at[0].set(4)
        genes = Genes(rows, jnp.zeros(rows.shape[:2], jnp.int32))
        never, words = jnp.zeros((16, 1), jnp.uint32), jnp.zeros((rows.shape[0], 2, 2), jnp.uint32)
        repaired = jitted_repair(problem, genes, (never, never), words)
    assert (np.asarray(repaired.genes.replicas)[0] == 3).all()


def test_a_job_whose_type_changes_moves_with_its_replicas_to_one_free_node() -> None:
    """Each node of the new type that has a free GPU is as likely; others get nothing."""
    modes = tuple(Mode(kind, None, kind) for kind in ("a100", "t4"))
    cluster = Cluster((NodeGroup("a", 1, 4, "a100"), NodeGroup("t", 3, 2, "t4")))
    instance = Instance(cluster, (Job("job", modes=modes, max_replicas=8),))
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(1))
        jobs = problem.current.shape[0]
        rows = jnp.zeros((jobs, 4000, 4), jnp.int8).at[0, :, 0].set(2)
        genes = Genes(rows, jnp.ones(rows.shape[:2], jnp.int32))
        free = jnp.broadcast_to(jnp.array([1, 1, 0, 1], jnp.uint32), (4000, 4))
        words = jax.random.bits(jax.random.key(0), (jobs, 2, 2), jnp.uint32)
        found = jitted_repair(problem, genes, (free, free), words).genes.replicas
        kept = np.asarray(found)[0]
    assert (kept.sum(1) == 2).all()
    assert np.allclose((kept == 2).mean(0), [0, 0.5, 0, 0.5], atol=0.03)


def test_modes_are_crossed_with_their_rows_reset_and_redrawn_at_the_stated_rates() -> None:
    """A row's mode is its parent's, the current one, or drawn evenly from the job's own."""
    modes = tuple(Mode(f"m{index}") for index in range(4))
    jobs = tuple(Job(f"job{i}", modes=modes, placement=((i % 8, 1),), mode="m0") for i in range(24))
    instance = Instance(Cluster.uniform(8, 4), jobs)
    members, options = 400, GeneticOptions(mode_rate=0.2)
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(24))
        rows = np.full((24, members, 8), 2, np.int8)
        mode = np.broadcast_to(2 + np.arange(members) % 2, (24, members)).astype(np.int32)
        own, other = jnp.arange(members), jnp.arange(members) ^ 1
        words = jax.random.bits(jax.random.key(2), (24, 3, 2), jnp.uint32)
        genes, cut = Genes(jnp.asarray(rows), jnp.asarray(mode)), jnp.full(members, 6)
        children, _, _ = jitted_recombine(
            problem,
            genes,
            own=own,
            other=other,
            cut=cut,
            mutate=jnp.asarray(True),
            words=words,
            options=options,
        )
    found, chosen = (np.asarray(part) for part in children)
    reset = (found == np.asarray(problem.current)[:, None]).all(2)
    assert (chosen[reset & (found > 0).any(2)] == 0).mean() > 0.99
    expected = np.where(np.arange(24)[:, None] < 6, mode[:, np.arange(members) ^ 1], mode)
    changed = (chosen != expected) & ~reset
    assert abs(changed[~reset].mean() - 0.2 * 3 / 4) < 0.015
    counts = np.bincount(chosen[changed], minlength=4) / changed.sum()
    assert np.allclose(counts, [1 / 3, 1 / 3, 1 / 6, 1 / 6], atol=0.04)


def test_jobs_that_never_ran_are_valued_each_by_its_own_share_whatever_others_demand() -> None:
    """Each is worth its own replicas over the fair share, in its mode, in whatever order."""
    demands: tuple[dict[str, float], ...] = ({"cpu": 1.0}, {"cpu": 3.0}, {})
    jobs = [
        Job(f"job{i}", modes=(Mode("m", None, "", resources(taken)),), max_replicas=4 - i, age=9.0)
        for i, taken in enumerate(demands)
    ]
    cluster = Cluster(
        (
            NodeGroup("n", 1, 6, "", resources({"cpu": 9.0, "memory": 9.0})),
            NodeGroup("m", 3, 4, "", resources({"cpu": 9.0})),
        )
    )
    held = {"job0": 3, "job1": 1, "job2": 2}
    for ordered in (jobs, jobs[::-1]):
        instance = Instance(cluster, tuple(ordered), Rules(restart_delay=0.0))
        rows = [[held[job.name], 0, 0, 0] for job in ordered]
        start = Allocation.from_matrix(rows, np.zeros(3, int))
        found = evolve(instance, start=start, generations=1)
        share = instance.fair_share * cluster.num_gpus / cluster.num_nodes
        values = np.array([held[job.name] / share + 1e-3 for job in ordered])
        assert found.best == start
        assert found.fitness[0] == pytest.approx(1 / np.mean(1 / values), rel=1e-12)


@pytest.mark.parametrize("avoid", [False, True])
def test_tiny_rounds_are_mostly_decided_as_well_as_possible(avoid: bool) -> None:
    """Never above the enumeration's optimum, and mostly equal to it."""
    reached = 0
    for seed in range(8):
        instance = make_instance(seed, 4, FEW_GPUS, interference_avoidance=avoid)
        optimum = solve_brute_force(instance).bound
        answer = solve_genetic(instance, seed=seed)
        assert answer.allocation is not None
        assert violations(instance, answer.allocation) == ()
        value = fitness(instance, answer.allocation)
        assert value <= optimum * (1 + 1e-12)
        reached += value >= optimum * (1 - 1e-9)
    assert reached >= 7  # all of 60 when measured


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), max_nodes=st.integers(1, 4), avoid=st.booleans())
def test_a_start_without_broken_rows_obeys_every_rule(
    seed: int, max_nodes: int, avoid: bool
) -> None:
    """Whatever goes in, what comes out passes the checker and has rows of it, or none."""
    instance = make_instance(seed, max_nodes_per_job=max_nodes, interference_avoidance=avoid)
    given = random_member(instance, seed, 0.15)
    kept = without_broken_rows(instance, given, repair_order(instance))
    assert violations(instance, kept) == ()
    same = kept.unchanged(given) | (kept.job_replicas == 0)
    assert (same | instance.pinned).all()


def test_time_that_is_over_at_once_leaves_a_feasible_start(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is compiled the start comes back in its modes, freed of broken rows."""
    over = Event()
    monkeypatch.setattr("goodalloc.solvers.genetic.compile._compile", lambda *_: over.wait())
    answer = solve_genetic(instance, population=9, stop=Stop(seconds=0.01))
    over.set()
    assert (answer.limit, answer.iterations) == (Limit.TIME, 0)
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()


def test_members_are_carried_over_by_the_names_of_jobs_and_modes() -> None:
    """Jobs and modes may come, go and change places between rounds, and nodes be lost."""
    modes = [Mode("one"), Mode("two"), Mode("three")]
    before = {"gone": ["one"], "stays": ["one", "two", "three"], "plain": ["gpu"]}
    member = Allocation.from_matrix([[1, 0, 2], [0, 3, 1], [2, 0, 0]], np.array([0, 2, 0]))
    jobs = (Job("plain"), Job("new", modes=(modes[1],)), Job("stays", modes=(modes[2], modes[0])))
    instance = Instance(Cluster.uniform(2, 4), jobs)
    (found,) = carried_over([member], before, instance)
    assert found.matrix().tolist() == [[2, 0], [0, 0], [0, 3]]
    assert found.mode.tolist() == [0, 0, 0]
    known = instance.replace(jobs=(*jobs[:2], Job("stays", modes=tuple(modes[1:]))))
    assert carried_over([member], before, known)[0].mode.tolist() == [0, 0, 1]
    lost = instance.replace(jobs=(*jobs[:2], Job("stays", modes=tuple(modes[:2]))))
    assert carried_over([member], before, lost)[0].mode.tolist() == [0, 0, 0]
    assert carried_over([], {}, instance) == []


def test_parts_of_gpus_are_refused() -> None:
    """The sentence names the job, its mode and who knows them."""
    job = Job("half", modes=(Mode("small", gpu_share=0.5),))
    with pytest.raises(ValueError, match=r"Job 'half': mode 'small' takes 0\.5 of a GPU"):
        solve_genetic(Instance(Cluster.uniform(1, 1), (job,)))
    with pytest.raises(ValueError, match=r"mode_rate is 1\.5; expected at most 1"):
        GeneticOptions(mode_rate=1.5)
