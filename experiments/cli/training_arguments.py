"""Arguments of the commands on real trainings: measure, fit, schedule, launch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, get_args

from goodalloc.experiments.cli.types import (
    code_name,
    gpus_per_node,
    group,
    number,
    picture_format,
    whole,
)
from goodalloc.experiments.live.policy_names import LIVE
from goodalloc.experiments.measure.execution import Precision
from goodalloc.experiments.tasks.task import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTER_HELP = "folder that the scheduler and its jobs share"


ON_HELP = "Ray cluster, as ray for the one of this machine, ray:HOST:6379 or ray:ray://HOST:10001 "


def ray_address(text: str) -> str:
    """Return the address in ``ray[:ADDRESS]``.

    Raises
    ------
    argparse.ArgumentTypeError
        If the text names another engine.
    """
    engine, _, address = text.partition(":")
    if engine != "ray":
        raise argparse.ArgumentTypeError(f"got '{text}'; expected ray or ray:ADDRESS")
    return address or "auto"


def gpu_names(text: str) -> tuple[str, ...]:
    """Parse names of GPUs separated by commas, each once; none of an empty text.

    Raises
    ------
    argparse.ArgumentTypeError
        If a name is empty or named twice.
    """
    found = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    if not all(found) or len({*found}) < len(found):
        raise argparse.ArgumentTypeError(
            f"got '{text}'; expected names of different GPUs, separated by commas"
        )
    return found


def add_launch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `goodalloc launch`."""
    parser.add_argument("--cluster", required=True, metavar="FOLDER", help=CLUSTER_HELP)
    parser.add_argument("--name", required=True, help="name of the job, and of its folder")
    parser.add_argument(
        "--replicas",
        type=whole(1),
        default=1,
        metavar="K",
        help="requested replicas, where the policy does not choose (tiresias, fifo; default: 1)",
    )
    parser.add_argument(
        "--application",
        default="",
        metavar="NAME",
        help="name of what the job trains; a scheduler with --similar predicts jobs of one name "
        "from each other",
    )
    parser.add_argument(
        "--steps",
        type=number(0.0),
        metavar="N",
        help="predicted number of scale-invariant steps (those at the initial batch size) of the "
        "whole training, for policies that want to know what remains; without it a job is "
        "believed to take as long again as it has taken",
    )
    parser.add_argument(
        "--cores", type=number(0.0), metavar="N", help="cores of each replica (default: any)"
    )
    parser.add_argument(
        "--memory",
        type=number(0.0),
        metavar="GIB",
        help="memory of each replica (default: any)",
    )
    parser.add_argument(
        "--gpus",
        type=gpu_names,
        metavar="NAMES",
        help="GPUs that the jobs of this machine share, as CUDA_VISIBLE_DEVICES names them; each "
        "replica gets one that no other job has (default: those that the variable or the driver "
        "lists, or none: CPUs)",
    )
    parser.add_argument(
        "--on",
        type=ray_address,
        metavar="ray[:ADDRESS]",
        help=ON_HELP + "that starts the replicas on the nodes of the allocation (default: "
        "processes of this machine)",
    )
    parser.add_argument(
        "--retries",
        type=whole(0),
        default=3,
        metavar="N",
        help="restarts after consecutive failures without progress (default: 3)",
    )
    parser.add_argument(
        "program",
        nargs="+",
        metavar="COMMAND",
        help="after --: the program of every replica and its arguments, a training by "
        "AgentOptions.of_launcher; it runs here or, with --on, on nodes of the cluster, with "
        "torchrun's variables",
    )


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `goodalloc schedule`."""
    parser.add_argument("--cluster", required=True, metavar="FOLDER", help=CLUSTER_HELP)
    parser.add_argument("--nodes", type=whole(1), metavar="N", help="with --gpus-per-node")
    parser.add_argument(
        "--gpus-per-node",
        type=gpus_per_node,
        metavar="G",
        help="replicas per node: its GPUs or, without any, for instance its cores",
    )
    parser.add_argument(
        "--group",
        type=group,
        action="append",
        metavar="NAME:NODES:GPUS",
        help="a group of nodes, instead of --nodes and --gpus-per-node; repeatable",
    )
    parser.add_argument(
        "--cores",
        type=number(0.0),
        metavar="N",
        help="cores of a node, which `launch --cores` requests (default: not counted)",
    )
    parser.add_argument(
        "--memory",
        type=number(0.0),
        metavar="GIB",
        help="memory of a node, which `launch --memory` requests (default: not counted)",
    )
    parser.add_argument(
        "--resources",
        action="store_true",
        help="with --on: count the cores and the memory that Ray's nodes have",
    )
    parser.add_argument(
        "--on",
        type=ray_address,
        metavar="ray[:ADDRESS]",
        help=ON_HELP + "whose nodes are allocated, in place of those named here; they may join, "
        "leave and die",
    )
    parser.add_argument(
        "--policy",
        type=code_name,
        default="pollux",
        help=f"{', '.join(LIVE)}, or package.module:name (default: pollux)",
    )
    parser.add_argument(
        "--interval",
        type=number(0.0),
        default=60.0,
        help="seconds between decisions, besides those when a job comes or goes (default: 60)",
    )
    parser.add_argument(
        "--restart-delay",
        type=number(0.0, strict=False),
        default=30.0,
        help="seconds of a restart that Pollux assumes (default: 30)",
    )
    parser.add_argument(
        "--similar",
        action="store_true",
        help="predict what a job has not measured from finished jobs that are similar",
    )
    parser.add_argument("--seconds", type=number(0.0), help="time limit of a decision")
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument("--until-done", action="store_true", help="end when all jobs are done")


def counts(minimum: int) -> Callable[[str], tuple[int, ...]]:
    """Return a parser of whole numbers of at least `minimum`, separated by commas."""
    one = whole(minimum)
    return lambda text: tuple(one(part.strip()) for part in text.split(","))


def add_measure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `goodalloc measure`."""
    parser.add_argument(
        "model",
        nargs="*",
        help=f"{', '.join(TASKS)}, or a function that returns a TrainingTask, as "
        "package.module:function or file.py:function",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="measure all trainings that ship, on GPUs in every precision, their restarts, and "
        "pairs that share a GPU or a core; --out is a folder",
    )
    parser.add_argument(
        "--beside",
        action="store_true",
        help="measure two trainings on one GPU, or one core, alone and at once",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="measure what it takes to save a training, and to start it again in a new process",
    )
    parser.add_argument(
        "--trace",
        metavar="FOLDER",
        help="keep the profiler's traces of steps there, for a viewer (chrome://tracing)",
    )
    parser.add_argument(
        "--visits",
        type=whole(1),
        help="times that each configuration is measured, with others in between, or each restart "
        "(default: 3)",
    )
    parser.add_argument(
        "--replicas",
        type=counts(1),
        metavar="COUNTS",
        help="numbers of replicas (default: 1,2 on CPUs; on GPUs and under torchrun 1, 2, 4, … "
        "and all)",
    )
    parser.add_argument(
        "--on",
        type=ray_address,
        metavar="ray[:ADDRESS]",
        help=ON_HELP + "whose nodes are measured, as few as the most --replicas take or else all; "
        "--out is in a folder that they all see",
    )
    parser.add_argument(
        "--per-node",
        type=whole(1),
        metavar="G",
        help="with --on: replicas on a node, so that fewer than it has GPUs are on several nodes",
    )
    parser.add_argument(
        "--gpu-type", metavar="TYPE", help="with --on: the nodes with GPUs of this type"
    )
    parser.add_argument(
        "--backend",
        choices=("nccl", "gloo"),
        help="how replicas exchange gradients (default: nccl on GPUs, gloo on CPUs); by gloo "
        "several replicas can share a GPU",
    )
    parser.add_argument(
        "--batch-sizes",
        type=counts(1),
        metavar="SIZES",
        default=(),
        help="examples per replica and pass, with --beside one number a training (default: "
        "doubled as far as memory holds them and a step takes no more than a tenth of --seconds)",
    )
    parser.add_argument(
        "--accumulation",
        type=counts(0),
        metavar="COUNTS",
        help="accumulated passes (default: 0,1; 0 with --all)",
    )
    parser.add_argument(
        "--error",
        type=number(0.0),
        help="relative standard error at which a mean is accepted (default: 0.05)",
    )
    parser.add_argument(
        "--seconds",
        type=number(0.0),
        help="time limit of a configuration, over all visits (default: 5; 1.5 with --all; 2 for "
        "each run with --beside)",
    )
    parser.add_argument(
        "--memory",
        type=number(0.0),
        metavar="GiB",
        help="most address space of a process, on CPUs (default: no limit)",
    )
    parser.add_argument(
        "--precision",
        choices=get_args(Precision),
        help="single precision, its products rounded to ten bits (on GPUs), or bfloat16 by "
        "autocast (default: fp32; with --all each that the device has)",
    )
    parser.add_argument(
        "--compile", action="store_true", dest="compiled", help="compile the module (torch.compile)"
    )
    parser.add_argument(
        "--channels-last",
        action="store_true",
        help="keep the channels of an image next to each other in memory",
    )
    parser.add_argument("--seed", type=whole(0), help="seed (default: 0)")
    parser.add_argument(
        "--out",
        required=True,
        metavar="PROFILE.csv",
        help="table, or folder of tables with --all; an existing one is continued, with --beside "
        "and --restart written anew",
    )


def add_fit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `goodalloc fit`."""
    parser.add_argument(
        "profile",
        nargs="+",
        metavar="[TYPE=]PROFILE.csv",
        help="table written by `goodalloc measure`; of one model on several types of GPU, a table "
        "for each, so that added jobs have a mode for each type",
    )
    parser.add_argument(
        "--by",
        choices=("steps", "parts"),
        help="fit whole steps, as Pollux does, or also the parts that the profiler saw "
        "(default: what predicts held-out steps better)",
    )
    parser.add_argument(
        "--out", metavar="MODEL.json", help="write the model there, and a picture beside it"
    )
    parser.add_argument(
        "--pictures", type=picture_format, help="png, pdf or svg, with --out (default: png)"
    )
    parser.add_argument("--into", metavar="INSTANCE.json", help="add jobs to this instance")
    parser.add_argument(
        "--jobs", type=whole(1), metavar="N", help="number of added jobs, with --into (default: 1)"
    )
    parser.add_argument(
        "--noise-scale",
        type=number(0.0, strict=False),
        metavar="EXAMPLES",
        help="gradient noise scale (default: unknown, so that throughput alone counts)",
    )
    parser.add_argument(
        "--initial-batch",
        type=whole(1),
        metavar="EXAMPLES",
        help="M0, the least total batch size (default: the least atomic one measured)",
    )
    parser.add_argument(
        "--maximum-batch",
        type=whole(1),
        metavar="EXAMPLES",
        help="the largest total batch size (default: the largest measured)",
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="seed of the folds (default: 0)")
