"""Roles of columns in a table of events, as an option names them or a format documents them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path

from chronoscale.datasets.formats.epoch import find_epoch_unit
from chronoscale.datasets.formats.question import Answer
from chronoscale.datasets.formats.tables.lines import is_number
from chronoscale.errors import UserError, unknown

Roles = tuple[str, ...]

ONCE = ("src", "dst", "time", "weight", "label")  # weight: a feature of width 1
ENDS = ("src", "dst")
ROLES = (*ONCE, "feature", "_")  # these as often as need be
SHOWN = 60  # characters of a line
MOST_ANSWERS = 3


def parse_roles(columns: str | Sequence[str]) -> Roles:
    """Parse the option `columns` of a dataset reader, text such as `src,dst,weight,time` or a list, into the role of each column, in order.
    `_` or `_name` is a column that is not read.

    Raises UserError for an unknown role, one that comes twice, and where src or dst is not among them.
    """
    named = tuple(filter(None, re.split(r"[,\s]+", columns))) if isinstance(columns, str) else tuple(columns)
    for role in named:
        if role not in ROLES and not role.startswith("_"):
            raise unknown("role in columns:", role, ROLES)
        if role in ONCE and named.count(role) > 1:
            raise UserError(f"columns: {role} comes {named.count(role)} times in {','.join(named)}")
    if not {"src", "dst"} <= {*named}:
        raise UserError(f"columns: expected src and dst among {','.join(named) or 'them'}; roles are {', '.join(ROLES)}")
    return named


def column_places(roles: Roles, *kinds: str) -> list[int]:
    """Return the indices of a table's columns that have one of the roles `kinds`."""
    return [place for place, role in enumerate(roles) if role in kinds]


def dropped_columns(roles: Roles) -> list[str]:
    """Describe the columns of a table that are not read, whose roles begin with `_`, for the account that people see: "column 3
    (weight)"."""
    return [f"column {place + 1}" + (f" ({role[1:]})" if role[1:] else "") for place, role in enumerate(roles) if role.startswith("_")]


class FieldCountError(UserError):
    """Error for a dataset's table whose lines have another number of fields than its format documents, or than the option `columns` names.

    path, text: the file, and what is wrong with it. answers: options that read it nevertheless, by what its fields hold, in the order in
    which they are likely; none where they do not show it.
    """

    def __init__(self, path: Path, number: int, fields: int, line: str, expected: str, answers: Sequence[Answer] = ()) -> None:
        shown = f"{fields} fields ('{' '.join(line.split())[:SHOWN]}')"
        self.text = f"line {number} has {shown}"
        super().__init__(f"{path}:{number}: {shown}, expected {expected}")
        self.path, self.fields, self.answers = path, fields, answers


def suggest_roles(entries: Sequence[Sequence[str]]) -> list[Answer]:
    """Suggest the roles of columns by their first rows of entries: the one field of times since 1970 is the time, and of the others of
    integers, but for one that counts the rows, two are source and destination: the first two, or else another pair (MOST_ANSWERS at most).
    A single number that is left is a weight. [] where no field, or more than one, holds such times, or fewer than two others integers."""
    columns = [*zip(*entries, strict=True)] if len({len(row) for row in entries}) == 1 else []
    times = [place for place, column in enumerate(columns) if _looks_like_times(column)]
    others = [place for place, column in enumerate(columns) if place not in times and not _counts_rows(column)]
    integers = [place for place in others if all(map(str.isdecimal, columns[place]))]
    if len(times) != 1:
        return []
    pairs = islice(combinations(integers, len(ENDS)), MOST_ANSWERS)
    return [_suggest(columns, {times[0]: "time", **dict(zip(pair, ENDS, strict=True))}) for pair in pairs]


def _suggest(columns: Sequence[Sequence[str]], chosen: Mapping[int, str]) -> Answer:
    left = [place for place in range(len(columns)) if place not in chosen and not _counts_rows(columns[place])]
    weights = dict.fromkeys(left, "weight") if len(left) == 1 and all(map(is_number, columns[left[0]])) else {}
    roles = [{**chosen, **weights}.get(place, "_") for place in range(len(columns))]
    fields = {role: roles.index(role) + 1 for role in ("time", *ENDS)}
    meaning = f"field {fields['time']} is the time, {fields['src']} the source, {fields['dst']} the destination"
    return Answer(meaning, {"columns": ",".join(roles)})


def _counts_rows(column: Sequence[str]) -> bool:
    """Return whether entries are integers that rise by one from row to row."""
    first = int(column[0]) if column[0].isdecimal() else None
    return first is not None and len(column) > 1 and all(entry == str(first + row) for row, entry in enumerate(column))


def _looks_like_times(column: Sequence[str]) -> bool:
    numbers = [float(entry) for entry in column if is_number(entry)]
    return len(numbers) == len(column) > 0 and find_epoch_unit(min(numbers), max(numbers)) is not None
