"""Results: what a study found, as a JSON file with what it was made on, when, and how long that took."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import isnan
from pathlib import Path

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.findings import CAUSES, Findings
from chronoscale.harness.study.study_file import Way
from chronoscale.reports.table_formats import to_csv

CONCLUSIONS = "conclusions"  # a table of them (`study.conclusions.conclusion_table`)
KEPT = (CONCLUSIONS, CAUSES)  # tables that are stored with the rows


@dataclass(frozen=True, slots=True, eq=False)
class StoredResult:
    """Result of a study as read from its JSON file, for the page that `chronoscale reproduce --into` makes.

    way: 'executed', 'simulated', 'counted' or 'modelled'. made: ISO date. minutes: of the run that wrote it, and of the points that earlier
    ones had left. environment (device, versions, commit): of the run that wrote it. resumed: how many points earlier runs had left;
    untimed: of how many of them the time is not known, nor among the minutes. quick: whether only a subset of points ran. made_of: digests
    of its files, code and data (`origin.Origin`), by name; empty in results of before these were recorded.
    """

    study: str
    way: Way
    made: str
    minutes: float
    quick: bool
    environment: Mapping[str, str]
    findings: Findings
    resumed: int = 0
    untimed: int = 0
    made_of: Mapping[str, str] = field(default_factory=dict)


def store(
    name: str, way: Way, quick: bool, folder: Path, run: Callable[[], Findings], made_of: Mapping[str, str] | None = None
) -> Findings:
    """Run a study and write what it finds into a folder: `<name>.json`, a CSV a table, an SVG and a PNG a drawing.

    name: of the study, such as 'figure-8'. way: how its numbers are made, such as 'simulated'. quick: whether `run` evaluates only a
    subset. run: does the work; its findings are returned. made_of: digests of what it is made of, by name.
    Raises UserError where a quick result would replace a whole one.
    """
    import torch  # noqa: PLC0415 (for its version)

    from chronoscale.real_exec.measurement.environment import fingerprint  # noqa: PLC0415 (imports torch)

    path = folder / f"{name}.json"
    if quick and path.is_file() and not load_result(path).quick:
        raise UserError(f"{path}: holds the result of the whole study, which a quick one would replace; give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    findings = run()
    timed = [seconds for seconds in findings.earlier_s if not isnan(seconds)]
    resumed = len(findings.earlier_s)
    minutes = round((time.perf_counter() - begin + sum(timed)) / 60, 2)
    for table, frame in findings.tables.items():
        write_text(folder / f"{name}-{table}.csv", to_csv(frame))
    for drawing in findings.drawings:
        write_text(folder / f"{drawing.name}.svg", drawing.svg)
        (folder / f"{drawing.name}.png").write_bytes(drawing.png)
    made = {"study": name, "way": way, "made": date.today().isoformat(), "minutes": minutes, "quick": quick, "made_of": dict(made_of or {})}
    made |= {"resumed": resumed, "untimed": resumed - len(timed)}
    rows = json.loads(findings.rows.to_json(orient="records", double_precision=15))  # null for what is not finite
    text = {**made, "environment": fingerprint(torch.device("cpu")), "rows": rows, "notes": list(findings.notes)}
    for kept in KEPT:
        text[kept] = json.loads(findings.tables.get(kept, pd.DataFrame()).to_json(orient="records", double_precision=15))
    write_text(path, json.dumps(text, indent=1, ensure_ascii=False) + "\n")
    return findings


def load_result(path: Path) -> StoredResult:
    """Read a study's stored result: its rows, notes, conclusions and causes, not its other tables and drawings. Raises UserError for a file
    that is no result."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        rows = pd.DataFrame(data["rows"])
        empty = [name for name in rows if rows[name].isna().all()]
        rows = rows.astype(dict.fromkeys(empty, float))
        tables = {name: pd.DataFrame(lines) for name in KEPT if (lines := data.get(name))}
        findings = Findings(rows, notes=tuple(data["notes"]), tables=tables)
        return StoredResult(
            data["study"],
            data["way"],
            data["made"],
            data["minutes"],
            data["quick"],
            data["environment"],
            findings,
            data.get("resumed", 0),
            data.get("untimed", data.get("resumed", 0)),
            data.get("made_of", {}),
        )
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a study's result: {type(error).__name__}: {error}") from None
