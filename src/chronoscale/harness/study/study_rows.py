"""Study rows: the rows of a study file, made of its names and of the points of its grids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from chronoscale.errors import UserError
from chronoscale.harness.study.expressions import Names, filled, loops, value
from chronoscale.harness.study.findings import ASIDE, NAN, beside, row
from chronoscale.harness.study.study_file import Repeated, Row, StudyFile


def rows_of(study: StudyFile, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a study. names: what its expressions may use, its grids among them; its `values` are added. Raises UserError for
    what the study file has wrong."""
    for key, text in study.values.items():
        names[key] = value(text, names)
    rows: list[dict[str, Any]] = []
    for i, entry in enumerate(study.rows):
        with place(f"rows[{i}]"):
            rows += lines(entry, names)
    return rows


@contextmanager
def place(where: str) -> Iterator[None]:
    """Turn what a study file has wrong into a UserError that begins with its key."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {type(error).__name__}: {error}") from error


def turns(entry: Repeated, names: Names) -> Iterator[dict[str, Any]]:
    """Yield the names of every turn of an entry's loop that is not left out."""
    for turn in loops(entry.over, names):
        for key, text in entry.let.items():
            turn[key] = value(text, turn)
        turn["filled"] = partial(filled, names=turn)
        if value(entry.where, turn):
            yield turn


def lines(entry: Row, names: Names) -> Iterator[dict[str, Any]]:
    """Yield the rows that an entry of a study file makes: one a turn of its loop, or all that its expression `lines` gives."""
    for turn in turns(entry, names):
        if entry.lines is not None:
            yield from value(entry.lines, turn)
            continue
        line: dict[str, Any] = {}
        if entry.what:
            ours, what = value(entry.ours, turn), filled(entry.what, turn)
            if isinstance(ours, list | tuple):
                line = row(what, value(entry.range, turn), ours, "")
            else:
                theirs = value(entry.printed, turn)
                line = beside(what, NAN if theirs is None else float(theirs), float(ours), "", str(value(entry.part, turn) or ""))
            why = filled(entry.why, {**turn, "ours": ours, "ratio": line["ratio"]})
            line["why"] = "; ".join(filter(None, (str(line["why"]), why)))
            if reason := value(entry.aside, turn):
                line[ASIDE] = str(reason)
        yield line | {key: value(text, turn) for key, text in entry.line.items()}
