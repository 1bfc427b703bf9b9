"""Rounds of the library that are drawn by seed: families of recipes that differ by it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.rounds.benchmark_set import benchmark_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class DrawnRound(NamedTuple):
    """Round to be drawn.

    Attributes
    ----------
    name, origin, recipe
        As in `LibraryRound`.
    degenerate
        Whether it is made to be degenerate.
    since
        Version of the library in which it entered.
    """

    name: str
    origin: str
    recipe: str
    degenerate: bool = False
    since: int = 1


class Family(NamedTuple):
    """Rounds that differ by their seed.

    Attributes
    ----------
    origin
        What their jobs are like.
    label
        Their names between the origin and the seed.
    recipe
        Their recipe, with the seed left open.
    seeds
        Seeds.
    degenerate, since
        As in `DrawnRound`.
    """

    origin: str
    label: str
    recipe: str
    seeds: Sequence[int] = (1, 2)
    degenerate: bool = False
    since: int = 1

    def rounds(self) -> Iterator[DrawnRound]:
        """Generate the rounds."""
        kind, _, arguments = self.recipe.partition(" ")
        for seed in self.seeds:
            name = f"{self.origin}-{self.label}-{seed}"
            recipe = f"{kind} seed={seed} {arguments}"
            yield DrawnRound(name, self.origin, recipe, self.degenerate, self.since)


#: Sizes of Pollux's evaluation, a quarter, and four times as many nodes, as jobs and nodes.
SIZES = ((40, 16), (160, 16), (160, 64))

#: Larger ones.
LARGE_SIZES = ((500, 128), (1000, 256), (2000, 512))

POWERS = ("0.0", "0.5", "1.0", "-10.0", "-inf", "inf")


def _pollux() -> Iterator[Family]:
    for state in ("cold", "running", "disturbed", "settled"):
        for jobs, nodes in SIZES:
            yield Family(
                "pollux",
                f"{jobs}x{nodes}-{state}",
                f"pollux jobs={jobs} nodes={nodes} state={state}",
            )
    for jobs, nodes in LARGE_SIZES:
        for state in ("cold", "disturbed"):
            yield Family(
                "pollux",
                f"{jobs}x{nodes}-{state}",
                f"pollux jobs={jobs} nodes={nodes} state={state}",
                (1,),
            )
    for power in POWERS:
        label = power.replace(".0", "").replace("-", "minus-")
        yield Family(
            "pollux",
            f"80x16-power-{label}",
            f"pollux jobs=80 nodes=16 state=disturbed power={power}",
        )
    mixed = "groups=small:8:2+node:8:4+large:6:8"
    for state in ("running", "disturbed"):
        free = "interference=no"
        yield Family(
            "pollux", f"60x16-beside-{state}", f"pollux jobs=60 nodes=16 state={state} {free}"
        )
        wide = f"pollux jobs=60 nodes=10 gpus=8 state={state}"
        yield Family("pollux", f"60x10-eight-gpus-{state}", wide)
        yield Family("pollux", f"60x22-mixed-{state}", f"pollux jobs=60 {mixed} state={state}")
    yield Family(
        "pollux", "60x16-distributed", "pollux jobs=60 nodes=16 distributed=0.6", (1, 2, 3)
    )
    yield Family("pollux", "40x16-scattered", "scattered jobs=40 nodes=16 gpus=4")
    for jobs, nodes in ((30, 6), (80, 16)):
        amounts = f"equipped jobs={jobs} nodes={nodes} gpus=4"
        yield Family("pollux", f"{jobs}x{nodes}-cores", f"{amounts} cores=16 state=disturbed")
        yield Family(
            "pollux", f"{jobs}x{nodes}-memory", f"{amounts} cores=16 memory=128 state=running"
        )


def _others() -> Iterator[Family]:
    for jobs, scale in ((30, 1), (60, 1), (120, 2), (160, 4)):
        for state in ("cold", "running"):
            yield Family(
                "sia",
                f"{jobs}x{11 * scale}-{state}",
                f"sia jobs={jobs} scale={scale} state={state}",
            )
    for jobs, servers in ((32, 4), (64, 8), (128, 16)):
        for label, several in (("one-gpu", "no"), ("several-gpus", "yes")):
            recipe = f"synergy jobs={jobs} servers={servers} several={several}"
            yield Family("synergy", f"{jobs}x{servers}-{label}", recipe)
    for pods, nodes in ((60, 12), (150, 24), (400, 64)):
        yield Family("openb", f"{pods}x{nodes}", f"openb pods={pods} nodes={nodes}")
    for jobs, nodes in ((20, 4), (60, 10), (150, 20)):
        recipe = f"arena jobs={jobs} a100={nodes} a40={2 * nodes} a10={2 * nodes}"
        yield Family("arena", f"{jobs}x{5 * nodes}", recipe)
    for jobs, nodes in ((30, 8), (40, 16), (100, 24)):
        yield Family(
            "awkward", f"{jobs}x{nodes}", f"awkward jobs={jobs} nodes={nodes}", (0, 1, 2, 3)
        )


def _degenerate() -> Iterator[Family]:
    for jobs, nodes, gpus in ((30, 8, 8), (60, 16, 4), (200, 50, 4)):
        for kinds, least in ((1, 1), (3, 1), (3, 3)):
            recipe = f"equal jobs={jobs} nodes={nodes} gpus={gpus} kinds={kinds} least={least}"
            label = f"{jobs}x{nodes}-{kinds}-kinds-from-{least}"
            yield Family("equal", label, recipe, (1,), degenerate=True)
    few = "equal jobs=4 nodes=16 gpus=4 kinds=2"
    yield Family("equal", "4x16-few", few, (1,), degenerate=True)
    yield Family("equal", "1x1-one", "equal jobs=1 nodes=1 gpus=1", (1,), degenerate=True)
    one = "equal jobs=100 nodes=1 gpus=1 kinds=2"
    yield Family("equal", "100x1-one-gpu", one, (1,), degenerate=True)
    none = "equal jobs=20 nodes=4 gpus=2 least=4"
    yield Family("equal", "20x4-half-fit", none, (1,), degenerate=True)
    for power in ("1.0", "-inf"):
        label = "sum" if power == "1.0" else "least"
        recipe = f"equal jobs=60 nodes=16 gpus=4 kinds=3 power={power}"
        yield Family("equal", f"60x16-{label}", recipe, (1,), degenerate=True)


def drawn_rounds() -> Iterator[DrawnRound]:
    """Generate all rounds of the library that are drawn by seed, the benchmark set first.

    Examples
    --------
    >>> from goodalloc.data.library import drawn_rounds
    >>> next(drawn_rounds()).recipe
    'benchmark name=tiny-cold'
    """
    for name in benchmark_names():
        yield DrawnRound(name, "pollux", f"benchmark name={name}")
    for families in (_pollux(), _others(), _hard(), _degenerate(), _on_trees()):
        for family in families:
            yield from family.rounds()


def _hard() -> Iterator[Family]:
    """Generate what `goodalloc.experiments.library.hard_search` found with seed 1."""
    for jobs, servers, several, seed in (
        (100, 5, "no", 750),
        (100, 8, "no", 916),
        (100, 3, "no", 768),
        (64, 8, "no", 459),
        (64, 8, "yes", 34),
        (24, 3, "yes", 493),
    ):
        recipe = f"synergy jobs={jobs} servers={servers} several={several}"
        yield Family("synergy", f"{jobs}x{servers}-searched", recipe, (seed,), since=2)
    for pods, nodes, seed in ((250, 40, 586), (150, 24, 308), (250, 24, 358)):
        recipe = f"openb pods={pods} nodes={nodes}"
        yield Family("openb", f"{pods}x{nodes}-searched", recipe, (seed,), since=2)
    squares = "state=settled power=2.0 interference=no delay=300.0"
    recipe = f"pollux jobs=30 groups=a:20:3 {squares}"
    yield Family("pollux", "30x20-searched", recipe, (452,), since=2)


def _on_trees() -> Iterator[Family]:
    """Generate rounds on islands, racks and pods, some with few uplinks or with gangs."""
    for jobs, nodes in ((20, 16), (40, 16), (160, 64)):
        for state in ("cold", "settled"):
            yield _tree(f"{jobs}x{nodes}-{state}", f"jobs={jobs} nodes={nodes} state={state}")
    yield _tree("60x64-uplinks", "jobs=60 nodes=64 uplinks=1")
    yield _tree("60x64-gangs", "jobs=60 nodes=64 gangs=0.3")
    yield _tree("60x32-eight-gpus", "jobs=60 nodes=32 gpus=8 requiring=0.4")
    yield _tree("20x64-few", "jobs=20 nodes=64")
    yield _tree("60x64-uplinks-and-gangs", "jobs=60 nodes=64 uplinks=1 gangs=0.2")
    yield _tree("500x128-settled", "jobs=500 nodes=128", (1,))
    few = "jobs=160 nodes=16 gpus=16 gangs=0.02"
    yield _tree("160x16-sixteen-gpus-gangs", few, since=4)
    yield _tree("500x128-gangs", "jobs=500 nodes=128 gangs=0.05", since=4)
    yield _tree("2000x512-settled", "jobs=2000 nodes=512", (1,), since=4)
    yield _tree("2000x512-gangs", "jobs=2000 nodes=512 gangs=0.05", (1,), since=4)


def _tree(label: str, recipe: str, seeds: Sequence[int] = (1, 2), since: int = 3) -> Family:
    return Family("tree", label, f"tree {recipe}", seeds, since=since)
