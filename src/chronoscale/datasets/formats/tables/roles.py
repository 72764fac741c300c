"""Roles of columns in a table of events, as an option names them or a format documents them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chronoscale.errors import UserError, unknown

Roles = tuple[str, ...]

ONCE = ("src", "dst", "time", "weight", "label")  # weight: a feature of width 1
ROLES = (*ONCE, "feature", "_")  # these as often as need be
SHOWN = 60  # characters of a line


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
    """Error for a dataset's table whose lines have another number of fields than its format documents, or than the option `columns`
    names."""

    def __init__(self, where: str, fields: int, line: str, expected: str) -> None:
        shown = line.strip()[:SHOWN]
        super().__init__(f"{where}: {fields} fields ('{shown}'), expected {expected}")
        self.fields = fields
