"""Pages: a study's findings as Markdown and CSV."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.causes import stored_causes
from chronoscale.harness.study.findings import ASIDE, Findings
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


def readable(findings: Findings) -> pd.DataFrame:
    """Return a study's rows for its page: each range in words, such as '1.2 to 3.4 (mean 2)', and before a row's reason what runs show of
    it; rows without ranges stay as they are."""
    rows = explained(findings)
    if "published_low" not in rows:
        return rows

    def shown(row: Mapping[Hashable, Any], whose: str) -> str:
        ends = [float(row[f"{whose}_{end}"]) for end in ("low", "mean", "high")]
        single = float(row.get(whose, float("nan")))  # of a row of single numbers
        return _between(single, single, single) if single == single else _between(*ends)

    return pd.DataFrame(
        {
            "what": rows["what"],
            **{whose: [shown(row, whose) for row in rows.to_dict("records")] for whose in ("published", "ours")},
            "ratio": [MISSING if value != value else number(value, 3) for value in rows["ratio"]],
            "why they differ": rows["why"],
        }
    )


def explained(findings: Findings) -> pd.DataFrame:
    """Return a study's rows with why a row is not scored, and what counterfactual runs show of it, before its reason."""
    rows, causes = findings.rows, {cause.what: cause for cause in stored_causes(findings)}
    if ASIDE not in rows and not causes:
        return rows
    reasons = []
    for row in rows.to_dict("records"):
        aside = f"not scored: {row[ASIDE]}" if isinstance(row.get(ASIDE), str) and row[ASIDE] else ""
        cause = causes.get(row["what"])
        reasons.append(" | ".join(filter(None, (aside, cause.before(row["why"]) if cause else row["why"]))))
    return rows.assign(why=reasons).drop(columns=ASIDE, errors="ignore")


def markdown(study: Study, findings: Findings, heading: str = "#", made: str = "") -> str:
    """Return the page of one figure or table that `chronoscale reproduce` made: published beside ours, notes, drawings; as Markdown.

    Of a study the first note, its finding, stands before the rows. heading: '#' marks of its title. made: sentence on when and by what
    version, '' for none.
    """
    printed = study.printed
    section = f" (§{printed.section})" if printed.section else ""
    parts = [f"{heading} {study.kind.capitalize()} {study.number}: {study.title}{section}\n", f"{HOW[study.way]} {made}".strip()]
    if printed.remark:
        parts.append(f"Published: {printed.remark}")
    finding, notes = (findings.notes[:1], findings.notes[1:]) if study.kind == "study" else ((), findings.notes)
    parts += [*finding, to_markdown(readable(findings))]
    parts += [f"- {note}" for note in notes]
    parts += [f"![{one.title}]({one.name}.png)\n\n{one.caption}" for one in findings.drawings]
    text = ""
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        text += part.rstrip("\n") + ("\n" if part.startswith("- ") and following.startswith("- ") else "\n\n")
    return text


def write(study: Study, findings: Findings, folder: Path) -> Path:
    """Write the page of one figure or table, `<kind>-<number>.md`, and its rows as CSV, for `chronoscale reproduce`.

    Returns the page's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{study.file_name}.csv", to_csv(findings.rows))
    page = folder / f"{study.file_name}.md"
    write_text(page, markdown(study, findings))
    return page
