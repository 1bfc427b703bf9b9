"""Policies that schedule real jobs, and what the others need that real jobs do not have."""

from __future__ import annotations

#: Policies that need no losses, no shared GPUs, no measured cores, and no other number of nodes.
#: What some ask of an oracle, speed and remaining steps, is predicted (`FittedSpeed`).
LIVE = (
    "pollux",
    "pollux-untied",
    "pollux-shuffled",
    "pollux-goodput",
    "pollux-remaining",
    "pollux-robust",
    "pollux-worst",
    "pollux-genetic",
    "pollux-priced",
    "pollux-greedy",
    "sia",
    "sia-exact",
    "gavel",
    "gavel-blind",
    "gavel-makespan",
    "gavel-finish-time",
    "gavel-completion",
    "gavel-throughput",
    "gavel-levels",
    "optimus",
    "srtf",
    "allox",
    "hesrpt",
    "themis",
    "themis-exact",
    "themis-maxmin",
    "equal",
    "tiresias",
    "tiresias-gittins",
    "fifo",
)

#: Other policies, by the requirement that real jobs do not meet.
NEEDS = {
    "losses": ("slaq", "slaq-exact"),
    "GPUs that are shared": ("gavel-packed", "gandiva", "gandiva-exact", "antman", "antman-exact"),
    "nodes that come and go": ("autoscaling-goodput", "autoscaling-throughput"),
    "cores that are measured": ("pollux-proportional", "synergy-tune"),
    "prices": ("gavel-cost",),
}
