"""What policies remember: kept to the bit, put back without running anything, else refused."""

from __future__ import annotations

import json
import math
import random
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum, Flag
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.rules import OSDI21, Rules
from goodalloc.solvers.gavel.levels import Levels, of_application
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.autoscaling import Autoscaling
from goodalloc.solvers.policies.pollux import Pollux, PolluxGenetic, shortest_remaining_time
from goodalloc.solvers.policies.tiresias import Tiresias
from tests.support.memories import recalled

if TYPE_CHECKING:
    from collections.abc import Callable


class Colour(Enum):
    """An Enum of one's own."""

    RED = "red"
    BLUE = "blue"


class Rights(Flag):
    """Members that go together."""

    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    """A NamedTuple of one's own."""

    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class Point:
    """A frozen dataclass with slots; making one by its `__init__` is told."""

    x: float
    y: Any = None

    def __post_init__(self) -> None:
        CALLS.append("Point")


@dataclass
class Ledger:
    """A dataclass with something that a cached property keeps, and one that holds others."""

    names: list[str] = field(default_factory=list)
    other: Any = None

    @cached_property
    def count(self) -> int:
        """How many there are."""
        return len(self.names)


class Queue:
    """An ordinary class; nothing of it may be called by reading."""

    def __init__(self) -> None:
        self.waiting: list[str] = []

    def __setattr__(self, name: str, value: object) -> None:
        CALLS.append("Queue")
        super().__setattr__(name, value)

    @property
    def first(self) -> str:
        """The first."""
        return self.waiting[0]

    @first.setter
    def first(self, value: str) -> None:
        CALLS.append(value)


#: What was called.
CALLS: list[str] = []


class Own:
    """A policy of one's own: whatever it is given, and a queue."""

    def __init__(self, kept: Any = None) -> None:
        self.kept = kept
        self.queue = Queue()


def kept(value: Any) -> Any:
    """A value that a policy remembers, after a checkpoint."""
    owner = Own()
    memory = Memory(owner)
    owner.kept = value
    return recalled(memory, Own()).kept


def same(one: Any, other: Any) -> bool:
    """Whether two values are of the same types and equal to the bit, NaN too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same([*one.items()], [*other.items()])
    return bool(one == other)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from([*Colour])
)
HASHABLE = st.recursive(
    SCALARS.filter(lambda value: value == value),
    lambda inner: st.one_of(
        st.tuples(inner, inner), st.builds(Pair, inner, inner), st.frozensets(inner)
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.one_of(SCALARS, HASHABLE),
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.dictionaries(HASHABLE, inner),
        st.builds(Pair, inner, inner),
        st.sets(HASHABLE),
        st.builds(deque, st.lists(inner)),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    """Types, order, infinities, NaN and the sign of zero; keys of any kind."""
    assert same(kept(value), value)


@pytest.mark.parametrize(
    "value",
    [
        Counter({"a": 2, "b": -1}),
        defaultdict(list, {"a": [1]}),
        deque([1, 2], maxlen=3),
        {1, 2},
        frozenset({"a"}),
        Point(1.0, Colour.BLUE),
        {Point(0.5): 1},
        Ledger(["a"]),
        10**4000,
        struct.unpack(">d", b"\xff\xf8\x00\x00\x00\x00\x00\x07")[0],
        GradientStatistics(1.0, math.inf),
        np.float64(0.1),
        np.int32(7),
        np.str_(""),
        np.str_("ab"),
        np.datetime64("2026-01-01T00:00:00", "ns"),
        np.bool_(True),
    ],
    ids=repr,
)
def test_values_of_other_types_come_back_as_they_were(value: Any) -> None:
    """Those that policies remember beside plain ones."""
    found = kept(value)
    assert type(found) is type(value)
    assert found == value or (math.isnan(value) and same(found, value))
    assert getattr(found, "maxlen", 3) == 3
    assert getattr(found, "default_factory", list) is list


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.1, -0.0, np.nan, np.inf]),
        np.zeros((0, 3), dtype=np.int8),
        np.array(3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::2],
        np.array([[True, False]]),
        np.array(["a", "bcd"]),
        np.array([1j], dtype=">c16"),
    ],
    ids=repr,
)
def test_arrays_come_back_as_they_were(array: Any) -> None:
    """Type, shape and order, so that sums over them are those to the last bit; read-only too."""
    array.flags.writeable = False
    found = kept(array)
    assert (found.dtype, found.shape, found.strides) == (array.dtype, array.shape, found.strides)
    assert found.tobytes() == array.tobytes()
    assert found.flags.f_contiguous == array.flags.f_contiguous or array.strides == (16,)
    assert not found.flags.writeable
    again = kept(found.copy())
    again[...] = again


def test_random_numbers_go_on_where_they_were() -> None:
    """NumPy's, those spawned from them, and Python's."""
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64):
        generator = np.random.Generator(kind(5))
        generator.random(3)
        generator.spawn(1)
        again = kept(generator)
        assert again.random() == generator.random()
        assert again.spawn(1)[0].random() == generator.spawn(1)[0].random()
    python = random.Random(5)
    python.gauss(0.0, 1.0)
    again = kept(python)
    assert [again.gauss(0.0, 1.0) for _ in range(3)] == [python.gauss(0.0, 1.0) for _ in range(3)]


def test_what_is_shared_stays_shared() -> None:
    """One list in two places, one that holds itself, and an object in two fields."""
    shared: list[Any] = [1]
    shared.append(shared)
    ledger = Ledger(["a"])
    ledger.other = (shared, ledger)
    one, other, found = kept([shared, {"a": shared}, ledger])
    assert one is other["a"] is one[1] is found.other[0]
    assert found.other[1] is found
    assert found is not ledger


def test_caches_are_left_out() -> None:
    """They are made anew when they are asked for."""
    ledger = Ledger(["a"])
    assert ledger.count == 1
    found = kept(ledger)
    assert "count" not in vars(found)
    assert found.count == 1
    assert found.names == ["a"]


def test_nothing_of_a_class_is_called() -> None:
    """Neither `__init__` nor `__post_init__` nor `__setattr__`."""
    owner, again = Own(), Own()
    memory = Memory(owner)
    owner.queue.waiting = ["a"]
    owner.kept = [Point(1.0), Queue()]
    CALLS.clear()
    recalled(memory, again)
    assert not CALLS
    assert again.queue.waiting == ["a"]
    assert again.kept[0] == Point(1.0)
    assert again.kept[1].waiting == []


def test_objects_and_functions_that_a_policy_was_made_with_stay() -> None:
    """They are the new policy's own, with what the old one's remember."""
    owner, again = (Own([shortest_remaining_time, Path("a")]) for _ in range(2))
    memory, queue = Memory(owner), again.queue
    owner.kept = {"by": owner.kept[0], "queue": owner.queue, "where": owner.kept[1]}
    owner.queue.waiting.append("a")
    recalled(memory, again)
    assert again.kept == {"by": shortest_remaining_time, "queue": queue, "where": Path("a")}
    assert again.queue is again.kept["queue"] is queue
    assert queue.waiting == ["a"]


def test_what_our_policies_are_made_with_is_not_remembered() -> None:
    """It is the new one's, whatever it is; and nobody changes it meanwhile."""
    first = Tiresias(threshold=1.0, services=(3.0,))
    memory = Memory(first)
    first.ended = (5.0,)
    again = recalled(memory, Tiresias(threshold=2.0))
    assert (again.threshold, again.services, again.ended) == (2.0, (), (5.0,))
    first.threshold = 3.0
    with pytest.raises(ValueError, match="'threshold' is or holds another value than it was made"):
        memory.pack()


def test_policies_of_ours_remember_what_they_should() -> None:
    """Matrices of the genetic algorithm; nothing of exact Pollux; a rule with functions stays."""
    genetic = PolluxGenetic()
    memory = Memory(genetic)
    genetic.members = (Allocation.from_matrix([[1, 0], [0, 2]]),)
    again = recalled(memory, PolluxGenetic())
    assert again == genetic
    (member,) = again.members
    assert not member.job.flags.writeable
    assert member.job_replicas.tolist() == [1, 2]
    pollux = Pollux(weight=shortest_remaining_time, options={"any": lambda: None})
    assert "shortest" not in json.dumps(Memory(pollux).pack())
    assert recalled(Memory(pollux), Pollux("greedy")).solver == "greedy"
    gavel = recalled(Memory(Gavel(Levels(of_application))), Gavel(Levels(of_application)))
    assert gavel == Gavel(Levels(of_application))


def test_an_object_of_ours_within_a_policy_of_ones_own_stays() -> None:
    """Its solver is the one that it was made with; what is new in its place is refused."""
    owner, again = Own(Pollux("greedy")), Own(Pollux("greedy"))
    memory, inner = Memory(owner), again.kept
    assert recalled(memory, again).kept is inner
    owner.kept = Pollux("os:system")
    with pytest.raises(ValueError, match="'kept' is or holds a Pollux"):
        memory.pack()


class Local:
    """Has what cannot be kept."""

    def __init__(self) -> None:
        self.last: Any = None


def closure(value: int) -> Callable[[], int]:
    """A function with a variable of its own."""
    return lambda: value


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (lambda: 0, "a function"),
        (closure(1), "a function"),
        (shortest_remaining_time, "a function 'shortest_remaining_time'"),
        ([].append, "a builtin_function_or_method"),
        (object(), "a object"),
        (open, "a builtin_function_or_method 'open'"),
        (OrderedDict(), "a OrderedDict"),
        (np.array([object()]), "an array of type object"),
        (np.zeros(1, dtype=[("a", "f8")]), "an array of type"),
        (np.random.Generator(np.random.MT19937(1)), "a Generator of MT19937; expected one of"),
        (np.random.default_rng(np.random.SeedSequence(1)).bit_generator, "a PCG64"),
        (defaultdict(lambda: 0), "a defaultdict of"),
        (Rights.READ | Rights.WRITE, "several members of Rights in one"),
        (KeyError("a"), "a KeyError"),
        (Stop(seconds=1.0), "a Stop"),
        (type("Unknown", (), {"__init__": lambda self: None})(), "a Unknown"),
        (10**5000, "a whole number of 16610 bits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_no_checkpoint_can_hold_is_refused_by_its_field(value: Any, complaint: str) -> None:
    """With what it is."""
    owner = Local()
    memory = Memory(owner)
    owner.last = [{"a": value}]
    with pytest.raises(ValueError, match=complaint):
        memory.pack()


def test_a_tuple_that_holds_itself_and_depth_are_refused() -> None:
    """Neither could be read again."""
    owner = Local()
    memory = Memory(owner)
    owner.last = ([],)
    owner.last[0].append(owner.last)
    with pytest.raises(ValueError, match="a tuple that holds itself"):
        memory.pack()
    owner.last = []
    for _ in range(100_000):
        owner.last = [owner.last]
    with pytest.raises(ValueError, match="'last' is nested too deeply"):
        memory.pack()
    while owner.last:  # taken apart, as Python would recurse
        owner.last = owner.last[0]


MODULE = __name__

#: Rows of which the first is what the policy remembers; and what is wrong with them.
WRONG: list[tuple[list[Any], str]] = [
    ([["object", "os:system"]], "class 'os:system' is none that"),
    ([["object", "builtins:eval"]], "class 'builtins:eval' is none that"),
    ([["namedtuple", "subprocess:Popen", "touch"]], "class 'subprocess:Popen' is none that"),
    ([["enum", "http:HTTPStatus", "OK"]], "class 'http:HTTPStatus' is none that"),
    (
        [["object", "goodalloc.solvers.policies.pollux:Pollux", "solver", "os:system"]],
        "is none that",
    ),
    ([["object", "goodalloc.solvers.policies.pollux:np.ndarray"]], "is none that"),
    ([["object", "goodalloc.solvers.policies.pollux:solve"]], "is none that"),
    ([["object", "goodalloc.models.nowhere:Rules"]], "is none that"),
    ([["object", "goodalloc.solvers.nowhere.deep:Rules"]], "is none that"),
    ([["object", f"{MODULE}:CALLS"]], "is none that"),
    ([["object", f"{MODULE}:Local"]], "is none that"),
    ([["object", ["x"]]], r"class \['x'\] is none that"),
    ([["object", f"{MODULE}:Point"]], "field 'x' is in only one"),
    ([["object", f"{MODULE}:Point", "x", 1.0, "y", 2, "z", 3]], "field 'z' is in only one"),
    ([["object", f"{MODULE}:Point", "x"]], "zip"),
    ([["object", f"{MODULE}:Queue", "first", 1]], "cannot have a field 'first'"),
    ([["object", f"{MODULE}:Queue", "__class__", 1]], "cannot have a field '__class__'"),
    ([["object", f"{MODULE}:Queue", "__dict__", 1]], "cannot have a field '__dict__'"),
    ([["object", f"{MODULE}:Queue", "a b", 1]], "cannot have a field 'a b'"),
    ([["object", f"{MODULE}:Colour"]], "field|fields"),
    ([["enum", f"{MODULE}:Point", "x"]], "has no members"),
    ([["enum", f"{MODULE}:Colour", "GREEN"]], "GREEN"),
    ([["namedtuple", f"{MODULE}:Pair", 1]], "has other items than 1"),
    ([["namedtuple", f"{MODULE}:Point", 1, 2]], "has other items"),
    ([["function", "os:system"]], "row is a 'function', which is unknown"),
    ([["made", 99]], "range"),
    ([["made", -1]], "-1 is no number of anything"),
    ([["tuple", [0]]], "row 0 is unknown or holds itself"),
    ([["list", [7]]], "row 7 is unknown"),
    ([["list", {"a": 1}]], "item is {'a': 1}; expected"),
    ([["list", [1, 2]]], "item is"),
    ([["list", math.inf]], "item is inf"),
    ([["set", [1]], ["list"]], "unhashable"),
    ([["dict", 1]], "zip"),
    ([["defaultdict", "eval"]], "eval"),
    ([["float", "xyz"]], "fromhex"),
    ([["array", "|O", "", "C", True]], "an array of type '|O'"),
    ([["array", "<f8", "", "C", True, 10**18]], "an array of shape"),
    ([["array", "<f8", "AAAA", "C", True, 1]], "an array of shape"),
    ([["array", "<f8", "", "C", True, -1]], "-1 is no number"),
    ([["array", "<f8", "é", "C", True, 0]], "."),
    ([["Generator", "MT19937", [1], [1]], ["dict", "pool_size", 4]], "random numbers of 'MT19937'"),
    ([["Generator", "PCG64", [1], [1]], ["dict", "pool_size", 10**12]], "random numbers"),
    ([["Random", [1]], ["tuple", 3, [2], None], ["tuple", 1]], "."),
    ([[]], "."),
    (["list"], "."),
    ([17], "."),
]


@pytest.mark.parametrize(("rows", "complaint"), WRONG, ids=[str(rows)[:60] for rows, _ in WRONG])
def test_rows_that_make_no_sense_are_refused(rows: list[Any], complaint: str) -> None:
    """Unknown classes, fields and rows, and what somebody would try."""
    CALLS.clear()
    owner = Own(Ledger())
    document = Memory(owner).pack()
    document["rows"] = rows
    document["owners"] = [[f"{MODULE}:Own", "kept", [0]], *document["owners"][1:]]
    document["owners"][1:] = [[f"{MODULE}:Ledger"], [f"{MODULE}:Queue"]]
    CALLS.clear()
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError), match=complaint):
        Memory(owner).unpack(document)
    assert not [call for call in CALLS if call != "Queue"]
    assert isinstance(owner.kept, Ledger)


def test_a_long_way_through_rows_ends() -> None:
    """Every row in the next."""
    owner = Local()
    document = Memory(owner).pack()
    document["rows"] = [["list", [row + 1]] for row in range(100_000)] + [["list"]]
    document["owners"] = [[f"{MODULE}:Local", "last", [0]]]
    with pytest.raises(RecursionError):
        Memory(owner).unpack(document)


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [["os:system"]],
        [[f"{MODULE}:Queue"]],
        [["goodalloc.solvers.policies.pollux:Pollux"]],
        [[f"{MODULE}:Own"], [f"{MODULE}:Queue"], [f"{MODULE}:Queue"]],
        [[]],
        [3],
        None,
    ],
    ids=str,
)
def test_fields_of_other_objects_are_refused(owners: Any) -> None:
    """Others than the policy was made with."""
    with pytest.raises((ValueError, TypeError)):
        Memory(Own()).unpack({"owners": owners, "rows": []})


def test_no_file_says_by_which_solver_a_policy_decides() -> None:
    """Whether the policy is ours or holds one of ours."""
    for owner, name in (
        (Pollux(), "Pollux"),
        (Autoscaling(), "Autoscaling"),
        (Own(Pollux()), "Pollux"),
    ):
        document = Memory(owner).pack()
        for row in document["owners"]:
            if row[0].endswith(f":{name}"):
                row += ["solver", "os:system", "pollux", None]
        with pytest.raises(ValueError, match=r"fields of class '.*' are others than may be"):
            Memory(owner).unpack(document)


def test_rules_are_data() -> None:
    """A dataclass of our models may be new."""
    assert kept(Rules(power=1.0)) == Rules(power=1.0)
    assert kept(OSDI21) == OSDI21
