"""Study files: the keys of a study's YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, ValidationError, model_validator

from chronoscale.errors import UserError
from chronoscale.validation_messages import mistake
from chronoscale.yaml_files import read

Way = Literal["executed", "simulated", "counted", "modelled"]
Runner = Literal["sweep", "train", "count"]
Expression = str | int | float | bool | list[Any] | dict[str, Any] | None
Block = Mapping[str, Any]


class Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


K = TypeVar("K", bound=Keys)


class Repeated(Keys):
    """Entry of a study's YAML file that may be repeated, once for each turn of a loop."""

    over: Mapping[str, Expression] = Field({}, alias="for", description="loops: a variable, or several with commas -> expression")
    let: Mapping[str, Expression] = Field({}, description="names for this entry -> expression")
    where: Expression = Field(True, alias="if", description="expression; where it is false the entry is left out")
    lines: Expression = Field(None, description="expression that gives all of it: a list of rows, or of notes")


class Row(Repeated):
    """Row of a study's YAML file: a published number beside ours (`printed` and a number `ours`) or a range (`range` and a list `ours`)."""

    what: str = Field("", description="template")
    printed: Expression = None
    range: Expression = None
    ours: Expression = None
    part: Expression = Field(None, description="expression: which part of the printed data `ours` is of; it leaves no ratio")
    aside: Expression = Field(
        None, description="expression: why the row is not scored: what it assumes otherwise, is made from, a bound that it keeps"
    )
    why: str = Field("", description="template; sees `ours` and `ratio`")
    line: Mapping[str, Expression] = Field({}, description="further columns -> expression")


class Table(Keys):
    """Table of details in a study's YAML file, written as a CSV: columns of a grid's points, or rows."""

    points: str = Field("", description="name of a grid")
    columns: Sequence[str] = ()
    rows: Sequence[Row] = ()
    lines: Expression = None


class ClaimKeys(Repeated):
    """Claim of a study's YAML file: one simulated point is faster than another, which is simulated under joint assumptions."""

    what: str = Field("", description="template")
    faster: Expression = Field(None, description="expression: a point")
    slower: Expression = Field(None, description="expression: a point")
    printed: Expression = Field(None, description="expression: how many times as fast, in the paper")


class CounterfactualKeys(Repeated):
    """Counterfactual of a study's YAML file: one thing that is assumed is changed, all else as it is, to see which difference it explains.

    It needs at least one of `names`, `testbed` and `settings`.
    """

    what: str = Field("", description="template: the change in words")
    source: str = Field("", description="template: why the value may be so, and where that is from")
    names: Mapping[str, Expression] = Field({}, description="constants of the study or of its paper -> expression")
    testbed: Mapping[str, Expression] = Field({}, description="keys of the paper's testbed -> expression")
    settings: Mapping[str, Expression] = Field({}, description="settings of all points that are not executed -> expression")
    only: Mapping[str, Expression] = Field({}, description="axis -> expression: its values of points that get testbed and settings")

    @model_validator(mode="after")
    def _changes(self) -> CounterfactualKeys:
        if not (self.names or self.testbed or self.settings):
            raise ValueError("a counterfactual changes something: `names`, `testbed` or `settings`")
        if self.only and (self.names or not (self.testbed or self.settings)):
            raise ValueError("only: it says which points get `testbed` and `settings`; `names` are of all of the study")
        return self


class Note(Repeated):
    """Note in a study's YAML file: a sentence or two that must be read with its rows."""

    say: str = Field("", description="template")


class Panel(Repeated):
    """Panel of a drawing in a study's YAML file."""

    title: str = Field("", description="template")
    x: str = ""
    y: str = ""
    series: Expression = Field(None, description="expression: label -> (x, y), or label -> numbers")
    fits: Expression = Field({}, description="expression, as `series`")
    scale: tuple[Literal["linear", "log"], Literal["linear", "log"]] = ("linear", "linear")
    style: Literal["lines", "dots"] = "lines"
    diagonal: bool = False


class Chart(Keys):
    """Drawing in a study's YAML file; its image is named as the study, with `suffix`."""

    kind: Literal["lines", "stacks", "ranges", "dots", "heatmaps", "matrix"]
    suffix: str = ""
    caption: str = Field("", description="template")
    unit: str = Field("", description="template")
    parts: Expression = Field(None, description="expression: names of a stack's parts, or of the cells of dots")
    panels: Sequence[Panel] | str = Field((), description="panels, or an expression that gives them")
    where: Expression = Field(True, alias="if")


class StudyFile(Keys):
    """Keys of a study's YAML file: grids of points, metrics of each, and the rows, tables, notes and drawings made of them."""

    base: str = Field("", description="another study, such as real/figure-8: its keys where this one has none, and its names besides")
    title: str = Field("", description="of a study that is no paper's figure or table")
    paper: str = Field("", description="whose testbed, names and published numbers it uses")
    limit: str = Field("", description="what of a figure is not reached, said in its title")
    way: Way = "simulated"
    about_s: PositiveFloat = Field(60, description="seconds on one core, about")
    runner: Runner = "sweep"
    of: str = Field("", description="a hook: what trains or counts a point")
    hooks: Sequence[str] = Field((), description="modules of chronoscale.harness.study.hooks whose functions expressions may call")
    metrics: Sequence[str] = Field((), description="read off a point besides the paper's")
    names: Mapping[str, Any] = Field({}, description="constants; text that begins with = is an expression")
    grid: Mapping[str, Block | Sequence[Block]] = Field({}, description="name -> axes, or a list of such blocks")
    values: Mapping[str, Expression] = Field({}, description="names -> expression over the grids' points")
    rows: Sequence[Row] = ()
    conclusions: Sequence[ClaimKeys] = ()
    counterfactuals: Sequence[CounterfactualKeys] = ()
    varied: Sequence[str] = Field((), description="grids whose points are replayed under other assumptions of machines; none: all")
    tables: Mapping[str, Table] = {}
    notes: Sequence[str | Note] = ()
    drawings: Sequence[Chart] = ()

    @model_validator(mode="after")
    def _complete(self) -> StudyFile:
        if self.runner != "sweep" and self.grid and not self.of:
            raise ValueError(f"runner {self.runner} needs `of`: the hook that makes a point")
        return self


class PaperFile(Keys):
    """Keys of a paper's `paper.yaml`: what all of its studies share."""

    testbed: Mapping[str, Any] = Field({}, description="family, and its assumptions")
    hooks: Sequence[str] = ()
    metrics: Sequence[str] = ()
    names: Mapping[str, Any] = {}
    counterfactuals: Sequence[CounterfactualKeys] = ()
    notes: Mapping[str, Sequence[str]] = Field({}, description="name -> templates; a study's `notes` has them by `=name`")


def load(path: Path | Traversable) -> StudyFile:
    """Read and check a study's YAML file, for `chronoscale study` and `chronoscale reproduce`.

    Keys that it lacks are taken from the study that its `base` names. Raises UserError in one line: the file, the key, what was expected.
    """
    data = _read(path)
    if isinstance(base := data.get("base"), str):
        below = _read(folder(f"{base}.yaml"))
        data = {**below, **data, "names": {**below.get("names", {}), **data.get("names", {})}}
    return _checked(path, data, StudyFile)


@cache
def paper_file(paper: str) -> PaperFile:
    """Read and check a paper's `paper.yaml`, which all of its studies share: testbed, hooks, metrics, names and notes; once a process.

    paper: its key, such as 'fast'. Empty for '' and where there is no such file. Raises UserError in one line: the file, the key, what was
    expected.
    """
    path = folder(paper).joinpath("paper.yaml")
    return _checked(path, _read(path), PaperFile) if paper and path.is_file() else PaperFile()


def folder(paper: str) -> Traversable:
    """Return the folder with a paper's study files in the installed package.

    paper: its key, such as 'real', or a path such as 'real/figure-8.yaml'.
    """
    return resources.files("chronoscale").joinpath(f"studies/{paper}")


def _read(path: Path | Traversable) -> dict[str, Any]:
    data = read(path, "study")
    if not isinstance(data, dict):
        raise UserError(f"{path}: expected keys and values, such as `grid:` and `rows:`")
    return data


def _checked(path: Path | Traversable, data: dict[str, Any], keys: type[K]) -> K:
    try:
        return keys.model_validate(data)
    except ValidationError as error:
        raise UserError(f"{path}: {mistake(error, keys)}") from None
