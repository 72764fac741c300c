"""SNAP temporal networks: `.txt` or `.txt.gz`, `#` comments, `src dst unix_time` a line."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets.formats.columns import Columns
from chronoscale.datasets.formats.timed_edges import Places, events_of
from chronoscale.datasets.streams.events import EventStream


def read(path: str | Path, *, sort: bool = False) -> EventStream:
    """Read a file of SNAP's temporal collection (sx-stackoverflow, wiki-talk-temporal). Raises UserError, `file:line: what`."""
    columns = Columns(path, comment="#")
    columns.expect(3, "src dst t")
    return events_of(columns, Places(0, 1, 2), bipartite=False, sort=sort)
