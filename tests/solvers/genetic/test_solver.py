"""Pollux's genetic algorithm: feasible, seeded, monotone, with the published operators."""

from __future__ import annotations

from dataclasses import replace
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
from goodalloc.solvers.genetic.compile import compile_block
from goodalloc.solvers.genetic.operators import Genes, grow_and_repair, growth_thresholds, recombine
from goodalloc.solvers.genetic.options import GeneticOptions
from goodalloc.solvers.genetic.problem import (
    build_problem,
    initial_members,
    repair_order,
    without_broken_rows,
)
from goodalloc.solvers.genetic.random_numbers import noise
from goodalloc.solvers.genetic.selection import (
    crowding_distances,
    dominates,
    evaluate,
    front_ranks,
    survivors,
    tournament,
)
from goodalloc.solvers.genetic.solver import evolve, solve_genetic
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from goodalloc.solvers.genetic.solver import Evolution

NODES = (4, 4, 2, 8)

jitted_repair = jax.jit(grow_and_repair)
jitted_recombine = jax.jit(recombine, static_argnames="options")
jitted_evaluate = jax.jit(evaluate, static_argnums=2)
jitted_survivors = jax.jit(survivors, static_argnums=3)
jitted_tournament = jax.jit(tournament, static_argnums=4)
jitted_ranks = jax.jit(front_ranks, static_argnums=2)
jitted_crowding = jax.jit(crowding_distances)


def make_instance(seed: int = 0, jobs: int = 8, **rules: Any) -> Instance:
    """A round on unequal nodes with jobs of every kind: running, pinned, small, demanding."""
    generator = np.random.default_rng(seed)
    free = np.array(NODES)
    made: list[Job] = []
    replicas = np.arange(1, 19)
    for index in range(jobs):
        exponent = generator.uniform(0.3, 1.0)
        placement: tuple[tuple[int, int], ...] = ()
        if generator.random() < 0.5:
            taken = np.minimum(free, generator.integers(0, 3, free.size))
            taken[generator.permutation(free.size)[: int(generator.integers(2, 4))]] = 0
            free -= taken
            placement = tuple((node, held) for node, held in enumerate(taken.tolist()) if held)
        least = int(generator.choice([0, 0, 0, 1, 2, 3]))
        most = least + int(generator.choice([1, 2, 3, 6, 15]))
        held = sum(gpus for _, gpus in placement)
        nodes = len(placement)
        pinned = (
            index % 3 == 0 and least <= held <= most and nodes <= rules.get("max_nodes_per_job", 16)
        )
        if nodes > 1:
            pinned = pinned and not any(len(job.placement) > 1 and job.pinned for job in made)
        one, several = replicas**exponent, 0.8 * replicas**exponent
        made.append(
            Job(
                f"job{index}",
                SpeedupTable(tuple(one.tolist()), tuple(several.tolist())),
                age=float(generator.uniform(0, 5000)),
                restarts=int(generator.integers(0, 3)),
                placement=placement,
                min_replicas=least,
                max_replicas=most,
                attained_service=float(generator.uniform(0, 1e4)),
                preemptible=not pinned,
            )
        )
    cluster = Cluster(tuple(NodeGroup(f"n{i}", 1, gpus) for i, gpus in enumerate(NODES)))
    return Instance(cluster, tuple(made), Rules(**rules))


def assert_feasible(instance: Instance, population: Any) -> None:
    """Every member passes the independent checker."""
    for member in population:
        assert violations(instance, Allocation.from_matrix(member)) == ()


@pytest.fixture(scope="module")
def instance() -> Instance:
    """A round for tests that need no other."""
    return make_instance(10)


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
    """Whatever matrix goes in, with or without mutation, what comes out passes the checker."""
    instance = make_instance(seed, max_nodes_per_job=max_nodes, interference_avoidance=avoid)
    generator = np.random.default_rng(seed)
    order = repair_order(instance)
    with jax.enable_x64(True):
        problem = build_problem(instance, order)
        shape = (problem.current.shape[0], 16, len(NODES))
        rows = generator.integers(0, np.array(NODES) + 1, shape) * (
            generator.random(shape) < density
        )
        rows[len(order) :] = 0
        words = jax.random.bits(jax.random.key(seed), (shape[0], 2, 2), jnp.uint32)
        strikes = jnp.full(shape[1:], 2**30 if grow else 0, jnp.uint32)
        repaired = jitted_repair(
            problem, Genes(jnp.asarray(rows, jnp.int8), None), (strikes, strikes), words
        )
        members = np.asarray(repaired.genes.replicas)
    assert not members[len(order) :].any()
    matrices = np.zeros((16, len(order), len(NODES)), int)
    matrices[:, order] = members[: len(order)].transpose(1, 0, 2)
    assert_feasible(instance, matrices)
    held = np.asarray(repaired.held)[: len(order)].T
    assert np.array_equal(held, matrices[:, order].sum(2))
    assert np.array_equal(
        np.asarray(repaired.unchanged)[: len(order)].T,
        (matrices == instance.current.matrix()).all(2)[:, order],
    )


def test_repair_is_the_published_one_step_by_step() -> None:
    """Where nothing is random the repair equals the steps written out with cumulative sums."""
    jobs = tuple(
        Job(f"job{i}", SpeedupTable((1.0, 2.0), (1.0, 2.0)), min_replicas=2 * (i % 2))
        for i in range(10)
    )
    instance = Instance(Cluster.uniform(5, 4), jobs)
    generator = np.random.default_rng(5)
    states = generator.integers(0, 4, (30, 10, 5)) * (generator.random((30, 10, 5)) < 0.4)
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(10))
        rows = np.zeros((problem.current.shape[0], 30, 5), np.int8)
        rows[:10] = states.transpose(1, 0, 2)
        words = jnp.zeros((rows.shape[0], 2, 2), jnp.uint32)
        never = jnp.zeros((30, 5), jnp.uint32)
        repaired = jitted_repair(problem, Genes(jnp.asarray(rows), None), (never, never), words)
        found = np.asarray(repaired.genes.replicas)[:10].transpose(1, 0, 2)
    expected = states.copy()
    several = (expected > 0).sum(2) > 1
    expected[((expected > 0) & several[..., None]).cumsum(1) > 1] = 0
    expected = np.diff(np.minimum(expected.cumsum(1), 4), axis=1, prepend=0)
    expected[expected.sum(2) < instance.min_replicas] = 0
    assert np.array_equal(found, expected)


def test_nodes_lose_replicas_beyond_the_limit_in_random_order() -> None:
    """A row with one replica too many on each of four nodes loses each of them equally often."""
    job = Job("job", SpeedupTable((1.0,) * 4, (1.0,) * 4), max_replicas=3)
    instance = Instance(Cluster.uniform(4, 1), (job,))
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(1))
        rows = jnp.zeros((problem.current.shape[0], 4000, 4), jnp.int8).at[0].set(1)
        words = jax.random.bits(jax.random.key(1), (rows.shape[0], 2, 2), jnp.uint32)
        never = jnp.zeros((4000, 4), jnp.uint32)
        kept = np.asarray(
            jitted_repair(problem, Genes(rows, None), (never, never), words).genes.replicas
        )[0]
    assert (kept.sum(1) == 3).all()
    assert np.allclose(kept.mean(0), 0.75, atol=0.03)


def test_rows_on_many_nodes_lose_exactly_what_is_too_much() -> None:
    """On 64 nodes random orders repeat, and still no node is cut for another."""
    job = Job("job", SpeedupTable((1.0,), (1.0,)), max_replicas=1)
    instance = Instance(Cluster.uniform(64, 4), (job,))
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(1))
        rows = jnp.zeros((problem.current.shape[0], 4000, 64), jnp.int8).at[0].set(4)
        words = jax.random.bits(jax.random.key(3), (rows.shape[0], 2, 2), jnp.uint32)
        never = jnp.zeros((4000, 64), jnp.uint32)
        kept = np.asarray(
            jitted_repair(problem, Genes(rows, None), (never, never), words).genes.replicas
        )[0]
    assert (kept.sum(1) == 1).all()


def test_noise_is_uniform_and_independent_between_keys() -> None:
    """Bytes of the noise are uniform, and those of two keys are uncorrelated."""
    counters = jnp.arange(200_000, dtype=jnp.uint32)
    words = jax.random.bits(jax.random.key(0), (2, 2), jnp.uint32)
    first, second = (np.asarray(noise(counters, word)) for word in words)
    for shift in (0, 8, 16, 24):
        counts = np.bincount((first >> shift) & 255, minlength=256)
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 350
    ones = np.unpackbits(first.view(np.uint8)) ^ np.unpackbits(second.view(np.uint8))
    assert abs(ones.mean() - 0.5) < 1e-3


def test_recombination_has_the_published_rates() -> None:
    """Rows come from the right parent, a tenth is reset, a tenth of a tenth's entries goes."""
    jobs = tuple(Job(f"job{i}", placement=((i % 8, 1),)) for i in range(24))
    instance = Instance(Cluster.uniform(8, 4), jobs)
    options, members = GeneticOptions(), 400
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(24))
        rows = np.zeros((24, members, 8), np.int8)
        rows[:] = 2 + np.arange(members)[:, None] % 2
        own, other = jnp.arange(members), jnp.arange(members) ^ 1
        words = jax.random.bits(jax.random.key(2), (24, 3, 2), jnp.uint32)
        cut = jnp.full(members, 6)
        genes, mutate = Genes(jnp.asarray(rows), None), jnp.asarray(True)
        found = jitted_recombine(
            problem,
            genes,
            own=own,
            other=other,
            cut=cut,
            mutate=mutate,
            words=words,
            options=options,
        )
        children, used, jobs_on = (np.asarray(a) for a in (found[0].replicas, *found[1:]))
    reset = (children == np.asarray(problem.current)[:, None]).all(2)
    assert abs(reset.mean() - 0.1) < 0.01
    whole = ~reset
    assert abs((children == 0)[whole].mean() - 0.01) < 0.002
    struck = (children == 0).any(2) & whole
    assert abs(struck[whole].mean() - 0.1 * (1 - 0.9**8)) < 0.01
    expected = np.where(np.arange(24)[:, None, None] < 6, rows[:, np.arange(members) ^ 1], rows)
    intact = (children > 0) & whole[..., None]
    assert np.array_equal(children[intact], expected[intact])
    assert np.array_equal(used, children.sum(0))
    assert np.array_equal(jobs_on, (children > 0).sum(0))


def test_growth_strikes_as_often_as_published() -> None:
    """On a node with a free GPU: one job in all on average, and one of those already there."""
    jobs = tuple(Job(f"job{i}") for i in range(20))
    instance = Instance(Cluster.uniform(2, 4), jobs)
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(20))
        used, jobs_on = jnp.array([[3, 4]], jnp.int16), jnp.array([[2, 2]], jnp.int16)
        empty, taken = growth_thresholds(problem, used, jobs_on)
    assert np.allclose(np.asarray(empty)[0] / 2**32, [1 / 20, 0], atol=1e-6)
    assert np.allclose(np.asarray(taken)[0] / 2**32, [1 - (1 - 1 / 20) / 2, 0], atol=1e-6)


def test_growth_redraws_between_the_value_and_the_gpus_of_the_node() -> None:
    """A struck entry of 1 on a node of 4 GPUs becomes 1, 2, 3 or 4, each equally often."""
    instance = Instance(Cluster.uniform(4, 4), (Job("job", max_replicas=4),))
    with jax.enable_x64(True):
        problem = build_problem(instance, np.arange(1))
        rows = jnp.zeros((problem.current.shape[0], 4000, 4), jnp.int8).at[0, :, 2].set(1)
        words = jax.random.bits(jax.random.key(4), (rows.shape[0], 2, 2), jnp.uint32)
        always = jnp.full((4000, 4), 2**32 - 1, jnp.uint32)
        never = jnp.zeros((4000, 4), jnp.uint32)
        values = np.asarray(
            jitted_repair(problem, Genes(rows, None), (never, always), words).genes.replicas
        )[0]
    assert not values[:, [0, 1, 3]].any()
    assert np.allclose(np.bincount(values[:, 2], minlength=5)[1:] / 4000, 0.25, atol=0.03)


def peeled_ranks(objectives: Any) -> Any:
    """Fronts by definition, in plain Python."""
    rank = np.full(len(objectives), -1)
    front = 0
    while (rank < 0).any():
        left = np.flatnonzero(rank < 0)
        beaten = [
            any(
                (objectives[i] >= objectives[j]).all() and (objectives[i] > objectives[j]).any()
                for i in left
            )
            for j in left
        ]
        rank[left[~np.array(beaten)]] = front
        front += 1
    return rank


def test_fronts_and_crowding_follow_their_definition() -> None:
    """Ranks equal those peeled off in plain Python; crowding equals the neighbours' distances."""
    generator = np.random.default_rng(7)
    objectives = generator.integers(0, 12, (40, 2)).astype(float)
    with jax.enable_x64(True):
        rank = np.asarray(jitted_ranks(jnp.asarray(objectives), jnp.ones(40, bool), 40))
        crowding = np.asarray(jitted_crowding(jnp.asarray(objectives), jnp.asarray(rank)))
    assert np.array_equal(rank, peeled_ranks(objectives))
    for front in range(rank.max() + 1):
        members = np.flatnonzero(rank == front)
        unique, first = np.unique(objectives[members], axis=0, return_index=True)
        expected = np.zeros(len(members))
        distance = np.full(len(unique), np.inf)
        for k in range(2):
            extent = np.ptp(unique[:, k]) or 1.0
            inner = np.sort(unique[:, k])
            places = np.argsort(np.argsort(unique[:, k]))
            for i, place in enumerate(places):
                if 0 < place < len(unique) - 1:
                    gap = (inner[place + 1] - inner[place - 1]) / extent
                    distance[i] = gap if np.isinf(distance[i]) else distance[i] + gap
        expected[first] = distance
        assert np.allclose(crowding[members], expected)


def test_survivors_are_whole_fronts_then_the_most_isolated() -> None:
    """No candidate left out dominates or outranks one that lives on; both ends of a front live."""
    generator = np.random.default_rng(8)
    objectives = generator.random((30, 2))
    with jax.enable_x64(True):
        lives, _ = jitted_survivors(
            jnp.zeros(2, jnp.uint32), jnp.asarray(objectives), jnp.ones(30, bool), 10
        )
    alive = np.asarray(lives)
    rank = peeled_ranks(objectives)
    assert alive.sum() == 10
    assert rank[alive].max() <= rank[~alive].min()
    assert alive[np.argmax(objectives[:, 0])]
    assert alive[np.argmax(objectives[:, 1])]


def test_a_dominating_member_wins_every_tournament() -> None:
    """Members compete equally often, and the better of two always wins."""
    objectives = np.stack([np.arange(10.0), np.arange(10.0)], axis=1)
    with jax.enable_x64(True):
        words = jax.random.bits(jax.random.key(1), (2, 2), jnp.uint32)
        winners = np.asarray(
            jitted_tournament(words, jnp.asarray(objectives), jnp.zeros(10), jnp.ones(10, bool), 10)
        )
    counts = np.bincount(winners, minlength=10)
    assert counts[9] == 2
    assert counts[0] == 0
    assert counts.sum() == 10


def test_domination_needs_one_objective_to_be_better() -> None:
    """Equal objectives do not dominate each other."""
    pair = jnp.array([1.0, 2.0])
    assert not bool(dominates(pair, pair))
    assert bool(dominates(pair, pair - jnp.array([0.0, 1.0])))
    assert not bool(dominates(pair, pair + jnp.array([-1.0, 1.0])))


def test_every_member_is_feasible_and_distinct(instance: Instance, evolution: Evolution) -> None:
    """The last population passes the checker and holds no duplicate."""
    assert_feasible(instance, evolution.population)
    flat = evolution.population.reshape(len(evolution.population), -1)
    assert len(np.unique(flat, axis=0)) == len(flat) == 100


def test_fitness_is_that_of_the_objective(instance: Instance, evolution: Evolution) -> None:
    """The compiled fitness of every member equals the one that the objective recomputes."""
    expected = [fitness(instance, Allocation.from_matrix(m)) for m in evolution.population]
    assert np.allclose(evolution.fitness, expected, rtol=1e-12)
    assert evolution.fitness[0] == evolution.fitness.max()
    assert evolution.history[-1].fitness == evolution.fitness[0]


@pytest.mark.parametrize("power", [-10.0, 0.0, 1.0, np.inf, -np.inf])
def test_fitness_holds_for_every_power(power: float) -> None:
    """The compiled power mean equals that of the objective for powers of every kind."""
    instance = make_instance(1, power=power)
    order = repair_order(instance)
    with jax.enable_x64(True):
        problem = build_problem(instance, order)
        rows = np.zeros((problem.current.shape[0], 16, len(NODES)), np.int8)
        rows[: len(order)] = np.random.default_rng(0).integers(0, 2, rows[: len(order)].shape)
        words = jnp.zeros((rows.shape[0], 2, 2), jnp.uint32)
        never = jnp.zeros(rows.shape[1:], jnp.uint32)
        repaired = jitted_repair(problem, Genes(jnp.asarray(rows), None), (never, never), words)
        found = np.asarray(jitted_evaluate(problem, repaired, power)[0])
    for member, value in enumerate(found):
        matrix = np.zeros((len(order), len(NODES)), int)
        matrix[order] = np.asarray(repaired.genes.replicas)[: len(order), member]
        expected = fitness(instance, Allocation.from_matrix(matrix))
        assert value == pytest.approx(expected, rel=1e-10)


def test_cluster_utility_is_speedup_per_gpu_of_the_nodes_in_use(
    instance: Instance, evolution: Evolution
) -> None:
    """The second objective of every member equals the quotient, summed up job by job."""
    gpus = instance.cluster.node_gpus
    for member, found in zip(evolution.population, evolution.cluster_utility, strict=True):
        total = 0.0
        for job, row in zip(instance.jobs, member, strict=True):
            assert isinstance(job.model, SpeedupTable)
            if row.any():
                speedups = job.model[int((row > 0).sum() > 1)]
                total += speedups[min(int(row.sum()), len(speedups)) - 1]
        in_use = gpus[member.any(axis=0)].sum()
        assert found == pytest.approx(total / max(in_use, 1), rel=1e-12)
    assert len(set(evolution.cluster_utility)) > 1


def test_the_front_is_what_no_member_dominates(evolution: Evolution) -> None:
    """Among the members that go on to the next round none dominates another; the best is there."""
    front = {member.matrix().tobytes() for member in evolution.non_dominated()}
    values = np.stack([evolution.fitness, evolution.cluster_utility], axis=1)
    for value, member in zip(values, evolution.population, strict=True):
        beaten = any((v >= value).all() and (v > value).any() for v in values)
        assert beaten != (member.tobytes() in front)
    assert front


def test_equal_seeds_give_equal_populations(instance: Instance, evolution: Evolution) -> None:
    """The seed decides everything, however the run is cut into blocks; another seed differs."""
    again = evolve(instance, seed=3, stop=Stop(iterations=20, seconds=1e6))
    assert again.population.tobytes() == evolution.population.tobytes()
    other = evolve(instance, seed=4, generations=20)
    assert other.population.tobytes() != evolution.population.tobytes()


@pytest.mark.parametrize("number", [10, 11])
def test_a_single_mode_costs_no_random_number(number: int) -> None:
    """Jobs with one way to take cores, of which there are enough, evolve as those without."""
    plain = make_instance(number)
    cluster = Cluster(
        tuple(
            replace(group, resources=resources({"cpu": float(group.gpus), "memory": 1.0}))
            for group in plain.cluster.groups
        )
    )
    jobs = tuple(
        replace(
            job,
            model=None,
            modes=(Mode("only", job.model, resources=resources({"cpu": 1.0})),),
            mode="only" if job.placement else "",
        )
        for job in plain.jobs
    )
    single = replace(plain, cluster=cluster, jobs=jobs)
    assert plain.plain
    assert not single.plain
    one, other = (evolve(each, seed=3, generations=20) for each in (plain, single))
    assert one.population.tobytes() == other.population.tobytes()


def test_pinned_jobs_keep_their_rows(instance: Instance, evolution: Evolution) -> None:
    """A job that is not preemptible keeps its placement in every member."""
    assert instance.pinned.any()
    current = instance.current.matrix()[instance.pinned]
    assert (evolution.population[:, instance.pinned] == current).all()


def test_more_generations_never_lose(instance: Instance, evolution: Evolution) -> None:
    """The best fitness rises from generation to generation, and never falls below the start's."""
    values = [incumbent.fitness for incumbent in evolution.history]
    assert values == sorted(values)
    assert [i.iteration for i in evolution.history] == sorted(
        {i.iteration for i in evolution.history}
    )
    warm = solve_genetic(instance, seed=9, start=evolution.best, generations=3)
    assert warm.allocation is not None
    assert fitness(instance, warm.allocation) >= evolution.fitness[0] * (1 - 1e-12)
    assert warm.history[0].fitness >= evolution.fitness[0] * (1 - 1e-12)


def test_a_warm_population_is_the_first_generation(
    instance: Instance, evolution: Evolution
) -> None:
    """Members handed over come back when nothing has happened yet."""
    front = evolution.non_dominated()
    found = evolve(instance, warm_population=front, generations=1)
    assert {m.tobytes() for m in found.population} == {m.matrix().tobytes() for m in front}


def test_limits_end_the_run(instance: Instance) -> None:
    """Generations, time and want of improvement each end a run, and say so."""
    answer = solve_genetic(instance, generations=5)
    assert (answer.limit, answer.iterations) == (Limit.ITERATIONS, 5)
    timed = solve_genetic(instance, generations=None, stop=Stop(seconds=0.2))
    assert timed.limit is Limit.TIME
    stale = solve_genetic(instance, generations=None, stop=Stop(no_improvement=15))
    assert stale.limit is Limit.NO_IMPROVEMENT
    assert stale.iterations == stale.history[-1].iteration + 15


@pytest.mark.usefixtures("evolution")
def test_time_counts_compilation(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """When time is over before the program is compiled, a feasible start comes back at once."""
    with jax.enable_x64(True):
        problem = build_problem(instance, repair_order(instance))
        ready = compile_block(problem, GeneticOptions(), instance.rules.power)
    assert ready is not None
    over = Event()

    def late(*_: Any) -> Any:
        over.wait()
        return ready.run

    monkeypatch.setattr("goodalloc.solvers.genetic.compile._compile", late)
    answer = solve_genetic(instance, reset_rate=0.2, stop=Stop(seconds=0.01))
    over.set()
    assert (answer.limit, answer.iterations) == (Limit.TIME, 0)
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()
    assert answer.history[0].fitness == fitness(instance, answer.allocation)
    later = solve_genetic(instance, reset_rate=0.2, generations=3)
    assert (later.limit, later.iterations) == (Limit.ITERATIONS, 3)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), max_nodes=st.integers(1, 4), avoid=st.booleans())
def test_a_start_without_broken_rows_obeys_every_rule(
    seed: int, max_nodes: int, avoid: bool
) -> None:
    """Whatever matrix goes in, what comes out passes the checker and has rows of it, or none."""
    instance = make_instance(seed, max_nodes_per_job=max_nodes, interference_avoidance=avoid)
    member = np.random.default_rng(seed).integers(0, 3, (instance.num_jobs, len(NODES)))
    given = Allocation.from_matrix(member)
    kept = without_broken_rows(instance, given, repair_order(instance))
    assert violations(instance, kept) == ()
    matrix = kept.matrix()
    same = (matrix == member).all(1) | ~matrix.any(1)
    assert (same | instance.pinned).all()


def test_an_interrupt_keeps_the_incumbent(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between blocks ends the run with what was found by then."""
    looks = iter(range(3))

    def interrupt(self: Stop, **state: Any) -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(Stop, "reached", interrupt)
    answer = solve_genetic(instance)
    assert answer.limit is Limit.INTERRUPTED
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()


@pytest.mark.usefixtures("evolution")
def test_jobs_that_differ_in_number_share_a_program() -> None:
    """One job less within the padding does not compile anew."""
    assert evolve(make_instance(10, jobs=7), generations=2).compile_seconds == 0.0


def test_bad_input_is_refused(instance: Instance) -> None:
    """Parameters out of range, members of another shape and endless runs are refused by name."""
    with pytest.raises(ValueError, match=r"reset_rate is 1\.5"):
        GeneticOptions(reset_rate=1.5)
    with pytest.raises(ValueError, match="population is 1"):
        solve_genetic(instance, population=1)
    with pytest.raises(ValueError, match="no limit"):
        evolve(instance, generations=None)
    with pytest.raises(ValueError, match="8 jobs and 4 nodes"):
        initial_members(instance, Allocation.empty(3, 4), None, 5)
    modes = np.array([0, 0, 1, *[0] * 5])
    with pytest.raises(ValueError, match="job 'job2' in mode 1"):
        initial_members(instance, None, [Allocation.from_matrix(np.ones((8, 4)), modes)], 5)
