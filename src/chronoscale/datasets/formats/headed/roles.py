"""Roles of a table's columns, as the options of its reader name them or its header does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chronoscale.datasets.formats.headed import column_names
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.column_names import PAIRS, means
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.times import looks_like_dates
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.errors import UserError

ALL = "*"  # of features: every column that no other role takes


@dataclass(frozen=True, slots=True)
class NamedColumns:
    """Columns that the options of a table's reader name, by header or by place from 1: of events (src to features), and of readings."""

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    label: str | None = None
    weight: str | None = None
    features: tuple[str, ...] = ()
    sensor: str | None = None
    values: tuple[str, ...] = ()

    @property
    def of_events(self) -> list[str]:
        """The options among them that only events have."""
        return [name for name in ("src", "dst", "label", "weight", "features") if getattr(self, name)]

    @property
    def of_readings(self) -> list[str]:
        """The options among them that only readings have."""
        return [name for name in ("sensor", "values") if getattr(self, name)]

    @property
    def beside_time(self) -> set[str]:
        """Names or places of all columns that options name but the time's."""
        single = {self.src, self.dst, self.label, self.weight, self.sensor} - {None}
        return {*map(str, single), *self.features, *self.values}


@dataclass(frozen=True, slots=True)
class EventRoles:
    """Columns of a table that make events. named: whether options say source, destination and time, so that nothing has to be asked. apart:
    sources and destinations are two kinds of things by their names."""

    src: Column
    dst: Column
    time: Column | None
    label: Column | None
    weight: Column | None
    features: tuple[Column, ...]
    named: bool
    apart: bool


@dataclass(frozen=True, slots=True)
class ReadingRoles:
    """Columns of a table that make readings: long, a row a reading of one `sensor`; or wide, a row a time and a column a sensor. `time` is
    None where the rows are the steps. named: whether options say all of it, so that nothing has to be asked."""

    sensor: Column | None
    time: Column | None
    values: tuple[Column, ...]
    named: bool


def find_ends(table: HeadedTable, named: NamedColumns) -> tuple[Column, Column, bool] | None:
    """Find the columns of sources and destinations, and whether these are two kinds of things: by options, or by names that go together;
    None where there are none.

    Raises Question where several pairs of columns have such names, and UserError where an option names one end and no other is found.
    """
    src = table.find("src", named.src) if named.src else None
    dst = table.find("dst", named.dst) if named.dst else None
    if src is not None and dst is not None:
        apart = any(means(src.name, pair.sources) and means(dst.name, pair.destinations) and pair.apart for pair in PAIRS)
        return src, dst, apart
    pairs: dict[tuple[int, int], tuple[Column, Column, bool]] = {}
    for pair in PAIRS:
        sources = [src] if src else [one for one in table.columns if means(one.name, pair.sources) and one is not dst]
        destinations = [dst] if dst else [one for one in table.columns if means(one.name, pair.destinations) and one is not src]
        for one in sources:
            for other in destinations:
                if one is not other:
                    pairs.setdefault((one.place, other.place), (one, other, pair.apart))
    if len(pairs) > 1:
        answers = [Answer(f"{one.name} to {other.name}", {"src": one.option, "dst": other.option}) for one, other, _ in pairs.values()]
        raise Question(table.paths[0], "several pairs of columns may be sources and destinations", *answers[:4])
    if not pairs and (src or dst):
        lacking = "dst" if src else "src"
        raise UserError(f"{table.paths[0]}: no column is named like a {_END[lacking]}; say {lacking}=NAME, of {table.names}")
    return next(iter(pairs.values()), None)


_END = {"src": "source", "dst": "destination"}


def find_time(table: HeadedTable, named: NamedColumns, taken: Sequence[Column]) -> Column | None:
    """Find the column of times: by option, by name, or, where none has such a name, the only one that holds dates; None where there is
    none. taken: columns with another role. Raises Question where several columns may be it."""
    if named.time:
        return table.find("time", named.time)
    others = [column for column in table.columns if column not in taken and column.kind != "empty"]
    candidates = [column for column in others if means(column.name, column_names.TIMES)] or [one for one in others if looks_like_dates(one)]
    if len(candidates) > 1 and len(dates := [column for column in candidates if looks_like_dates(column)]) == 1:
        candidates = dates
    if len(candidates) > 1:
        answers = [Answer(f"such as {column.entry(0)}", {"time": column.option}) for column in candidates]
        raise Question(table.paths[0], f"columns {', '.join(column.option for column in candidates)} may be the time", *answers)
    return candidates[0] if candidates else None


def find_event_roles(table: HeadedTable, named: NamedColumns, ends: tuple[Column, Column, bool]) -> EventRoles:
    """Find all columns that make events, given those of the ends. Raises as `find_time`, and UserError where options give one column two
    roles."""
    src, dst, apart = ends
    time = find_time(table, named, (src, dst))
    roles = {"src": src, "dst": dst, "time": time}
    for role, words in (("label", column_names.LABELS), ("weight", column_names.WEIGHTS)):
        option = getattr(named, role)
        if option:
            roles[role] = table.find(role, option)
        else:
            others = [column for column in table.columns if column not in [*roles.values()] and means(column.name, words)]
            roles[role] = others[0] if len(others) == 1 else None
    taken = [column for column in roles.values() if column is not None]
    others = [column for column in table.columns if column not in taken]
    if named.features == (ALL,):
        features = [column for column in others if column.is_numeric]
    elif named.features:
        features = [table.find("features", name) for name in named.features]
    else:
        features = [one for one in others if column_names.is_feature(one.name) and one.is_numeric]
    for column in (taken := [*taken, *features]):
        if taken.count(column) > 1:
            raise UserError(f"{table.paths[0]}: {column.label} has two roles; each column has one")
    given = bool(named.src and named.dst and (named.time or time is None))
    return EventRoles(src, dst, time, roles["label"], roles["weight"], tuple(features), given, apart)
