"""Account of the reading of a table with a header: what each column became, and which are not read."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.datasets.account import shorten_columns
from chronoscale.datasets.formats.headed.headed_table import HeadedTable


def describe_columns(table: HeadedTable, family: str, roles: Mapping[int, str]) -> dict[str, str | list[str]]:
    """Describe what a table was read as, for the account that people see. family: what it is read as. roles: what the columns became, by
    place from 1; the others were dropped."""
    columns = [f"{one.name or one.place} ({roles[one.place]})" for one in table.columns if one.place in roles]
    dropped = [one.label for one in table.columns if one.place not in roles]
    return {
        "files": [path.name for path in table.paths],
        "read as": f"{table.kind}: {family}",
        "columns": shorten_columns(columns) if len(columns) <= SHOWN else [*columns[: SHOWN - 1], f"and {len(columns) - SHOWN + 1} more"],
        "dropped": dropped if len(dropped) <= SHOWN else [*dropped[: SHOWN - 1], f"and {len(dropped) - SHOWN + 1} more"],
    }


SHOWN = 12  # columns
