"""Account of a reading: which files and columns became what, for people to read; it travels with the container, to disk as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

Account = Mapping[str, str | list[str]]
"""Keys: `reader`; `files`; `columns`, the role of each; `time` where no column holds it; `dropped`, what was not read. Of an archive or a
table, `columns` are its arrays. Empty where a container was made in memory."""


def shorten_columns(columns: Sequence[str]) -> list[str]:
    """Shorten the columns of a table that a dataset reader has read, for the account that people see: four or more of one role in a row
    become `172 x feature`; the order stays."""
    runs = [(role, len(list(run))) for role, run in groupby(columns)]
    return [name for role, length in runs for name in ([role] * length if length < 4 else [f"{length} x {role}"])]
