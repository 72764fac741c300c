"""Reader of tables with a header, as people have them: CSV with any separator, JSON lines and Parquet; events, or readings of sensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from chronoscale.datasets.formats.event_order import Sort, Strict, order_policy
from chronoscale.datasets.formats.headed.recognition import is_header, is_json_line, is_parquet
from chronoscale.datasets.formats.signal_options import Missing, TimeOfDay
from chronoscale.datasets.formats.tables.edge_list import Bipartite
from chronoscale.datasets.formats.tables.stream_builder import Paths, as_paths
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.events import EventStream

Name = Annotated[str | None, "a column, by its name in the header or its place from 1"]
Names = Annotated[str | tuple[str, ...], "columns, by name or place, commas between"]


def matches(path: Path, first: str) -> bool:
    """Return whether a file is a table with a header by its first line, `first`, or Parquet by its first bytes."""
    if not first:
        return path.is_file() and is_parquet(path)
    return is_header(first) or is_json_line(first)


def read(
    path: Paths,
    *,
    as_: Annotated[Literal["events", "readings"] | None, "what the table is, where its columns do not say it"] = None,
    src: Name = None,
    dst: Name = None,
    time: Name = None,
    label: Name = None,
    weight: Name = None,
    features: Names = (),
    sensor: Name = None,
    values: Names = (),
    time_unit: Annotated[Literal["s", "ms", "us", "ns", "none"] | None, "of times that are numbers; none: they are no dates"] = None,
    day_first: Annotated[bool | None, "the day comes first in dates such as 03/04/2019"] = None,
    year_first: Annotated[bool, "the year comes first in dates such as 21-03-01"] = False,
    step: Annotated[str | None, "length of the steps of readings, such as 5min: several in one are averaged"] = None,
    transpose: Annotated[bool | None, "a row is a sensor, and a column a time"] = None,
    header: Annotated[bool | None, "the first line names the columns; without it they are named by place"] = None,
    separator: Annotated[str | None, "between columns, where the first line does not show it: one character, or tab"] = None,
    decimal: Annotated[Literal[".", ",", "both"] | None, "before fractions; with semicolons a comma, and points between thousands"] = None,
    encoding: Annotated[str, "of the text"] = "utf-8",
    bipartite: Bipartite | None = None,
    missing: Missing = None,
    time_of_day: TimeOfDay = False,
    sort: Sort = False,
    strict: Strict = False,
) -> EventStream | Signal:
    """Read a table with a header as an event stream, or as a signal without edges, which its columns decide and `as` overrules.

    Events: columns named like source, destination, time, label, weight and features, or those that options name; names of nodes are kept as
    `node_names`, ids from 0 on as `node_ids`. Readings: a row a reading of a sensor (long), or a row a time and a column a sensor (wide).
    Raises Question, with the options that answer it, where columns may be read in two ways or are implausible, and UserError, `file:line:
    what`, for an entry that is not what its column has.
    """
    from chronoscale.datasets.formats.headed import reading  # noqa: PLC0415 (pyarrow, and other formats do without)

    named = reading.NamedColumns(src, dst, time, label, weight, _names(features), sensor, _names(values))
    times = reading.TimeOptions(time_unit, day_first, year_first)
    options = reading.TableOptions(
        layout=reading.TextLayout(header, separator, decimal, encoding),
        named=named,
        family=as_,
        transpose=transpose,
        of_readings=reading.ReadingOptions(times, step, missing, time_of_day),
        apart=bipartite,
        order=order_policy(sort, strict),
    )
    return reading.read_table(as_paths(path), options)


def _names(text: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"\s*,\s*", text.strip()))) if isinstance(text, str) else text
