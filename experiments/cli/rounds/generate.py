"""Command `generate`: draw a round and write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from goodalloc.data.files.instance import instance_text, instance_to_dict, write_instance
from goodalloc.data.rounds.any_round import PARQUET
from goodalloc.data.rounds.drawn_jobs import State
from goodalloc.experiments.cli.output import Output, check_distinct, check_target, counted
from goodalloc.experiments.cli.rounds.columns import require_reader
from goodalloc.experiments.cli.types import uniform_size
from goodalloc.models.support.validation import did_you_mean, literal, require_choice

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.rules import Rules

#: Arguments that make no difference to rounds of rigid jobs, and to rounds with execution plans.
UNUSED_RIGID = ("gpus_per_node", "group", "state", "rules", "cores", "memory", "tree", "gangs")
UNUSED_PLANS = (*UNUSED_RIGID, "load", "split", "several_gpus")

#: State of a cluster whose free GPUs lie about.
SCATTERED = "scattered"


def generate_command(arguments: argparse.Namespace) -> Output:
    """Draw an instance and write or print it."""
    check_target(arguments.out, ".json", PARQUET)
    check_target(arguments.tree, ".json")
    check_distinct(arguments.out, arguments.tree)
    if arguments.state is not None:
        require_choice("argument --state", arguments.state, (*get_args(State), SCATTERED))
    if arguments.out is not None and arguments.out.endswith(PARQUET):
        return _draw_columns(arguments)
    instance = DRAWN[arguments.workload](arguments)
    if arguments.out is None:
        return Output(instance_text(instance).rstrip(), instance_to_dict(instance))
    write_instance(instance, arguments.out)
    nodes = counted(instance.cluster.num_nodes, "node")
    size = f"{counted(instance.num_jobs, 'job')}, {nodes}"
    data = {
        "file": arguments.out,
        "name": instance.name,
        "jobs": instance.num_jobs,
        "nodes": instance.cluster.num_nodes,
        "gpus": instance.cluster.num_gpus,
    }
    return Output(f"{arguments.out}: {instance.name}, {size}", data)


def _draw_columns(arguments: argparse.Namespace) -> Output:
    """Draw a round in columns and write it."""
    from goodalloc.data.rounds.column_file import write_columns
    from goodalloc.data.rounds.column_rounds import generate_columns
    from goodalloc.data.rounds.mode_column_rounds import generate_mode_columns
    from goodalloc.models.columns.round_columns import RoundColumns

    require_reader(arguments.out)
    for name in ("load", "memory", "split", "several_gpus", "name", "tree", "gangs"):
        if getattr(arguments, name) not in (None, False):
            raise ValueError(
                f"argument --{name.replace('_', '-')}: expected none for a round in columns."
            )
    if arguments.workload != "pollux" or arguments.jobs is None:
        raise ValueError("argument --jobs: expected a number, of Pollux's jobs, for columns.")
    nodes, gpus = uniform_size(arguments)
    given: dict[str, Any] = {
        "state": "cold" if arguments.state is None else arguments.state,
        "rules": _preset(arguments),
    }
    columns: RoundColumns
    if arguments.state == SCATTERED:
        columns = RoundColumns.of(_draw_scattered(arguments))
    elif arguments.group is not None:
        cluster = _cluster(arguments.group, arguments.cores or 0.0)
        columns = generate_mode_columns(arguments.seed, arguments.jobs, cluster, **given)
    elif arguments.cores is not None:
        raise ValueError("argument --cores: expected --group with it for a round in columns.")
    else:
        columns = generate_columns(arguments.seed, arguments.jobs, nodes, gpus, **given)
    write_columns(columns, arguments.out)
    nodes = columns.cluster.num_nodes
    data = {
        "file": arguments.out,
        "jobs": columns.num_jobs,
        "nodes": nodes,
        "gpus": columns.cluster.num_gpus,
    }
    return Output(
        f"{arguments.out}: {counted(columns.num_jobs, 'job')}, {counted(nodes, 'node')}", data
    )


def _cluster(groups: list[tuple[str, int, int, str]], cores: float = 0.0) -> Cluster:
    """Return a cluster of groups of nodes with as many cores each."""
    from goodalloc.models.round.cluster import Cluster, NodeGroup
    from goodalloc.models.round.mode import resources

    return Cluster(tuple(NodeGroup(*group, resources({"cpu": cores})) for group in groups))


def _draw_pollux(arguments: argparse.Namespace) -> Instance:
    """Draw a round of elastic jobs, as in Pollux's evaluation."""
    from goodalloc.data.rounds.equipped import equip
    from goodalloc.data.rounds.generator import generate
    from goodalloc.data.rounds.typed import generate_typed

    _refuse(arguments, "split", "several_gpus")
    if arguments.tree is not None:
        return _draw_on_tree(arguments)
    if arguments.gangs is not None:
        raise ValueError("argument --gangs: expected --tree with it.")
    if arguments.state == SCATTERED:
        return _draw_scattered(arguments)
    cluster = None if arguments.group is None else _cluster(arguments.group)
    nodes, gpus = uniform_size(arguments)
    given: dict[str, Any] = {
        "load": arguments.load,
        "state": "cold" if arguments.state is None else arguments.state,
        "rules": _preset(arguments),
        "name": arguments.name,
    }
    if cluster is not None and any(cluster.gpu_types):
        instance = generate_typed(arguments.seed, arguments.jobs, cluster=cluster, **given)
    else:
        instance = generate(arguments.seed, arguments.jobs, nodes, gpus, cluster=cluster, **given)
    if arguments.cores is None:
        if arguments.memory is not None:
            raise ValueError("argument --memory: expected --cores with it.")
        return instance
    equipped = equip(instance, arguments.seed, cores=arguments.cores, memory=arguments.memory)
    return equipped if arguments.name is None else equipped.replace(name=arguments.name)


def _draw_on_tree(arguments: argparse.Namespace) -> Instance:
    """Draw a round on a tree, write the tree, and return the round without it."""
    from goodalloc.data.topology.topology_file import write_topology
    from goodalloc.data.topology.tree_rounds import generate_on_tree

    for name in ("group", "cores", "memory"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"argument --{name}: expected none with --tree.")
    state = "cold" if arguments.state is None else arguments.state
    if state == SCATTERED:
        raise ValueError(f"argument --state: got {SCATTERED}; expected another with --tree.")
    nodes, gpus = uniform_size(arguments)
    gangs = arguments.gangs or 0.0
    if gangs and nodes < 2:
        raise ValueError(f"argument --gangs: got {gangs:g} on 1 node; expected two nodes at least.")
    given: dict[str, Any] = {"jobs": arguments.jobs, "load": arguments.load, "state": state}
    round_ = generate_on_tree(arguments.seed, nodes, gpus, **given, gangs=gangs)
    instance = round_.instance
    usual = f"{instance.name}-gangs-{gangs:g}" if gangs else instance.name
    name = usual if arguments.name is None else arguments.name
    instance = instance.replace(rules=_preset(arguments), name=name)
    write_topology(round_.replace(instance=instance), arguments.tree)
    return instance


def _draw_scattered(arguments: argparse.Namespace) -> Instance:
    """Draw a round on a cluster whose free GPUs lie about."""
    from goodalloc.data.rounds.scattered import generate_scattered

    for name in ("load", "group", "cores", "memory"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"argument --{name}: expected none with --state {SCATTERED}.")
    if arguments.jobs is None:
        raise ValueError(f"argument --jobs: expected a number with --state {SCATTERED}.")
    nodes, gpus = uniform_size(arguments)
    instance = generate_scattered(arguments.seed, arguments.jobs, nodes, gpus)
    name = f"{SCATTERED}-{arguments.jobs}-jobs-{nodes}x{gpus}-seed-{arguments.seed}"
    return instance.replace(rules=_preset(arguments), name=arguments.name or name)


def _draw_synergy(arguments: argparse.Namespace) -> Instance:
    """Draw a round of rigid jobs with modes, as in Synergy's evaluation."""
    from goodalloc.data.rounds.synergy import ONE_GPU, PUBLISHED_GPUS, synergy_round

    _refuse(arguments, *UNUSED_RIGID)
    instance = synergy_round(
        arguments.seed,
        arguments.nodes or 16,
        arguments.jobs,
        load=arguments.load,
        split=arguments.split,
        gpus=PUBLISHED_GPUS if arguments.several_gpus else ONE_GPU,
        name=arguments.name,
    )
    return instance.replace(rules=_changed(instance.rules, arguments))


def _draw_with_plans(arguments: argparse.Namespace) -> Instance:
    """Draw a round of trainings that choose execution plans; its own rules may be changed."""
    from goodalloc.data.library.plan_rounds import draw_with_plans

    _refuse(arguments, *UNUSED_PLANS)
    if arguments.jobs is None:
        raise ValueError(f"argument --jobs: expected one with --workload {arguments.workload}.")
    nodes = arguments.nodes or 16
    instance = draw_with_plans(arguments.workload, arguments.seed, arguments.jobs, nodes)
    name = instance.name if arguments.name is None else arguments.name
    return instance.replace(rules=_changed(instance.rules, arguments), name=name)


#: Workloads by name.
DRAWN: Mapping[str, Callable[[argparse.Namespace], Instance]] = {
    "pollux": _draw_pollux,
    "synergy": _draw_synergy,
    "plans": _draw_with_plans,
    "llm": _draw_with_plans,
}


def _refuse(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse arguments that have no effect on the workload."""
    for name in names:
        if getattr(arguments, name) not in (None, False):
            raise ValueError(
                f"argument --{name.replace('_', '-')}: makes no difference to the workload "
                f"'{arguments.workload}'; expected none."
            )


def _preset(arguments: argparse.Namespace) -> Rules:
    """Return the rules that the arguments name, as changed by the others.

    Raises
    ------
    ValueError
        If there are none of that name.
    """
    from goodalloc.models.round.rules import PRESETS

    preset = "default" if arguments.rules is None else arguments.rules
    if preset not in PRESETS:
        raise ValueError(
            f"argument --rules: got {literal(preset)}{did_you_mean(preset, PRESETS)}; expected one "
            f"of {', '.join(PRESETS)}."
        )
    return _changed(PRESETS[preset], arguments)


def _changed(rules: Rules, arguments: argparse.Namespace) -> Rules:
    """Return `rules` as changed by the arguments."""
    if arguments.power is not None:
        rules = rules.replace(power=arguments.power)
    if arguments.interference_avoidance is not None:
        rules = rules.replace(interference_avoidance=arguments.interference_avoidance)
    return rules
