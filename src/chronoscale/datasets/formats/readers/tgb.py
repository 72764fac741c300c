"""Reader of the Temporal Graph Benchmark's csv files of links, known by their names: `tgbl-wiki_edgelist_v2.csv` and the like.

Their columns are taken by place, as TGB's reader takes them (tgb/utils/pre_process.py), since not every header names them: that of
tgbl-coin is tgbl-flight's. Nodes are numbered in the order in which they appear, features are TGB's, and times are whole, as it cuts their
fractions off: published negatives (`tgb_negatives`) and results are of these. (Huang et al., 2023.)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float32, Int64
from chronoscale.datasets.formats.event_order import EventOrder, OrderPolicy, Sort, Strict, order_policy
from chronoscale.datasets.formats.tables.event_table import RowError, TimeColumn
from chronoscale.datasets.formats.tables.lines import first_line
from chronoscale.datasets.formats.tables.stream_builder import build_stream, read_events
from chronoscale.datasets.formats.tables.text_table import TextTable
from chronoscale.datasets.spool import Spool
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError, unknown

NAME = re.compile(r"(tgbl-[a-z]+)_edgelist(_v\d+|_sorted)?\.csv(\.gz)?")
JODIE = ("tgbl-wiki", "tgbl-subreddit", "tgbl-lastfm", "tgbl-uci", "tgbl-enron")  # user, item, time, label, features…: items after users
WORDS = 5000  # TGB divides a comment's by it
LATEST = 2.0**53  # time that float64 has no fractions of
SPARSEST = 1_000  # numbers of nodes an event: files of TGB's have fewer than one
LETTERS = 8  # of a call sign, and of a type of aircraft
_PAD, _CODES = ord("!"), np.array([-1 if c == ord("!") else c - 48 if 48 <= c < 58 else ord(chr(c).upper()) - 35 for c in range(128)], "f4")

Words = NDArray[Any]  # of text [M]


@dataclass(frozen=True, slots=True)
class LinkFormat:
    """Columns of one of TGB's datasets of links: `fields` are the names of those after time, source and destination, in order; `features`
    makes float32 [M, width] of them."""

    fields: tuple[str, ...]
    width: int
    features: Callable[..., Float32]


def _numbers(words: Words, meaning: str, row_error: RowError) -> NDArray[Any]:
    import pandas as pd  # noqa: PLC0415 (heavy, and other formats do without)

    numbers = pd.to_numeric(pd.Series(words), errors="coerce").to_numpy()
    if numbers.dtype.kind not in "if" or not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers.astype(np.float64))))
        raise row_error(row, f"expected a {meaning}, found '{words[row][:40]}'")
    return numbers.astype(np.int64 if numbers.dtype.kind == "i" else np.float64, copy=False)


def _weight_features(row_error: RowError, weight: Words) -> Float32:
    """Return the logarithms of weights to base 2, float32 [M, 1]; a weight of 0 counts as 1. Raises UserError for one below 0."""
    weights = _numbers(weight, "weight", row_error).astype(np.float64)
    if (below := weights < 0).any():
        raise row_error(int(np.argmax(below)), f"expected a weight of 0 or more, found {weight[np.argmax(below)]}")
    return np.log2(np.where(weights == 0, 1, weights)).astype(np.float32)[:, None]


def _comment_features(row_error: RowError, words: Words, score: Words) -> Float32:
    """Return a comment's number of words / 5000 and its score, float32 [M, 2]."""
    columns = _numbers(words, "number of words", row_error) / WORDS, _numbers(score, "score", row_error)
    return np.stack(columns, axis=1).astype(np.float32)


def _flight_features(row_error: RowError, callsign: Words, typecode: Words) -> Float32:
    """Return eight characters of a call sign and of a type of aircraft as numbers, float32 [M, 16]: a digit is itself, what is not there
    -1, a letter its place after A = 30."""
    sides = []
    for side in (callsign, np.where(np.char.str_len(typecode.astype("U")) > LETTERS, "", typecode)):
        padded = np.char.ljust(side.astype("U"), LETTERS, "!").astype(f"U{LETTERS}")
        codes = np.ascontiguousarray(padded).view(np.uint32).reshape(len(padded), LETTERS)
        if (strange := (codes >= len(_CODES)).any(axis=1)).any():
            row = int(np.argmax(strange))
            raise row_error(row, f"expected letters and digits of ASCII, found '{side[row]}'")
        sides.append(_CODES[codes])
    return np.concatenate(sides, axis=1)


LINK_FORMATS = {
    "tgbl-coin": LinkFormat(("weight",), 1, _weight_features),
    "tgbl-review": LinkFormat(("weight",), 1, _weight_features),
    "tgbl-comment": LinkFormat(("num_words", "score"), 2, _comment_features),
    "tgbl-flight": LinkFormat(("callsign", "typecode"), 2 * LETTERS, _flight_features),
}


def matches(path: Path, first: str) -> bool:
    """Return whether a dataset file is one of TGB's, by its name; `first`, its first line, is not looked at."""
    named = NAME.fullmatch(path.name)
    return named is not None and named[1] in (*JODIE, *LINK_FORMATS)


def read(path: str | Path, *, sort: Sort = False, strict: Strict = False) -> EventStream:
    """Read one of TGB's files of links as an event stream. Features: of tgbl-coin and tgbl-review log2(weight), of tgbl-comment words /
    5000 and score, of tgbl-flight 16 characters as numbers, of the others the file's. `node_ids` where all names of nodes are integers.

    `sort`, `strict`: sort events that are not in the order of time without a warning, or refuse them. Raises UserError, `file:line: what`,
    and for a name that is none of TGB's.
    """
    file = Path(path)
    named = NAME.fullmatch(file.name)
    if named is None or named[1] not in (*JODIE, *LINK_FORMATS):
        raise unknown("dataset of TGB:", named[1] if named else file.name, [*JODIE, *LINK_FORMATS])
    table = TextTable(file, separator=",", skip=1)
    if named[1] in JODIE:
        if table.fields < 4:
            raise UserError(f"{file}:{table.first_line()[0]}: expected user,item,time,label,features…, found {table.fields} fields")
        roles = ("src", "dst", "time", "label", *["feature"] * (table.fields - 4))
        return _as_numbered(replace(read_events([table], roles, bipartite=True, order=order_policy(sort, strict)), name=named[1]), file)
    return _read_links(table, named[1], LINK_FORMATS[named[1]], order_policy(sort, strict))


def _as_numbered(events: EventStream, file: Path) -> EventStream:
    """Return a stream of users and items with TGB's numbers, a user's id and an item's id after the largest of these, and with whole times.
    Raises UserError for ids that leave most numbers to no node, and for times that no integers tell apart."""
    assert events.node_ids is not None
    if np.abs(events.t).max() > LATEST:
        raise UserError(f"{file}: times reach {events.t[np.argmax(np.abs(events.t))]:g}, and TGB's are whole numbers up to 2**53")
    users, items = events.node_ids[events.src], events.node_ids[events.dst]
    first = int(users.max()) + 1
    count = first + int(items.max()) + 1
    if count > SPARSEST * len(events):
        raise UserError(f"{file}: {len(events)} events with node ids up to {max(users.max(), items.max())}: TGB numbers nodes by ids")
    src, dst = users.astype(np.int32), (items + first).astype(np.int32)
    ids = np.concatenate([np.arange(first), np.arange(count - first)])
    return replace(events, num_nodes=count, src=src, dst=dst, t=events.t.astype(np.int64), node_ids=ids)


def _read_links(table: TextTable, name: str, links: LinkFormat, order: OrderPolicy) -> EventStream:
    header = [entry.strip() for entry in first_line(table.path).split(",")]
    named = len(header) == table.fields and {*links.fields} <= {*header}
    places = [header.index(field) if named else 3 + at for at, field in enumerate(links.fields)]
    if table.fields < 3 + len(links.fields):
        expected = ",".join(("time", "src", "dst", *links.fields))
        raise UserError(f"{table.path}:{table.first_line()[0]}: expected {expected}, found {table.fields} fields")
    ends = Spool(np.int64, (2,))
    times = TimeColumn()
    features = Spool(np.float32, (links.width,))
    nodes = _NodeNumbers()
    for frame in table.text_blocks():
        start = table.rows

        def row_error(row: int, what: str, start: int = start) -> UserError:
            return table.error(start + row, what)

        words = [frame.iloc[:, place].to_numpy(object) for place in range(frame.shape[1])]
        times.append(_seconds(words[0], row_error), row_error)
        ends.append(nodes.numbered(words[1], words[2], row_error))
        features.append(links.features(row_error, *(words[place] for place in places)))
    numbers = ends.array()
    columns = {"src": numbers[:, 0], "dst": numbers[:, 1], "time": times.array(), "features": features.array()}
    placed = EventOrder(columns["time"], order, table.error, "; field 1 is read as the time")
    roles = ["time", "src", "dst", *(f"{field} (feature)" for field in links.fields)]
    unread = [f"column {place + 1}" for place in range(3, table.fields) if place not in places]
    account = {"files": [table.path.name], "columns": roles, "nodes": nodes.numbering, **placed.account, "dropped": unread}
    return replace(build_stream(table.path, columns, placed, account), name=name, node_ids=nodes.ids())


class _NodeNumbers:
    """Numbers of nodes by name, given in the order in which they appear, a source before its destination."""

    numbering = "numbered in the order in which they appear"

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbered(self, src: Words, dst: Words, row_error: RowError) -> Int64:
        """Return the numbers of the ends of events, int64 [M, 2]; names that are new get the next ones. Raises UserError for an empty
        name."""
        import pandas as pd  # noqa: PLC0415 (heavy, and other formats do without)

        codes, names = pd.factorize(np.stack([src, dst], axis=1).ravel())
        if "" in names:
            raise row_error(int(np.argmax(codes == list(names).index(""))) // 2, "expected a node, found ''")
        known = self._numbers
        return np.array([known.setdefault(name, len(known)) for name in names], np.int64)[codes].reshape(-1, 2)

    def ids(self) -> Int64 | None:
        """Return the names, where all are integers of int64 as Python writes them."""
        if not all(len(name) < 19 and name.isascii() and name.isdigit() for name in self._numbers):
            return None
        return np.array([int(name) for name in self._numbers], np.int64)


def _seconds(words: Words, row_error: RowError) -> NDArray[Any]:
    """Return times as they are, or days (2019-01-31) as seconds since 1970."""
    if words.size and "-" in words[0][1:]:
        import pandas as pd  # noqa: PLC0415 (heavy, and other formats do without)

        days = pd.to_datetime(pd.Series(words), format="%Y-%m-%d", errors="coerce").to_numpy("datetime64[s]")
        if (wrong := np.isnat(days)).any():
            row = int(np.argmax(wrong))
            raise row_error(row, f"expected a day, found '{words[row][:40]}'")
        return days.astype(np.int64)
    return _numbers(words, "time", row_error)
