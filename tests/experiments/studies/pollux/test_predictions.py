"""Figures 1 to 3 of Pollux: exact where the truth is the model, honest about what was not seen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.application import packed
from goodalloc.data.applications.measurements import APPLICATIONS, read_observations
from goodalloc.data.applications.profiles import load_profile
from goodalloc.experiments.studies.pollux.efficiency_prediction import (
    Validations,
    fig2_rows,
    plot_fig2,
    read_efficiencies,
)
from goodalloc.experiments.studies.pollux.predictions import plan_pass
from goodalloc.experiments.studies.pollux.throughput_plot import plot_fig3
from goodalloc.experiments.studies.pollux.throughput_prediction import (
    cross_validate,
    fig3_rows,
    least_error,
    read_tables,
    split_halves,
)
from goodalloc.experiments.studies.pollux.trade_off import (
    batch_size_curves,
    effective_noise_scale,
    fig1_rows,
    plot_fig1,
)
from goodalloc.models.goodput.statistical_efficiency import (
    GradientStatistics,
    adascale_gain,
    efficiency,
)
from goodalloc.models.goodput.throughput_model import gradient_time, step_time

if TYPE_CHECKING:
    from collections.abc import Callable

PLACEMENTS = (
    "1",
    "2",
    "3",
    "4",
    "11",
    "12",
    "22",
    "13",
    "14",
    "24",
    "34",
    "44",
    "144",
    "244",
    "344",
    "444",
    "1111",
    "1444",
    "2444",
    "3444",
    "4444",
)
SCALED = ((6, 24), (8, 32), (12, 48), (16, 64))


def write_times(folder: Path, name: str) -> None:
    """Step times of an application by its profile, as the artifact writes them."""
    parameters, known = load_profile(name).throughput, APPLICATIONS[name]
    atomic = np.unique(np.geomspace(known.atomic_minimum, known.atomic_maximum, 7).round())

    def lines(nodes: int, replicas: int, label: str) -> list[str]:
        step = step_time(parameters, nodes, replicas, atomic, 0.0)
        wait = step - gradient_time(parameters, atomic)
        return [
            f"{label},{int(m)},{t!r},{s!r}"
            for m, t, s in zip(atomic, step.tolist(), wait.tolist(), strict=True)
        ]

    placed = [x for p in PLACEMENTS for x in lines(len(p), sum(map(int, p)), p)]
    scaled = [x for n, k in SCALED for x in lines(n, k, f"{n},{k}")]
    columns = "local_bsz,step_time,sync_time"
    for file, head, body in (
        ("placements.csv", "placement", placed),
        ("scalability.csv", "num_nodes,num_replicas", scaled),
    ):
        (folder / file).write_text("\n".join([f"{head},{columns}", *body]) + "\n")


def write_statistics(folder: Path, name: str, growth: float) -> None:
    """Runs whose noise scale is that of the profile at M0, times (M / M0)^growth."""
    profile, known = load_profile(name), APPLICATIONS[name]
    progress = (profile.progress * profile.total_progress).tolist()
    square, variance = profile.gradient_square[0].tolist(), profile.gradient_variance[0].tolist()
    for doubling in range(round(math.log2(known.maximum / known.initial)) + 1):
        batch = min(known.initial * 2**doubling, known.maximum)
        times = batch / known.initial
        scale = times**growth
        body = [
            f"{p!r},{p / times**0.9!r},{-math.exp(-3.0 * p / progress[-1])!r},{s!r},{v * scale!r}"
            for p, s, v in zip(progress, square, variance, strict=True)
        ]
        text = "\n".join(["progress,iteration,metric,grad_sqr,grad_var", *body]) + "\n"
        (folder / f"validation-{batch}.csv").write_text(text)


def write_traces(folder: Path, growth: float = 0.0) -> str:
    """An artifact in which the models of Pollux hold exactly, but for a growing noise scale."""
    for name in APPLICATIONS:
        (folder / name).mkdir()
        write_times(folder / name, name)
        write_statistics(folder / name, name, growth)
    return str(folder)


class Predicted(NamedTuple):
    """A row of Figure 2 that tells of a predicted efficiency."""

    application: str
    batch_size: int
    predicted_from: int
    source: str
    mean_error: float
    bias: float


def predictions_of(traces: str) -> list[Predicted]:
    """The rows that tell errors, without those of the spread of the metric."""
    return [
        Predicted(*row[:4], row.mean_error, row.bias)
        for row in fig2_rows(traces)
        if row.mean_error is not None and row.bias is not None
    ]


def spreads_of(traces: str, source: str) -> dict[str, float]:
    """The mean spread of the metric of each application, at equal progress or examples."""
    found: dict[str, list[float]] = {}
    for row in fig2_rows(traces):
        if row.source == source and row.metric_spread_percent is not None:
            found.setdefault(row.application, []).append(row.metric_spread_percent)
    return {name: float(np.mean(spreads)) for name, spreads in found.items()}


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Traces that obey the models."""
    return write_traces(tmp_path_factory.mktemp("exact"))


@pytest.fixture(scope="module")
def measured(reference: Path) -> str:
    """The artifact's traces."""
    return str(reference / "pollux" / "traces")


@pytest.mark.parametrize("figure", [fig2_rows, plot_fig2, fig3_rows, plot_fig3])
def test_a_comparison_with_measurements_is_refused_without_them(
    figure: Callable[[str | None], Any],
) -> None:
    """One sentence names the figure and what to give."""
    with pytest.raises(ValueError, match=r"^Figure [23] compares .* \(--artifact\)\.$"):
        figure(None)


@pytest.mark.parametrize("figure", [fig1_rows, fig2_rows, fig3_rows])
def test_a_folder_without_traces_is_refused_by_name(
    figure: Callable[[str | None], Any], tmp_path: Path
) -> None:
    """The sentence names the folder that cannot be read."""
    with pytest.raises(ValueError, match=str(tmp_path)):
        figure(str(tmp_path))


@pytest.mark.parametrize(
    ("gpus", "spread"), [(1, (1,)), (4, (4,)), (5, (4, 1)), (8, (4, 4)), (11, (4, 4, 3))]
)
def test_packed_gpus_fill_nodes(gpus: int, spread: tuple[int, ...]) -> None:
    """Full nodes first, and the rest on one more."""
    assert packed(gpus) == spread


def test_a_batch_is_split_into_as_few_passes_as_fit() -> None:
    """CIFAR-10 has room for 1024 examples a GPU, so that 4096 take two passes on two GPUs."""
    limits = load_profile("cifar10").batch
    assert plan_pass(4096, 2, limits) == (2, 1024, 1)
    assert plan_pass(4096, 4, limits).batch_size == 4096


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=8), st.floats(1.0, 1e4), st.data())
def test_epochs_cost_as_much_as_one_of_the_effective_noise_scale(
    noise: list[float], initial: float, data: st.DataObject
) -> None:
    """Progress over efficiency, summed over epochs, at any batch size."""
    weights = np.array([data.draw(st.floats(0.1, 1.0)) for _ in noise])
    batch = initial * data.draw(st.floats(1.0, 1e3))
    single = effective_noise_scale(np.array(noise), weights[None], initial)[0]

    def cost(scale: Any) -> Any:
        return 1.0 / efficiency(GradientStatistics(initial, scale), initial, batch)

    together = (weights * cost(np.array(noise))).sum()
    assert together == pytest.approx(weights.sum() * cost(max(single, 0.0)), rel=1e-6)


def test_without_traces_figure_1_shows_the_model_alone() -> None:
    """More GPUs pay with a large batch only, and batches grow with GPUs and with progress."""
    rows = fig1_rows(None)
    assert all(row.measured is None for row in rows)
    lines: dict[str, list[float]] = {}
    for row in rows:
        lines.setdefault(row.line, []).append(row.model)
    assert lines["batch size 2048"] == sorted(lines["batch size 2048"])
    assert max(lines["batch size 512"]) > lines["batch size 512"][-1]
    assert all(a < b for a, b in zip(lines["first half"], lines["second half"], strict=True))


def test_where_the_truth_is_the_model_figure_1_agrees_with_it(exact: str) -> None:
    """Up to the interpolation between measured batch sizes."""
    for row in fig1_rows(exact):
        if row.figure == "1a":
            assert row.model == pytest.approx(row.measured, rel=0.03)
    for curve in batch_size_curves(exact, (1, 2, 4, 8, 16)).values():
        assert curve.lost is not None
        assert (curve.lost >= 0.0).all()
        assert curve.lost.max() < 0.01


def test_where_the_noise_scale_is_that_of_any_batch_size_efficiency_is_exact(exact: str) -> None:
    """No error from whichever batch size it is predicted."""
    rows = fig2_rows(exact)
    assert {row.application for row in rows} == set(APPLICATIONS)
    assert max(row.worst_error for row in rows if row.worst_error is not None) < 1e-12


def test_where_the_noise_scale_grows_with_the_batch_size_smaller_ones_underrate_larger_ones(
    tmp_path: Path,
) -> None:
    """The bias is negative from below, positive from above, and M0 is worse than a neighbour."""
    rows = predictions_of(write_traces(tmp_path, growth=0.5))
    errors = {(r.application, r.batch_size, r.source): r.mean_error for r in rows}
    for row in rows:
        assert (row.bias > 0.0) == (row.predicted_from > row.batch_size)
        assert abs(row.bias) == pytest.approx(row.mean_error)
        if row.source == "next smaller":
            key = (row.application, row.batch_size, "initial")
            assert row.mean_error < errors[key]


def test_where_the_metric_follows_progress_runs_agree_at_equal_progress_only(exact: str) -> None:
    """A step of a larger batch is worth less than its examples here, so that it lags by these."""
    progress, examples = (spreads_of(exact, f"equal {what}") for what in ("progress", "examples"))
    assert progress.keys() == examples.keys() == set(APPLICATIONS)
    assert max(progress.values()) < 1e-6
    assert min(examples.values()) > 0.5


def test_metrics_are_compared_at_epochs_of_m0_that_every_run_reaches() -> None:
    """By hand: epochs at 30 and 40 of a run of 2 that starts late and one of 4 that ends early."""
    runs = Validations(
        progress={2: np.array([10.0, 20.0, 30.0, 40.0]), 4: np.array([20.0, 30.0, 40.0])},
        examples={2: np.array([20.0, 40.0, 60.0, 80.0]), 4: np.array([60.0, 70.0, 80.0])},
        metric={2: np.array([0.0, 1.0, 2.0, 4.0]), 4: np.array([1.0, 4.0, 8.0])},
    )
    assert runs.within.tolist() == [2, 3]
    assert runs.at_equal("progress").tolist() == [[2.0, 4.0], [4.0, 8.0]]
    assert runs.at_equal("examples").tolist() == [[2.0, 4.0], [1.0, 8.0]]
    assert runs.spread_percent("progress").tolist() == pytest.approx([37.5, 37.5])


def test_the_artifacts_metrics_agree_better_at_equal_progress(measured: str) -> None:
    """By a factor of three or more where the batch size matters, and nowhere worse."""
    progress, examples = (
        spreads_of(measured, f"equal {what}") for what in ("progress", "examples")
    )
    for name in APPLICATIONS:
        assert progress[name] < examples[name]
    for name in ("cifar10", "deepspeech2", "imagenet"):
        assert examples[name] > 3.0 * progress[name]


def test_measured_efficiency_is_the_gain_of_a_batch_sizes_own_statistics(tmp_path: Path) -> None:
    """Times M0 / M, epoch by epoch; at M0 it is 1 by any statistics."""
    write_statistics(tmp_path, "cifar10", growth=0.3)
    (tmp_path / "cifar10").symlink_to(tmp_path)
    found = read_efficiencies(tmp_path, "cifar10")
    profile = load_profile("cifar10")
    for index, batch in enumerate(found.batch_sizes):
        scale = (batch / 128) ** 0.3
        own = GradientStatistics(profile.gradient_square[0], profile.gradient_variance[0] * scale)
        gain = adascale_gain(own, 128, batch)
        np.testing.assert_allclose(found.measured[index], gain * 128 / batch, rtol=1e-9)
    np.testing.assert_allclose(found.predicted[:, 0], 1.0)


def test_allocations_that_the_model_cannot_tell_apart_are_held_out_together(exact: str) -> None:
    """Halves differ by at most one kind on one node and on several, and depend on the seed."""
    table = read_observations(Path(exact) / "bert", APPLICATIONS["bert"])
    half = split_halves(table, 1)
    kinds: dict[tuple[bool, int], set[int]] = {}
    for (nodes, replicas, *_), side in zip(table, half, strict=True):
        kinds.setdefault((nodes > 1, int(replicas)), set()).add(int(side))
    assert all(len(sides) == 1 for sides in kinds.values())
    for several in (False, True):
        sides = [min(s) for kind, s in kinds.items() if kind[0] == several]
        assert abs(2 * sum(sides) - len(sides)) <= 1
    assert (split_halves(table, 1) == half).all()
    assert any((split_halves(table, seed) != half).any() for seed in range(2, 6))


def test_a_fit_knows_nothing_of_what_is_held_out(exact: str) -> None:
    """Step times of half 1 do not change what is fitted to half 0."""
    tables = read_tables(Path(exact))
    changed = tables["bert"].copy()
    changed[split_halves(changed, 0) == 1, 3:] *= 3.0
    before, after = (
        cross_validate(tables | {"bert": t})["bert"] for t in (tables["bert"], changed)
    )
    assert before.fits[0] == after.fits[0]
    assert before.fits[1] != after.fits[1]
    unseen = after.half == 1
    np.testing.assert_allclose(
        after.step_times(held_out=True)[unseen], before.step_times(held_out=True)[unseen]
    )
    assert not np.allclose(
        after.step_times(held_out=False)[unseen], before.step_times(held_out=False)[unseen]
    )


def test_where_the_truth_is_the_model_throughput_is_predicted_on_unseen_gpus(exact: str) -> None:
    """What the priors of the fit leave of an error is small, and a model could be without any."""
    for row in fig3_rows(exact):
        assert row.least_rmsle < 1e-12
        assert row.rmsle < 0.03, row


def test_the_least_error_is_what_is_left_of_equals_that_differ() -> None:
    """Two measurements of one kind, a factor of e^0.2 apart, are each 0.1 from their mean."""
    rows = np.array([[2, 4, 8, 1, 1.0], [3, 4, 8, 1, math.exp(0.2)], [1, 4, 8, 1, 9.0]])
    assert least_error(rows[:2]) == pytest.approx(0.1)
    assert least_error(rows) == pytest.approx(0.1 * math.sqrt(2 / 3))


def test_the_pictures_have_a_panel_an_application_and_units(exact: str) -> None:
    """Two panels of figure 1, and rows of six of the others; all axes are labelled."""
    for figure, panels in ((plot_fig1(None), 2), (plot_fig1(exact), 2), (plot_fig2(exact), 24)):
        assert len(figure.axes) == panels
        assert all(ax.get_xlabel() for ax in figure.axes)
        assert all(ax.lines for ax in figure.axes)
    figure = plot_fig3(exact)
    assert [ax.get_ylabel() for ax in figure.axes].count("throughput (examples/s)") == 2
    shown = {str(line.get_markerfacecolor()) for ax in figure.axes for line in ax.lines}
    assert "white" in shown


def test_the_artifacts_noise_scales_grow_with_the_batch_size(measured: str) -> None:
    """From M0 all efficiencies at the largest batch size are underrated; a neighbour is close."""
    rows = predictions_of(measured)
    for name, known in APPLICATIONS.items():
        largest = [r for r in rows if (r.application, r.batch_size) == (name, known.maximum)]
        bias = {row.source: row.bias for row in largest}
        assert bias["initial"] < -0.01
        assert abs(bias["next smaller"]) < abs(bias["initial"])
    near = [row.mean_error for row in rows if row.source != "initial"]
    assert max(near) < 0.12
    assert float(np.mean(near)) < 0.03


def test_the_model_of_the_artifact_chooses_batch_sizes_that_lose_little_goodput(
    measured: str,
) -> None:
    """They differ from the best ones, by a factor of three at worst, but goodput is flat there."""
    for curve in batch_size_curves(measured, tuple(range(1, 17))).values():
        assert curve.lost is not None
        assert (curve.lost >= 0.0).all()
        assert curve.lost.max() < 1 / 6


@pytest.mark.slow
def test_throughput_on_unseen_gpus_of_the_artifact_is_predicted_nearly_as_well_as_fitted(
    measured: str,
) -> None:
    """Holding out costs less than a tenth of the error, most of which no such model avoids."""
    found = {(row.application, row.allocations): row for row in fig3_rows(measured)}
    for name in APPLICATIONS:
        fitted, unseen = found[name, "fitted"].rmsle, found[name, "held out"].rmsle
        assert found[name, "fitted"].least_rmsle <= fitted <= unseen < 1.1 * fitted
        assert unseen < 0.15
        assert found[name, "held out"].median < 0.1
        assert found[name, "GPUs doubled"].rmsle < 0.15
