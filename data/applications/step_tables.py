"""True times of passes for many placements and batch sizes at once."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.application import ProfiledApplication, StepTimes
from goodalloc.data.applications.traces import MeasuredApplication
from goodalloc.models.goodput.throughput_model import gradient_time, step_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int
    from scipy.spatial import Delaunay

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.models.support.array_types import Flags, Floats, Indices

#: Least barycentric coordinate of a point that is within one simplex alone: above the tolerances of
#: SciPy's search, also of that beside flat simplices.
LEAST_PART = 1e-6


def step_table(
    application: Application,
    spreads: Sequence[Spread],
    atomic_batch_sizes: Int[Indices, " sizes"],
) -> Float[Floats, "times spreads sizes"]:
    """Return `step_times` of placements and batch sizes, not a number where they are not known.

    Parameters
    ----------
    application
        The true application; of a class that is not known here it is asked pass by pass.
    spreads
        Placements.
    atomic_batch_sizes
        Examples per GPU and pass.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.applications import profiled_applications, step_table
    >>> application = profiled_applications()["bert"]
    >>> times = step_table(application, [(4,), (4, 4)], np.array([4, 8]))
    >>> times.shape, bool(times[0, 1, 1] == application.step_times((4, 4), 8).step)
    ((2, 2, 2), True)
    """
    if type(application) is MeasuredApplication:
        return _tables_of(application).times(spreads, atomic_batch_sizes)
    if type(application) is ProfiledApplication:
        return _profiled_times(application, spreads, atomic_batch_sizes)
    sizes = atomic_batch_sizes.tolist()
    found = [[_times(application, spread, size) for size in sizes] for spread in spreads]
    return np.moveaxis(np.array(found, dtype=float), 2, 0)


def _times(application: Application, spread: Spread, size: int) -> StepTimes:
    """Return the times of a pass, not a number if they were not measured."""
    try:
        return application.step_times(spread, size)
    except ValueError:
        return StepTimes(math.nan, math.nan)


def _profiled_times(
    application: ProfiledApplication, spreads: Sequence[Spread], sizes: Indices
) -> Floats:
    """Return the times by the fitted throughput model, for one node or several."""
    parameters = application.profile.throughput
    places = [(min(len(spread), 2), sum(spread)) for spread in spreads]
    rows = {
        place: np.asarray(step_time(parameters, *place, sizes.astype(float), 0.0))
        for place in dict.fromkeys(places)
    }
    step = np.array([rows[place] for place in places])
    return np.stack([step, step - np.asarray(gradient_time(parameters, sizes.astype(float)))])


class _MeasuredTables(MeasuredApplication):
    """The same measured application, whose times are looked up together."""

    def __init__(self, application: MeasuredApplication) -> None:
        vars(self).update(vars(application))

    def times(self, spreads: Sequence[Spread], atomic_batch_sizes: Indices) -> Floats:
        """Return measured or interpolated times; shape (times, spreads, sizes)."""
        sizes, inverse = np.unique(atomic_batch_sizes.astype(float), return_inverse=True)
        most = int(self._points.num_nodes.max())
        times = np.full((2, len(spreads), sizes.size), np.nan)
        far: dict[tuple[int, int], list[int]] = {}
        for row, spread in enumerate(spreads):
            line = self._lines.get(min(spread[i:] + spread[:i] for i in range(len(spread))))
            if line is not None:
                inside = (line[0, 0] <= sizes) & (sizes <= line[-1, 0])
                for column in (1, 2):
                    known = np.interp(sizes[inside], line[:, 0], line[:, column])
                    times[column - 1, row, inside] = known
            if np.isnan(times[0, row]).any():
                far.setdefault((min(len(spread), most), sum(spread)), []).append(row)
        points = [(*place, size) for place in far for size in sizes.tolist()]
        if points:
            found = self._far_times(np.array(points)).reshape(len(far), sizes.size, 2)
            for rows, own in zip(far.values(), found, strict=True):
                for row in rows:
                    times[:, row] = np.where(np.isnan(times[:, row]), own.T, times[:, row])
        return np.asarray(times[:, :, inverse])

    def _far_times(self, points: Float[Floats, "points 3"]) -> Float[Floats, "points times"]:
        """Return what the interpolator tells of every point if it is asked for that alone.

        Measurements are on a grid, whose triangulation has flat simplices. Where one of them is
        there, or two others meet, the answer depends on the simplex from which the search for the
        point starts: that of the last point, and for a first one simplex 0. A point within simplex
        0 before each other one lets all searches start there.
        """
        interpolator = self._triangulation()
        triangulation = interpolator.tri
        start = triangulation.points[triangulation.simplices[0]].mean(axis=0)
        if int(triangulation.find_simplex(start)) != 0:  # it is flat itself
            return np.array([interpolator(point)[0] for point in points]).reshape(-1, 2)
        found, within = np.empty((len(points), 2)), _strictly_within(triangulation, points)
        found[within] = interpolator(points[within])  # from wherever the search starts
        rest = points[~within]
        both = np.stack([np.broadcast_to(start, rest.shape), rest], axis=1).reshape(-1, 3)
        found[~within] = interpolator(both)[1::2]
        return found


def _strictly_within(
    triangulation: Delaunay, points: Float[Floats, "points 3"]
) -> Bool[Flags, " points"]:
    """Return which points are within a simplex, `LEAST_PART` away from all of its faces."""
    simplex = triangulation.find_simplex(points)
    transform = triangulation.transform[simplex]
    part = np.einsum("pij,pj->pi", transform[:, :-1], points - transform[:, -1])
    least = np.minimum(part.min(axis=1), 1.0 - part.sum(axis=1))
    return np.asarray((simplex >= 0) & (least > LEAST_PART))  # a flat one has no numbers


@lru_cache(maxsize=16)
def _tables_of(application: MeasuredApplication) -> _MeasuredTables:
    """Return the tables of an application, which keep its triangulation."""
    return _MeasuredTables(application)
