"""Pages: a study's findings as a folder of Markdown, CSV, SVG and PNG."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.findings import Findings
from chronoscale.reports.numbers import MISSING, number
from chronoscale.reports.table_formats import to_csv, to_markdown

HOW = {
    "executed": "Executed on this machine.",
    "simulated": "Simulated; no multi-GPU machine has confirmed the figures.",
    "counted": "Counted, nothing is timed.",
    "modelled": "Counted on real batches; seconds and hit rates are of models, whose rates and sizes the notes state.",
}


def _between(low: float, mean: float, high: float) -> str:
    """'low to high (mean)', as far as known."""
    if low != low and high != high:
        return number(mean, 3)
    if low == high:
        return number(low, 3)
    if low != low:
        return f"at most {number(high, 3)}"
    if high != high:
        return f"at least {number(low, 3)}"
    return f"{number(low, 3)} to {number(high, 3)}" + ("" if mean != mean else f" (mean {number(mean, 3)})")


def readable(rows: pd.DataFrame) -> pd.DataFrame:
    """Published and ours in words; frames without these columns as they are."""
    if "published_low" not in rows:
        return rows
    ends = ("low", "mean", "high")
    return pd.DataFrame(
        {
            "what": rows["what"],
            **{w: [_between(*(float(r[f"{w}_{end}"]) for end in ends)) for r in rows.to_dict("records")] for w in ("published", "ours")},
            "ratio": [MISSING if value != value else number(value, 3) for value in rows["ratio"]],
            "why they differ": rows["why"],
        }
    )


def markdown(study: Study, found: Findings, heading: str = "#") -> str:
    """One page: how it was made, published beside ours, notes, drawings, details."""
    printed = study.printed
    parts = [f"{heading} {study.kind.capitalize()} {study.number}: {study.title} (§{printed.section})\n", HOW[study.way]]
    if printed.remark:
        parts.append(f"Published: {printed.remark}")
    parts.append(to_markdown(readable(found.rows)))
    parts += [f"- {note}" for note in found.notes]
    parts += [f"![{one.title}]({one.name}.png)\n\n{one.caption}" for one in found.drawings]
    text = ""
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        text += part.rstrip("\n") + ("\n" if part.startswith("- ") and following.startswith("- ") else "\n\n")
    return text


def write(study: Study, found: Findings, out: Path) -> Path:
    """`<name>.md`, `<name>.csv`, a CSV a detail table, an SVG and a PNG a drawing. Returns the Markdown page."""
    out.mkdir(parents=True, exist_ok=True)
    for drawing in found.drawings:
        write_text(out / f"{drawing.name}.svg", drawing.svg)
        (out / f"{drawing.name}.png").write_bytes(drawing.png)
    write_text(out / f"{study.name}.csv", to_csv(found.rows))
    for name, table in found.tables.items():
        write_text(out / f"{study.name}-{name}.csv", to_csv(table))
    page = out / f"{study.name}.md"
    write_text(page, markdown(study, found))
    return page
