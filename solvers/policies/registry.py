"""Policies by name: made, described, and refused where they do not fit a cluster."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.models.support.dotted_path import load_callable
from goodalloc.models.support.validation import did_you_mean
from goodalloc.solvers.policies.policy import Terms
from goodalloc.solvers.policies.policy_table import DEFAULT_OPTIONS, POLICIES

if TYPE_CHECKING:
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import Knows, Policy
    from goodalloc.solvers.policies.policy_table import PolicyOptions


def terms_of(
    policy: str, *, batch_sizes: str = "policy", estimated: bool = False, profiled: bool = False
) -> Terms:
    """Return what a policy is told, and who chooses the batch sizes of its jobs.

    Parameters
    ----------
    policy
        Name of a policy, or the dotted path to one.
    batch_sizes
        ``"requested"`` or ``"adaptive"`` where a replay sets them, else ``"policy"``.
    estimated
        Whether the replay's oracle tells estimates.
    profiled
        Whether the jobs know their true speed when they start.

    Raises
    ------
    ValueError
        If the policy cannot be made.

    Examples
    --------
    >>> from goodalloc.solvers.policies import terms_of
    >>> terms_of("optimus")
    Terms(knows='true remaining', batch='requested')
    >>> terms_of("optimus", batch_sizes="adaptive", estimated=True)
    Terms(knows='measured', batch='adaptive')
    """
    named = POLICIES.get(policy)
    knows: Knows = named.knows if named else "unknown"
    if estimated and knows in ("true speed", "true remaining"):
        knows = "measured"
    elif profiled and knows == "measured":
        knows = "true speed"
    if batch_sizes == "policy":
        adaptive = make_policy(policy).batch_sizes in ("goodput", "throughput")
        batch_sizes = "adaptive" if adaptive else "requested"
    return Terms(knows, batch_sizes)


def is_pollux(policy: str) -> bool:
    """Return whether `policy` is one that ships and decides as Pollux does."""
    return policy in POLICIES and POLICIES[policy].is_pollux


def make_policy(name: str, options: PolicyOptions = DEFAULT_OPTIONS) -> Policy:
    """Return a new policy by its name.

    Parameters
    ----------
    name
        One of `POLICIES`, or a dotted path ``package.module:name`` to a class or function that
        makes a policy without arguments.
    options
        Options, of which each shipped policy takes those that concern it.

    Raises
    ------
    ValueError
        If the name is unknown, the path leads to nothing that makes a policy without arguments, or
        an option is invalid for the policy.

    Examples
    --------
    >>> from goodalloc.solvers import make_policy
    >>> type(make_policy("tiresias")).__name__
    'Tiresias'
    >>> make_policy("tiresia")
    Traceback (most recent call last):
        ...
    ValueError: Policy is 'tiresia' (did you mean tiresias?); expected one of pollux, ...
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
    except Exception as error:  # any failure of foreign code is reported with its name
        text = f"{type(error).__name__}: {error}".rstrip(".")
        raise ValueError(f"Policy '{name}' cannot be made without arguments ({text}).") from error
    if not (hasattr(policy, "decide") and hasattr(policy, "batch_sizes")):
        raise ValueError(
            f"Policy '{name}' makes a {type(policy).__name__}; expected one with `decide` and "
            "`batch_sizes`."
        )
    return policy


def require_types_known(name: str, cluster: Cluster) -> None:
    """Refuse a policy on a cluster whose GPU types or resources it does not know.

    These are policies that take all GPUs for equal, on a cluster of several types, and autoscaling,
    which adds equal nodes of GPUs only, on any cluster with named types or resources.

    Raises
    ------
    ValueError
        If the policy does not know the types of GPU, the cores or the memory of the cluster.
    """
    policy = POLICIES.get(name)
    if policy is None:
        return
    if not policy.gpu_types and len(cluster.gpu_types) > 1:
        known = ", ".join(other for other, found in POLICIES.items() if found.gpu_types)
        raise ValueError(
            f"Policy '{name}' knows one type of GPU and the cluster has "
            f"{', '.join(kind or 'unnamed' for kind in cluster.gpu_types)}; expected {known}."
        )
    if not policy.resources and (any(cluster.gpu_types) or cluster.resource_names):
        has = ", ".join(kind for kind in (*cluster.gpu_types, *cluster.resource_names) if kind)
        raise ValueError(
            f"Policy '{name}' knows GPUs only and the nodes have {has}; expected nodes without."
        )


def source_digest(name: str) -> str:
    """Return twelve characters that tell versions of a user's policy apart; empty for shipped ones.

    They are a digest of the file that its dotted path begins with.
    """
    if ":" not in name:
        return ""
    spec = find_spec(name.partition(":")[0])
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]
