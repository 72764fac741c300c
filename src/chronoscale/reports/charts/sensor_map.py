"""Sensor maps: the graph of a signal's sensors, where they stand or as a matrix, beside how many neighbours they have."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from chronoscale.datasets.signals.graphs.graph_counts import GraphCounts
from chronoscale.datasets.signals.graphs.positions import Positions
from chronoscale.datasets.signals.signal import Signal
from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import COLOURS, MUTED

EDGE, NODE, ISOLATED = COLOURS[1], COLOURS[0], COLOURS[2]
MOST_SQUARES = 400  # sensors whose matrix is drawn entry by entry; of more, dots


def sensor_map(name: str, signal: Signal, counts: GraphCounts, places: Positions | None) -> Drawing:
    """Draw the graph of a signal's sensors: on the left its edges between the sensors' `places`, darker where they weigh more, or, where
    these are unknown (None), its matrix with connected sensors side by side; on the right how many sensors have how many neighbours.

    name: of its file. counts: of the signal's graph.
    """
    kind = "Edges between sensors where they stand" if places is not None else "Edges as a matrix, connected sensors side by side"
    caption = (
        f"{kind}; and how many neighbours sensors have. {counts.edges:,} edges, {counts.mean_degree:.1f} neighbours a sensor, "
        f"{len(counts.isolated):,} of {signal.num_nodes:,} sensors without one, {counts.components:,} components."
    )

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        if places is None:
            _paint_matrix(left, signal)
        else:
            _paint_places(left, signal, counts, places)
        _paint_degrees(right, counts)

    return draw(name, f"Graph of {signal.name or 'the sensors'}", caption, (10, 5.2), paint)


def _paint_places(axes: Axes, signal: Signal, counts: GraphCounts, places: Positions) -> None:
    points = places.points[:, ::-1] if places.geographic else places.points  # longitude is to the right
    src, dst = signal.edge_index
    weight = np.ones(src.size) if signal.edge_weight is None else signal.edge_weight.astype(np.float64)
    strength = 0.15 + 0.6 * weight / max(float(weight.max(initial=0)), 1e-300)
    lines = np.stack([points[src], points[dst]], 1)
    axes.add_collection(LineCollection(lines, colors=EDGE, alpha=strength, linewidths=0.7))  # type: ignore[arg-type]
    alone = np.zeros(signal.num_nodes, np.bool_)
    alone[counts.isolated] = True
    for chosen, colour, label in ((~alone, NODE, "sensor"), (alone, ISOLATED, "sensor without a neighbour")):
        if chosen.any():
            axes.plot(*points[chosen].T, "o", color=colour, markersize=3, linestyle="none", label=label)
    if alone.any():
        axes.legend(loc="best")
    if places.geographic:
        axes.set_aspect(1 / max(np.cos(np.radians(float(places.points[:, 0].mean()))), 0.05))
        axes.set(xlabel="longitude", ylabel="latitude")
    else:
        axes.set_aspect("equal")
        axes.set(xlabel="x", ylabel="y")
    axes.set_title(f"{counts.edges:,} edges")


def _paint_matrix(axes: Axes, signal: Signal) -> None:
    from scipy.sparse import coo_array  # noqa: PLC0415 (heavy, and other charts need none of it)
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # noqa: PLC0415

    src, dst = signal.edge_index.astype(np.int64)
    matrix = coo_array((np.ones(src.size), (src, dst)), (signal.num_nodes,) * 2).tocsr()
    place = np.empty(signal.num_nodes, np.int64)
    place[reverse_cuthill_mckee(matrix + matrix.T, symmetric_mode=True)] = np.arange(signal.num_nodes)
    size = max(240 / max(signal.num_nodes, 1), 0.6)
    axes.plot(place[dst], place[src], "s" if signal.num_nodes <= MOST_SQUARES else ",", color=EDGE, markersize=size, linestyle="none")
    axes.set(xlabel="to", ylabel="from", xlim=(-0.5, signal.num_nodes - 0.5), ylim=(signal.num_nodes - 0.5, -0.5))
    axes.set_aspect("equal")
    axes.set_title(f"{src.size:,} edges, sensors in an order of their own")


def _paint_degrees(axes: Axes, counts: GraphCounts) -> None:
    most = int(counts.neighbours.max(initial=0))
    bins = np.arange(most + 2) - 0.5 if most <= 60 else 30
    axes.hist(counts.neighbours, bins=bins, color=EDGE)  # type: ignore[arg-type]
    axes.axvline(counts.mean_degree, color=MUTED, linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="neighbours", ylabel="sensors")
    axes.set_title(f"mean {counts.mean_degree:.1f}, {len(counts.isolated):,} without one")
