"""heSRPT as an oracle: nobody's flow time is below it; its experiment."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.studies.classical.hesrpt import (
    JOBS,
    LINES,
    POWERS,
    WAYS,
    FlowRows,
    flow_row,
    plot_flows,
    summarise_flows,
)
from goodalloc.experiments.studies.framework.recorded_task import RECORD
from goodalloc.models.classical.fluid import fluid_completion_times
from goodalloc.models.classical.hesrpt import least_flow_time
from goodalloc.solvers.policies.registry import make_policy
from tests.support.policies.policy_rounds import Told, active, round_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from goodalloc.experiments.studies.classical.hesrpt import (
        FlowRow,
    )

CASES = [(jobs, power, seed) for jobs in (4, 80) for power in POWERS for seed in range(2)]


@cache
def rows() -> list[FlowRow]:
    """Return a row for every case."""
    return [flow_row(*case) for case in CASES]


class PowerLaw(Told):
    """An oracle of a job whose speedup is a power of its GPUs."""

    def __init__(self, steps: float, power: float) -> None:
        super().__init__(steps)
        self.power = power

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        return float(replicas**-self.power)


@given(
    st.lists(st.floats(1.0, 100.0), min_size=1, max_size=6),
    st.floats(0.1, 0.9),
    st.sampled_from(["equal", "optimus", "srtf", "fifo", "allox", "hesrpt", "tiresias"]),
)
def test_no_policy_beats_the_bound_where_its_assumptions_hold(
    sizes: list[float], power: float, name: str
) -> None:
    """On eight GPUs, with all jobs there from the start, asked every second; from scratch."""

    def rule(left: NDArray[np.float64]) -> NDArray[np.float64]:
        jobs = [
            replace(active(str(index)), oracle=PowerLaw(steps, power))
            for index, steps in enumerate(left.tolist())
        ]
        placements = make_policy(name).decide(round_of(*jobs)).placements
        return np.array([float(sum(g for _, g in placements.get(job.name, ()))) for job in jobs])

    ends = fluid_completion_times(sizes, 8.0, power, rule, interval=1.0)
    assert ends.sum() >= least_flow_time(sizes, 8.0, power) * (1 - 1e-9)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_no_way_to_share_is_below_the_least(case: int) -> None:
    """All ratios are 1 at least; whole GPUs for few jobs cost heSRPT little."""
    row = rows()[case]
    for name in WAYS:
        assert row.ratio(name) >= 1 - 1e-6
    if row.jobs == 4:
        assert row.hesrpt_whole <= 1.01


def test_equal_shares_are_near_where_servers_help_little_and_srpt_where_they_help_much() -> None:
    """And far at the other end, as the closed form has it."""
    little, much = (
        [row for row in rows() if (row.jobs, row.power) == (80, power)] for power in (0.1, 0.9)
    )
    assert max(row.equal for row in little) < 1.01 < 2.0 < min(row.srpt for row in little)
    assert max(row.srpt for row in much) < 1.3 < min(row.equal for row in much)


def test_the_same_seed_gives_the_same_row() -> None:
    """To the last digit."""
    assert flow_row(4, POWERS[0], 0) == rows()[0]


def test_the_table_has_a_row_for_every_number_of_jobs_and_power() -> None:
    """With means above the least, and the best of the rivals."""
    table = summarise_flows(rows())
    assert [(row["jobs"], row["power"]) for row in table] == [
        (j, p) for j in (4, 80) for p in POWERS
    ]
    for row in table:
        rivals = [row[f"{name}_above_%"] for name in ("equal", "srpt", "hell", "optimus")]
        assert row["best_rival_above_%"] == min(rivals)


def test_the_picture_has_a_panel_for_every_number_of_jobs(tmp_path: Path) -> None:
    """And every line in each."""
    figure = plot_flows(rows())
    assert [ax.get_title() for ax in figure.axes] == [f"{jobs} jobs on 64 GPUs" for jobs in (4, 80)]
    for ax in figure.axes:
        assert len(ax.get_legend_handles_labels()[1]) == len(LINES)
    figure.savefig(tmp_path / "flows.png")
    assert (tmp_path / "flows.png").stat().st_size > 10_000


def test_a_task_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    """Its file stays as it is; another task is refused the folder."""
    task = FlowRows(tmp_path / "rows", 4, 2)
    shares: list[float] = []
    task.run(shares.append)
    assert shares == [0.5, 1.0]
    file = tmp_path / "rows" / RECORD
    assert len(json.loads(file.read_text(encoding="utf-8"))) == 2 * len(POWERS)
    file.write_text("[]", encoding="utf-8")
    task.run(shares.append)
    assert shares == [0.5, 1.0]
    with pytest.raises(ValueError, match=r"replay|folder"):
        FlowRows(tmp_path / "rows", JOBS[0], 2).run()
