"""Study grids: the names of a study file's expressions, and the points of its grids with what evaluates them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from chronoscale.errors import UserError, unknown
from chronoscale.harness.study import grid
from chronoscale.harness.study.axes import TESTBED, check, words
from chronoscale.harness.study.expressions import Names, filled, value
from chronoscale.harness.study.point import Points, Record, StudyPoint, StudyResult
from chronoscale.harness.study.study_file import StudyFile, paper_file
from chronoscale.harness.study.study_rows import place
from chronoscale.harness.study.task import Task, hooked
from chronoscale.reports.published import Printed

Settings = Mapping[str, Any]


def names_of(study: StudyFile, quick: bool, printed: Printed | None, changed: Settings | None = None) -> dict[str, Any]:
    """Return what a study's grids may use: its constants and its paper's, and the functions of their hooks.

    quick: whether a subset is asked for. printed: what the paper prints of it, None for a study of one's own. changed: constants to take in
    place of those in the files, by name. Raises UserError for what the study file has wrong.
    """
    shared = paper_file(study.paper)
    names: dict[str, Any] = {"quick": quick, "printed": printed, **hooked((*shared.hooks, *study.hooks))}
    for key, given in {**shared.names, **study.names, **(changed or {})}.items():
        names[key] = value(given[1:], names) if isinstance(given, str) and given.startswith("=") else given
    names["filled"] = partial(filled, names=names)  # of a template among the names
    return names


class StudyGrids(NamedTuple):
    """Points of a study's grids, by the grid's name, and a task for each point, however many grids have it."""

    points: Mapping[str, Sequence[StudyPoint]]
    tasks: Sequence[Task]

    @classmethod
    def of(
        cls, study: StudyFile, names: Names, changed: Settings | None = None, only: Mapping[str, Sequence[Any]] | None = None
    ) -> StudyGrids:
        """Return the points of a study's grids. names: as `names_of`. changed: settings to give to every point that is not executed; only:
        axis -> values, of those points that get them, None: all. Raises UserError for what the study file has wrong."""
        for axis, values in (only or {}).items():
            if isinstance(values, str):
                raise UserError(f"only.{axis}: expected a list of values, got '{values}'")
        shared = paper_file(study.paper)
        read = {*words(study.model_dump()), *words(shared.model_dump())}
        check({name: given for name, given in {**(changed or {}), **(only or {})}.items() if name != TESTBED}, read)
        points = {}
        for key, blocks in study.grid.items():
            with place(f"grid.{key}"):
                points[key] = [_changed(one, study, changed or {}, only or {}) for one in grid.points(blocks, study.paper, names, read)]
        several = list(dict.fromkeys(point for some in points.values() for point in some))
        runners = [point.setting("runner", study.runner) for point in several]  # a grid of its own may train where others are replayed
        functions = ["" if how == "sweep" else one.setting("of", study.of) for how, one in zip(runners, several, strict=True)]
        of = (*shared.metrics, *study.metrics), (*shared.hooks, *study.hooks)
        return cls(points, [Task(*one, *of) for one in zip(several, runners, functions, strict=True)])

    def tasks_of(self, names: Sequence[str]) -> list[Task]:
        """Return the tasks of the points of some grids, by name, of all where none is named. Raises UserError for one that is not there."""
        if missing := [name for name in names if name not in self.points]:
            raise unknown("grid", missing[0], self.points)
        wanted = {point for name in names or self.points for point in self.points[name]}
        return [task for task in self.tasks if task.point in wanted]

    def evaluated(self, results: Sequence[StudyResult]) -> dict[str, Points]:
        """Return the points with their results, as expressions see them. results: one a task."""
        of = {task.point: result for task, result in zip(self.tasks, results, strict=True)}
        return {key: Points([Record(point, of[point]) for point in some]) for key, some in self.points.items()}


def _changed(point: StudyPoint, study: StudyFile, settings: Settings, only: Mapping[str, Sequence[Any]]) -> StudyPoint:
    """Return a point with other settings, and other keys of its testbed beside its own; one that is executed, or has none of the values
    that `only` names of an axis, stays as it is."""
    if point.setting("runner", study.runner) == "train" or any(point.axes.get(axis) not in values for axis, values in only.items()):
        return point
    if TESTBED in settings:
        settings = {**settings, TESTBED: json.dumps(json.loads(point.setting(TESTBED, "{}")) | json.loads(settings[TESTBED]))}
    return point.having(settings)
