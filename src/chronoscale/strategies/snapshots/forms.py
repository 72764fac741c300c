"""Forms: which snapshots are sent as difference maps (REAL's adaptive choice, §4.1.1), decided on effective changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.timer import Timer
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.workload import Workload


class Forms(NamedTuple):
    """How each snapshot is sent to the device in REAL's plans (§4.1.1), int8 [snapshots], a `Form` each: in full, as changed edges, or as
    an increment (from which the last aggregates are updated).

    tracked: the device keeps the adjacency up to date with maps of changed edges, so that a snapshot may be rebuilt; else increments are
    all that changes can be used for.
    """

    form: NDArray[np.int8]
    tracked: bool


Load = Callable[[Timer, Forms], None]  # adds the rows that bring every snapshot in and through its first layer


def uniform_forms(snapshots: int, form: Form = Form.FULL, tracked: bool = False) -> Forms:
    """Return one way of sending for all snapshots of a REAL plan but the first, which is sent in full, as it has no predecessor.

    snapshots: how many. form: in full, as changed edges, or as an increment. tracked: the device keeps the adjacency up to date.
    """
    forms = np.full(snapshots, form, np.int8)
    forms[:1] = Form.FULL
    return Forms(forms, tracked)


def must_track(workload: Workload) -> bool:
    """Return whether REAL's plans always send changes with maps of changed edges, since the device needs the whole adjacency: for upper
    layers, for attention, and for features that differ from snapshot to snapshot."""
    return workload.model.layers > 1 or workload.model.spatial == "gat" or task_of(workload.hyper.task).varies


def choose_forms(workload: Workload, costs: CostModel, load: Load) -> Forms:
    """Choose for each snapshot the cheapest way to send it, in full or as changes, by estimated time (REAL's adaptive choice, §4.1.1):
    summed over lanes, so that what one lane hides of another is not seen.

    load: adds the rows that bring every snapshot in and through its first layer to a timer. Where nothing else needs the adjacency,
    tracking it is a choice of its own: maps are small, but an increment then needs two. REAL as published knows no maps without increments.
    Features that differ from snapshot to snapshot leave no increments: sums of other features are of no use.
    """
    varies, exact = task_of(workload.hyper.task).varies, workload.hyper.variant == "exact"
    count = len(workload.snapshots.edges)

    def spent(form: Form, tracked: bool) -> Ints:
        """Return the time of every snapshot in one form, int64 [T] ns."""
        timer = Timer(count, costs, kernels_of(workload))
        load(timer, Forms(np.full(count, form, np.int8), tracked))
        return timer.busy

    candidates = []
    for tracked in (True,) if must_track(workload) else (False, True):
        maps, increments = tracked and (exact or varies), not varies
        forms = [Form.FULL, *[Form.MAP] * maps, *[Form.DELTA] * increments]
        times = np.stack([spent(form, tracked) for form in forms])
        times[1:, 0] = np.iinfo(np.int64).max
        best = np.argmin(times, axis=0)
        candidates.append((int(times.min(0).sum()), Forms(np.array(forms, np.int8)[best], tracked)))
    return min(candidates, key=lambda pair: pair[0])[1]
