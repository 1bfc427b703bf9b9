"""Arguments of the commands launch and schedule."""

from __future__ import annotations

import argparse

from goodalloc.experiments.cli.types import gpus_per_node, group, number, whole
from goodalloc.experiments.live.policy_names import LIVE

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
        "--gpus",
        type=lambda text: tuple(filter(None, text.split(","))),
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
        "--on",
        type=ray_address,
        metavar="ray[:ADDRESS]",
        help=ON_HELP + "whose nodes are allocated, in place of those named here; they may join, "
        "leave and die",
    )
    parser.add_argument(
        "--policy",
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
