r"""Seconds of a step by the bandwidth between nodes, which AITurbo's slides show for two of them.

The slides have a step at 1 and at 0.1 Gbps; their numbers could not be read. Here they are those of
the shipped models (`data/parameter_servers/step_times.py`), in which a bandwidth that is *B* times
that measured takes a *B*-th of the transfer (equation (1) of
`models/parameter_servers/step_time.py`). What was measured is not published, so it is taken from
the fit: a worker pushes its gradient and pulls as many parameters, hence

.. math:: \beta = \frac{2 \cdot 8 \, s}{t_2}                                                    (1)

with the size *s* of the parameters, in DL2's simulator (github.com/pengyanghua/DL2, commit
2e54920), and the fitted seconds :math:`t_2` of the transfer of one worker through one server. Where
most parameters are embeddings, of which a step sends few, (1) is too much.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.step_times import load_step_time, step_time_names
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.step_time import seconds_per_step, step_time_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.data.parameter_servers.step_times import StepTimeProfile

#: Megabytes of the parameters, in DL2's simulator.
MEGABYTES: Mapping[str, float] = {
    "cnn-text-classification": 24.0,
    "dssm": 6.0,
    "inception-bn": 42.1,
    "resnet-50": 102.2,
    "resnext-110": 6.92,
    "seq2seq": 36.5,
    "vgg-16": 553.4,
    "wlm": 19.2,
}

#: Numbers of servers, and of workers as well.
PODS = (1, 4)

#: Bandwidths of the table, of which the slides show the last two; and of the picture, in Gbps.
TEN, SHOWN, SLOW = 10.0, 1.0, 0.1
DRAWN = np.geomspace(0.05, 20.0, 40)


class BandwidthRow(NamedTuple):
    """Step of a model with some pods of each kind.

    Attributes
    ----------
    fitted_gbps
        Bandwidth (1); none where the model is not slowed down by the network at all.
    measured_seconds
        On the network on which it was measured.
    transfer_percent
        Part of that which is transfer.
    seconds_at_10_gbps, seconds_at_1_gbps, seconds_at_100_mbps
        At other bandwidths.
    slowdown
        At 0.1 Gbps over at 1 Gbps, the two that the slides show.
    """

    model: str
    pods: int
    batch_size: int
    parameters_megabytes: float
    fitted_gbps: float | None
    measured_seconds: float
    transfer_percent: float
    seconds_at_10_gbps: float
    seconds_at_1_gbps: float
    seconds_at_100_mbps: float
    slowdown: float


def fitted_gbps(profile: StepTimeProfile) -> float | None:
    """Return the bandwidth (1) of a model; None where its transfer takes no time."""
    seconds = profile.parameters.coefficients.transfer
    return 16.0 * MEGABYTES[profile.name] / 1000.0 / seconds if seconds > 0 else None


def seconds_at(profile: StepTimeProfile, pods: int, gbps: float) -> float:
    """Return the seconds of a step at a bandwidth.

    Parameters
    ----------
    profile
        The model.
    pods
        Number of servers, and of workers.
    gbps
        Bandwidth between nodes.
    """
    measured = fitted_gbps(profile)
    bandwidth = 1.0 if measured is None else gbps / measured
    has = PsConfiguration(pods, pods)
    return float(seconds_per_step(profile.parameters, has, profile.batch_size, bandwidth))


def bandwidth_rows() -> list[BandwidthRow]:
    """Return a row for every shipped model and number of pods."""
    rows = []
    for name in step_time_names():
        profile = load_step_time(name)
        measured = fitted_gbps(profile)
        for pods in PODS:
            parts = step_time_parts(
                profile.parameters, PsConfiguration(pods, pods), profile.batch_size
            )
            total, transfer = float(np.sum(parts)), float(parts.push_pull)
            ten, shown, slow = (seconds_at(profile, pods, gbps) for gbps in (TEN, SHOWN, SLOW))
            rows.append(
                BandwidthRow(
                    model=name,
                    pods=pods,
                    batch_size=profile.batch_size,
                    parameters_megabytes=MEGABYTES[name],
                    fitted_gbps=None if measured is None else rounded(measured),
                    measured_seconds=rounded(total),
                    transfer_percent=rounded(100.0 * transfer / total),
                    seconds_at_10_gbps=rounded(ten),
                    seconds_at_1_gbps=rounded(shown),
                    seconds_at_100_mbps=rounded(slow),
                    slowdown=rounded(slow / shown),
                )
            )
    return rows


def plot_bandwidths() -> Figure:
    """Draw the seconds of a step of every model by bandwidth, with the most pods."""
    ax = new_axes(7.5, 4.6)
    for index, name in enumerate(step_time_names()):
        profile = load_step_time(name)
        ax.plot(
            DRAWN,
            [seconds_at(profile, PODS[-1], gbps) for gbps in DRAWN.tolist()],
            color=COLOURS[index],
            marker=MARKERS[index],
            markevery=6,
            markersize=4,
            linewidth=1.2,
            label=name,
        )
    for gbps in (SHOWN, SLOW):
        ax.axvline(gbps, color="black", linewidth=0.8, linestyle="--")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("bandwidth between nodes (Gbps); dashed: those of the slides")
    ax.set_ylabel(f"seconds of a step, {PODS[-1]} servers and {PODS[-1]} workers")
    ax.legend(fontsize="small", frameon=False)
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
    return figure_of(ax)


STEP_BANDWIDTH = Reproduction(
    "step-bandwidth: seconds of a step with parameter servers by bandwidth (HPDC'21)",
    lambda _: (),
    lambda _: bandwidth_rows(),
    lambda *_: plot_bandwidths(),
    ignores=("workloads", "pollux", "seeds", "gaps", "artifact", "quick"),
)
