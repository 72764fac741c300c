"""Counterfactuals: a study's rows with one assumption changed, all else as it is: those of machines, and those that its file names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any

from chronoscale.errors import UserError
from chronoscale.harness.study.axes import TESTBED
from chronoscale.harness.study.causes import CounterfactualRun, Line, ratios_of
from chronoscale.harness.study.expressions import Names, filled, value
from chronoscale.harness.study.findings import Told
from chronoscale.harness.study.point import Assumed, StudyPoint, StudyResult
from chronoscale.harness.study.study_file import CounterfactualKeys, StudyFile, paper_file
from chronoscale.harness.study.study_grids import StudyGrids, names_of
from chronoscale.harness.study.study_rows import place, rows_of, turns
from chronoscale.harness.study.task import Task
from chronoscale.reports.published import Printed
from chronoscale.simulator.uncertainty.assumptions import ASSUMPTIONS

Evaluate = Callable[[Sequence[Task]], Sequence[StudyResult]]


def counterfactual_runs(
    study: StudyFile,
    printed: Printed | None,
    grids: StudyGrids,
    results: Sequence[StudyResult],
    rows: Sequence[Line],
    assumed: Mapping[Assumed, Mapping[StudyPoint, StudyResult]],
    evaluate: Evaluate,
    on_progress: Told,
) -> Iterator[CounterfactualRun]:
    """Make a study's rows anew with one assumption changed at a time, and yield what becomes of their ratios.

    First the assumptions of the simulated machines, then the counterfactuals of the study's file and of its paper's. grids, results, rows:
    with nothing changed. assumed: by assumption and value, what becomes of the points that it matters to. evaluate: gives the results of
    tasks, in their order. on_progress: gets a line for each counterfactual of a file. A change under which the rows cannot be made is left
    out. Raises UserError for what the study file has wrong, and as `evaluate`.
    """
    names, known = names_of(study, False, printed), dict(zip(grids.tasks, results, strict=True))
    listed = {each.name: each for each in ASSUMPTIONS}
    for (name, at), changed in assumed.items():
        with_it = [changed.get(task.point, result) for task, result in zip(grids.tasks, results, strict=True)]
        ratios = _ratios(study, rows, {**names, **grids.evaluated(with_it)})
        if _differ(ratios, rows):
            yield CounterfactualRun(name, f"{name} {listed[name].shown(at)}", listed[name].source, ratios)
    for i, each in enumerate((*paper_file(study.paper).counterfactuals, *study.counterfactuals)):
        with place(f"counterfactuals[{i}]"):
            for turn in turns(each, names):
                other, settings = _changed(study, printed, each, turn)
                grid = StudyGrids.of(study, other, settings, {axis: value(given, turn) for axis, given in each.only.items()})
                if set(grid.tasks) == set(grids.tasks) and not each.names:
                    continue  # nothing that it changes is there
                new = [task for task in grid.tasks if task not in known]  # turns may have points in common
                what, source = filled(each.what, turn), filled(each.source, turn)
                on_progress(f"counterfactual: {what}")
                known |= dict(zip(new, evaluate(new), strict=True))
                ratios = _ratios(study, rows, {**other, **grid.evaluated([known[task] for task in grid.tasks])})
                if all(map(isnan, ratios)) and not all(map(isnan, ratios_of(rows))):
                    on_progress(f"counterfactual: {what}: no row can be made")
                if _differ(ratios, rows):
                    yield CounterfactualRun(str(each.what), what, source, ratios)


def _changed(study: StudyFile, printed: Printed | None, each: CounterfactualKeys, turn: Names) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the names and the points' settings of a counterfactual."""
    settings = {name: value(given, turn) for name, given in each.settings.items()}
    if each.testbed:
        settings[TESTBED] = json.dumps({name: value(given, turn) for name, given in each.testbed.items()})
    return names_of(study, False, printed, {name: value(given, turn) for name, given in each.names.items()}), settings


def _differ(ratios: Sequence[float], rows: Sequence[Line]) -> bool:
    """Whether a change does something to a row."""
    return any(new != old for new, old in zip(ratios, ratios_of(rows), strict=True) if not isnan(new))


def _ratios(study: StudyFile, rows: Sequence[Line], names: dict[str, Any]) -> list[float]:
    """Return ours over the published of the study's rows with other points, in the rows' order; NaN where they cannot be made."""
    try:
        others = rows_of(study, names)
    except UserError:
        return [nan] * len(rows)
    of: dict[str, list[float]] = {}
    for row, ratio in zip(others, ratios_of(others), strict=True):
        of.setdefault(str(row["what"]), []).append(ratio)
    return [of[what].pop(0) if of.get(what := str(row["what"])) else nan for row in rows]
