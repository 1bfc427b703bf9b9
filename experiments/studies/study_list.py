"""Names of the studies by subject, for people.

They are written out here, since importing the catalogue would slow the start down.
"""

from __future__ import annotations

#: Help of the command `reproduce`.
STUDIES_HELP = """\
what:
  list              what each of these is, and how many minutes it takes
  all               every study (with --quick, over an hour of processor time; else a day and
                    more)
  Pollux's paper    artifact, table2, table3, fig1, fig2, fig3, fig5, fig6, fig7, fig8a, fig8b,
                    fig8c, fig9; pollux
  its questions     exactness, disturbances, scale, objectives, remaining-time, knowledge,
                    experience, experience-fits, noise, noisy-decisions, tie-rules, similar-jobs,
                    genetic-budgets, equal-terms, advantage, overheads-pollux (up to hours each)
  hindsight         hindsight, hindsight-loads, hindsight-objectives, hindsight-relaxations,
                    hindsight-replays, hindsight-schedules, hindsight-types, hindsight-trees,
                    hindsight-traces, hindsight-pods, hindsight-growth, hindsight-minute;
                    hindsight-all (these and family); hindsight-optimum
  types and cores   synergy, sia, sia-gavel, restrictions, mixed, openb
  AITurbo           predictability, step-times, step-bandwidth, exchange, overheads,
                    aiturbo-replay, aiturbo-conditions; aiturbo
  other systems     allox, hindsight-machines, hesrpt, slaq, themis, themis-auctions,
                    themis-searches, gandiva, antman, time-shares, gavel, gavel-cost,
                    gavel-levels, gavel-load, gavel-packing, hindsight-load, traces, arena,
                    arena-published, hindsight-plans, llm-times, making-room, topology,
                    topology-nodes, tree-replays, library, library-large, library-trees,
                    library-pods, library-ablation, library-rounds;
                    family compares thirty policies, hindsight-tables bounds tables of four studies,
                    profile-fits the models that ship, profile-parts what a profiler adds,
                    gpu-profiles what was measured on a GPU
  training here     digits-efficiency, adaptive-batch, elastic; training
"""
