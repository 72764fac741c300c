"""Drawing: a finished figure, as SVG text and PNG bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO, StringIO

import matplotlib
from matplotlib.figure import Figure

from chronoscale.reports.charts.style import RC

FONTS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
DPI = 160


@dataclass(frozen=True, slots=True)
class Drawing:
    """Finished figure of a report or study, as SVG and PNG with a title and a caption.

    name: of its file; caption: one paragraph that can be understood without the text around it; svg: without an XML head.
    """

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


def draw(name: str, title: str, caption: str, inches: tuple[float, float], paint: Callable[[Figure], None]) -> Drawing:
    """Make a finished figure of a report or study: `paint` fills an empty matplotlib figure of this size.

    name: of its file. The same input gives the same bytes.
    """
    with matplotlib.rc_context(dict(RC)):  # type: ignore[arg-type]
        figure = Figure(figsize=inches, layout="constrained")
        paint(figure)
        text, picture = StringIO(), BytesIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        figure.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
    return Drawing(name, title, caption, _standalone(text.getvalue(), name), picture.getvalue())


def _standalone(svg: str, name: str) -> str:
    """Return the SVG with ids that stay unique when several figures share a page, the reader's own font, and no XML head."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    return re.sub(r"'DejaVu Sans'(, [\w' -]+)*", FONTS, svg)
