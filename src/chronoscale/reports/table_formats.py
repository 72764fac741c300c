"""Table formats: a table as CSV (every digit), Markdown and LaTeX (four digits), HTML (for reading)."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping

import pandas as pd

from chronoscale.datasets.scores import FRONTS, SCORES, score_of
from chronoscale.reports.breakdown import PARTS
from chronoscale.reports.numbers import INFINITE, MISSING, number, size

MARK = "†"
MARKED = f"{MARK} extrapolated: the costs are of other sizes, or of another device."
MarkedCells = frozenset[tuple[int, str]]  # cells that bear MARK: row from 0, column


def _finite(show: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: show(value) if math.isfinite(value) else number(value)


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
        (_SHORT, {"training_s": "training with failures,\u00a0s", "training_lost_s": "lost,\u00a0s", "failures": "failures"}),
        (_SHORT, {"training_low_s": "5\u00a0%,\u00a0s", "training_high_s": "95\u00a0%,\u00a0s"}),
        (_SHORT, {"epoch_at_from_s": "at from,\u00a0s", "epoch_at_to_s": "at to,\u00a0s"}),
        (_TIMES, {"speedup_at_from": "at from", "speedup_at_to": "at to"}),
        (_SHORT, {"epoch_low_s": "5\u00a0%,\u00a0s", "epoch_high_s": "95\u00a0%,\u00a0s"}),
        (lambda value: f"{value:.0f}", {"repeats": "repeats"}),
        (_finite(lambda value: f"{value:,.0f}"), {"steps": "steps", "targets": "targets trained"}),
        (_SHORT, {"target_us": "µs a target"}),
        (_TIMES, {"speedup": "speed\u2011up", "speedup_spread": "±", "imbalance": "imbalance"}),
        (_finite(lambda value: f"{value:.3f}×"), {"measured_ratio": "slower by, measured", "predicted_ratio": "predicted"}),
        (_PERCENT, {"pair_spread": "spread of both", "share": "of measured time", "epoch_share": "of the epoch"}),
        (_TIMES, {"speedup_low": "5\u00a0%", "speedup_high": "95\u00a0%"}),
        (_PERCENT, {part: part for part in PARTS}),
        (_PERCENT, {"parallel_efficiency": "parallel efficiency", "gap": "gap to bound", "utilisation": "utilisation"}),
        (size, {"h2d_bytes": "host to device", "peak_bytes": "GPU memory", "link_bytes": "bytes"}),
        (_PERCENT, {"mean_use": "mean use"}),
        (_SHORT, {"collective_s": "collectives,\u00a0s", "gpu_hours": "GPU\u2011hours"}),
        (
            _SHORT,
            {
                "to_target_s": "to\u00a0target,\u00a0s",
                "low_s": "5\u00a0%,\u00a0s",
                "high_s": "95\u00a0%,\u00a0s",
                "epochs_to_target": "epochs",
            },
        ),
        (_PERCENT, {"first_in": "first in"}),
        (_finite(lambda value: number(value, 4)), {"best": "best", "equal_steps": "at equal steps", "test": "test"}),
        (size, {"moved_bytes": "moved"}),
        (_PERCENT, {"behind": "behind the first", "first_ahead_in": "first ahead in"}),
        (str, {"sources": "durations"}),
        (_SIGNED, {"error_pct": "error", "task_error_pct": "error of a task"}),
        (lambda value: f"{value:,.0f}", {"tasks": "tasks", "rows": "rows", "compared": "compared"}),
        (_finite(lambda value: f"{value:+.2f}".replace("-", "−")), {"kendall_tau": "Kendall’s τ"}),
        (str, {"failed": "not compared", "rests_on": "rests on", "busiest_link": "busiest link, mean use"}),
        (_finite(lambda value: f"{value:.1f} %"), {"spread_pct": "spread"}),
    )
    for column, heading in headings.items()
} | {
    f"{front}{key}": (f"{front.replace('_', ' ')}{score.title}", score.text if score.format == "share" else _finite(number))
    for key, score in SCORES.items()
    for front in ("", *FRONTS)
}


def _plain(name: str, value: object) -> str:
    if isinstance(value, float) and (score := score_of(name)) and score.format == "share":
        return score.text(value)
    return number(value) if isinstance(value, float) else str(value)


def to_csv(table: pd.DataFrame) -> str:
    """Return a table of a report or study as CSV with full precision; NaN is an empty cell, infinity 'inf'."""
    return table.to_csv(index=False, lineterminator="\n")


def _cells(table: pd.DataFrame, show: Callable[[str, object], str], marked: MarkedCells) -> list[list[str]]:
    """Return rows of text, MARK behind the cells that are marked."""
    columns = [
        [f"{show(str(name), value)}{MARK if (row, str(name)) in marked else ''}" for row, value in enumerate(table[name].tolist())]
        for name in table.columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def to_markdown(table: pd.DataFrame, marked: MarkedCells = frozenset()) -> str:
    """Return a table of a report or study as Markdown, numbers to the right, four significant digits.

    marked: cells (row from 0, column) that get a † behind them.
    """
    numeric = [pd.api.types.is_numeric_dtype(table[name]) for name in table.columns]
    rows = [[cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in row] for row in _cells(table, _plain, marked)]
    rules = ["---:" if right else "---" for right in numeric]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [[str(name) for name in table.columns], rules, *rows])


LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {INFINITE: r"$\infty$", MISSING: "--", MARK: r"$\dagger$"}
)


def to_latex(table: pd.DataFrame, marked: MarkedCells = frozenset()) -> str:
    """Return a table of a report as a LaTeX `tabular` with booktabs rules, four significant digits.

    marked: cells (row from 0, column) that get a † behind them.
    """
    columns = "".join("r" if pd.api.types.is_numeric_dtype(table[name]) else "l" for name in table.columns)
    rows = [[str(name) for name in table.columns], *_cells(table, _plain, marked)]
    head, *body = [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in rows]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


def to_html(table: pd.DataFrame, marked: MarkedCells = frozenset()) -> str:
    """Return a table of a report's page as an escaped `<table>`, with the headings and units of `READING`.

    marked: cells (row from 0, column) that get a † behind them. A rule separates rank counts, and strategies where each has many rows.
    """
    within = [name for name in ("ranks", *(["strategy"] if "op" in table else [])) if name in table]
    parts = list(zip(*(table[name].tolist() for name in within), strict=True))
    rules = [' class="new"' if parts and i and parts[i] != parts[i - 1] else "" for i in range(len(table))]
    sides = [' class="n"' if pd.api.types.is_numeric_dtype(table[name]) else "" for name in table.columns]
    heads = [html.escape(READING[name][0] if name in READING else name.lower()) for name in map(str, table.columns)]

    def show(name: str, value: object) -> str:
        usual = _SHORT if isinstance(value, float) else str
        return html.escape(READING[name][1](value) if name in READING else usual(value))  # type: ignore[arg-type]

    head = "".join(f"<th{side}>{text}</th>" for side, text in zip(sides, heads, strict=True))
    body = "".join(
        f"<tr{rule}>{''.join(f'<td{side}>{cell}</td>' for side, cell in zip(sides, row, strict=True))}</tr>\n"
        for rule, row in zip(rules, _cells(table, show, marked), strict=True)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
