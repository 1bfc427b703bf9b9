"""The objective of Synergy as rules of a round.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
    https://www.usenix.org/conference/osdi22/presentation/mohan
"""

from __future__ import annotations

from goodalloc.models.round.rules import Rules

#: Added to every job's throughput, as any round needs; far below the difference of two modes.
FLOOR = 1e-6


def synergy_rules(servers: int) -> Rules:
    """Return rules whose objective is the mean of the normalised throughput, plus `FLOOR`.

    Examples
    --------
    >>> from goodalloc.models.round import synergy_rules
    >>> rules = synergy_rules(servers=16)
    >>> rules.power, rules.max_nodes_per_job
    (1.0, 16)
    """
    return Rules(
        power=1.0,
        floor=FLOOR,
        restart_delay=0.0,
        max_nodes_per_job=servers,
        interference_avoidance=False,
        fair_share="one_gpu",
        speedup_scale="job",
    )
