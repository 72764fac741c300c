"""Formats: a table as CSV (every digit), Markdown and LaTeX (four digits), HTML (for reading)."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

MISSING, INFINITE = "–", "∞"


def number(value: float, digits: int = 4) -> str:
    """`digits` significant digits without an exponent where that is short; '–' for NaN, '∞' for infinity."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return INFINITE if value > 0 else f"-{INFINITE}"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return (
        f"{value:.{digits - 1}e}" if not -5 <= exponent < 9 else f"{round(value, digits - 1 - exponent):.{max(digits - 1 - exponent, 0)}f}"
    )


def _finite(show: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: show(value) if math.isfinite(value) else number(value)


def size(value: float) -> str:
    """Bytes in decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{number(value, 3)} {unit}"


def around(value: float, spread: float = 0.0) -> str:
    """`value`, three significant digits, and ± `spread` to the same decimals (to one digit where it is smaller); '' for no spread."""
    shown = number(value, 3)
    if not spread or not math.isfinite(spread):
        return shown
    decimals = len(shown.partition(".")[2])
    return f"{shown} ± {number(spread, 1) if round(spread, decimals) == 0 else f'{spread:.{decimals}f}'}"


def seconds(value: float, spread: float = 0.0) -> str:
    """Seconds and their spread, three significant digits, in s, ms or µs."""
    scale, unit = next(((s, u) for s, u in ((1, "s"), (1e3, "ms")) if not 0 < abs(value) * s < 1), (1e6, "µs"))
    return f"{around(value * scale, spread * scale)} {unit}"


_PERCENT = _finite(lambda value: f"{100 * value:.1f} %")
_TIMES = _finite(lambda value: f"{value:.2f}×")
_SHORT = _finite(lambda value: number(value, 3))
_SIGNED = _finite(lambda value: f"{value:+.1f} %".replace("-", "−"))

# Column -> what a reader sees: heading and cell.
READING: Mapping[str, tuple[str, Callable[[float], str]]] = {
    column: (heading, show)
    for show, headings in (
        (number, {"epoch_s": "epoch,\u00a0s", "predicted_ms": "predicted, ms", "measured_ms": "measured, ms"}),
        (_finite(lambda value: number(value, 2)), {"spread_s": "±,\u00a0s"}),
        (lambda value: f"{value:.0f}", {"repeats": "repeats"}),
        (_TIMES, {"speedup": "speed\u2011up", "speedup_spread": "±", "imbalance": "imbalance"}),
        (_PERCENT, {"parallel_efficiency": "parallel efficiency", "gap": "gap to bound", "utilisation": "utilisation"}),
        (size, {"h2d_bytes": "host to device"}),
        (_SHORT, {"collective_s": "collectives,\u00a0s"}),
        (str, {"sources": "durations"}),
        (_SIGNED, {"error_pct": "error"}),
        (_finite(lambda value: f"{value:.1f} %"), {"spread_pct": "spread"}),
    )
    for column, heading in headings.items()
}


def _plain(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def to_csv(table: pd.DataFrame) -> str:
    """Full precision; NaN is an empty cell, infinity 'inf'."""
    return table.to_csv(index=False, lineterminator="\n")


def to_markdown(table: pd.DataFrame) -> str:
    """A pipe table; numbers to the right."""
    numeric = [pd.api.types.is_numeric_dtype(table[name]) for name in table.columns]
    rows = [[_plain(cell).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in row] for row in _rows(table)]
    rules = ["---:" if right else "---" for right in numeric]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [[str(name) for name in table.columns], rules, *rows])


LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", INFINITE: r"$\infty$", MISSING: "--"}
)


def to_latex(table: pd.DataFrame) -> str:
    """A booktabs tabular."""
    columns = "".join("r" if pd.api.types.is_numeric_dtype(table[name]) else "l" for name in table.columns)
    head, *body = [" & ".join(_plain(cell).translate(LATEX) for cell in row) + r" \\" for row in [list(table.columns), *_rows(table)]]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


def to_html(table: pd.DataFrame) -> str:
    """A `<table>` with the headings and units of `READING`; escaped. `kind` becomes a label; a rule parts what is not compared."""
    head, shown = [], []
    parts = list(zip(*(table[name].tolist() for name in ("ranks", "strategy" if "op" in table else "kind") if name in table), strict=True))
    rules = [' class="new"' if parts and i and parts[i] != parts[i - 1] else "" for i in range(len(table))]
    for name in table.columns:
        numeric = pd.api.types.is_numeric_dtype(table[name])
        heading, show = READING.get(str(name), (str(name).lower(), _SHORT if pd.api.types.is_float_dtype(table[name]) else str))
        side = ' class="n"' if numeric else ""
        head.append(f"<th{side}>{html.escape(heading)}</th>")
        cells = [html.escape(show(value)) for value in table[name].tolist()]
        if name == "kind":
            cells = [f'<span class="kind">{cell}</span>' for cell in cells]
        shown.append([f"<td{side}>{cell}</td>" for cell in cells])
    body = "".join(f"<tr{rule}>{''.join(row)}</tr>\n" for rule, *row in zip(rules, *shown, strict=True))
    return f'<div class="scroll"><table><thead><tr>{"".join(head)}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _rows(table: pd.DataFrame) -> Sequence[Sequence[object]]:
    return [list(row) for row in zip(*(table[name].tolist() for name in table.columns), strict=True)]
