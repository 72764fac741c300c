"""Chart of a comparison, and its section in a report, from the run's compare.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from chronoscale.datasets.scores import SCORES
from chronoscale.errors import UserError
from chronoscale.harness.compare.outcome import count_gpus, places
from chronoscale.harness.compare.shown import FILE
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.advice import Advice
from chronoscale.reports.charts.advice_chart import ErrorCurve, ErrorCurveChart

DRAWN = 3  # predictions without a model, as lines


def report_comparison(run: Run, name: str, subject: str) -> Advice:
    """Return a finished run of `chronoscale compare` as a section of a report, from its compare.json.

    name: of its files. subject: what is trained, and in which run, for its title. Raises UserError for a damaged file.
    """
    record = run.read(FILE, dict[str, Any])
    if "cluster" not in record:
        raise UserError(f"{run.folder / FILE}: of an earlier version; compare again")
    table = pd.DataFrame(record["strategies"])
    return Advice(
        name,
        f"Compared at equal accuracy: {subject}",
        record["verdict"],
        table,
        record["notes"],
        chart(record, name),
        "simulated" if record["cluster"] else "executed",
        "note",
    )


def chart(record: Mapping[str, Any], name: str = "compare") -> ErrorCurveChart:
    """Return the chart of a comparison's validation score against seconds. record: as `summary` returns it. name: of its file."""
    score = SCORES[record["score"]]
    points = {row["label"]: row for row in record["strategies"]}
    scales, cluster = record["ranks"], record["cluster"]
    panels: dict[str, list[ErrorCurve]] = {}
    for label, by_seed in record["curves"].items():
        row = points[label]
        panel, line = (row["strategy"], count_gpus(row["ranks"])) if len(scales) > 1 else ("", row["strategy"])
        panels.setdefault(panel, []).append(ErrorCurve(line, row["epoch_s"], list(by_seed.values())))
    seeds = f"{len(record['seeds'])} seed{'s' * (len(record['seeds']) > 1)}"
    where = f"{'' if cluster else 'executed '}{places(scales, cluster)}"
    caption = (
        f"Lines are medians over {seeds}, bands their range; {where}, each strategy at its best rate. "
        f"Dashed: the target, {score.describe(record['target'])}, {record['target_is']}."
    )
    naive = sorted(record["naive"].items(), key=lambda one: one[1], reverse=score.better == "higher")
    if len(naive) > DRAWN:
        caption += f" Dotted: the best {DRAWN} of {len(naive)} predictions without a model."
    return ErrorCurveChart(name, panels, score.title, dict(naive[:DRAWN]), record["target"], caption, is_error=score.better == "lower")
