"""Kinds of sensor graphs by name: the recipes that `graph: {kind: …}` of an experiment names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from chronoscale.datasets.signals.graphs.correlation import CorrelationGraph
from chronoscale.datasets.signals.graphs.distance import DistanceGraph
from chronoscale.datasets.signals.graphs.edge_file import FileGraph
from chronoscale.datasets.signals.graphs.empty import EmptyGraph
from chronoscale.datasets.signals.graphs.grid import GridGraph
from chronoscale.datasets.signals.graphs.nearest import NearestGraph

GraphRecipe = DistanceGraph | NearestGraph | CorrelationGraph | GridGraph | FileGraph | EmptyGraph
GraphKind = Literal["distance", "knn", "correlation", "grid", "file", "none"]
GRAPHS: Mapping[GraphKind, type[GraphRecipe]] = {
    "distance": DistanceGraph,
    "knn": NearestGraph,
    "correlation": CorrelationGraph,
    "grid": GridGraph,
    "file": FileGraph,
    "none": EmptyGraph,
}  # what each reads are its fields
