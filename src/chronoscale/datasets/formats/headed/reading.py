"""Reading of a table with a header: its files, what its columns are, and the event stream or signal that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chronoscale.datasets.formats.event_order import OrderPolicy
from chronoscale.datasets.formats.headed.events import build_events
from chronoscale.datasets.formats.headed.family import Family, choose_roles
from chronoscale.datasets.formats.headed.joined_dates import join_dates
from chronoscale.datasets.formats.headed.joined_sensors import join_sensors
from chronoscale.datasets.formats.headed.readings import ReadingOptions, build_signal
from chronoscale.datasets.formats.headed.roles import EventRoles, NamedColumns
from chronoscale.datasets.formats.headed.suggestions import require_named_columns
from chronoscale.datasets.formats.headed.table_file import TextLayout, read_headed_table
from chronoscale.datasets.formats.headed.times import TimeOptions
from chronoscale.datasets.formats.headed.transposed import TIME, transpose
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

__all__ = ["NamedColumns", "ReadingOptions", "TableOptions", "TextLayout", "TimeOptions", "read_table"]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of the reader of tables with a header.

    layout: of text. named: columns that are named. family: None where columns decide. transpose: whether times stand in the header; None:
    nobody has said so. of_readings: of tables that are readings. apart, order: of tables that are events, whether sources and destinations
    are two kinds of nodes, and what to do with events out of the order of time.
    """

    layout: TextLayout
    named: NamedColumns
    family: Family | None
    transpose: bool | None
    of_readings: ReadingOptions
    apart: bool | None
    order: OrderPolicy


def read_table(paths: Sequence[Path], options: TableOptions) -> EventStream | Signal:
    """Read the files of one table with a header. Raises Question and UserError as the reader `readers.table` says."""
    table, named, family = read_headed_table(paths, options.layout), options.named, options.family
    if options.layout.header is None and not options.transpose:
        require_named_columns(table)
    if options.transpose:
        table = transpose(table, named.sensor)
        named, family = replace(named, sensor=None, time=TIME), "readings"
    else:
        table = join_sensors(join_dates(table, named), named.sensor)
    roles = choose_roles(table, named, family, options.transpose)
    if isinstance(roles, EventRoles):
        _refuse(paths[0], options.of_readings.given, "readings", "events")
        return build_events(table, roles, options.of_readings.times, options.apart, options.order)
    of_events = {"bipartite": options.apart is not None, "sort": options.order == "sort", "strict": options.order == "refuse"}
    _refuse(paths[0], [name for name, given in of_events.items() if given], "events", "readings")
    return build_signal(table, roles, options.of_readings)


def _refuse(path: Path, given: Sequence[str], family: str, chosen: str) -> None:
    if given:
        raise UserError(f"{path}: {given[0]} is an option of {family}, and the columns are read as {chosen}; as={family} says otherwise")
