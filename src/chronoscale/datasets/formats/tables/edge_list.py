"""Edge lists: tables of events without a header, whose columns a format documents for so many fields, or `columns` names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from chronoscale.datasets.formats.event_order import OrderPolicy
from chronoscale.datasets.formats.plausibility import EventColumn, require_plausible_events
from chronoscale.datasets.formats.tables.event_table import EventTable
from chronoscale.datasets.formats.tables.lines import is_number, text_lines
from chronoscale.datasets.formats.tables.roles import SHOWN, FieldCountError, Roles, parse_roles, suggest_roles
from chronoscale.datasets.formats.tables.stream_builder import Paths, as_paths, read_events
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

ColumnRoles = Annotated[
    str | tuple[str, ...] | None, "the role of every column, in order: src, dst, time, weight, label, feature; _ skips one"
]
Bipartite = Annotated[bool, "sources and destinations are two id spaces"]

EXAMINED = 100  # lines by which columns are known that no format documents


@dataclass(frozen=True, slots=True)
class EdgeList:
    """Format of dataset files that are tables of events without a header, such as SNAP's or KONECT's.

    layouts: the documented orders of columns, at most one for each number of columns, such as "src dst time". comment: how lines begin that
    are no data. smallest_id: of a node, 0 or 1.
    """

    layouts: tuple[str, ...]
    comment: str | None = None
    smallest_id: int = 0

    def read(
        self, path: Paths, columns: str | Sequence[str] | None, *, bipartite: bool = False, order: OrderPolicy = "warn", skip: int = 0
    ) -> EventStream:
        """Read an event stream from one or several files of this format. columns: the role of each column, where it is not the documented
        one. order: what to do with events out of time order. skip: lines before the data.

        Raises UserError, `file:line: what`, for a table of another number of columns, and Question where columns that the format documents,
        and no option names, do not hold what events have.
        """
        return self.events(self.tables(path, skip), columns, bipartite=bipartite, order=order)

    def tables(self, path: Paths, skip: int = 0) -> list[TextTable]:
        """Open every file of a dataset in this format as a table of numbers, `skip` lines before the data passed over; rows are read later.
        Raises UserError, `file:line: what`, for a file without data, or with a header."""
        return [self._table(file, skip) for file in as_paths(path)]

    def events(
        self, tables: Sequence[TextTable], columns: str | Sequence[str] | None, *, bipartite: bool = False, order: OrderPolicy = "warn"
    ) -> EventStream:
        """Build an event stream from open tables of this format, one a file (`tables`).

        columns: the role of each column, where it is not the documented one. bipartite: sources and destinations are numbered apart. order:
        what to do with events out of time order. Raises UserError as `read`.
        """
        try:
            named = None if columns is None else parse_roles(columns)
        except UserError as error:
            raise UserError(f"{tables[0].path}: {error}") from None
        roles = [self._roles(table, named) for table in tables]
        if len({*roles}) > 1:
            raise UserError(f"{tables[0].path}: {len(roles[0])} fields, and another file of the stream has a different number")
        check = partial(_check, order) if named is None else _accept
        return read_events(tables, roles[0], bipartite=bipartite, order=order, smallest_id=self.smallest_id, check=check)

    def _table(self, file: Path, skip: int) -> TextTable:
        number, first = next(
            (
                (number, line)
                for number, line in enumerate(text_lines(file), start=1)
                if number > skip and line.strip() and not (self.comment and line.startswith(self.comment))
            ),
            (1, ""),
        )
        separator = "," if "," in first else None
        entries = [entry.strip() for entry in first.split(separator)]
        if entries and not any(map(is_number, entries)):
            header = "the options skip=1, which passes over a header, and columns, as in columns=src,dst,weight,time, say how to read it"
            raise UserError(f"{file}:{number}: expected numbers, found '{first.strip()[:SHOWN]}'; {header}")
        return TextTable(file, separator=separator, comment=self.comment, skip=skip)

    def _roles(self, table: TextTable, named: Roles | None) -> Roles:
        documented = {len(layout.split()): tuple(layout.split()) for layout in self.layouts}
        if named is not None and len(named) == table.fields:
            return named
        if named is None and table.fields in documented:
            return documented[table.fields]
        number, line = table.first_line()
        if named is not None:
            raise FieldCountError(table.path, number, table.fields, line, f"the {len(named)} of columns={','.join(named)}")
        orders = " or ".join(f"'{layout.replace('_', '')}'" for layout in self.layouts)
        advice = "say what each is, as in columns=src,dst,weight,time (also label, feature, _ to skip), an option of the reader"
        raise FieldCountError(table.path, number, table.fields, line, f"{orders}; {advice}", suggest_roles(table.first_entries(EXAMINED)))


def _accept(table: EventTable) -> None:
    """Accept columns that an option names."""


def _check(order: OrderPolicy, table: EventTable) -> None:
    """Check columns that a format documents: `plausibility.require_plausible_events`."""
    places: dict[str, int] = {role: table.roles.index(role) for role in ("src", "dst", "time") if role in table.roles}
    columns = {
        role: EventColumn(place, f"field {place + 1}", table.columns[role], f"{table.columns[role][0]}") for role, place in places.items()
    }

    def spell(choice: Mapping[str, int]) -> dict[str, str]:
        named = {place: "_" if role in (*places, *choice) else role for place, role in enumerate(table.roles)}
        return {"columns": ",".join((named | {place: role for role, place in choice.items()}).values())}

    require_plausible_events(table.tables[0].path, columns, spell, order == "sort")
