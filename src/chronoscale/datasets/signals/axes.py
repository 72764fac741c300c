"""Axes of an array of readings: whether the first is time, as readers take it to be, by what in the file speaks against it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError

Readings = TypeVar("Readings", bound=NDArray[Any])
SENSORS_FIRST = "sensors,time"
Axes = Annotated[
    Literal["time,sensors", "sensors,time"] | None, "order of the readings' axes; without it time is first, where nothing speaks against it"
]
SMOOTHER, SMOOTHER_TALL = 1.5, 4.0  # so many times, where steps are fewer than sensors, and where they are not
SAMPLE = 1024  # steps and sensors that are looked at
FEWEST = 10  # steps and sensors, below which smoothness says nothing


def time_first(values: Readings, axes: str | None, at_least: int = 0, exactly: int | None = None) -> Readings:
    """Return readings [T, N] or [T, N, C], of an array whose first two axes are `axes`; None: time and then sensors, unless this is
    implausible, which is asked about.

    exactly: nodes of the graph, as the size of its matrix; None: unknown. at_least: nodes that its edges name. Raises UserError where the
    graph has as many nodes as the first axis and not as the second, and where the graph does not tell and the second axis is the smoother
    one (`swapped_reason`): with the option that reads the array the other way, and the one that says that this is meant.
    """
    if axes == SENSORS_FIRST:
        return np.ascontiguousarray(np.swapaxes(values, 0, 1))  # type: ignore[return-value]
    if axes is None and (reason := swapped_reason(values, at_least, exactly)):
        raise UserError(
            f"readings {list(values.shape)} look like [sensors, time], where [time, sensors] is expected: {reason}; the option "
            "axes=sensors,time reads them so, axes=time,sensors as they are"
        )
    return values


def swapped_reason(values: NDArray[Any], at_least: int = 0, exactly: int | None = None) -> str:
    """Return why the axes of readings [T, N] or [T, N, C] look swapped, in words; '' where they do not.

    The graph decides where it can, by having as many nodes as one axis (`exactly` or `at_least` as for `time_first`). Else smoothness does:
    von Neumann's ratio, the mean square of successive differences over twice the variance about the series' mean (0: smooth, 1: in no
    order), is small along time and about 1 along sensors in any order. Axes look swapped where the ratio along the first axis is SMOOTHER
    times that along the second and steps are fewer than sensors, or edges name more nodes than there are sensors, or SMOOTHER_TALL times.
    Channel 0, at most SAMPLE steps and sensors; not below FEWEST of either.
    """
    steps, sensors = values.shape[:2]
    nodes = exactly if exactly is not None else at_least if at_least in (steps, sensors) else None
    if nodes is not None and steps != sensors:
        return f"the graph has {nodes:,} nodes" if nodes == steps else ""
    sample = values[:SAMPLE, :SAMPLE]
    sample = (sample[:, :, 0] if sample.ndim == 3 else sample).astype(np.float64)
    if min(sample.shape) < FEWEST:
        return ""
    along_time, along_sensors = (_von_neumann_ratio(sample, axis) for axis in (0, 1))
    factor = SMOOTHER if steps < sensors or at_least > sensors else SMOOTHER_TALL
    if not along_time >= factor * along_sensors:
        return ""
    few = f"fewer steps ({steps:,}) than sensors ({sensors:,}), and " if steps < sensors else ""
    ratios = f"{along_sensors:.2g} of their variance) than from step to step ({along_time:.2g})"
    return f"{few}readings change less from sensor to sensor ({ratios}"


def _von_neumann_ratio(values: NDArray[np.float64], axis: int) -> float:
    """Return the mean square of successive differences along an axis over twice the variance about the mean along it; NaN where nothing
    varies. Readings that are not finite are left out."""
    known = np.where(np.isfinite(values), values, np.nan)
    differences = np.square(np.diff(known, axis=axis))
    counted = np.isfinite(known)
    mean = np.where(counted, known, 0).sum(axis, keepdims=True) / np.maximum(counted.sum(axis, keepdims=True), 1)
    apart = np.square(np.where(counted, known - mean, np.nan))
    if not np.isfinite(differences).any() or not np.nansum(apart):
        return float("nan")
    return float(np.nanmean(differences) / 2 / np.nanmean(apart))
