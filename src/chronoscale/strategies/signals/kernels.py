"""Counts of kernels for schedules on a signal's windows."""

from __future__ import annotations

from chronoscale.strategies.costing.kernels import Kernels
from chronoscale.strategies.signals.forecasters import DENSE_NODES, FORECASTERS
from chronoscale.strategies.workload import Workload


def model_key(workload: Workload) -> str:
    """Return the key under which kernels of a workload's forecaster were counted: its name, whether as published, and whether its graph is
    so large that it is sparse, not a dense matrix."""
    published, sparse = workload.hyper.variant == "as-published", workload.signal.sensors > DENSE_NODES
    return workload.model.name + " as-published" * published + " sparse" * sparse


def kernels_of(workload: Workload, ranks: int) -> Kernels:
    """Return the counts of GPU kernels for planning epochs on a signal. Raises UserError for a model that was not counted."""
    model, hyper = workload.model, workload.hyper
    sizes = {
        "window": hyper.window,
        "horizon": hyper.horizon,
        "layers": model.layers,
        "above": model.layers - 1,
        "hops": model.hops,
        "steps": 0,
        "spread": int(ranks > 1),
        "inputs": model.inputs,
        "hidden": model.hidden,
        "heads": model.heads,
        "calendar": model.calendar,
        "times": model.times,
        "spans": FORECASTERS[model.name].spans(model.layers),
        "dropout": int(model.dropout > 0),
        "parameters": model.parameters,
    }
    return Kernels.of_model("windows", model_key(workload), sizes)
