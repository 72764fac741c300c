"""Plausibility of columns that are read as events because of their place or name: where another order is likelier, the user is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import count_falls
from chronoscale.datasets.formats.epoch import find_epoch_unit
from chronoscale.datasets.formats.question import Answer, Question

FEWEST = 10  # events; what fewer of them have in common may be chance
OUT_OF_ORDER = 0.25  # share of events at which a column falls, if it is not in the order of time; of numbers in no order a half does
ENDS = {"src": "source", "dst": "destination"}

Spell = Callable[[Mapping[str, int]], Mapping[str, str]]
"""Spells a choice of columns, role -> place from 0, as options of the reader."""


class EventColumn(NamedTuple):
    """Column of a file of events: its place from 0, how messages call it, such as "field 3", its entries, numbers [M], and the first of
    them as it stands in the file."""

    place: int
    label: str
    entries: NDArray[Any]
    first: str


def require_plausible_events(path: Path, columns: Mapping[str, EventColumn], spell: Spell, sorts: bool) -> None:
    """Check that columns which nobody has named hold what events have, before their rows are sorted; columns: "src", "dst" and, if there is
    one, "time". sorts: somebody has said that events are not in the order of time.

    Raises Question, with options as answers, where

    - all events (two or more) have one time;
    - all ids of one end lie between 1980 and 2100 as seconds, ms, µs or ns since 1970, and neither the other end's nor the times do: ids of
      the two ends are numbered alike, and times are not numbered from 1;
    - one end never falls from event to event and takes more values than the times do, whose column falls at OUT_OF_ORDER of the events or
      more: files are written in the order of time, and ids repeat (FEWEST events);
    - all events have one source, or all one destination (FEWEST events).
    """
    time, count = columns.get("time"), len(columns["src"].entries)
    meant = Answer("that is meant", spell({role: column.place for role, column in columns.items()}))
    if time is not None and count > 1:
        least, most = _ends(time)
        if least == most:
            other = {"src": columns["src"].place, "dst": columns["dst"].place, "weight": time.place}
            text = f"{time.label}, which is read as the time, is {time.first} in every row"
            raise Question(path, text, Answer("it is a weight", spell(other)), meant)
        for role, column in columns.items():
            reason = "" if role == "time" else _reads_like_times(column, columns, sorts)
            if reason:
                others = sorted(one.place for one in columns.values() if one is not column)
                answer = Answer(f"{column.label} is the time", spell({"time": column.place, "src": others[0], "dst": others[1]}))
                raise Question(path, f"{column.label}, which is read as the {ENDS[role]}, {reason}", answer, meant)
    for role in ENDS if count >= FEWEST else ():
        least, most = _ends(columns[role])
        if least == most:
            others = sorted(one.place for one in columns.values() if one is not columns[role])
            answers = (
                [Answer(f"{columns[role].label} is not read", spell({"src": others[0], "dst": others[1]}))] if len(others) == 2 else []
            )
            text = f"{columns[role].label}, which is read as the {ENDS[role]}, is {columns[role].first} in every row"
            raise Question(path, text, meant, *answers)


def _ends(column: EventColumn) -> tuple[Any, Any]:
    return column.entries.min().item(), column.entries.max().item()


def _reads_like_times(column: EventColumn, columns: Mapping[str, EventColumn], sorts: bool) -> str:
    """Return why an end of events is rather their time; '' where it is not."""
    time = columns["time"]
    least, most = _ends(time)
    if all((find_epoch_unit(*_ends(one)) is not None) == (one is column) for one in columns.values()):
        ids = "{:,} to {:,}".format(*_ends(column))
        return f"holds {ids}, which looks like times since 1970; {time.label}, which is read as the time, holds {least:,} to {most:,}"
    count = len(time.entries)
    if sorts or count < FEWEST or count_falls(time.entries)[0] < OUT_OF_ORDER * count or count_falls(column.entries)[0]:
        return ""
    distinct = len(np.unique(column.entries))
    if distinct <= len(np.unique(time.entries)):
        return ""
    falls = count_falls(time.entries)[0] / count
    return f"never falls from row to row, and {time.label}, which is read as the time, does in {falls:.0%} of the rows"
