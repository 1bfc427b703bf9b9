"""The policies that a replay knows by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.models.round.rules import OSDI21
from goodalloc.models.support.validation import did_you_mean
from goodalloc.solvers.classical.allox import AlloX
from goodalloc.solvers.classical.hesrpt import HeSrpt
from goodalloc.solvers.classical.slaq import Slaq
from goodalloc.solvers.classical.themis import PUBLISHED_TERMS, Themis, ThemisExact
from goodalloc.solvers.gavel.cost import PerDollar
from goodalloc.solvers.gavel.levels import Levels
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.interface.base import load_callable
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.autoscaling import Autoscaling
from goodalloc.solvers.policies.optimus import Optimus
from goodalloc.solvers.policies.pollux import Pollux, PolluxGenetic, shortest_remaining_time
from goodalloc.solvers.policies.queueing import (
    EqualShare,
    FirstComeFirstServed,
    ShortestRemainingTimeFirst,
)
from goodalloc.solvers.policies.sia import sia
from goodalloc.solvers.policies.synergy import SynergyTune
from goodalloc.solvers.policies.tiresias import Tiresias
from goodalloc.solvers.shared_gpus.antman import AntMan
from goodalloc.solvers.shared_gpus.gandiva import Gandiva

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.classical.themis import AuctionTerms
    from goodalloc.solvers.policies.policy import BatchSizes, Policy

#: GPU-seconds that 2D-Gittins looks ahead, as in Tiresias's simulator.
GITTINS_DELTA = 3250.0


@dataclass(frozen=True)
class PolicyOptions:
    """What some of the policies take from the command line.

    Parameters
    ----------
    rules
        Objective and constraints of Pollux.
    seed
        Seed of the genetic algorithm.
    seconds
        Time limit of every round, for exact ones.
    utility
        L and U of `Autoscaling`, None for the published ones.
    themis
        Terms of Themis's auctions.
    """

    rules: Rules = OSDI21
    seed: int = 0
    seconds: float | None = None
    utility: tuple[float, float] | None = None
    themis: AuctionTerms = PUBLISHED_TERMS

    def pollux(self, solver: str = "highs", rules: Rules | None = None, **options: Any) -> Pollux:
        """Pollux by a solver, under other rules if they are given."""
        return Pollux(solver, rules or self.rules, Stop(seconds=self.seconds), self.seed, **options)

    def autoscaling(self, batch_sizes: BatchSizes) -> Autoscaling:
        """Exact Pollux on a cluster that grows and shrinks."""
        low, high = self.utility or (Autoscaling.low, Autoscaling.high)
        return Autoscaling(self.pollux(), batch_sizes, low, high)


class Named(NamedTuple):
    """What a name stands for, in words and as a function that makes it."""

    text: str
    make: Callable[[PolicyOptions], Policy]


POLICIES: Mapping[str, Named] = {
    "pollux": Named("every round of Pollux decided exactly", PolicyOptions.pollux),
    "pollux-untied": Named(
        "the same, with whichever of equal optima the solver meets first",
        lambda given: given.pollux(options={"break_ties": False}),
    ),
    "pollux-goodput": Named(
        "exactly, the sum of the goodputs in units of a single GPU's",
        lambda given: given.pollux(rules=given.rules.replace(power=1.0, fair_share="one_gpu")),
    ),
    "pollux-remaining": Named(
        "exactly, the mean of speedup over remaining time, told by an oracle",
        lambda given: given.pollux(
            rules=given.rules.replace(fair_share="one_gpu"), weight=shortest_remaining_time
        ),
    ),
    "pollux-genetic": Named(
        "Pollux with its genetic algorithm, as published",
        lambda given: PolluxGenetic(given.rules, seed=given.seed),
    ),
    "pollux-greedy": Named(
        "Pollux's objective by greedy marginal gain", lambda given: given.pollux("greedy")
    ),
    "sia": Named(
        "Sia: types and numbers of GPUs by its program, nodes afterwards",
        lambda given: sia(Stop(seconds=given.seconds)),
    ),
    "sia-exact": Named(
        "Sia's objective with nodes in the program and every number of GPUs",
        lambda given: sia(Stop(seconds=given.seconds), "highs"),
    ),
    "pollux-proportional": Named(
        "every round of Pollux decided exactly, every GPU with its share of the cores",
        lambda given: given.pollux(proportional=True),
    ),
    "synergy-tune": Named(
        "two queues by attained service, cores divided by Synergy-TUNE", lambda _: SynergyTune()
    ),
    "autoscaling-goodput": Named(
        "exactly, on as many nodes as the goodput is worth",
        lambda given: given.autoscaling("goodput"),
    ),
    "autoscaling-throughput": Named(
        "the same by throughput: its jobs ignore statistical efficiency",
        lambda given: given.autoscaling("throughput"),
    ),
    "optimus": Named("Optimus with an oracle for steps and step times", lambda _: Optimus()),
    "slaq": Named(
        "SLAQ: GPUs one by one to the jobs whose losses fall most with them", lambda _: Slaq()
    ),
    "slaq-exact": Named("the same, shared out exactly", lambda _: Slaq(exact=True)),
    "tiresias": Named("Tiresias: two queues by attained service", lambda _: Tiresias()),
    "tiresias-gittins": Named(
        "Tiresias, each queue by the Gittins index of the jobs that ended so far",
        lambda _: Tiresias(gittins_delta=GITTINS_DELTA),
    ),
    "themis": Named(
        "Themis: auctions of free GPUs among the jobs that sharing costs most",
        lambda given: Themis(given.themis, given.seed),
    ),
    "themis-exact": Named(
        "the largest product of Themis's valuations over all jobs, exactly", lambda _: ThemisExact()
    ),
    "themis-maxmin": Named(
        "the least largest finish-time fairness, exactly", lambda _: ThemisExact("largest")
    ),
    "fifo": Named("first come, first served", lambda _: FirstComeFirstServed()),
    "srtf": Named(
        "shortest remaining time first, with an oracle", lambda _: ShortestRemainingTimeFirst()
    ),
    "equal": Named("equal shares of the GPUs", lambda _: EqualShare()),
    "allox": Named(
        "AlloX with an oracle: jobs matched with GPUs for the least completion times",
        lambda _: AlloX(),
    ),
    "gavel": Named("Gavel: max-min fair time shares of types of GPU, in rounds", lambda _: Gavel()),
    "gavel-makespan": Named("Gavel for the makespan, with an oracle", lambda _: Gavel("makespan")),
    "gavel-finish-time": Named(
        "Gavel for finish-time fairness, with an oracle", lambda _: Gavel("finish-time")
    ),
    "gavel-completion": Named(
        "Gavel for the average completion time, with an oracle", lambda _: Gavel("completion")
    ),
    "gavel-throughput": Named(
        "Gavel for the sum of throughputs, each over the job's largest",
        lambda _: Gavel("throughput"),
    ),
    "gavel-blind": Named(
        "Gavel's max-min fairness that takes all types of GPU for equal",
        lambda _: Gavel(blind=True),
    ),
    "gavel-levels": Named("Gavel's max-min fairness, level by level", lambda _: Gavel(Levels())),
    "gavel-cost": Named(
        "Gavel for throughput per dollar, by public prices of types", lambda _: Gavel(PerDollar())
    ),
    "gavel-packed": Named(
        "Gavel's max-min fairness of jobs that may share GPUs in pairs, with an oracle",
        lambda _: Gavel(packed=True),
    ),
    "gandiva": Named(
        "Gandiva: time slices, and pairs of jobs packed on trial", lambda _: Gandiva()
    ),
    "gandiva-exact": Named(
        "Gandiva, its pairs by a matching of greatest gain", lambda _: Gandiva("matching")
    ),
    "antman": Named(
        "AntMan: jobs with a guarantee, and others on what these leave", lambda _: AntMan()
    ),
    "antman-exact": Named(
        "AntMan, its guests placed so that they have most of their speed",
        lambda _: AntMan(exact=True),
    ),
    "hesrpt": Named(
        "heSRPT with an oracle: optimal shares of a power-law speedup", lambda _: HeSrpt()
    ),
}


def make_policy(name: str, options: PolicyOptions = PolicyOptions()) -> Policy:
    """A new policy of that name.

    Parameters
    ----------
    name
        One of `POLICIES`, or a dotted path ``package.module:name`` to a class or function that
        makes a policy without arguments.
    options
        What some of those that ship take.

    Raises
    ------
    ValueError
        If the name is unknown, the path leads nowhere, or a limit makes no sense.
    """
    if name in POLICIES:
        return POLICIES[name].make(options)
    if ":" not in name:
        raise ValueError(
            f"Policy is '{name}'{did_you_mean(name, POLICIES)}; expected one of "
            f"{', '.join(POLICIES)}, or package.module:name."
        )
    function = load_callable(name, f"Policy '{name}'")
    try:
        policy: Policy = function()
    except Exception as error:  # whatever somebody's code does, the user is told whose it is
        text = f"{type(error).__name__}: {error}".rstrip(".")
        raise ValueError(f"Policy '{name}' cannot be made without arguments ({text}).") from error
    if not (hasattr(policy, "decide") and hasattr(policy, "batch_sizes")):
        raise ValueError(
            f"Policy '{name}' makes a {type(policy).__name__}; expected one with `decide` and "
            "`batch_sizes`."
        )
    return policy


#: Those that take GPUs for equal.
ONE_TYPE = (
    "autoscaling-goodput", "autoscaling-throughput", "optimus", "tiresias", "tiresias-gittins",
    "themis", "themis-exact", "themis-maxmin",
    "fifo", "srtf", "equal", "hesrpt", "slaq", "slaq-exact",
    "gandiva", "gandiva-exact", "antman", "antman-exact",
)  # fmt: skip


def require_types_known(name: str, cluster: Cluster) -> None:
    """Refuse a policy that takes GPUs for equal on a cluster of several types, and autoscaling,
    which adds equal nodes of GPUs only, on any other.

    Raises
    ------
    ValueError
        With what is expected.
    """
    if name in ONE_TYPE and len(cluster.gpu_types) > 1:
        known = ", ".join(other for other in POLICIES if other not in ONE_TYPE)
        raise ValueError(
            f"Policy '{name}' knows one type of GPU and the cluster has "
            f"{', '.join(kind or 'unnamed' for kind in cluster.gpu_types)}; expected {known}."
        )
    if name.startswith("autoscaling") and (any(cluster.gpu_types) or cluster.resource_names):
        has = ", ".join(kind for kind in (*cluster.gpu_types, *cluster.resource_names) if kind)
        raise ValueError(
            f"Policy '{name}' knows GPUs only and the nodes have {has}; expected nodes without."
        )


def source_digest(name: str) -> str:
    """Twelve characters that tell versions of a policy of one's own apart; empty for ours.

    They are those of the file that its dotted path begins with.
    """
    if ":" not in name:
        return ""
    spec = find_spec(name.partition(":")[0])
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]
