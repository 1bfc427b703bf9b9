"""Rounds of modes in columns decided: bounds hold, allocations obey, and gaps are small."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds import (
    equip,
    generate,
    generate_mode_columns,
    generate_typed,
    three_types,
)
from goodalloc.models import (
    Cluster,
    Instance,
    Job,
    Mode,
    NodeGroup,
    Rules,
    fitness,
    resources,
    violations,
)
from goodalloc.models.columns import ModeColumns, mode_column_utilities
from goodalloc.models.goodput import BatchLimits, GoodputModel
from goodalloc.solvers import Stop, solve
from goodalloc.solvers.mode_columns import (
    STAY,
    CompiledClasses,
    PricedClasses,
    pooled_choices,
    search_pool_prices,
    solve_mode_columns,
)

if TYPE_CHECKING:
    from goodalloc.data.rounds import State
    from goodalloc.data.rounds.typed import TypedState
    from goodalloc.solvers.mode_columns import PooledChoices

STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")
POWERS = (1.0, 0.5, 0.0, -1.0, -3.0)


def small_round(seed: int, jobs: int, rules: Rules) -> Instance:
    """Return a round of a few jobs with cores, memory or types, by turns."""
    cores = (4.0, 6.0, 9.0)[seed % 3]
    if seed % 2:
        cluster = Cluster((NodeGroup("a", 2, 2, "t4"), NodeGroup("b", 1, 3, "a100")))
        state: TypedState = "running" if seed % 4 > 1 else "cold"
        plain = generate_typed(seed, jobs, cluster=cluster, state=state, rules=rules)
        return equip(plain, seed, cores=cores)
    cluster = Cluster((NodeGroup("a", 2, 3), NodeGroup("b", 1, 2)))
    plain = generate(seed, jobs, cluster=cluster, state=STATES[seed // 2 % 4], rules=rules)
    return equip(plain, seed, cores=cores, memory=None if seed % 4 else 48.0)


@settings(max_examples=8)
@given(
    st.integers(0, 9_999),
    st.integers(1, 6),
    st.builds(
        Rules,
        power=st.sampled_from(POWERS),
        interference_avoidance=st.booleans(),
        max_nodes_per_job=st.integers(1, 3),
    ),
)
def test_no_allocation_is_beyond_the_bound(seed: int, jobs: int, rules: Rules) -> None:
    """On small rounds, against the exact solver."""
    instance = small_round(seed, jobs, rules)
    answer = solve_mode_columns(ModeColumns.of(instance))
    assert not violations(instance, answer.allocation)
    assert answer.fitness == pytest.approx(fitness(instance, answer.allocation), rel=1e-12)
    best = solve(instance, "highs")
    assert best.fitness is not None
    assert best.bound is not None
    assert answer.fitness <= best.bound * (1 + 1e-9)
    assert best.fitness <= answer.bound * (1 + 1e-9)


@pytest.mark.parametrize(
    ("state", "load", "nodes"),
    [
        ("cold", 1.0, 4),
        ("running", 0.5, 4),
        *(
            pytest.param(state, load, 8, marks=pytest.mark.slow)
            for state, load in product(STATES, [0.5, 1.0])
        ),
    ],
)
def test_rounds_of_many_jobs_have_small_gaps(state: State, load: float, nodes: int) -> None:
    """Of what is left, whole jobs are most where nothing runs, restarts where jobs run."""
    columns = generate_mode_columns(3, int(64 * nodes * load), three_types(nodes), state=state)
    answer = solve_mode_columns(columns)
    assert not violations(columns.instance(), answer.allocation)
    assert answer.gap < (5e-3 if load == 0.5 else 1e-3 if state == "cold" else 6e-3)
    assert set(answer.seconds) == {"table", "choices", "prices", "packing", "check"}


def test_one_gpu_is_a_choice_where_it_is_worth_more_than_none() -> None:
    """A job that needs two to make progress has the least utility on one, which may beat idling."""
    node, rules = NodeGroup("a", 1, 1, "t4"), Rules(floor=1e-3, idle_utility=1e-4)
    plain = generate_typed(0, 1, cluster=Cluster((node,)), state="running", rules=rules)
    job = plain.jobs[0]
    mode = job.modes[0]
    assert isinstance(mode.model, GoodputModel)
    limits = BatchLimits(64, 64, 1, 32, accumulation=False)  # at least two replicas
    slow = replace(mode, model=mode.model._replace(batch=limits))
    instance = plain.replace(jobs=(job.replace(modes=(slow,), placement=(), mode=""),))
    answer = solve_mode_columns(ModeColumns.of(instance))
    assert answer.fitness == pytest.approx(1e-3)
    assert answer.fitness <= answer.bound


@pytest.mark.parametrize(
    ("power", "rules"),
    [
        (40.0, Rules(restart_delay=0.0)),
        (-30.0, Rules()),
        (-100.0, Rules(restart_delay=0.0, speedup_scale="job", fair_share="one_gpu")),
    ],
)
@pytest.mark.parametrize("jobs", [1, 12])
def test_bounds_of_great_powers_are_tight(jobs: int, power: float, rules: Rules) -> None:
    """Costs relative to a far utility would all be equal, or no numbers."""
    mode = Mode("m", resources=resources({"cpu": 1.0}))
    new = tuple(Job(f"job-{one}", modes=(mode,), max_replicas=8) for one in range(jobs))
    cluster = Cluster((NodeGroup("a", 2, 8, resources=resources({"cpu": 8.0})),))
    instance = Instance(cluster, new, rules.replace(power=power))
    answer = solve_mode_columns(ModeColumns.of(instance))
    best = solve(instance, "highs", stop=Stop(seconds=20.0))
    assert best.fitness is not None
    assert best.bound is not None
    assert math.isfinite(answer.bound)
    assert answer.fitness <= best.bound * (1 + 1e-9)
    assert best.fitness <= answer.bound * (1 + 1e-9)
    assert answer.gap < 0.5


def test_what_nodes_are_worth_tells_that_jobs_do_not_share_them_well() -> None:
    """Prices of pools alone promise more than the exact solver finds; further pools do not."""
    columns = generate_mode_columns(0, 60)
    answer = solve_mode_columns(columns)
    exact = solve(columns.instance(), "highs")
    choices = pooled_choices(mode_column_utilities(columns))
    pools = choices.demand.shape[1]
    assert answer.prices.size > pools
    assert exact.fitness is not None
    assert exact.fitness <= answer.bound
    assert answer.fitness >= 0.98 * exact.fitness
    plain = PricedClasses(choices, -1.0, answer.bound, choices.count.astype(float))
    looser = search_pool_prices(plain, tolerance=1e-6).response.bound
    assert looser < 0.0  # of a cost that is 0 at the bound with further pools


@settings(max_examples=10)
@given(st.integers(0, 9_999), st.sampled_from(STATES))
def test_choices_at_other_prices_are_planes_above_the_bound(seed: int, state: State) -> None:
    """At any prices; at their own it is the bound."""
    random = np.random.default_rng(seed)
    columns = generate_mode_columns(seed, 40, three_types(1), state=state)
    choices = pooled_choices(mode_column_utilities(columns))
    classes = PricedClasses(choices, -1.0, 0.04, choices.count.astype(float))
    first, second = random.gamma(0.5, 5.0, (2, choices.demand.shape[1]))
    told = classes.respond(first)
    plane = classes.response_of(told.choice)
    assert plane.bound == -math.inf
    assert plane.intercept + plane.slope @ first == pytest.approx(told.bound, rel=1e-9, abs=1e-9)
    assert plane.intercept + plane.slope @ second >= classes.respond(second).bound - 1e-9


@lru_cache
def many_choices() -> PooledChoices:
    """Return the choices of jobs many of which are of equal kinds."""
    return all_choices(generate_mode_columns(0, 1_000, three_types(2), state="disturbed"))


def require_cheapest(classes: PricedClasses, prices: np.ndarray) -> None:
    """Demand that every class chooses the cheapest of all its choices."""
    choices = classes.choices
    least, chosen = classes.cheapest(prices)
    position = np.arange(choices.code.shape[1])
    shape = (choices.num_classes, position.size)
    everyone = np.broadcast_to(np.arange(choices.num_classes)[:, None], shape)
    total = classes.cost_of(everyone, np.broadcast_to(position, shape))
    total = total + (choices.demand @ prices)[choices.code[choices.kind]]
    total[position >= choices.choices_of[:, None]] = np.inf
    assert least == pytest.approx(total.min(axis=1), rel=1e-12, abs=1e-12)
    assert total[everyone[:, 0], chosen] == pytest.approx(least, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("power", [2.0, 1.0, 0.5, 0.0, -0.5, -1.0, -3.0, -20.0, -100.0])
@pytest.mark.parametrize(
    ("floor", "idle", "smallest", "reference"),
    [(0.0, 1e-4, -3, 0.05), (1e-3, None, -3, 0.05), (0.05, None, -3, 0.05), (0.0, 1e-12, -9, 1e-6)],
)
def test_classes_between_two_of_a_kind_choose_as_all_choices_tell(
    power: float, floor: float, idle: float | None, smallest: int, reference: float
) -> None:
    """At any prices, though of a group of classes only the first and the last one are asked.

    In the last case utilities are so low that they, or their costs, are cut off.
    """
    rules, choices = Rules(power=power, floor=floor, idle_utility=idle), many_choices()
    columns, kind = replace(choices.columns, rules=rules), choices.kind % 5
    for seed in range(4):
        random = np.random.default_rng(seed)
        factor = 10.0 ** random.uniform(smallest, smallest + 3, choices.num_classes)
        choices = replace(choices, columns=columns, kind=kind, factor=factor)
        classes = PricedClasses(choices, power, reference, choices.count.astype(float))
        prices = 10.0 ** random.uniform(-3, 4, choices.demand.shape[1])
        require_cheapest(classes, prices)
        runs = sum(np.unique(block.run).size for block in classes.blocks)
        if power >= 0.0 and smallest > -9:
            assert runs < 0.2 * choices.num_classes


def test_some_of_the_classes_choose_as_they_do_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if costs are kept in several blocks of as many choices."""
    monkeypatch.setattr("goodalloc.solvers.columns.column_choices.CHUNK", 100)
    choices = many_choices()
    classes = PricedClasses(choices, -1.0, 0.05, choices.count.astype(float))
    assert len(classes.blocks) > 12
    prices = np.linspace(0.0, 100.0, choices.demand.shape[1])
    require_cheapest(classes, prices)
    jobs = np.flatnonzero(np.arange(1_000) % 3 == 0)
    some, least = classes.of_jobs(jobs), classes.cheapest(prices)[0]
    require_cheapest(some, prices)
    own = np.unique(choices.job_class[jobs])
    assert some.cheapest(prices)[0].tolist() == least[own].tolist()


def test_a_round_of_new_jobs_that_fit_nowhere_is_decided() -> None:
    """With nothing for anybody, and without a warning."""
    columns = generate_mode_columns(0, 40)
    modes = tuple(replace(mode, resources=(("cpu", 1e3),)) for mode in columns.modes)
    age = np.zeros(columns.num_jobs)
    answer = solve_mode_columns(replace(columns, modes=modes, age=age))
    assert not answer.allocation.replicas.any()
    assert answer.gap <= 1e-12


def test_what_a_search_mixes_fits_into_the_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """And costs what the bound is, within the tolerance; a search that ends early mixes nothing."""
    columns = generate_mode_columns(5, 300, three_types(4), state="disturbed")
    choices = pooled_choices(mode_column_utilities(columns))
    classes = PricedClasses(choices, -1.0, 0.04, choices.count.astype(float))
    found = search_pool_prices(classes, 1e-5)
    shares = np.array([share for _, share in found.mixture])
    assert shares.size > 1
    assert (shares > 0.0).all()
    assert shares.sum() == pytest.approx(1.0)
    told = [classes.response_of(choice) for choice, _ in found.mixture]
    assert (shares @ [one.usage for one in told] <= 1.0 + 1e-7).all()
    assert shares @ [one.cost for one in told] <= found.response.bound + 2e-5
    monkeypatch.setattr("goodalloc.solvers.milp.box_search.MOST_STEPS", 3)
    early = search_pool_prices(classes, 1e-5)
    ((choice, share),) = early.mixture
    assert (choice.tolist(), share) == (early.response.choice.tolist(), 1.0)


def test_jobs_are_counted_by_what_they_choose() -> None:
    """Those that stay by what they have."""
    columns = generate_mode_columns(5, 300, three_types(4), state="disturbed")
    choices = pooled_choices(mode_column_utilities(columns))
    classes = PricedClasses(choices, -1.0, 0.04, choices.count.astype(float))
    chosen = search_pool_prices(classes, 1e-3).response.choice
    assert (chosen == STAY).any()
    expected = np.zeros(len(choices.demand))
    for one, position in enumerate(chosen.tolist()):
        now = choices.kept_code[choices.kept_way[one]]
        code = now if position == STAY else choices.code[choices.kind[one], position]
        expected[code] += choices.count[one]
    assert classes.jobs_by_code(chosen).tolist() == expected.tolist()


def test_a_search_goes_on_from_the_planes_of_another() -> None:
    """To the same bound with fewer responses, also where fewer jobs choose."""
    columns = generate_mode_columns(5, 300, three_types(4), state="disturbed")
    choices = pooled_choices(mode_column_utilities(columns))
    classes = PricedClasses(choices, -1.0, 0.04, choices.count.astype(float))
    found = search_pool_prices(classes, 1e-5)
    again = search_pool_prices(classes, 1e-5, found.prices, planes=found.planes)
    assert again.response.bound == pytest.approx(found.response.bound, abs=2e-5)
    assert again.steps <= found.steps / 4
    some = np.flatnonzero(np.arange(300) % 10 > 0)
    fewer, own = classes.of_jobs(some), np.unique(choices.job_class[some])
    alone = search_pool_prices(fewer, 1e-5)
    planes = [one[own] for one in found.planes]
    after = search_pool_prices(fewer, 1e-5, found.prices, planes=planes)
    assert after.response.bound == pytest.approx(alone.response.bound, abs=2e-5)
    assert after.steps < alone.steps


@pytest.mark.parametrize("power", [math.inf, -math.inf, 50.0])
def test_powers_that_costs_do_not_hold_are_refused(power: float) -> None:
    """In one sentence."""
    columns = generate_mode_columns(0, 40, rules=Rules(power=power))
    with pytest.raises(ValueError, match="expected a finite one of at most 40 in columns"):
        solve_mode_columns(columns)


def test_equal_rounds_have_equal_answers() -> None:
    """To the byte: samples have a seed."""
    first, second = (
        solve_mode_columns(generate_mode_columns(1, 100, three_types(2), state="disturbed"))
        for _ in range(2)
    )
    assert first.allocation == second.allocation
    assert (first.fitness, first.bound) == (second.fitness, second.bound)
    assert np.array_equal(first.prices, second.prices)


def test_jax_and_numpy_give_the_same_answer() -> None:
    """To the byte: both add and compare in float64."""
    columns = generate_mode_columns(1, 100, three_types(2), state="running")
    first, second = (solve_mode_columns(columns, backend) for backend in ("numpy", "jax"))
    assert first.allocation == second.allocation
    assert (first.fitness, first.bound) == (second.fitness, second.bound)
    choices = all_choices(columns)
    given = choices, -1.0, 0.05, choices.count.astype(float)
    for scale in (0.0, 1.0, 100.0):
        prices = np.linspace(0.0, scale, choices.demand.shape[1])
        one, other = PricedClasses(*given).respond(prices), CompiledClasses(*given).respond(prices)
        assert one.bound == other.bound
        assert np.array_equal(one.choice, other.choice)


def test_an_unknown_backend_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(ValueError, match="backend is 'cuda'; expected one of jax, numpy"):
        solve_mode_columns(generate_mode_columns(0, 40), "cuda")  # type: ignore[arg-type]


def all_choices(columns: ModeColumns) -> PooledChoices:
    """Return the choices of a round."""
    return pooled_choices(mode_column_utilities(columns))


@settings(max_examples=25)
@given(st.integers(0, 999), st.sampled_from(POWERS))
def test_a_choice_that_was_left_out_is_never_the_cheapest(seed: int, power: float) -> None:
    """At any prices, by all modes and numbers of replicas of jobs one by one."""
    random = np.random.default_rng(seed)
    columns = ModeColumns.of(small_round(seed, 4, Rules(power=power)))
    utilities, choices = mode_column_utilities(columns), all_choices(columns)
    classes = PricedClasses(choices, power, 0.5, choices.count.astype(float))
    prices = 10.0 ** random.uniform(-3, 1, choices.demand.shape[1])
    prices[random.random(prices.size) < 0.3] = 0.0
    response = classes.respond(prices)
    width, rules = utilities.speedup.shape[-1], columns.rules
    code = np.arange(len(choices.demand))
    mode, several, replicas = choices.decode(code)
    most = np.array([group.gpus for group in columns.cluster.groups]).max()
    for job, one in enumerate(choices.job_class.tolist()):
        speedup = utilities.speedup[columns.kind[job], mode, several, replicas]
        utility = np.maximum(utilities.factor[job] * speedup + rules.floor, columns.least_utility)
        cost = classes.cost_of_utility(np.where(replicas == 0, rules.idle, utility))
        allowed = (replicas <= columns.max_replicas[job]) & ((several == 1) | (replicas <= most))
        fits = (choices.demand <= 1.0 + 1e-9).all(axis=1)
        total = np.where(
            allowed & fits & (replicas < width), cost + choices.demand @ prices, np.inf
        )
        position = int(response.choice[one])
        where = np.array([one]), np.array([position])
        chosen = classes.cost_of(*where) + classes.demand_of(*where) @ prices
        assert position == STAY or chosen[0] >= total.min() - 1e-9 * (1 + abs(total.min()))
        assert chosen[0] <= total[replicas == 0].min() + 1e-9 * (1 + abs(chosen[0]))
