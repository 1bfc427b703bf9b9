"""Table of the policies that a replay knows by name; the code of each is loaded when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goodalloc.models.round.rules import OSDI21
from goodalloc.models.round.uncertain_instance import Uncertainty
from goodalloc.models.support.dotted_path import load_callable
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.auction_terms import PUBLISHED_TERMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.policies.auction_terms import AuctionTerms
    from goodalloc.solvers.policies.policy import Knows, Policy

#: GPU-seconds that 2D-Gittins looks ahead, as in Tiresias's simulator.
GITTINS_DELTA = 3250.0


@dataclass(frozen=True)
class PolicyOptions:
    """Options of the policies that the command line offers.

    Parameters
    ----------
    rules
        Objective and constraints of Pollux.
    seed
        Seed of the genetic algorithm.
    seconds
        Time limit of every round, for exact policies.
    utility
        Thresholds L and U of `Autoscaling`, None for the published ones.
    terms
        Terms of Themis's auctions.

    Examples
    --------
    >>> from goodalloc.solvers import PolicyOptions
    >>> PolicyOptions(seed=7, seconds=2.0).stop.seconds
    2.0
    """

    rules: Rules = OSDI21
    seed: int = 0
    seconds: float | None = None
    utility: tuple[float, float] | None = None
    terms: AuctionTerms = PUBLISHED_TERMS

    @property
    def stop(self) -> Stop:
        """Limits of every round.

        Raises
        ------
        ValueError
            If `seconds` is not above 0.
        """
        return Stop(seconds=self.seconds)


#: Published rules, seed 0 and no limit of time.
DEFAULT_OPTIONS = PolicyOptions()


@dataclass(frozen=True)
class Named:
    """Description of a shipped policy, with its maker and the clusters it can serve.

    Parameters
    ----------
    text
        Description of the policy.
    maker
        Path ``room.module:name``, under `goodalloc.solvers`, of the class or function that makes
        it.
    arguments
        Arguments of the maker.
    takes
        Fields of `PolicyOptions` that the maker takes too, by those names.
    gpu_types
        Whether it distinguishes types of GPU.
    resources
        Whether it serves nodes of a named type of GPU, or with cores or memory.
    rigid
        Whether it serves jobs that take a fixed number of GPUs and have no goodput model.
    is_pollux
        Whether it decides as Pollux does, so that Pollux's published values stand beside it.
    random
        Whether its decisions depend on the seed.
    knows
        What it is told of jobs beyond their requests and the service that they attained.
    """

    text: str
    maker: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    gpu_types: bool = True
    resources: bool = True
    rigid: bool = False
    is_pollux: bool = False
    random: bool = False
    knows: Knows = "nothing"

    def make(self, options: PolicyOptions) -> Policy:
        """Return a new policy."""
        maker = load_callable(f"goodalloc.solvers.{self.maker}", "A policy that ships")
        policy: Policy = maker(
            **{name: getattr(options, name) for name in self.takes}, **self.arguments
        )
        return policy


def _pollux(text: str, *, random: bool = False, **arguments: Any) -> Named:
    """Return the entry of Pollux by a solver."""
    return Named(
        text,
        "policies.pollux:pollux",
        arguments,
        takes=("rules", "stop", "seed"),
        is_pollux=True,
        random=random,
        knows="measured",
    )


def _autoscaling(text: str, batch_sizes: str) -> Named:
    """Return the entry of exact Pollux on a cluster that grows and shrinks."""
    takes = ("rules", "stop", "seed", "utility")
    path = "policies.autoscaling:autoscaling"
    arguments = {"batch_sizes": batch_sizes}
    return Named(text, path, arguments, takes, gpu_types=False, resources=False, knows="measured")


def _one_type(
    text: str,
    maker: str,
    *takes: str,
    rigid: bool = False,
    knows: Knows = "nothing",
    **arguments: Any,
) -> Named:
    """Return the entry of a policy that takes all GPUs for equal."""
    return Named(text, maker, arguments, takes, gpu_types=False, rigid=rigid, knows=knows)


def _gavel(text: str, knows: Knows = "true speed", **arguments: Any) -> Named:
    """Return the entry of Gavel for a goal."""
    return Named(text, "gavel.policy:Gavel", arguments, rigid=True, knows=knows)


#: The policies that ship, by name.
POLICIES: Mapping[str, Named] = {
    "pollux": _pollux("every round of Pollux decided exactly"),
    "pollux-untied": _pollux(
        "the same, with whichever of equal optima the programs meet first",
        options={"break_ties": False, "by_price": False},
    ),
    "pollux-shuffled": _pollux(
        "the same, with jobs and equal nodes in an order drawn for every round",
        random=True,
        solver="goodalloc.solvers.exact.shuffled:solve_shuffled",
    ),
    "pollux-goodput": _pollux(
        "exactly, the sum of the goodputs in units of a single GPU's",
        changes={"power": 1.0, "fair_share": "one_gpu"},
    ),
    "pollux-remaining": Named(
        "exactly, the mean of speedup over remaining time, told by an oracle",
        "policies.pollux:pollux_remaining",
        takes=("rules", "stop", "seed"),
        is_pollux=True,
        knows="true remaining",
    ),
    "pollux-robust": _pollux(
        "exactly, the speedups averaged over what the fitted models may be off",
        uncertainty=Uncertainty(),
    ),
    "pollux-worst": _pollux(
        "exactly, the least speedups over what the fitted models may be off",
        uncertainty=Uncertainty(view="least"),
    ),
    "pollux-genetic": Named(
        "Pollux with its genetic algorithm, as published",
        "policies.pollux:PolluxGenetic",
        takes=("rules", "seed"),
        is_pollux=True,
        random=True,
        knows="measured",
    ),
    "pollux-priced": Named(
        "Pollux's objective by one price of a GPU, for thousands of jobs",
        "policies.priced_pollux:PricedPollux",
        takes=("rules",),
        gpu_types=False,
        resources=False,
        is_pollux=True,
        knows="measured",
    ),
    "pollux-greedy": _pollux("Pollux's objective by greedy marginal gain", solver="greedy"),
    "sia": Named(
        "Sia: types and numbers of GPUs by its program, nodes afterwards",
        "policies.sia:sia",
        takes=("stop",),
        knows="measured",
    ),
    "sia-exact": Named(
        "Sia's objective with nodes in the program and every number of GPUs",
        "policies.sia:sia",
        {"solver": "highs"},
        ("stop",),
        knows="measured",
    ),
    "pollux-proportional": _pollux(
        "every round of Pollux decided exactly, every GPU with its share of the cores",
        proportional=True,
    ),
    "synergy-tune": Named(
        "two queues by attained service, cores divided by Synergy-TUNE",
        "policies.synergy:SynergyTune",
        knows="measured",
    ),
    "autoscaling-goodput": _autoscaling(
        "exactly, on as many nodes as the goodput is worth", "goodput"
    ),
    "autoscaling-throughput": _autoscaling(
        "the same by throughput: its jobs ignore statistical efficiency", "throughput"
    ),
    "optimus": _one_type(
        "Optimus with an oracle for steps and step times",
        "policies.optimus:Optimus",
        knows="true remaining",
    ),
    "slaq": _one_type(
        "SLAQ: GPUs one by one to the jobs whose losses fall most with them",
        "classical.slaq:Slaq",
        knows="measured",
    ),
    "slaq-exact": _one_type(
        "the same, shared out exactly", "classical.slaq:Slaq", exact=True, knows="measured"
    ),
    "tiresias": _one_type(
        "Tiresias: two queues by attained service", "policies.tiresias:Tiresias", rigid=True
    ),
    "tiresias-gittins": _one_type(
        "Tiresias, each queue by the Gittins index of the jobs that ended so far",
        "policies.tiresias:Tiresias",
        gittins_delta=GITTINS_DELTA,
        rigid=True,
    ),
    "themis": _one_type(
        "Themis: auctions of free GPUs among the jobs that sharing costs most",
        "classical.themis:Themis",
        "terms",
        "seed",
        rigid=True,
        knows="true remaining",
    ),
    "themis-exact": _one_type(
        "the largest product of Themis's valuations over all jobs, exactly",
        "classical.themis:ThemisExact",
        rigid=True,
        knows="true remaining",
    ),
    "themis-maxmin": _one_type(
        "the least largest finish-time fairness, exactly",
        "classical.themis:ThemisExact",
        objective="largest",
        rigid=True,
        knows="true remaining",
    ),
    "fifo": _one_type(
        "first come, first served", "policies.queueing:FirstComeFirstServed", rigid=True
    ),
    "srtf": _one_type(
        "shortest remaining time first, with an oracle",
        "policies.queueing:ShortestRemainingTimeFirst",
        rigid=True,
        knows="true remaining",
    ),
    "equal": _one_type("equal shares of the GPUs", "policies.queueing:EqualShare"),
    "allox": Named(
        "AlloX with an oracle: jobs matched with GPUs for the least completion times",
        "classical.allox:AlloX",
        rigid=True,
        knows="true remaining",
    ),
    "gavel": _gavel("Gavel: max-min fair time shares of types of GPU, in rounds"),
    "gavel-makespan": _gavel(
        "Gavel for the makespan, with an oracle", goal="makespan", knows="true remaining"
    ),
    "gavel-finish-time": _gavel(
        "Gavel for finish-time fairness, with an oracle", goal="finish-time", knows="true remaining"
    ),
    "gavel-completion": _gavel(
        "Gavel for the average completion time, with an oracle",
        goal="completion",
        knows="true remaining",
    ),
    "gavel-throughput": _gavel(
        "Gavel for the sum of throughputs, each over the job's largest", goal="throughput"
    ),
    "gavel-blind": _gavel(
        "Gavel's max-min fairness that takes all types of GPU for equal",
        blind=True,
        knows="nothing",
    ),
    "gavel-levels": Named(
        "Gavel's max-min fairness, level by level",
        "gavel.levels:gavel_levels",
        rigid=True,
        knows="true speed",
    ),
    "gavel-cost": Named(
        "Gavel for throughput per dollar, by public prices of types",
        "gavel.cost:gavel_cost",
        rigid=True,
        knows="true remaining",
    ),
    "gavel-packed": _gavel(
        "Gavel's max-min fairness of jobs that may share GPUs in pairs, with an oracle", packed=True
    ),
    "gandiva": _one_type(
        "Gandiva: time slices, and pairs of jobs packed on trial",
        "shared_gpus.gandiva:Gandiva",
        rigid=True,
        knows="measured",
    ),
    "gandiva-exact": _one_type(
        "Gandiva, its pairs by a matching of greatest gain",
        "shared_gpus.gandiva:Gandiva",
        pairs="matching",
        rigid=True,
        knows="measured",
    ),
    "antman": _one_type(
        "AntMan: jobs with a guarantee, and others on what these leave",
        "shared_gpus.antman:AntMan",
        knows="measured",
    ),
    "antman-exact": _one_type(
        "AntMan, its guests placed so that they have most of their speed",
        "shared_gpus.antman:AntMan",
        exact=True,
        knows="measured",
    ),
    "hesrpt": _one_type(
        "heSRPT with an oracle: optimal shares of a power-law speedup",
        "classical.hesrpt:HeSrpt",
        knows="true remaining",
    ),
}
