"""Auctions: the dynamic program, the program and brute force agree; payments keep their laws."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.formulations.classical.nash_product import nash_program
from goodalloc.models.classical.auction import Auction, Product, auction_violations, product_of
from goodalloc.solvers.classical.nash_product import largest_product
from goodalloc.solvers.classical.progressive_filling import least_largest
from goodalloc.solvers.classical.separable_shares import best_shares
from goodalloc.solvers.classical.themis_auction import (
    PartialAllocation,
    partial_allocation,
    ratio,
    winners,
)
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.models.support.array_types import Floats, Indices


def drawn(seed: int, *, groups: int = 1, monotone: bool = False) -> Auction:
    """Two or three bidders, a few GPUs, bids without any order and some of them 0."""
    random = np.random.default_rng(seed)
    free = random.integers(1, 4 if groups == 1 else 3, groups)
    bids = random.uniform(0.1, 3.0, (random.integers(1, 4), *(free + 1)))
    if seed % 2:
        bids[random.random(bids.shape) < 0.3] = 0.0
    if seed % 5 == 0:
        bids = np.round(bids)  # ties
    return Auction(np.maximum.accumulate(bids, axis=1) if monotone else bids)


def all_bundles(auction: Auction) -> Iterator[Indices]:
    """Everything that can be given."""
    each = list(np.ndindex(*auction.bids.shape[1:]))
    for combined in itertools.product(each, repeat=auction.num_bidders):
        bundles: Indices = np.array(combined)
        if (bundles.sum(axis=0) <= auction.free).all():
            yield bundles


def better(one: Product, other: Product) -> bool:
    """Fewer zeros, or as many and a larger product."""
    return (one.zeros, -one.logarithm) < (other.zeros, -other.logarithm - 1e-9)


def best_of(auction: Auction) -> Product:
    """The largest product over all that can be given."""
    products = [product_of(auction, bundles) for bundles in all_bundles(auction)]
    return min(products, key=lambda p: (p.zeros, -p.logarithm))


def same(one: Product, other: Product) -> bool:
    """As many zeros and the same product."""
    return one.zeros == other.zeros and one.logarithm == pytest.approx(other.logarithm, abs=1e-9)


def test_the_dynamic_program_is_brute_force_on_a_thousand_auctions() -> None:
    """With ties, with zeros, with bids that fall; what it gives can be given."""
    for seed in range(1000):
        auction = drawn(seed)
        won = winners(auction)
        assert not auction_violations(auction, won[:, None])
        assert same(product_of(auction, won[:, None]), best_of(auction)), seed


@pytest.mark.parametrize("groups", [1, 2])
def test_the_program_is_brute_force_for_one_group_and_for_two(groups: int) -> None:
    """Proved, re-priced, and no bidder is left with nothing that need not be."""
    for seed in range(40):
        auction = drawn(seed, groups=groups)
        found = largest_product(auction)
        assert found.bundles is not None
        assert not auction_violations(auction, found.bundles)
        priced, best = product_of(auction, found.bundles), best_of(auction)
        assert same(priced, best), seed
        assert (found.zeros, found.logarithm) == (priced.zeros, priced.logarithm)
        assert found.limit is None
        assert 0.0 <= found.gap <= 1e-6


def test_both_roads_agree_on_larger_auctions() -> None:
    """Twenty bidders and forty GPUs, concave bids and rugged ones."""
    random = np.random.default_rng(1)
    for power in (0.3, 0.9):
        slope = random.uniform(0.1, 2.0, (20, 1))
        smooth = (random.uniform(0.1, 1.0, (20, 1)) + slope * np.arange(41)) ** power
        rugged = np.maximum.accumulate(smooth * random.uniform(0.5, 1.5, smooth.shape), axis=1)
        for bids in (smooth, rugged):
            auction = Auction(bids)
            by_table = product_of(auction, winners(auction)[:, None])
            found = largest_product(auction)
            assert found.logarithm == pytest.approx(by_table.logarithm, abs=1e-6)
            assert found.bound >= by_table.logarithm - 1e-9


def test_the_program_names_its_columns_and_stops_in_time() -> None:
    """A column a bundle; a limit that is over leaves the bound infinite or what was proved."""
    auction = Auction(np.ones((2, 3)))
    program = nash_program(auction, 0)
    assert program.num_columns == 6
    assert program.num_rows == 2 + 1 + 1
    stopped = largest_product(Auction(drawn(1).bids), stop=Stop(seconds=1e-9))
    assert stopped.limit is Limit.TIME
    assert math.isnan(stopped.gap) == (stopped.bundles is None)


def test_shares_of_equal_sums_take_the_fewest_gpus() -> None:
    """A second GPU that is worth nothing is left; gains may fall, and may be minus infinity."""
    assert best_shares(np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])).tolist() == [1, 0]
    assert best_shares(np.array([[2.0, 1.0, 0.0]])).tolist() == [0]
    lost = np.array([[-np.inf, 0.1, 9.0], [-np.inf, 0.2, 9.0], [0.0, 5.0, 9.0]])
    assert best_shares(lost).tolist() == [1, 1, 0]
    assert best_shares(np.full((3, 2), -np.inf)).tolist() == [0, 0, 0]
    assert best_shares(np.zeros((0, 3))).tolist() == []


@given(st.integers(0, 10_000))
def test_more_gpus_never_make_the_product_smaller(seed: int) -> None:
    """The first columns are the auction of fewer GPUs."""
    auction = drawn(seed)
    fewer = Auction(auction.bids[:, :-1]) if auction.free[0] > 1 else auction
    assert not better(
        product_of(fewer, winners(fewer)[:, None]), product_of(auction, winners(auction)[:, None])
    )


@given(st.integers(0, 10_000))
def test_the_order_of_the_bidders_does_not_matter(seed: int) -> None:
    """Where no bids are equal everybody gets and keeps the same."""
    generator = np.random.default_rng(seed)
    bids = np.sort(generator.uniform(0.1, 2.0, (4, 6)), axis=1)
    order = generator.permutation(4)
    one, other = partial_allocation(Auction(bids)), partial_allocation(Auction(bids[order]))
    assert (one.won[order] == other.won).all()
    assert one.share[order] == pytest.approx(other.share)
    assert (one.kept()[order] == other.kept()).all()


@given(st.integers(0, 10_000))
def test_shares_kept_are_between_0_and_1_and_above_0_where_nobody_has_to_be_left(seed: int) -> None:
    """What is kept can be given; without others nothing is paid."""
    auction = drawn(seed, monotone=True)
    found = partial_allocation(auction)
    assert (found.share <= 1.0).all()
    assert (found.share >= 0.0).all()
    if auction.bids.min() > 0:
        assert (found.share > 0.0).all()
    assert (found.kept() <= found.won).all()
    assert not auction_violations(auction, found.kept()[:, None])
    assert (found.share[found.won == 0] == 1.0).all()
    if auction.num_bidders == 1:
        assert (found.kept() == found.won).all()


def test_payments_by_hand() -> None:
    """Two bidders worth 1 + k on four GPUs win two each; alone the other would have 5 in place of
    3, so each keeps 3/5 of two GPUs: one."""
    bids = 1.0 + np.arange(5.0)
    found = partial_allocation(Auction(np.stack([bids, bids])))
    assert found.won.tolist() == [2, 2]
    assert found.share == pytest.approx([0.6, 0.6])
    assert found.kept().tolist() == [1, 1]
    assert found.product.logarithm == pytest.approx(math.log(9.0))


def test_rounded_by_chance_a_share_is_kept_in_the_mean() -> None:
    """And never more than won: 3/5 of one GPU in three rounds of five, of none nothing."""
    found = PartialAllocation(np.array([1, 2, 0]), np.array([0.6, 1.0, 1.0]), Product(0, 0.0))
    assert found.kept().tolist() == [0, 2, 0]
    random = np.random.default_rng(0)
    kept = np.array([found.kept(random) for _ in range(2000)])
    assert kept.mean(axis=0) == pytest.approx([0.6, 2.0, 0.0], abs=0.05)
    assert (kept <= found.won).all()


def test_a_bidder_for_whom_another_is_left_with_nothing_keeps_nothing() -> None:
    """One GPU for two that are worth nothing without it."""
    found = partial_allocation(Auction(np.array([[0.0, 2.0], [0.0, 1.0]])))
    assert found.won.sum() == 1
    assert found.share.min() == 0.0
    assert found.kept().tolist() == [0, 0]
    assert ratio(Product(1, 0.0), Product(0, 0.0)) == 0.0


@given(st.integers(0, 10_000))
def test_no_lie_gives_more_of_the_share_of_a_bundles_value(seed: int) -> None:
    """The law behind truth-telling, for any bids: c V(k), with V the truth, is largest with it."""
    random = np.random.default_rng(seed)
    truth = np.sort(random.uniform(0.1, 2.0, (3, 5)), axis=1)
    lie = truth.copy()
    lie[0] = np.sort(random.uniform(0.1, 2.0, 5)) if seed % 2 else truth[0] ** random.uniform(0, 3)
    honest, lying = partial_allocation(Auction(truth)), partial_allocation(Auction(lie))

    def use(won: int, share: float) -> float:
        return share * float(truth[0, won])

    assert use(lying.won[0], lying.share[0]) <= use(honest.won[0], honest.share[0]) + 1e-9


def test_in_the_divisible_limit_truth_is_best_and_a_bidder_keeps_1_over_e_at_least() -> None:
    """Worth in proportion to GPUs, of which there are many: everybody gets the same, keeps
    ((n - 1) / n)^(n - 1), and no factor or power on a bid gives more GPUs."""
    gpus = np.arange(241.0)
    for bidders in (2, 3, 4):
        bids = np.outer(1.0 + np.arange(bidders), gpus)
        honest = partial_allocation(Auction(bids))
        assert honest.won.tolist() == [240 // bidders] * bidders
        expected = ((bidders - 1) / bidders) ** (bidders - 1)
        assert honest.share == pytest.approx([expected] * bidders)
        assert honest.share.min() >= 1 / math.e
        for power, factor in itertools.product((0.3, 0.7, 1.0, 1.5, 3.0), (0.5, 2.0)):
            lie = bids.copy()
            lie[0] = factor * bids[0] ** power
            assert partial_allocation(Auction(lie)).kept()[0] <= honest.kept()[0]


def test_a_lie_may_pay_where_gpus_are_whole() -> None:
    """A whole GPU more for a bidder that bids a power of the truth, in some rounds."""
    found = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        truth = np.sort(random.uniform(0.1, 2.0, (3, 5)), axis=1)
        lie = truth.copy()
        lie[0] = truth[0] ** random.uniform(0, 3)
        honest, lying = (partial_allocation(Auction(bids)).kept()[0] for bids in (truth, lie))
        found.append(int(lying > honest))
    assert 0 < sum(found) < 100


@given(st.integers(0, 10_000))
def test_the_largest_product_is_pareto_efficient(seed: int) -> None:
    """Nothing that can be given is better for one and no worse for the others."""
    auction = drawn(seed, monotone=True)
    won = winners(auction)
    worth = np.array([auction.bids[j, k] for j, k in enumerate(won)])
    for bundles in all_bundles(auction):
        other = np.array([auction.bids[j, k] for j, k in enumerate(bundles[:, 0])])
        assert not ((other >= worth).all() and (other > worth * (1 + 1e-9)).any())


def test_nobody_envies_anybody_whose_worth_is_in_proportion_to_gpus() -> None:
    """All get the same then; a bidder of diminishing returns would rather have another's."""
    gpus = np.arange(31.0)
    assert winners(Auction(np.outer([1.0, 5.0, 2.0], gpus))).tolist() == [10, 10, 10]
    few, many = winners(Auction(np.stack([gpus**0.5, gpus])))
    assert (few, many) == (10, 20)


def test_the_least_largest_value_is_brute_force_on_a_thousand_rounds() -> None:
    """And so are the second largest and all others, since no values are equal."""
    for seed in range(1000):
        random = np.random.default_rng(seed)
        free = int(random.integers(1, 5))
        table = -np.sort(-random.uniform(0.1, 5.0, (int(random.integers(1, 4)), free + 1)), axis=1)
        if seed % 3 == 0:
            table[:, 1:] = np.minimum.accumulate(
                np.where(random.random((len(table), free)) < 0.4, np.inf, table[:, 1:]), axis=1
            )
            table[:, 1:] = np.minimum(table[:, 1:], table[:, :1])
        shares = least_largest(table)
        assert shares.sum() <= free

        def reached(counts: tuple[int, ...], table: Floats = table) -> list[float]:
            return sorted((float(row[k]) for row, k in zip(table, counts, strict=True)))[::-1]

        ways = itertools.product(range(free + 1), repeat=len(table))
        best = min(reached(way) for way in ways if sum(way) <= free)
        assert reached(tuple(shares.tolist())) == best, seed


def test_of_jobs_that_never_end_as_many_as_possible_are_helped() -> None:
    """One of two GPUs each, in order; the third goes without."""
    table = np.array([[np.inf, 4.0, 2.0], [np.inf, 3.0, 2.0], [np.inf, np.inf, 1.0]])
    assert least_largest(table).tolist() == [1, 1, 0]
    assert least_largest(np.zeros((0, 2))).tolist() == []


@pytest.mark.parametrize(
    ("bids", "complaint"),
    [
        (np.ones(3), r"bids have the shape \(3,\)"),
        (np.ones((0, 3)), r"bids have the shape \(0, 3\)"),
        (np.ones((2, 0)), "expected at least one bidder"),
        (np.array([[1.0, -0.5]]), r"Auction\[0, 1\]: bid is -0.5; expected a finite number from 0"),
        (np.array([[1.0, np.nan]]), "bid is nan"),
        (np.array([[np.inf, 1.0]]), "bid is inf"),
        (np.array([["a", "b"]]), "expected a finite number"),
    ],
)
def test_bids_that_make_no_sense_are_refused(bids: Floats, complaint: str) -> None:
    """With the first of them."""
    with pytest.raises(ValueError, match=complaint):
        Auction(bids)


def test_bids_cannot_be_changed_afterwards() -> None:
    """Not through the array that they were made of either."""
    bids = np.ones((2, 3))
    auction = Auction(bids)
    bids[0] = 7.0
    assert (auction.bids == 1.0).all()
    with pytest.raises(ValueError, match="read-only"):
        auction.bids[0, 0] = 2.0


@pytest.mark.parametrize(
    ("bundles", "complaint"),
    [
        (np.array([[2], [1]]), "Of group 0 3 GPUs are given; 2 are free"),
        (np.array([[-1], [1]]), "Bidder 0 gets -1 GPUs of group 0"),
        (np.array([1, 1]), "Bundles have the shape"),
        (np.array([[0.5], [1.0]]), "the type float64; expected whole numbers"),
        (np.array([[1]]), "expected whole numbers of the shape"),
    ],
)
def test_the_checker_names_what_cannot_be_given(bundles: Indices, complaint: str) -> None:
    """A sentence each."""
    (found,) = auction_violations(Auction(np.ones((2, 3))), bundles)
    assert complaint in found


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: best_shares(np.ones(3)), "gains have the shape"),
        (lambda: best_shares(np.ones((2, 0))), "gains have the shape"),
        (lambda: best_shares(np.array([[0.0, np.nan]])), "gain is nan"),
        (lambda: best_shares(np.array([[0.0, np.inf]])), "gain is inf; expected a number below"),
        (lambda: winners(Auction(np.ones((2, 2, 2)))), "there are 2 groups of nodes; expected one"),
        (lambda: least_largest(np.ones(2)), "they have the shape"),
        (lambda: least_largest(np.array([[1.0, 2.0]])), "value is 2.0; expected at most that of"),
        (lambda: least_largest(np.array([[1.0, np.nan]])), "value is nan; expected a number"),
    ],
)
def test_tables_that_make_no_sense_are_refused(call: object, complaint: str) -> None:
    """With what was expected."""
    assert callable(call)
    with pytest.raises(ValueError, match=complaint):
        call()
