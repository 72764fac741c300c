"""Graphs of signals as users ask for them: built from keys, and drawn."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets.signals.graphs.graph_counts import GraphCounts
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError
from chronoscale.harness.keys.graphs import GraphKeys

DRAWN = (".svg", ".png")


def with_graph(signal: Signal, keys: GraphKeys, training_steps: int) -> Signal:
    """Return a signal on the graph that `dataset.graph` or `--graph` asks for, in place of its own.

    training_steps: the first steps, which alone a graph may be made of. Raises UserError for a file that does not fit.
    """
    try:
        return keys.recipe.build(signal, training_steps).attach(signal)
    except UserError as error:
        raise error if str(error).startswith("graph") else UserError(f"graph: {error}") from None


def require_signal(dataset: Dataset, option: str) -> Signal:
    """Return a dataset that has sensors, for an option of `chronoscale data` that is about them. Raises UserError for another one."""
    if not isinstance(dataset, Signal):
        raise UserError(f"{option}: for readings of sensors alone, and this dataset has none")
    return dataset


def check_picture(file: Path) -> None:
    """Raises UserError for a drawing of no known format."""
    if file.suffix not in DRAWN:
        raise UserError(f"--picture {file}: expected a name that ends in {' or '.join(DRAWN)}")


def draw_graph(signal: Signal, keys: GraphKeys | None, file: Path) -> None:
    """Draw the graph of a signal's sensors to a file, SVG or PNG: on a map where `keys`, its recipe, name a file of their places."""
    from chronoscale.reports.charts.sensor_map import sensor_map  # noqa: PLC0415 (matplotlib, which other descriptions do without)

    places = None if keys is None else keys.recipe.places(signal)
    drawing = sensor_map(file.stem, signal, GraphCounts.of(signal), places)
    try:
        file.write_bytes(drawing.png) if file.suffix == ".png" else file.write_text(drawing.svg)
    except OSError as error:
        raise UserError(f"--picture {file}: {(error.strerror or 'cannot be written').lower()}") from None
