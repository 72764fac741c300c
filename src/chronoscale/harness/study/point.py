"""Points: what is planned and replayed, trained or counted once, and what it gave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from math import nan
from typing import Any, NamedTuple

import pandas as pd

from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """Point of a study's grid: one combination of data set, strategy, cluster and settings that is simulated, trained or counted once.

    paper: key of the paper whose testbed it runs on, '' for none. strategy, cluster, dataset, model: names. variant: of difference maps
    (REAL's edges to add and remove between snapshots), 'exact' or 'as-published'. settings: further axes of the grid, by name.
    """

    paper: str = ""
    dataset: str = ""
    model: str = ""
    layers: int = 1
    strategy: str = ""
    cluster: str = ""
    gpus: int = 1
    variant: str = "exact"
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, axes: Mapping[str, Any]) -> StudyPoint:
        """Return the point of a study's grid with these values by axis.

        Axes that are no field of the class become settings: lists as tuples, mappings and dataclasses as JSON.
        """
        own = {name: value for name, value in axes.items() if name in AXES}
        others = ((name, _hashable(value)) for name, value in axes.items() if name not in AXES)
        return cls(**own, settings=tuple(sorted(others)))

    def setting(self, name: str, default: Any = None) -> Any:
        """Return the value of an axis that is no field of the class, such as a study's own 'batches'; `default` where the grid has none."""
        return dict(self.settings).get(name, default)

    def having(self, axes: Mapping[str, Any]) -> StudyPoint:
        """Return the point with other values on these axes of the grid, by name."""
        return StudyPoint.of({"paper": self.paper, **self.axes, **axes})

    @property
    def axes(self) -> dict[str, Any]:
        """Return the point's value on each axis of the study's grid, by name, without the paper."""
        return {name: getattr(self, name) for name in AXES[1:]} | dict(self.settings)

    def __str__(self) -> str:
        named = (self.strategy, self.model, self.dataset)
        several = f"{self.gpus} GPUs" if self.gpus > 1 else ""
        shown = (f"{name} {value}" for name, value in self.settings if isinstance(value, str | int | float))
        return ", ".join(filter(None, (*named, several, *shown)))


AXES = tuple(one.name for one in fields(StudyPoint) if one.name != "settings")


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value)
    if is_dataclass(value):
        return json.dumps(asdict(value))  # type: ignore[arg-type]  # of an instance
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, eq=False)
class StudyResult:
    """Metrics of one point of a study, by name, and whether it ran.

    status: 'ran', 'out of memory' (metrics of time are NaN) or 'refused' (by the strategy or a hook: all metrics are NaN or missing).
    message: why. resumed: read from the file that an earlier run left. seconds: that it took; NaN of points from before these were kept.
    """

    status: str = "ran"
    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    resumed: bool = False  # read from the file that an earlier run left
    seconds: float = nan


class Assumed(NamedTuple):
    """One assumption of a simulation, by its name, at one value."""

    name: str
    value: float


def content_key(*parts: object) -> str:
    """Return a file name, 20 hex digits, that changes with any of the parts: where a study keeps a point's result from run to run."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]


class Record(Mapping[str, Any]):
    """Point of a study with its result: axes, status, message and metrics, as keys and as attributes for expressions of study files."""

    def __init__(self, point: StudyPoint, result: StudyResult) -> None:
        self._all = {**point.axes, "status": result.status, "message": result.message, **result.values}
        self.point, self.result = point, result

    def __getitem__(self, name: str) -> Any:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._all:
            raise AttributeError(f"a point has no '{name}'")
        return self._all[name]


class Pair(NamedTuple):
    """Two points of a study's grid that are compared: the one that should take less time, and the one that should take more.

    of: how many pairs both of whose points ran, of which this is the middle one.
    """

    faster: Record
    slower: Record
    of: int

    @property
    def cell(self) -> str:
        """Return model and data set of the pair, and of how many it is the middle, for sentences of study files."""
        place = " on ".join(filter(None, (self.faster.point.model, self.faster.point.dataset)))
        return f"{place}, the middle of {self.of}" if self.of > 1 else place


CELL = ("dataset", "model", "layers", "gpus")


class Points(Sequence[Record]):
    """Points of a study's grid with their results, in order, as expressions of study files see them under the grid's name."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = tuple(records)

    def __getitem__(self, index: Any) -> Any:
        return Points(self._records[index]) if isinstance(index, slice) else self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __add__(self, other: Points) -> Points:
        return Points((*self._records, *other))

    def where(self, **wanted: Any) -> Points:
        """Return the points with these values, for expressions of study files.

        wanted: axis or metric -> value, or a list of values of which any will do.
        """
        tests = {name: tuple(value) if isinstance(value, list | tuple | set) else (value,) for name, value in wanted.items()}
        return Points([one for one in self if all(one.get(name) in some for name, some in tests.items())])

    def all(self, name: str, **wanted: Any) -> list[Any]:
        """Return one metric or axis of every point with these values, for expressions of study files.

        name: of the metric or axis; NaN where a point has none. wanted: axis or metric -> value, or a list of which any will do.
        """
        return [one.get(name, float("nan")) for one in self.where(**wanted)]

    def at(self, name: str, **wanted: Any) -> Any:
        """Return one metric or axis of the only point with these values, for expressions of study files.

        name: of the metric or axis. wanted: axis or metric -> value. Raises UserError where no point or several have them.
        """
        return self.one(**wanted)[name]

    def one(self, **wanted: Any) -> Record:
        """Return the only point with these values, for expressions of study files. Raises UserError where no point or several have them."""
        some = self.where(**wanted)
        if len(some) != 1:
            raise UserError(f"{len(some)} points, not one, with {', '.join(f'{name} {value}' for name, value in wanted.items())}")
        record: Record = some[0]
        return record

    def middle(self, faster: Mapping[str, Any], slower: Mapping[str, Any], metric: str = "epoch_s", **wanted: Any) -> Pair | None:
        """Return the pair of points of the (lower) median ratio, slower's metric over faster's, for claims of study files.

        faster, slower: axis -> value of the one and of the other. Pairs agree on data set, model, layers and GPUs, as far as neither
        names them, and both ran. metric: of the points, or of a metric that holds several: 'spread.epoch_s'. wanted: of both, as for
        `where`. None for no pair. Raises UserError where several points of `slower` would do.
        """
        agree = [name for name in CELL if name not in faster and name not in slower]
        pairs = []
        for one in self.where(status="ran", **{**wanted, **faster}):
            same = {name: one[name] for name in agree}
            other = self.where(**{"status": "ran", **wanted, **slower, **same})
            if len(other):
                record = other.one(**same)
                pairs.append((_number(record, metric) / _number(one, metric), one, record))
        if not pairs:
            return None
        _, one, record = sorted(pairs, key=lambda pair: pair[0])[(len(pairs) - 1) // 2]
        return Pair(one, record, len(pairs))

    def table(self, *columns: str) -> pd.DataFrame:
        """Return a study's points as a table, one row each.

        columns: axes and metrics to show, all where none is named; NaN where a point lacks one.
        """
        named = [{name: one.get(name, float("nan")) for name in columns or one} for one in self]
        return pd.DataFrame(named, columns=list(columns) or None)


def _number(record: Record, metric: str) -> float:
    """Return a metric of a point, or one of those that a metric holds ('spread.epoch_s')."""
    value: Any = record
    for name in metric.split("."):
        value = value[name]
    return float(value)
