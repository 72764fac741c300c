"""Results: what a study found, as a file with what it was made on and how long that took."""

from __future__ import annotations

import json
import time
from datetime import date
from pathlib import Path

import torch

from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.findings import Findings, Told
from chronoscale.harness.study.study_file import StudyFile
from chronoscale.harness.study.study_run import run
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.reports.published import Printed
from chronoscale.reports.table_formats import to_csv


def timed_run(
    study: StudyFile, name: str, printed: Printed | None, out: Path, on_progress: Told, quick: bool, workers: int
) -> tuple[Findings, Path]:
    """Run a study, write `<out>/<paper>/<name>.json`, tables and drawings, and return its findings and that path.

    Points are kept in `<name>.points` beside it, each as a file named by its content; minutes are of this run alone.
    """
    folder = out / study.paper if study.paper else out
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    findings = run(study, name, printed, on_progress, quick, workers, folder / f"{name}.points")
    minutes = (time.perf_counter() - begin) / 60
    made = {"made": date.today().isoformat(), "minutes": round(minutes, 2), "quick": quick, "way": study.way}
    rows = {"rows": _records(findings), "tables": sorted(findings.tables), "notes": list(findings.notes)}
    drawn = {"drawings": [one.name for one in findings.drawings]}
    path = folder / f"{name}.json"
    text = {"study": name, "paper": study.paper, **made, "environment": fingerprint(torch.device("cpu")), **rows, **drawn}
    for table, frame in findings.tables.items():
        write_text(folder / f"{name}-{table}.csv", to_csv(frame))
    for drawing in findings.drawings:
        write_text(folder / f"{drawing.name}.svg", drawing.svg)
        (folder / f"{drawing.name}.png").write_bytes(drawing.png)
    write_text(path, json.dumps(text, indent=1, ensure_ascii=False) + "\n")
    return findings, path


def _records(findings: Findings) -> list[dict[str, object]]:
    """Rows as JSON has them: null for what is not finite, numbers as they are."""
    records: list[dict[str, object]] = json.loads(findings.rows.to_json(orient="records", double_precision=15))
    return records
