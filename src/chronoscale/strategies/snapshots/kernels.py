"""Counts of kernels for schedules on snapshots."""

from __future__ import annotations

from chronoscale.strategies.costing.kernels import Kernels
from chronoscale.strategies.workload import ModelShape, Workload


def structure_name(model: ModelShape) -> str:
    """Return the name under which kernels of a snapshot model were counted: all that they depend on beside its sizes ("gcn-lstm",
    "gat-lstm" ...)."""
    stacked = f"-{model.depth}" * (model.depth > 1) + "-last" * model.recurs_last
    return f"{model.spatial}-{model.temporal}{stacked}{'-evolving' * model.evolves_weights}{'-summarising' * model.summarises}"


def kernels_of(workload: Workload, kind: str = "groups", ranks: int = 1) -> Kernels:
    """Return the counts of GPU kernels for planning a schedule on snapshots of this kind (as `Schedule.kind`).

    kind "shared": steps and gradient passes of groups that share rows. Raises UserError for another family, and for a model that was not
    counted.
    """
    workload.snapshots  # noqa: B018 (refuses other families)
    model, steps = workload.model, workload.hyper.group_size
    sizes = {
        "steps": steps,
        "links": steps - 1,
        "own": steps,
        "above": model.layers - 1,
        "deep": int(model.layers > 1),
        "spread": int(ranks > 1),
        "follows": 0,
        "leads": 0,
    }
    widths = {"inputs": model.inputs, "hidden": model.hidden, "outputs": model.outputs, "parameters": model.parameters}
    return Kernels.of_model(kind, structure_name(model), {**sizes, **widths})
