"""Measurements of Pollux's artifact: its applications, and the step times of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.trace_files import (
    POINT,
    batch_size_of,
    read_placements,
    read_run,
    read_scalability,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats


class Application(NamedTuple):
    """Facts that the artifact states about an application, without measurements.

    Batch sizes in examples; `restriction` is (total batch size, replicas) where Pollux fixes them.
    """

    title: str
    category: str
    initial: int
    maximum: int
    atomic_minimum: int
    atomic_maximum: int
    restriction: tuple[int, int] | None = None


APPLICATIONS = {
    "bert": Application("BERT / SQuAD", "medium", 12, 384, 4, 12),
    "cifar10": Application("ResNet-18 / CIFAR-10", "small", 128, 4096, 32, 1024),
    "deepspeech2": Application("DeepSpeech2 / CMU-ARCTIC", "medium", 20, 640, 10, 80),
    "imagenet": Application("ResNet-50 / ImageNet", "extra large", 200, 12800, 20, 200),
    "ncf": Application(
        title="NeuMF / MovieLens",
        category="small",
        initial=256,
        maximum=32768,
        atomic_minimum=32,
        atomic_maximum=32768,
        restriction=(32768, 1),
    ),
    "yolov3": Application("YOLOv3 / VOC", "large", 8, 512, 4, 8),
}


def read_observations(folder: Path, application: Application, suffix: str = "") -> Floats:
    """Read the measured steps of one application within its limits on the atomic batch size.

    A measurement that both files hold counts once.

    Parameters
    ----------
    folder
        Its folder of the artifact's traces.
    application
        Stated facts of the application.
    suffix
        End of the files' names, where there are several types of GPU.

    Returns
    -------
    ndarray
        Nodes, replicas, atomic batch size, gradient time, step time; shape (measurements, 5).

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.applications import read_observations
    >>> from goodalloc.data.applications.measurements import APPLICATIONS
    >>> text = "placement,local_bsz,step_time,sync_time\\n1,8,0.5,0.0\\n12,8,0.7,0.2\\n"
    >>> _ = Path("placements.csv").write_text(text)
    >>> text = "num_nodes,num_replicas,local_bsz,step_time,sync_time\\n4,16,8,0.9,0.4\\n"
    >>> _ = Path("scalability.csv").write_text(text)
    >>> read_observations(Path(), APPLICATIONS["bert"])[:, :3].tolist()  # nodes, replicas, m
    [[1.0, 1.0, 8.0], [2.0, 3.0, 8.0], [4.0, 16.0, 8.0]]
    """
    tables = (
        read_placements(folder / f"placements{suffix}.csv"),
        read_scalability(folder / f"scalability{suffix}.csv"),
    )
    columns = [*POINT, "sync_time", "step_time"]
    measured = [
        row for table in tables for row in table[columns].itertuples(index=False, name=None)
    ]
    observations = np.array(list(dict.fromkeys(measured)))
    observations[:, 3] = observations[:, 4] - observations[:, 3]
    within = (observations[:, 2] >= application.atomic_minimum) & (
        observations[:, 2] <= application.atomic_maximum
    )
    return observations[within]


def read_gradient(folder: Path) -> tuple[dict[str, Any], float]:
    """Read the gradient statistics of one application, and the length of its training.

    An epoch ends when its least cumulative progress over the measured batch sizes is reached.

    Parameters
    ----------
    folder
        Its folder of the artifact's traces.

    Returns
    -------
    dict, float
        The field `gradient` of the profile, and the progress at the end of the last epoch.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.applications import read_gradient
    >>> head = "progress,iteration,grad_sqr,grad_var\\n"
    >>> _ = Path("validation-128.csv").write_text(head + "10,10,2.0,512.0\\n20,20,1.0,512.0\\n")
    >>> gradient, length = read_gradient(Path())
    >>> gradient["progress"], length
    ([0.5, 1.0], 20.0)
    """
    runs = {batch_size_of(path): read_run(path) for path in folder.glob("validation-*.csv")}
    sizes = sorted(runs)
    columns = ("progress", "grad_sqr", "grad_var")
    table = np.array([[*zip(*(runs[size][key] for key in columns), strict=True)] for size in sizes])
    ends = table[:, :, 0].min(axis=0)
    gradient = {
        "batch_sizes": sizes,
        "progress": (ends / ends[-1]).tolist(),
        "square": table[:, :, 1].tolist(),
        "variance": table[:, :, 2].tolist(),
    }
    return gradient, float(ends[-1])


def relative_errors(predicted: Floats, measured: Floats) -> dict[str, float]:
    """Return the median, 90th percentile and maximum of abs(predicted / measured - 1).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.applications import relative_errors
    >>> errors = relative_errors(np.array([1.0, 2.2, 4.0]), np.array([1.0, 2.0, 5.0]))
    >>> round(errors["median"], 3), round(errors["maximum"], 3)
    (0.1, 0.2)
    """
    error = np.abs(predicted / measured - 1.0)
    return {
        "median": float(np.median(error)),
        "percentile_90": float(np.percentile(error, 90)),
        "maximum": float(error.max()),
    }
