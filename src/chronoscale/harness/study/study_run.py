"""Study run: a study file's grids evaluated, and its rows, tables, notes and drawings made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.study import grid
from chronoscale.harness.study.axes import words
from chronoscale.harness.study.charts import drawing
from chronoscale.harness.study.conclusions import Claim, answer, conclusion_chart, conclusion_table
from chronoscale.harness.study.evaluation import Task, evaluated, hooked
from chronoscale.harness.study.expressions import Names, filled, loops, value
from chronoscale.harness.study.findings import NAN, Findings, Told, beside, row
from chronoscale.harness.study.point import Points, Record, StudyResult
from chronoscale.harness.study.results import store
from chronoscale.harness.study.study_file import ClaimKeys, Note, Repeated, Row, StudyFile, Table, paper_file
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
    return store(name, study.way, quick, folder, lambda: run(study, name, printed, on_progress, quick, workers, points, dask))


def run(
    study: StudyFile,
    name: str,
    printed: Printed | None,
    on_progress: Told,
    quick: bool,
    workers: int = 1,
    folder: Path | None = None,
    dask: str | None = None,
) -> Findings:
    """Evaluate the points of a study's grids and return its rows, tables, notes and drawings; `run_study` also writes them.

    name: of its drawings' files. printed: what the paper prints of it, None for a study of one's own. on_progress: gets a line for each
    point that is done. quick: a subset of the points. workers: processes. folder: of points that an earlier run left, None: none. dask:
    address of a scheduler whose workers simulate. Raises UserError for what the study file has wrong, and as `evaluated`.
    """
    shared = paper_file(study.paper)
    hooks = (*shared.hooks, *study.hooks)
    names: dict[str, Any] = {"quick": quick, "printed": printed, **hooked(hooks)}
    for key, given in {**shared.names, **study.names}.items():
        names[key] = value(given[1:], names) if isinstance(given, str) and given.startswith("=") else given
    names["filled"] = partial(filled, names=names)  # of a template among the names
    evaluate = partial(evaluated, on_progress=on_progress, workers=workers, folder=folder, dask=dask)
    names |= _grids(study, (*shared.metrics, *study.metrics), hooks, names, evaluate)
    for key, text in study.values.items():
        names[key] = value(text, names)
    rows: list[dict[str, Any]] = []
    for i, entry in enumerate(study.rows):
        with _place(f"rows[{i}]"):
            rows += _lines(entry, names)
    names["rows"] = rows
    claims: list[Claim] = []
    for i, claim in enumerate(study.conclusions):
        with _place(f"conclusions[{i}]"):
            claims += _claims(claim, names)
    answered = answer(claims, folder, quick, on_progress)
    tables = {"conclusions": conclusion_table(answered)}
    for key, table in study.tables.items():
        with _place(f"tables.{key}"):
            tables[key] = _table(table, names)
    title = study.title or (printed.title if printed else name)
    title = f"{title}: {study.limit}" if study.limit else title
    drawn = [drawing(chart, name, title, names) for chart in study.drawings if value(chart.where, names)]
    if answered:
        drawn.append(conclusion_chart(answered, name, f"{title}: what holds under joint assumptions", quick))
    notes = (*(each.sentence() for each in answered), *_notes(study, shared.notes, names))
    records = {record.point: record for key in study.grid for record in names[key]}
    if printed is None:  # a paper's own studies say in their rows what was refused
        notes += _refusals([*records.values()])
    resumed = sum(record.result.resumed for record in records.values())
    return Findings(pd.DataFrame(rows), tuple(drawn), {key: t for key, t in tables.items() if len(t)}, notes, resumed)


@contextmanager
def _place(where: str) -> Iterator[None]:
    """Turn what a study file has wrong into a UserError that begins with its key."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {type(error).__name__}: {error}") from error


def _grids(
    study: StudyFile, metrics: tuple[str, ...], hooks: tuple[str, ...], names: Names, evaluate: Callable[[list[Task]], list[StudyResult]]
) -> dict[str, Points]:
    """Evaluate all points together, so that workers have most to do at once."""
    read = {*words(study.model_dump()), *words(paper_file(study.paper).model_dump())}
    wanted = {}
    for key, blocks in study.grid.items():
        with _place(f"grid.{key}"):
            wanted[key] = grid.points(blocks, study.paper, names, read)
    several = list(dict.fromkeys(point for some in wanted.values() for point in some))
    runners = [point.setting("runner", study.runner) for point in several]  # a grid of its own may train where others are replayed
    functions = ["" if how == "sweep" else one.setting("of", study.of) for how, one in zip(runners, several, strict=True)]
    tasks = [Task(*one, metrics, hooks) for one in zip(several, runners, functions, strict=True)]
    results = dict(zip(several, evaluate(tasks), strict=True))
    return {key: Points([Record(point, results[point]) for point in some]) for key, some in wanted.items()}


def _turns(entry: Repeated, names: Names) -> Iterator[dict[str, Any]]:
    """The names of every turn that is not left out."""
    for turn in loops(entry.over, names):
        for key, text in entry.let.items():
            turn[key] = value(text, turn)
        turn["filled"] = partial(filled, names=turn)
        if value(entry.where, turn):
            yield turn


def _lines(entry: Row, names: Names) -> Iterator[dict[str, Any]]:
    for turn in _turns(entry, names):
        if entry.lines is not None:
            yield from value(entry.lines, turn)
            continue
        line: dict[str, Any] = {}
        if entry.what:
            ours, what = value(entry.ours, turn), filled(entry.what, turn)
            if isinstance(ours, list | tuple):
                line = row(what, value(entry.range, turn), ours, "")
            else:
                theirs = value(entry.printed, turn)
                line = beside(what, NAN if theirs is None else float(theirs), float(ours), "", str(value(entry.part, turn) or ""))
            why = filled(entry.why, {**turn, "ours": ours, "ratio": line["ratio"]})
            line["why"] = "; ".join(filter(None, (str(line["why"]), why)))
        yield line | {key: value(text, turn) for key, text in entry.line.items()}


def _claims(entry: ClaimKeys, names: Names) -> Iterator[Claim]:
    for turn in _turns(entry, names):
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
    return pd.DataFrame([line for entry in table.rows for line in _lines(entry, names)])


def _notes(study: StudyFile, shared: Mapping[str, Sequence[str]], names: Names) -> tuple[str, ...]:
    sentences: list[str] = []
    for i, note in enumerate(study.notes):
        with _place(f"notes[{i}]"):
            if isinstance(note, Note):
                for turn in _turns(note, names):
                    sentences += value(note.lines, turn) if note.lines is not None else [filled(note.say, turn)]
            elif note.startswith("="):
                sentences += [filled(text, names) for text in shared[note[1:]]]
            else:
                sentences.append(filled(note, names))
    return tuple(filter(None, sentences))


def _refusals(records: Sequence[Record]) -> tuple[str, ...]:
    """Say of points that did not run how many they are and why, a sentence a reason. Raises UserError where none has run."""
    counts = Counter((record.result.status, record.result.message) for record in records)
    notes = tuple(f"{count} of {len(records)} points: {status}: {why}" for (status, why), count in counts.items() if status != "ran")
    if notes and not any(status == "ran" for status, _ in counts):
        raise UserError("no point of the study has run; " + "; ".join(notes))
    return notes
