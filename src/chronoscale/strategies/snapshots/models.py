"""Models on snapshots by name: what they are made of and how large they are; their code is `real_exec.snapshots.model`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chronoscale.errors import unknown
from chronoscale.strategies.workload import GATES, ModelShape


class ModelParts(NamedTuple):
    """What a model on snapshots consists of, in the table of models that planners read: `spatial` gcn or gat, `temporal` lstm or gru.

    evolves: the recurrence evolves the weights (EvolveGCN); summarises: from the highest-scored nodes (-H). recurs_last: only the last
    layer has a recurrence; depth: cells stacked in it. source: its paper.
    """

    spatial: str
    temporal: str
    evolves: bool = False
    summarises: bool = False
    source: str = ""
    recurs_last: bool = False
    depth: int = 1


Kind = ModelParts  # the name that labs imported before

MODELS: Mapping[str, ModelParts] = {
    "wd-gcn": ModelParts("gcn", "lstm", source="Manessi, Rozza, Manzo; Pattern Recognition 2020"),
    "t-gcn": ModelParts("gcn", "gru", source="Zhao et al.; IEEE T-ITS 2020"),
    "gat-lstm": ModelParts("gat", "lstm", source="REAL §2.1; attention of Velickovic et al., ICLR 2018, one head"),
    "evolvegcn-o": ModelParts("gcn", "lstm", evolves=True, source="Pareja et al.; AAAI 2020, version -O"),
    "evolvegcn-h": ModelParts("gcn", "gru", evolves=True, summarises=True, source="Pareja et al.; AAAI 2020, version -H"),
    "mpnn-lstm": ModelParts("gcn", "lstm", source="Panagopoulos, Nikolentzos, Vazirgiannis; AAAI 2021", recurs_last=True, depth=2),
}


def model_shape(name: str, inputs: int, hidden: int = 64, layers: int = 1, outputs: int = 1) -> ModelShape:
    """Return the sizes of a model on snapshots for planning, parameters counted. name: as in experiments ("wd-gcn" ...); inputs, hidden,
    outputs: values a node. Raises UserError for an unknown model (with the nearest) or widths below 1."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    kind = MODELS[name]
    count = hidden * outputs + outputs
    for layer in range(layers):
        width = inputs if layer == 0 else hidden
        cell = width if kind.evolves else hidden
        cells = kind.depth if layer + 1 == layers or not kind.recurs_last else 0
        count += width * hidden + cells * GATES[kind.temporal] * (2 * cell * cell + 2 * cell)
        count += width * kind.summarises + (0 if kind.evolves else hidden) + 2 * hidden * (kind.spatial == "gat")
    return ModelShape(
        name,
        kind.spatial,
        kind.temporal,
        layers,
        inputs,
        hidden,
        outputs,
        count,
        evolves_weights=kind.evolves,
        transforms_first=kind.spatial == "gat",
        summarises=kind.summarises,
        recurs_last=kind.recurs_last,
        depth=kind.depth,
    )
