"""Study run: a study file's grids evaluated, and its rows, tables, notes and drawings made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.study.assumed import all_under_assumptions
from chronoscale.harness.study.causes import cause_table, causes, far_rows
from chronoscale.harness.study.charts import drawing
from chronoscale.harness.study.conclusions import Claim, answer, conclusion_chart, conclusion_table
from chronoscale.harness.study.counterfactuals import counterfactual_runs
from chronoscale.harness.study.evaluation import evaluated
from chronoscale.harness.study.expressions import Names, filled, value
from chronoscale.harness.study.findings import CAUSES, NAN, Findings, Told
from chronoscale.harness.study.origin import Origin
from chronoscale.harness.study.point import Points, Record, StudyResult
from chronoscale.harness.study.results import CONCLUSIONS, store
from chronoscale.harness.study.study_file import ClaimKeys, Note, StudyFile, Table, paper_file
from chronoscale.harness.study.study_grids import StudyGrids, names_of
from chronoscale.harness.study.study_rows import lines, place, rows_of, turns
from chronoscale.harness.study.task import Task
from chronoscale.reports.published import Printed


def run_study(
    study: StudyFile,
    name: str,
    printed: Printed | None,
    folder: Path,
    on_progress: Told,
    quick: bool = False,
    workers: int = 1,
    dask: str | None = None,
) -> Findings:
    """Run a study, write its result into `folder` and return what it found, for `chronoscale study` and `chronoscale reproduce`.

    name: of its files, such as 'figure-8'. printed: what the paper prints of it, None for a study of one's own. on_progress: gets a line
    for each point that is done. quick: a subset of the points. workers: processes. dask: address of a scheduler whose workers simulate.
    Points are kept in `<name>.points`, so that a second run goes on.
    """
    points = folder / f"{name}.points"
    made_of, explains = asdict(Origin.of(study)), printed is not None and not quick

    def make() -> Findings:
        return run(study, name, printed, on_progress, quick, workers, points, dask, explains)

    return store(name, study.way, quick, folder, make, made_of)


def run(
    study: StudyFile,
    name: str,
    printed: Printed | None,
    on_progress: Told,
    quick: bool,
    workers: int = 1,
    folder: Path | None = None,
    dask: str | None = None,
    explains: bool = False,
) -> Findings:
    """Evaluate the points of a study's grids and return its rows, tables, notes and drawings; `run_study` also writes them.

    name: of its drawings' files. printed: what the paper prints of it, None for a study of one's own. on_progress: gets a line for each
    point that is done. quick: a subset of the points. workers: processes. folder: of points that an earlier run left, None: none. dask:
    address of a scheduler whose workers simulate. explains: whether rows that are far from the printed number, if there are any, are looked
    through under one changed assumption at a time. Raises UserError for what the study file has wrong, and as `evaluated`.
    """
    names = names_of(study, quick, printed)
    grids = StudyGrids.of(study, names)
    earlier_s: list[float] = []

    def evaluate(tasks: Sequence[Task]) -> list[StudyResult]:
        results = evaluated(tasks, on_progress=on_progress, workers=workers, folder=folder, dask=dask)
        earlier_s.extend(one.seconds for one in results if one.resumed)
        return results

    results = evaluate(grids.tasks)
    try:
        names |= grids.evaluated(results)
        names["rows"] = rows = rows_of(study, names)
    except UserError as error:
        lacking = next((one.message for one in results if one.status == "refused"), "")
        raise UserError(f"{lacking}; without it {error}" if lacking else str(error)) from error
    claims: list[Claim] = []
    for i, claim in enumerate(study.conclusions):
        with place(f"conclusions[{i}]"):
            claims += _claims(claim, names)
    answered = answer(claims, folder, quick, on_progress)
    tables = {CONCLUSIONS: conclusion_table(answered)}
    if explains and far_rows(rows):
        varied = grids.tasks_of(study.varied) if study.way == "simulated" else ()  # what is counted does not depend on a machine
        assumed = all_under_assumptions(varied, on_progress, workers, folder)
        earlier_s += [one.seconds for by_point in assumed.values() for one in by_point.values() if one.resumed]
        runs = counterfactual_runs(study, printed, grids, results, rows, assumed, evaluate, on_progress)
        tables[CAUSES] = cause_table(causes(rows, runs))
    for key, table in study.tables.items():
        with place(f"tables.{key}"):
            tables[key] = _table(table, names)
    title = study.title or (printed.title if printed else name)
    title = f"{title}: {study.limit}" if study.limit else title
    drawn = [drawing(chart, name, title, names) for chart in study.drawings if value(chart.where, names)]
    if answered:
        drawn.append(conclusion_chart(answered, name, f"{title}: what holds under joint assumptions", quick))
    notes = (*(each.sentence() for each in answered), *_notes(study, names))
    if printed is None:  # a paper's own studies say in their rows what was refused
        notes += _refusals(results)
    return Findings(pd.DataFrame(rows), tuple(drawn), {key: t for key, t in tables.items() if len(t)}, notes, earlier_s)


def _claims(entry: ClaimKeys, names: Names) -> Iterator[Claim]:
    for turn in turns(entry, names):
        printed = value(entry.printed, turn)
        points = value(entry.faster, turn), value(entry.slower, turn)
        if wrong := [one for one in points if not isinstance(one, Record)]:
            raise UserError(f"faster and slower: expected a point each, got {wrong[0]!r}")
        yield Claim(filled(entry.what, turn), *points, NAN if printed is None else float(printed))


def _table(table: Table, names: Names) -> pd.DataFrame:
    if table.points:
        points: Points = value(table.points, names)
        return points.table(*table.columns)
    if table.lines is not None:
        return pd.DataFrame(value(table.lines, names))
    return pd.DataFrame([line for entry in table.rows for line in lines(entry, names)])


def _notes(study: StudyFile, names: Names) -> tuple[str, ...]:
    sentences: list[str] = []
    shared = paper_file(study.paper).notes
    for i, note in enumerate(study.notes):
        with place(f"notes[{i}]"):
            if isinstance(note, Note):
                for turn in turns(note, names):
                    sentences += value(note.lines, turn) if note.lines is not None else [filled(note.say, turn)]
            elif note.startswith("="):
                sentences += [filled(text, names) for text in shared[note[1:]]]
            else:
                sentences.append(filled(note, names))
    return tuple(filter(None, sentences))


def _refusals(results: Sequence[StudyResult]) -> tuple[str, ...]:
    """Say of points that did not run how many they are and why, a sentence a reason. Raises UserError where none has run."""
    counts = Counter((result.status, result.message) for result in results)
    notes = tuple(f"{count} of {len(results)} points: {status}: {why}" for (status, why), count in counts.items() if status != "ran")
    if notes and not any(status == "ran" for status, _ in counts):
        raise UserError("no point of the study has run; " + "; ".join(notes))
    return notes
