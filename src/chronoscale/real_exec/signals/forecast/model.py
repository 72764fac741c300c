"""Forecasters by their shape: a module with parameters from a seed, on a graph."""

from __future__ import annotations

import torch

from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.errors import unknown
from chronoscale.real_exec.signals.forecast.a3t import AttentionForecaster, PeriodForecaster
from chronoscale.real_exec.signals.forecast.dcrnn import DiffusionForecaster
from chronoscale.real_exec.signals.forecast.forecaster import Forecaster
from chronoscale.real_exec.signals.forecast.graph_wavenet import WaveNetForecaster
from chronoscale.real_exec.signals.forecast.stid import IdentityForecaster
from chronoscale.real_exec.signals.forecast.transformer import TransformerForecaster
from chronoscale.real_exec.signals.forecast.walks import Walks
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.workload import ModelShape

__all__ = ["Forecaster", "forecaster"]


def forecaster(
    shape: ModelShape, edge_index: Int32, edge_weight: Float32 | None, nodes: int, window: int, horizon: int, seed: int
) -> Forecaster:
    """Build the forecasting model of `shape` (`dcrnn`, `a3t-gcn`, …), untrained, on a static graph.

    Parameters depend only on the shape and the seed.

    edge_index [2, E] with weights [E] (None: 1). window, horizon: steps read and predicted. A shape that is `published` has
    another model, as the module of each model says. Raises UserError for unknown names and edges that leave the graph.
    """
    if shape.name not in FORECASTERS:
        raise unknown("forecaster", shape.name, FORECASTERS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if shape.name == "a3t-gcn" and shape.published:
            return PeriodForecaster(shape, edge_index, edge_weight, nodes, window, horizon)
        if shape.name == "a3t-gcn":
            return AttentionForecaster(shape, edge_index, edge_weight, nodes, horizon)
        if shape.name == "st-transformer":
            return TransformerForecaster(shape, nodes, window, horizon)
        if shape.name == "stid":
            return IdentityForecaster(shape, nodes, window, horizon)
        if shape.name == "graph-wavenet":
            walks = Walks(edge_index, edge_weight, nodes, shape.hops, transposed=shape.published)
            return WaveNetForecaster(shape, walks, window, horizon)
        return DiffusionForecaster(shape, Walks(edge_index, edge_weight, nodes, shape.hops, shape.published), window, horizon)
