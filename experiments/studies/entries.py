"""Entries of the catalogue: title and place of every study beyond the figures of Pollux's paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Questions that were not, hours each on several workloads.
STUDIES: Mapping[str, Entry] = {
    "exactness": Entry("What deciding every round exactly changes", "pollux.studies:EXACTNESS"),
    "disturbances": Entry("What it changes after a disturbance", "pollux.studies:DISTURBANCES"),
    "scale": Entry("What it changes on a larger cluster", "pollux.studies:SCALE"),
    "objectives": Entry(
        "The same exact solver under other objectives", "pollux.studies:OBJECTIVES"
    ),
    "remaining-time": Entry(
        "Objectives that know the remaining time", "pollux.studies:REMAINING_TIME"
    ),
    "knowledge": Entry(
        "What jobs know of their application when they start", "pollux.studies:KNOWLEDGE"
    ),
    "experience": Entry(
        "What predictions from similar jobs are worth", "pollux.studies:EXPERIENCE"
    ),
    "noise": Entry(
        "What noisy measurements cost, and what deciding for them gains", "pollux.studies:NOISE"
    ),
    "noisy-decisions": Entry(
        "Whether exact decisions lose more to noisy measurements than genetic ones",
        "comparisons.noisy_decisions:NOISY_DECISIONS",
    ),
    "tie-rules": Entry(
        "Figure 8c under several rules between equally good allocations",
        "comparisons.tie_rules:TIE_RULES",
    ),
    "genetic-budgets": Entry(
        "Pollux's genetic algorithm with the time of the exact solver, as published, and ten times",
        "comparisons.genetic_budgets:GENETIC_BUDGETS",
        clocked=("exact_seconds", "published_seconds", "generations", "same_time_gap_percent"),
    ),
    "equal-terms": Entry(
        "Policies by what they are told and who chooses the batch sizes",
        "comparisons.equal_terms:EQUAL_TERMS",
    ),
    "overheads-pollux": Entry(
        "overheads-pollux: restarts, fits, batch choices and decisions, published and ours "
        "(OSDI'21)",
        "comparisons.pollux_overheads:OVERHEADS_POLLUX",
        clocked=("clocked", "clocked_least", "clocked_greatest"),
    ),
    "experience-fits": Entry(
        "What jobs measure in a day, and fits of their models, by what they know at the start",
        "comparisons.counted_fits:COUNTED_FITS",
    ),
    "similar-jobs": Entry(
        "Step times predicted from jobs of other applications, one left out at a time",
        "comparisons.similar_jobs:SIMILAR_JOBS",
    ),
    "hindsight": Entry(
        "Policies above bounds on schedules and replays, and what each piece of knowledge is worth",
        "hindsight.above_bound:HINDSIGHT",
    ),
    "hindsight-loads": Entry(
        "Pollux above the bounds on schedules and replays, by load",
        "hindsight.above_bound:HINDSIGHT_LOADS",
    ),
    "hindsight-objectives": Entry(
        "hindsight-objectives: policies above the bounds of slowdown, late jobs and makespan",
        "hindsight.other_objectives:OBJECTIVES",
    ),
    "hindsight-relaxations": Entry(
        "hindsight-relaxations: what each relaxation of the bound on every schedule costs",
        "hindsight.relaxations:RELAXATIONS",
        clocked=("seconds",),
    ),
    "hindsight-replays": Entry(
        "Schedules with hindsight planned on the nodes and replayed to the second, beside the "
        "bound",
        "hindsight.placed_replays:PLACED_REPLAYS",
    ),
    "hindsight-minute": Entry(
        "Bounds and schedules with hindsight of the published days within a minute each",
        "hindsight.limited_days:LIMITED_DAYS",
        clocked=(
            *("bound_s", "bound_on_replays_s", "ideal_s", "planned_s", "replayed_s"),
            *("bound_over_ideal", "bound_over_replayed", "bound_on_replays_over_replayed"),
            *("ideal_over_replayed", "ideal_steps", "replayed_steps", "seconds"),
        ),
    ),
    "hindsight-schedules": Entry(
        "hindsight-schedules: ways to an ideal schedule, from rules of thumb to exact windows",
        "hindsight.schedules:SCHEDULES",
        clocked=("seconds", "solved", "unsolved", "improved"),
    ),
    "advantage": Entry(
        "Shares of batch sizes, knowledge and scheduling in Pollux's advantage",
        "comparisons.advantage:ADVANTAGE",
    ),
}

#: Parts of a day with hindsight of which `hindsight-growth` tells seconds.
GROWTH_PARTS = ("rates", "bound", "multipliers", "proof", "schedule", "plan", "replay_bound")

#: Other systems: Synergy (OSDI'22), the restrictions of Sia (SOSP'23), the pods of FGD (ATC'23),
#: SLAQ (SoCC'17), AlloX (EuroSys'20), heSRPT (2020), Themis (NSDI'20), Gavel (OSDI'20) and POP
#: (SOSP'21), Gandiva (OSDI'18) and AntMan (OSDI'20), whose jobs share GPUs; published traces of
#: rigid jobs; of AITurbo (HPDC'21) the classifier, the step times, the exchange, beside Optimus
#: (EuroSys'18), the overheads of real processes, and replays; whole traces with hindsight.
OTHERS: Mapping[str, Entry] = {
    "synergy": Entry(
        "Synergy (OSDI'22): TUNE, greedy and proportional allocation against OPT",
        "sia_and_synergy.synergy_gap:SYNERGY",
    ),
    "sia": Entry(
        "Sia on three types of GPU, and Pollux with and without types",
        "sia_and_synergy.sia_replay:SIA_REPLAY",
    ),
    "sia-gavel": Entry(
        "Gavel on three types of GPU, rule by rule to that of Sia's simulator",
        "sia_and_synergy.sia_gavel:SIA_GAVEL",
    ),
    "mixed": Entry(
        "Two types of GPU and few cores: co-adapted, by shares, by Synergy-TUNE",
        "comparisons.mixed_cluster:MIXED_CLUSTER",
        clocked=("decision_ms", "worst_decision_ms"),
    ),
    "restrictions": Entry(
        "What Sia's shapes, rounding and later placement cost a round",
        "sia_and_synergy.sia_restrictions:RESTRICTIONS",
        clocked=("placed_seconds",),
    ),
    "openb": Entry(
        "openb: GPUs allocated from a batch of pods (ATC'23, Figure 9a)",
        "comparisons.openb:OPENB",
        clocked=("seconds",),
    ),
    "slaq": Entry(
        "slaq: quality and delays of SLAQ, greedy and exact, against fair shares (SoCC'17)",
        "classical.slaq_quality:SLAQ",
    ),
    "allox": Entry(
        "AlloX (EuroSys'20): the least completion times on processors and GPUs",
        "classical.allox:ALLOX",
        clocked=("match_seconds", "proof_seconds", "program_seconds"),
    ),
    "hesrpt": Entry(
        "heSRPT: the least flow time of jobs with a power-law speedup, and other ways to share",
        "classical.hesrpt:HESRPT",
    ),
    "themis": Entry(
        "Themis's auctions beside exact finish-time fairness",
        "classical.themis_replay:THEMIS",
        clocked=("decision_ms",),
    ),
    "family": Entry(
        "family: all policies on one workload, judged by three objectives",
        "hindsight.family:THE_FAMILY",
        clocked=("decision_ms",),
    ),
    "gavel": Entry(
        "gavel: policies that know types of GPU beside those that do not, on Gavel's throughputs",
        "gavel.replay:GAVEL",
    ),
    "gavel-cost": Entry(
        "gavel-cost: dollars and deadlines under Gavel's policies",
        "gavel.cost:GAVEL_COST",
    ),
    "gavel-levels": Entry(
        "gavel-levels: entities beside their weights under Gavel's hierarchical fairness",
        "gavel.levels:GAVEL_LEVELS",
    ),
    "gavel-load": Entry(
        "gavel-load: what knowing the types of GPU is worth by the load, over thousands of jobs",
        "gavel.load_sweep:GAVEL_LOAD",
    ),
    "gavel-packing": Entry(
        "gavel-packing: jobs that share GPUs in pairs beside jobs alone, on Gavel's throughputs",
        "gavel.packing:PACKING",
    ),
    "time-shares": Entry(
        "time-shares: Gavel's programs exactly, by bisection, and split as by POP",
        "gavel.time_share_gap:TIME_SHARES",
        clocked=("solve_seconds", "longest_seconds", "build_seconds"),
    ),
    "hindsight-types": Entry(
        "hindsight-types: Sia, and Pollux with and without types, above the bound on any schedule",
        "hindsight.types_above_bound:TYPES",
    ),
    "hindsight-trees": Entry(
        "hindsight-trees: policies on a tree of racks above the bound on any schedule there",
        "hindsight.trees_above_bound:TREES",
    ),
    "hindsight-traces": Entry(
        "hindsight-traces: policies that keep the users' GPUs above the bound on published traces",
        "hindsight.traces_above_bound:TRACES_ABOVE",
    ),
    "hindsight-plans": Entry(
        "hindsight-plans: policies for jobs that choose execution plans above the bound",
        "plans.arena_above_bound:PLANS_ABOVE",
    ),
    "hindsight-pods": Entry(
        "hindsight-pods: AITurbo and others above the bound on any schedule of cores and GPUs",
        "hindsight.pods_above_bound:PODS_ABOVE",
    ),
    "hindsight-load": Entry(
        "hindsight-load: Gavel's sweep over the load above the bound on any schedule",
        "steady_jobs.load_above_bound:LOADS_ABOVE",
    ),
    "hindsight-machines": Entry(
        "hindsight-machines: AlloX and simple rules above the bound on any schedule",
        "steady_jobs.machines_above_bound:MACHINES_ABOVE",
    ),
    "hindsight-tables": Entry(
        "hindsight-tables: bounds on any schedule for the tables of four studies of policies",
        "last_rows.bounded_tables:BOUNDED_TABLES",
    ),
    "hindsight-optimum": Entry(
        "hindsight-optimum: bounds, schedules and policies beside the optimum of small days",
        "steady_jobs.days_and_optimum:OPTIMUM_OF_DAYS",
    ),
    "hindsight-growth": Entry(
        "hindsight-growth: time and memory of bound and schedule with hindsight, up to 5,000 jobs",
        "hindsight.growth:GROWTH",
        clocked=(*(f"{part}_seconds" for part in GROWTH_PARTS), "seconds", "peak_mebibytes"),
    ),
    "themis-searches": Entry(
        "Themis on searches of several trials, beside Gandiva, SLAQ and others",
        "classical.themis_searches:THEMIS_SEARCHES",
    ),
    "themis-auctions": Entry(
        "Themis's auction: payments and lies",
        "classical.themis_auctions:THEMIS_AUCTIONS",
        clocked=("auction_seconds", "program_seconds"),
    ),
    "profile-fits": Entry(
        "Errors of the shipped models over the measurements that they were fitted to",
        "training.profile_fits:PROFILE_FITS",
    ),
    "gpu-profiles": Entry(
        "What a GPU trains at: measured profiles of trainings of real size",
        "training.gpu_profiles:GPU_PROFILES",
    ),
    "profile-parts": Entry(
        "Errors of fitted steps by the number of configurations: whole steps, or their parts, too",
        "training.profile_parts:PROFILE_PARTS",
    ),
    "predictability": Entry(
        "AITurbo (HPDC'21): predictable and unpredictable jobs told apart, by what is known when",
        "predictability.study:PREDICTABILITY",
    ),
    "step-times": Entry(
        "step-times: seconds of a step with parameter servers (EuroSys'18, HPDC'21; data of DL2)",
        "parameter_servers.step_time_prediction:STEP_TIMES",
    ),
    "step-bandwidth": Entry(
        "step-bandwidth: seconds of a step with parameter servers by bandwidth (HPDC'21)",
        "parameter_servers.step_bandwidth:STEP_BANDWIDTH",
    ),
    "exchange": Entry(
        "AITurbo's exchange and Optimus's greedy against the exact optimum",
        "parameter_servers.exchange_gap:EXCHANGE",
    ),
    "overheads": Entry(
        "overheads: restarts and profiling with parameter servers, measured on this machine "
        "(HPDC'21)",
        "parameter_servers.overheads:OVERHEADS",
    ),
    "aiturbo-replay": Entry(
        "AITurbo (HPDC'21) against others, by the share of unpredictable jobs",
        "parameter_servers.aiturbo_replay:AITURBO_REPLAY",
    ),
    "aiturbo-conditions": Entry(
        "AITurbo (HPDC'21) over the better baseline, by network, GPUs, requests, size and losses",
        "parameter_servers.aiturbo_conditions:AITURBO_CONDITIONS",
    ),
    "gandiva": Entry(
        "Gandiva: slices, pairs of jobs on GPUs that they share, migration, growth, affinity",
        "shared_gpus.replay:GANDIVA",
        clocked=("optimum_ms",),
    ),
    "antman": Entry(
        "AntMan: opportunistic jobs beside those with a guarantee",
        "shared_gpus.replay:ANTMAN",
        clocked=("optimum_ms",),
    ),
    "making-room": Entry(
        "Room for a gang on fragmented clusters: fewest moves, and least loss by stopping jobs",
        "comparisons.making_room:MAKING_ROOM",
        clocked=("exact_seconds", "greedy_seconds"),
    ),
    "library": Entry(
        "Solvers on the core of the library of rounds",
        "library.first_rows:FIRST_ROWS",
        clocked=("solver_seconds",),
    ),
    "library-large": Entry(
        "Solvers on the large rounds of the library",
        "library.first_rows:LARGE_ROWS",
        clocked=("solver_seconds",),
    ),
    "library-trees": Entry(
        "Solvers on the rounds of the library that are on trees",
        "library.first_rows:TREE_ROWS",
        clocked=("solver_seconds",),
    ),
    "library-pods": Entry(
        "Solvers on the rounds of the library in which pods share GPUs",
        "library.first_rows:POD_ROWS",
        clocked=("solver_seconds",),
    ),
    "library-rounds": Entry(
        "What the library of rounds holds, by origin and class",
        "library.contents:CONTENTS",
    ),
    "library-ablation": Entry(
        "What each part of the exact road is worth, on rounds of the library",
        "library.ablation:ABLATION",
        clocked=("solver_seconds",),
    ),
    "topology": Entry(
        "Rounds on trees of racks and pods: exact decisions beside the placements of Kubernetes",
        "topology.on_trees:ON_TREES",
        clocked=("table_seconds", "exact_seconds", "certified_bound", "certificate_seconds"),
    ),
    "topology-nodes": Entry(
        "Nodes of a real cluster in made racks: exact decisions beside placements of Kubernetes",
        "topology.on_trees:ON_PUBLISHED_NODES",
        clocked=("table_seconds", "exact_seconds", "certified_bound", "certificate_seconds"),
    ),
    "tree-replays": Entry(
        "Replays on a tree of racks: policies that do not know it, placed by level, decided on it",
        "topology.replays:TREE_REPLAYS",
    ),
    "arena": Entry(
        "Jobs that choose execution plans: Arena beside Sia, Gavel and exact decisions",
        "plans.arena_replay:ARENA",
        clocked=("decision_ms", "worst_decision_ms"),
    ),
    "arena-published": Entry(
        "What of Arena's published comparison comes out, and by which way to count",
        "plans.arena_published:ARENA_PUBLISHED",
    ),
    "llm-times": Entry(
        "llm-times: steps of language models on up to 512 GPUs, fitted and measured",
        "plans.llm_times:LLM_TIMES",
    ),
    "traces": Entry(
        "published traces of rigid jobs under every policy that keeps the users' GPUs",
        "comparisons.trace_replay:TRACE_REPLAY",
    ),
}

#: Real training on this machine.
TRAININGS: Mapping[str, Entry] = {
    "digits-efficiency": Entry(
        "digits-efficiency: statistical efficiency predicted and measured, training on digits here",
        "training.digits_efficiency:DIGITS_EFFICIENCY",
    ),
    "adaptive-batch": Entry(
        "adaptive-batch: seconds to a validation target, adaptive and fixed batch sizes, on this "
        "machine",
        "training.adaptive_batch:ADAPTIVE_BATCH",
    ),
    "elastic": Entry(
        "elastic: real jobs under a live scheduler, two slots of this machine",
        "training.elastic:ELASTIC",
    ),
}
