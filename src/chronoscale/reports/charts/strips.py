"""Strips: a dot a number on a logarithmic axis of ratios, as SVG for a page that sets its colours: light, dark, and as wide as it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

ENDS = 32  # times: what is farther stands at the edge
TICKS = (1 / 16, 1 / 4, 1, 4, 16)
BIN = 1.2  # per cent of the width, in which dots are stacked
MIDDLE, HALF, STEP, RADIUS = 46, 36, 6.5, 3.2  # pixels: of the dots, whose stacks reach HALF up and down
HEIGHT, LABELS = 112, 106


class Dot(NamedTuple):
    """Number of a strip: its ratio, above 0, the class that gives it a colour, and what a pointer over it shows."""

    ratio: float
    kind: str
    text: str


def strip(dots: Sequence[Dot], label: str, near: float) -> str:
    """Return the strip of these dots as inline SVG, whose colours a style sheet gives by class: `dot` and each dot's kind, `near`, `axis`.

    label: what it shows, for readers that do not see it. near: times, up to which ratios count as the same; shaded. Places are per cent of
    the width, so that it fits any page.
    """
    stacked: Counter[int] = Counter()
    places = [_place(dot.ratio) for dot in dots]
    heights = Counter(int(place / BIN) for place in places)
    circles = []
    for place, dot in sorted(zip(places, dots, strict=True), key=lambda pair: pair[0]):
        column = int(place / BIN)
        index = stacked[column]
        stacked[column] += 1
        step = min(STEP, 2 * HALF / heights[column])
        up = (index + 1) // 2 * step * (-1 if index % 2 else 1)
        title = f"<title>{escape(dot.text)}</title>"
        circles.append(f'<circle class="dot {escape(dot.kind)}" cx="{place:.1f}%" cy="{MIDDLE + up:.1f}" r="{RADIUS}">{title}</circle>')
    low, high = _place(1 / near), _place(near)
    axis = "".join(_tick(value) for value in TICKS)
    return (
        f'<svg class="strip" role="img" aria-label="{escape(label, quote=True)}" width="100%" height="{HEIGHT}">\n'
        f'<rect class="near" x="{low:.1f}%" y="0" width="{high - low:.1f}%" height="{LABELS - 14}"/>{axis}\n'
        + "\n".join(circles)
        + "\n</svg>"
    )


def _place(ratio: float) -> float:
    """Return where a ratio stands, in per cent of the width."""
    share = math.log(min(max(ratio, 1 / ENDS), ENDS)) / math.log(ENDS)
    return 50 + 48.5 * share


def _tick(value: float) -> str:
    text = f"{value:g}×" if value >= 1 else f"1/{1 / value:g}"
    at = f"{_place(value):.1f}%"
    return (
        f'<line class="axis" x1="{at}" x2="{at}" y1="0" y2="{LABELS - 14}"/><text class="axis" x="{at}" y="{LABELS}" '
        f'text-anchor="middle">{text}</text>'
    )
