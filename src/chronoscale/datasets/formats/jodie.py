"""JODIE csv: `user_id,item_id,timestamp,state_label,features…` under a header line; bipartite."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets.formats.columns import Columns, first_line
from chronoscale.datasets.formats.timed_edges import Places, events_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


def read(path: str | Path, *, sort: bool = False) -> EventStream:
    """Read a JODIE file (wikipedia, reddit, mooc, lastfm): items get ids after the users, features and labels are kept.

    Raises UserError, `file:line: what`.
    """
    path = Path(path)
    if not first_line(path).startswith("user"):
        raise UserError(f"{path}:1: expected the header 'user_id,item_id,timestamp,state_label,…'")
    columns = Columns(path, separator=",", skip=1)
    columns.expect(4, "user,item,timestamp,state_label,features…")
    return events_of(columns, Places(0, 1, 2, label=3, features_from=4), bipartite=True, sort=sort)
