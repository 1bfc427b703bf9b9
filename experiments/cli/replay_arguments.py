"""Arguments of the commands that replay workloads."""

from __future__ import annotations

import argparse

from goodalloc.experiments.cli.types import (
    DAY,
    add_cluster,
    any_number,
    names,
    number,
    picture_format,
    seeds,
    whole,
    workers,
)
from goodalloc.experiments.studies.study_list import STUDIES_HELP

#: Written out here, since importing the registries would slow the start down.
POLICIES_HELP = """\
policies:
  Pollux          pollux, pollux-genetic, pollux-priced, pollux-greedy, pollux-untied,
                  pollux-shuffled, pollux-proportional, pollux-goodput, pollux-remaining,
                  pollux-robust, pollux-worst
  its autoscaling autoscaling-goodput, autoscaling-throughput
  Sia             sia, sia-exact
  Optimus         optimus
  Tiresias        tiresias, tiresias-gittins
  Synergy         synergy-tune
  Gavel           gavel, gavel-blind, gavel-makespan, gavel-finish-time, gavel-completion,
                  gavel-throughput, gavel-levels, gavel-cost, gavel-packed
  AlloX           allox
  heSRPT          hesrpt
  SLAQ            slaq, slaq-exact
  Themis          themis, themis-exact, themis-maxmin
  Gandiva         gandiva, gandiva-exact
  AntMan          antman, antman-exact
  queues          fifo, srtf, equal
  with foresight  foresight-work (the true work that is left), foresight-plans (that, in plans made
                  anew), foresight-hour (and the arrivals of the next hour); one type of GPU
  with --plans    first-come, gavel-one-by-one, sia-one-by-one, sia, arena, rubick, exact-rubick,
                  exact-examples, exact-speeds, exact-harmonic, exact-remaining
"""

#: Default policies of `simulate`; others by given tables, some of which for one type of GPU only.
DEFAULT_POLICIES = ("pollux", "optimus", "tiresias")
RATE_POLICIES = ("gavel", "gavel-completion", "allox")
ONE_TYPE_POLICIES = ("fifo", "srtf", "tiresias")
PLAN_POLICIES = ("first-come", "sia", "arena", "rubick", "exact-harmonic")

#: Greatest load of a drawn workload, which is a million jobs, and greatest error of a measurement,
#: the deviation of its logarithm.
MOST_LOAD, MOST_ERROR = 6_250.0, 3.0

#: Errors of what agents observe, by the name of the option.
ERRORS = {
    "step-time": "measured seconds of a pass",
    "noise-scale": "measured gradient variances",
    "age": "the ages of jobs that the policy is told",
}

#: Arguments of drawn workloads and of jobs with goodput models, which jobs with rates refuse.
NOT_WITH_RATES = (
    "load",
    "requests",
    "philly",
    "traces",
    "pairs",
    "parquet",
    "outages",
    "interference",
    "knowledge",
    "batch_sizes",
    "oracle",
    "step_time_error",
    "noise_scale_error",
    "age_error",
    "free_moves",
    "cores",
    "tree",
    "power",
    "interference_avoidance",
    "bound",
)


def add_simulate(parser: argparse.ArgumentParser) -> None:
    parser.epilog = POLICIES_HELP
    parser.add_argument(
        "workload",
        nargs="?",
        help="a CSV of name, time, application, num_replicas, batch_size (default: draw one); with "
        "--rates one of job, submit_s, gpus, model, and steps or duration_s; with --plans one of "
        "job, submit_s, model, parameters, global_batch, steps, gpus, gpu_type",
    )
    parser.add_argument(
        "--policies",
        type=names,
        nargs="+",
        metavar="NAMES",
        help="separated by commas, of those below or package.module:name (default: "
        f"{','.join(DEFAULT_POLICIES)}; with --rates {','.join(RATE_POLICIES)}, and on one type of "
        f"GPU {','.join(ONE_TYPE_POLICIES)}, too; with --plans {','.join(PLAN_POLICIES)})",
    )
    parser.add_argument(
        "--rates",
        metavar="FILE",
        help="replay jobs with measured rates: a CSV of model, gpu_type, gpus, nodes, steps_per_s",
    )
    parser.add_argument(
        "--plans",
        metavar="FOLDER",
        help="replay jobs that choose execution plans, by the times in FOLDER/measured.csv (model, "
        "parameters, global_batch, gpu_type, nodes, gpus_per_node, iteration_s), or shipped; "
        "rounds take 300 s",
    )
    _add_workload(parser)
    _add_traces(parser)
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    _add_setting(parser)
    parser.add_argument(
        "--tree",
        metavar="FILE",
        help="replay on a tree of racks, of a file or standard for equal nodes; policies may then "
        "name a placing, as tiresias@best_fit, or pollux@exact, which knows the levels",
    )
    shared = "what sharing a GPU costs, as `measure A B --beside` measured it (default: 5 %%)"
    parser.add_argument("--pairs", nargs="+", metavar="FILE", help=shared)
    parser.add_argument(
        "--bound",
        action="store_true",
        help="with --plans: also bound the average completion time under any schedule; `goodalloc "
        "hindsight` bounds other workloads",
    )
    parser.add_argument(
        "--interference-avoidance",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Pollux: at most one distributed job a node (default: yes)",
    )
    parser.add_argument(
        "--power", type=any_number, default=-1.0, help="Pollux's power of the mean (default: -1)"
    )
    parser.add_argument("--seconds", type=number(0.0), help="time limit of a decision")
    parser.add_argument(
        "--gaps",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="prove the gap of every decision by Pollux's objective (default: yes)",
    )
    _add_workers(parser)
    _add_pictures(parser)
    parser.add_argument("--parquet", action="store_true", help="write the records as Parquet too")
    add_out(parser, "results/simulate", "table and picture show the policies of this command")
    unused = {name: parser.get_default(name) for name in NOT_WITH_RATES}
    parser.set_defaults(not_with_rates=unused, usual_interval=parser.get_default("interval"))


def _add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of drawn workloads."""
    parser.add_argument(
        "--load",
        type=number(0.0, MOST_LOAD),
        help="of a drawn workload: jobs / 160, whatever the cluster (default: 1)",
    )
    parser.add_argument(
        "--requests", help="of a drawn workload: tuned or realistic (default: tuned)"
    )
    parser.add_argument(
        "--philly",
        metavar="FILE",
        help="draw from a list of jobs of Microsoft's Philly cluster (default: shipped statistics)",
    )


def _add_traces(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the true applications."""
    parser.add_argument(
        "--traces",
        metavar="FOLDER",
        help="measurements of the artifact of Pollux or Sia as the truth (default: the shipped "
        "profiles)",
    )


def _add_setting(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the cluster and the rules of the replay."""
    add_cluster(parser)
    parser.add_argument(
        "--free-moves",
        action="store_true",
        help="no restart where a job only changes nodes, as in Sia's simulator",
    )
    parser.add_argument(
        "--interference",
        type=number(0.0, strict=False),
        default=0.0,
        help="goodput lost by distributed jobs that share a node (default: 0)",
    )
    parser.add_argument(
        "--knowledge",
        default="explored",
        help="knowledge of jobs when they start: explored (none), history (measurements of "
        "finished jobs of their application), profiled, similar (history, and predictions from "
        "finished jobs that are similar) or others (such predictions only, from other "
        "applications; default: explored)",
    )
    parser.add_argument(
        "--batch-sizes",
        default="policy",
        help="batch sizes of all jobs: by the rule of the policy, requested, or adaptive, the best "
        "by their own goodput (default: policy)",
    )
    parser.add_argument(
        "--oracle",
        default="true",
        help="what policies are told that ask for remaining steps and step times: true, or "
        "estimated from the losses and step times so far (default: true)",
    )
    for option, what in ERRORS.items():
        parser.add_argument(
            f"--{option}-error",
            type=number(0.0, MOST_ERROR, strict=False),
            default=0.0,
            metavar="DEVIATION",
            help=f"standard deviation of the logarithm of {what} (default: 0)",
        )


def add_hindsight(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "workload",
        nargs="?",
        help="a CSV of name, time, application, num_replicas, batch_size (default: draw one)",
    )
    _add_workload(parser)
    _add_traces(parser)
    parser.add_argument("--seed", type=whole(0), default=0, help="of a drawn workload (default: 0)")
    add_cluster(parser, cores=False)
    parser.add_argument("--tree", metavar="FILE", help="tree of the cluster, as of simulate --tree")
    parser.add_argument(
        "--objective",
        choices=("completion", "slowdown", "late-jobs", "makespan"),
        default="completion",
        help="average completion time (default); slowdown: over the time of each job alone on its "
        "requested GPUs; late-jobs: their number; makespan: time until all jobs are done",
    )
    parser.add_argument(
        "--due",
        type=number(0.0),
        metavar="FACTOR",
        help="with late-jobs: jobs are due so many times that time after their submission",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="weights of the jobs in the average completion time or slowdown: a CSV of job, weight "
        "(default: 1 each)",
    )
    parser.add_argument(
        "--steps", type=whole(1), default=1000, help="of the search of a schedule (default: 1000)"
    )
    parser.add_argument(
        "--price-interval",
        type=number(0.0, DAY),
        default=300.0,
        metavar="SECONDS",
        help="of constant prices; shorter ones prove more and take longer (default: 300)",
    )
    parser.add_argument(
        "--search-seed", type=whole(0), default=0, help="seed of that search (default: 0)"
    )
    parser.add_argument(
        "--seconds",
        type=number(0.0),
        help="time limit: the searches stop in time; rates and proofs are made in any case "
        "(default: none)",
    )
    _add_pictures(parser)
    add_out(parser, "results/hindsight", "folder of bound, schedule and picture")


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        default="list",
        help="a study of the list below; list, the default, prints all with their minutes",
    )
    parser.epilog = STUDIES_HELP
    parser.add_argument(
        "--policies",
        type=names,
        nargs="+",
        default=[names("pollux")],
        metavar="NAMES",
        help="policies for Pollux (default: pollux, the exact one; also pollux-genetic)",
    )
    parser.add_argument(
        "--workloads",
        type=seeds,
        nargs="+",
        default=[()],
        metavar="NUMBERS",
        help="numbers of the published workloads, or seeds of drawn ones and of searches, as 1-8 "
        "(default: 1-8 for table2, fig7, fig8a, fig8b, fig8c and the questions about Pollux, 1-3 "
        "for table3 and arena, 1-5 for gandiva and antman, else 6; with --quick 6, 1 for table3 "
        "and arena)",
    )
    parser.add_argument(
        "--seeds",
        type=seeds,
        nargs="+",
        default=[(0,)],
        metavar="SEEDS",
        help="seeds of the genetic algorithm, of folds and classifiers, as 0-4 (default: 0)",
    )
    parser.add_argument(
        "--artifact",
        metavar="FOLDER",
        help="folder simulator of Pollux's artifact; for sia, restrictions and hindsight-types "
        "that of Sia's; for time-shares and all of gavel one that holds "
        "simulation_throughputs.json (folder scheduler of Gavel's code), or gavel-throughputs with "
        "it; for openb, predictability and step-times that of their lists; for aiturbo one that "
        "holds aiturbo-jobs and dl2-ps-worker-speed; for traces and hindsight-traces one that "
        "holds tiresias-traces and elasticflow-itp-2021; for arena, arena-published and "
        "hindsight-plans one that holds measured.csv and the traces, of which --workloads 1-3 are "
        "Philly, Helios and PAI, or arena with them; for llm-times one that holds llm-training "
        "(default: shipped profiles, drawn workloads)",
    )
    parser.add_argument(
        "--gaps",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="also prove the gap of every decision (default: no)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list the studies, their numbers of tasks, and their expected minutes on this machine",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer jobs, nodes or seeds, searches of 30 trials"
    )
    keeping = parser.add_mutually_exclusive_group()
    keeping.add_argument(
        "--store",
        action="store_true",
        help="also store the rows in the repository, with their commit, for `goodalloc report`",
    )
    keeping.add_argument(
        "--confirm",
        action="store_true",
        help="with --quick: take the stored result for that of the present code if the stored "
        "quick rows come out again",
    )
    _add_workers(parser)
    _add_pictures(parser)
    add_out(parser, "results/reproduce", "folder of the results")


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=workers,
        default="1",
        help="number of processes (default: 1), or the cluster that runs the tasks: "
        "dask:tcp://host:8786, dask:SCHEDULERFILE, ray:auto, ray:host:6379, ray:ray://host:10001",
    )


def _add_pictures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pictures",
        type=picture_format,
        default="png",
        metavar="FORMAT",
        help="format of figures: png, pdf or svg (default: png)",
    )


def add_out(parser: argparse.ArgumentParser, folder: str, text: str) -> None:
    help_text = f"{text} (default: {folder})"
    parser.add_argument("--out", metavar="FOLDER", default=folder, help=help_text)
