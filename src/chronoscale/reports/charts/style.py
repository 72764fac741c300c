"""Style of all figures: a strategy keeps its colour and marker, an operation its colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chronoscale.strategies.schedule import Op

# The baseline is grey; then Okabe and Ito (2008), distinct under colour-blindness; markers tell them apart in greyscale.
COLOURS = ("#5a5a5a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fa3")
MARKERS = "osD^vP*Xdp"

# Families share a hue: host violet, transfers blue, sparse green, dense yellow, backward red, memory pink, collectives grey.
OPS: Mapping[Op, str] = {
    Op.SAMPLE: "#d3cde6",
    Op.GATHER: "#b0a6d1",
    Op.FETCH: "#8b7fb5",
    Op.H2D: "#56b4e9",
    Op.D2H: "#1f6fa8",
    Op.COPY: "#a8d5f2",
    Op.AGGREGATE: "#009e73",
    Op.INCREMENT: "#7fd0b4",
    Op.RECONSTRUCT: "#00553e",
    Op.TRANSFORM: "#e69f00",
    Op.TEMPORAL: "#f4e27a",
    Op.FORWARD: "#f2c46d",
    Op.COMPUTE: "#c9a227",
    Op.GRAPH: "#b8860b",
    Op.BACKWARD: "#d55e00",
    Op.OPTIMIZE: "#7d3500",
    Op.MEMORY_READ: "#ebc6da",
    Op.MEMORY_UPDATE: "#cc79a7",
    Op.MEMORY_WRITE: "#96406c",
    Op.REMAP: "#5a2640",
    Op.MATERIALISE: "#2f7d66",
    Op.ALLREDUCE: "#2b2b2b",
    Op.ALLGATHER: "#555555",
    Op.ALLTOALL: "#7d7d7d",
    Op.SEND: "#a0a0a0",
    Op.RECV: "#c2c2c2",
}

INK, MUTED, RULE = "#1c2128", "#667080", "#e3e7ec"

RC: Mapping[str, object] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a '$' in a name is a '$'
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "chronoscale",
}


@dataclass(frozen=True, slots=True)
class Look:
    """Colour and marker of one strategy in a report's charts."""

    colour: str
    marker: str


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Return the colour and marker of each strategy (or label) in a report's charts, by the order of `names`.

    Colours repeat after eight names, pairs after forty.
    """
    return {name: Look(COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}


def dash(kind: str) -> Literal["-"] | tuple[float, tuple[float, float]]:
    """Return the line style of a report's curves: executed ones are solid, simulated ones dashed.

    kind: 'executed' or 'simulated'.
    """
    return "-" if kind == "executed" else (0, (5, 2))


def ink_on(colour: str) -> str:
    """Return the colour of text on a bar of a report's chart: black or white, whichever reads on `colour` ('#rrggbb')."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"
