"""Comparison of two results: which contestants take longer or less long, and which of them no more than they scatter."""

from __future__ import annotations

from collections.abc import Iterator

from chronoscale.errors import UserError
from core.result import Entry, Result
from core.table import duration, head, line, ratios, spread

HEAD = ("case", "contestant", "first", "second", "second / first", "verdict")
SAME = "no difference"  # the ranges of both overlap


def compare(first: Result, second: Result) -> Iterator[str]:
    """Yield lines: what differs in the machines, then a row for each contestant that both have. Raises UserError for none."""
    if first.subject != second.subject:
        raise UserError(f"'{first.subject}' and '{second.subject}' are different subjects")
    for key in sorted(first.environment.keys() | second.environment.keys()):
        facts = [result.environment.get(key, "–") for result in (first, second)]
        if facts[0] != facts[1]:
            yield f"{key}: {facts[0]}, then {facts[1]}"
    known = {(entry.case, entry.contestant): entry for entry in first.entries}
    pairs = [(known[key], entry) for entry in second.entries if (key := (entry.case, entry.contestant)) in known]
    if not pairs:
        raise UserError(f"both results of '{first.subject}' have no case in common")
    yield f"\n{head(HEAD)}"
    for before, after in pairs:
        times = (duration(entry.stats().median) for entry in (before, after))
        yield line((before.case, before.contestant, *times, spread(ratios(_seconds(after), _seconds(before))), verdict(before, after)))


def verdict(before: Entry, after: Entry) -> str:
    """Return "faster" or "slower" where every pass of one is quicker than every pass of the other, else SAME."""
    if max(_seconds(after)) < min(_seconds(before)):
        return "faster"
    return "slower" if min(_seconds(after)) > max(_seconds(before)) else SAME


def _seconds(entry: Entry) -> list[float]:
    return list(entry.figures["seconds"])
