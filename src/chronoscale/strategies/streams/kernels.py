"""Kernels of schedules on events."""

from __future__ import annotations

from chronoscale.strategies.kernels import SINGLE, Kernels
from chronoscale.strategies.streams.shapes import shape_of
from chronoscale.strategies.workload import Workload


def kernels_of(workload: Workload, ranks: int) -> Kernels:
    """Of epochs. Raises UserError for a model that was not counted."""
    shape, evaluation = shape_of(workload), workload.hyper.events.evaluation
    sizes = {
        "layers": shape.layers,
        "steps": 0,
        "above": max(shape.layers - 1, 0),
        "windows": shape.windows,
        "features": int(shape.features > 0),
        "edges": int(shape.edge > 0),
        "spread": int(ranks > 1),
    }
    return SINGLE
