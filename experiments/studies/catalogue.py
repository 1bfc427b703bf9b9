"""Published tables and figures that can be repeated, and further studies, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.classical.allox import ALLOX
from goodalloc.experiments.studies.classical.hesrpt import HESRPT
from goodalloc.experiments.studies.classical.slaq_quality import SLAQ
from goodalloc.experiments.studies.classical.themis_auctions import THEMIS_AUCTIONS
from goodalloc.experiments.studies.classical.themis_replay import THEMIS
from goodalloc.experiments.studies.comparisons.family import THE_FAMILY
from goodalloc.experiments.studies.comparisons.mixed_cluster import MIXED_CLUSTER
from goodalloc.experiments.studies.comparisons.openb import OPENB
from goodalloc.experiments.studies.comparisons.trace_replay import TRACE_REPLAY
from goodalloc.experiments.studies.gavel.cost import GAVEL_COST
from goodalloc.experiments.studies.gavel.levels import GAVEL_LEVELS
from goodalloc.experiments.studies.gavel.packing import PACKING
from goodalloc.experiments.studies.gavel.replay import GAVEL
from goodalloc.experiments.studies.gavel.time_share_gap import TIME_SHARES
from goodalloc.experiments.studies.parameter_servers.aiturbo_replay import AITURBO_REPLAY
from goodalloc.experiments.studies.parameter_servers.exchange_gap import EXCHANGE
from goodalloc.experiments.studies.parameter_servers.overheads import OVERHEADS
from goodalloc.experiments.studies.parameter_servers.step_time_prediction import STEP_TIMES
from goodalloc.experiments.studies.pollux.cloud import FIGURE_9
from goodalloc.experiments.studies.pollux.efficiency_prediction import fig2_rows, plot_fig2
from goodalloc.experiments.studies.pollux.fairness import FIGURE_7
from goodalloc.experiments.studies.pollux.hyperparameter_table import hyperparameter_table
from goodalloc.experiments.studies.pollux.predictions import prediction, require_traces
from goodalloc.experiments.studies.pollux.published_cases import CASES, published_cases
from goodalloc.experiments.studies.pollux.studies import (
    DISTURBANCES,
    EXACTNESS,
    KNOWLEDGE,
    OBJECTIVES,
    SCALE,
)
from goodalloc.experiments.studies.pollux.throughput_plot import plot_fig3
from goodalloc.experiments.studies.pollux.throughput_prediction import fig3_rows
from goodalloc.experiments.studies.pollux.timelines import FIGURE_5, FIGURE_6
from goodalloc.experiments.studies.pollux.trade_off import fig1_rows, plot_fig1
from goodalloc.experiments.studies.predictability.study import PREDICTABILITY
from goodalloc.experiments.studies.shared_gpus.replay import ANTMAN, GANDIVA
from goodalloc.experiments.studies.sia_and_synergy.sia_replay import SIA_REPLAY
from goodalloc.experiments.studies.sia_and_synergy.sia_restrictions import RESTRICTIONS
from goodalloc.experiments.studies.sia_and_synergy.synergy_gap import SYNERGY
from goodalloc.experiments.studies.training.adaptive_batch import ADAPTIVE_BATCH
from goodalloc.experiments.studies.training.digits_efficiency import DIGITS_EFFICIENCY
from goodalloc.experiments.studies.training.elastic import ELASTIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.experiments.studies.framework.reproduction import Reproduction

#: What was published: "all". (Figure 4 is a drawing.)
PUBLISHED: Mapping[str, Reproduction] = {
    "fig1": prediction("Figure 1: batch size, GPUs and stage of training", fig1_rows, plot_fig1),
    "fig2": prediction(
        "Figure 2: statistical efficiency, measured and predicted", fig2_rows, plot_fig2,
        lambda plan: require_traces(plan.traces, 2),
    ),
    "fig3": prediction(
        "Figure 3: throughput, measured and predicted", fig3_rows, plot_fig3,
        lambda plan: require_traces(plan.traces, 3),
    ),
    "table2": published_cases("Table 2: policies on a testbed", CASES["table2"]),
    "fig5": FIGURE_5,
    "fig6": FIGURE_6,
    "fig7": FIGURE_7,
    "table3": hyperparameter_table("Table 3: hyper-parameter search (digits for CIFAR-10)"),
    "fig8a": published_cases("Figure 8a: load", CASES["fig8a"]),
    "fig8b": published_cases("Figure 8b: scheduling interval", CASES["fig8b"]),
    "fig8c": published_cases("Figure 8c: interference", CASES["fig8c"]),
    "fig9": FIGURE_9,
}  # fmt: skip

#: Questions that were not, hours each on several workloads.
STUDIES: Mapping[str, Reproduction] = {
    "exactness": EXACTNESS,
    "disturbances": DISTURBANCES,
    "scale": SCALE,
    "objectives": OBJECTIVES,
    "knowledge": KNOWLEDGE,
}

#: Other systems: Synergy (OSDI'22), the restrictions of Sia (SOSP'23), the pods of FGD (ATC'23),
#: SLAQ (SoCC'17), AlloX (EuroSys'20), heSRPT (2020), Themis (NSDI'20), Gavel (OSDI'20) and POP
#: (SOSP'21), Gandiva (OSDI'18) and AntMan (OSDI'20), whose jobs share GPUs; published traces of
#: rigid jobs; of AITurbo (HPDC'21) the classifier, the step times, the exchange, beside Optimus
#: (EuroSys'18), the overheads of real processes, and replays.
OTHERS: Mapping[str, Reproduction] = {
    "synergy": SYNERGY,
    "sia": SIA_REPLAY,
    "mixed": MIXED_CLUSTER,
    "restrictions": RESTRICTIONS,
    "openb": OPENB,
    "slaq": SLAQ,
    "allox": ALLOX,
    "hesrpt": HESRPT,
    "themis": THEMIS,
    "family": THE_FAMILY,
    "gavel": GAVEL,
    "gavel-cost": GAVEL_COST,
    "gavel-levels": GAVEL_LEVELS,
    "gavel-packing": PACKING,
    "time-shares": TIME_SHARES,
    "themis-auctions": THEMIS_AUCTIONS,
    "predictability": PREDICTABILITY,
    "step-times": STEP_TIMES,
    "exchange": EXCHANGE,
    "overheads": OVERHEADS,
    "aiturbo-replay": AITURBO_REPLAY,
    "gandiva": GANDIVA,
    "antman": ANTMAN,
    "traces": TRACE_REPLAY,
}

#: Real training on this machine.
TRAININGS: Mapping[str, Reproduction] = {
    "digits-efficiency": DIGITS_EFFICIENCY,
    "adaptive-batch": ADAPTIVE_BATCH,
    "elastic": ELASTIC,
}

REPRODUCTIONS: Mapping[str, Reproduction] = {**PUBLISHED, **STUDIES, **OTHERS, **TRAININGS}

#: Names that stand for several: Pollux's tables and figures; all of AITurbo; real training.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": tuple(PUBLISHED),
    "aiturbo": ("predictability", "step-times", "exchange", "overheads", "aiturbo-replay"),
    "training": tuple(TRAININGS),
}

#: Minutes of a whole run by one worker, or of processor time, as far as that was measured.
MINUTES: Mapping[str, float] = {
    "synergy": 1, "sia": 22, "mixed": 15, "restrictions": 7, "openb": 3, "gavel": 15,
    "gavel-packing": 10, "gavel-cost": 8, "gavel-levels": 0.5, "family": 45, "time-shares": 2,
    "predictability": 4, "step-times": 0.2, "exchange": 2.5, "overheads": 7, "aiturbo-replay": 40,
    "digits-efficiency": 7, "adaptive-batch": 9.5, "elastic": 9,
}  # fmt: skip
MINUTES_NOTE = "minutes: of a whole run by one worker, where that was measured; --quick takes less"
