"""Forecasters of signals by name: how large they are, and the work of their forward pass. Their code is `real_exec.signals.forecast`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from chronoscale.errors import UserError, unknown
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.signals.kinds.attention_gru import A3TGCN
from chronoscale.strategies.signals.kinds.base import DENSE_NODES, ForecasterKind, ForecasterWork, GraphOperations
from chronoscale.strategies.signals.kinds.diffusion import DCRNN, PgtDCRNN
from chronoscale.strategies.signals.kinds.graph_wavenet import GraphWaveNet
from chronoscale.strategies.signals.kinds.stid import STID
from chronoscale.strategies.signals.kinds.transformer import NodeTransformer
from chronoscale.strategies.workload import ModelChoice, ModelShape

__all__ = ["DENSE_NODES", "FORECASTERS", "forecaster_shape", "forward_bytes", "forward_flops", "saved_bytes"]

Count = TypeVar("Count", int, Ints)

KINDS = (DCRNN(), PgtDCRNN(), A3TGCN(), NodeTransformer(), STID(), GraphWaveNet())
VARIANTS = ("exact", "as-published")
FORECASTERS: Mapping[str, ForecasterKind] = {kind.name: kind for kind in KINDS}


def forecaster_shape(
    choice: ModelChoice, nodes: int, channels: int, window: int = 12, horizon: int = 12, variant: str = "exact", calendar: int = 0
) -> ModelShape:
    """Return the sizes of a forecaster of signals, for planning. channels: values of a sensor a step, of which the last `calendar` tell the
    time; window, horizon: steps read and predicted; variant: "exact" or "as-published", as `published` of the shape.

    Raises UserError for an unknown name or variant (with the nearest), for sizes that it cannot have, and where it reads a calendar that is
    not there.
    """
    name = choice.name
    if name not in FORECASTERS:
        raise unknown("forecaster", name, FORECASTERS)
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS)
    sizes = (choice.hidden, choice.layers, window, horizon, choice.hops, choice.heads, choice.times)
    if min(nodes, channels, *sizes) < 1:
        raise UserError(f"forecaster '{name}': nodes, channels, hidden, layers, window, horizon, hops, heads and times must be at least 1")
    kind = FORECASTERS[name]
    kind.check(choice, window, horizon)
    if kind.clock and not calendar:
        raise UserError(
            f"forecaster '{name}' reads the time of day, and no channel of the signal tells it: add one by dataset: {{time_of_day: STEPS A "
            "DAY}, or say by dataset: {calendar: N} that the last N channels tell the time"
        )
    shape = ModelShape(
        name,
        kind.spatial,
        kind.temporal,
        choice.layers,
        channels,
        choice.hidden,
        1,
        0,
        choice.heads if kind.attends else 1,
        hops=choice.hops if kind.diffuses else 0,
        calendar=calendar,
        times=choice.times,
        dropout=choice.dropout,
        published=variant == "as-published",
    )
    return replace(shape, parameters=kind.parameters(shape, nodes, window, horizon))


def _work(shape: ModelShape, nodes: int, edges: int, window: int, horizon: int) -> ForecasterWork:
    """Count the work of a forecaster by its name, a window."""
    return FORECASTERS[shape.name].work(shape, GraphOperations(nodes, edges, shape.hops), window, horizon)


def forward_flops(shape: ModelShape, nodes: int, edges: int, windows: Count, window: int, horizon: int) -> Count:
    """Count the floating-point operations of a forecaster's forward pass on a batch of `windows`, for plans: matrix products only.

    nodes, edges: of the sensor graph. window, horizon: steps read and predicted.
    """
    return _work(shape, nodes, edges, window, horizon).flops * windows


def forward_bytes(shape: ModelShape, nodes: int, edges: int, windows: Count, window: int, horizon: int) -> Count:
    """Count the bytes that a forecaster's forward pass on a batch of `windows` moves through device memory, were nothing cached between two
    operations, for plans.

    nodes, edges: of the sensor graph. window, horizon: steps read and predicted.
    """
    work = _work(shape, nodes, edges, window, horizon)
    return 4 * (work.moved * windows + work.fixed)


def saved_bytes(shape: ModelShape, nodes: int, edges: int, windows: Count, window: int, horizon: int) -> Count:
    """Count the bytes of activations that a forecaster's forward pass on a batch of `windows` keeps for its backward pass, for plans.

    nodes, edges: of the sensor graph. window, horizon: steps read and predicted.
    """
    work = _work(shape, nodes, edges, window, horizon)
    return 4 * (work.saved * windows + work.saved_once)
