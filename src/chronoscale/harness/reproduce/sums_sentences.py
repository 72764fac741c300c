"""Sums sentences: what the sums of all scored rows leave out, and what runs say of the rows whose cause is not shown."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from chronoscale.harness.reproduce.scorecard import Scorecard
from chronoscale.harness.study.causes import stored_causes
from chronoscale.harness.study.expressions import plural
from chronoscale.harness.study.findings import NEAR


def sums_sentences(cards: Sequence[Scorecard]) -> list[str]:
    """Return the sentences below the table of papers: rows without a fold, causes that are not shown, and shown ones that do harm."""
    return [_fold(cards), _unshown(cards), _harmful(cards)]


def _fold(cards: Sequence[Scorecard]) -> str:
    endless = sum(not isfinite(row.fold) for card in cards for row in card.score.rows)
    return f"No fold holds the {endless} {plural(endless, 'row')} in which ours is 0 or of the other sign."


def _unshown(cards: Sequence[Scorecard]) -> str:
    """Say of the rows beyond NEAR whose cause is not shown whether one change would do, none does, or none was made."""
    unshown = [row for card in cards for row in card.score.rows if row.cause not in (None, "shown")]
    costly = sum(row.run is not None and row.run.costs for row in unshown)
    untried = sum(row.run is None for row in unshown)
    return (
        f"Of the {len(unshown)} {plural(len(unshown), 'row')} beyond {NEAR} times without a shown cause, {costly} have an assumption that, "
        f"changed, closes half of the gap, but takes another row of the study further off; {len(unshown) - costly - untried} have none "
        f"among those that were changed; {untried} are of studies in which none was."
    )


def _harmful(cards: Sequence[Scorecard]) -> str:
    """Say how many causes are shown by a change that results of another study of the same paper say takes rows further off."""
    shown = harmful = 0
    for card in cards:
        results = {name: result for name, (_, result) in card.studies.items() if result}
        harms = {(name, cause.cause) for name, result in results.items() for cause in stored_causes(result.findings) if cause.harms}
        for row in card.score.rows:
            if row.run and row.cause == "shown":
                shown += 1
                harmful += any(cause == row.run.cause and name != row.study.file_name for name, cause in harms)
    return (
        f"A cause is judged by its study alone: the change behind {harmful} of the {shown} shown ones takes rows of another study of the "
        "paper further off, as far as results keep that."
    )
