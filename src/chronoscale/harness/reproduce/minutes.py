"""Minutes: how long the studies of papers took, in a sentence, from their stored results."""

from __future__ import annotations

from collections.abc import Sequence

from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.study.expressions import plural
from chronoscale.harness.study.results import StoredResult
from chronoscale.reports.published import published


def minutes_sentence(runs: Sequence[tuple[Study, StoredResult]]) -> str:
    """Return how many minutes studies took together, which took longest, and of how many only a part is counted, as they took up points
    whose time is not known. runs: studies with their results, at least one."""
    study, longest = max(runs, key=lambda run: run[1].minutes)
    together = sum(result.minutes for _, result in runs)
    partial = sum(result.untimed > 0 for _, result in runs)
    name = f"{published(study.paper).name}'s {study.kind} {study.number}"
    beside = f"; {partial} took longer than is counted, having taken up points that an earlier run had not timed" if partial else ""
    took = f"{'at least ' * (partial > 0)}{together:.0f} minutes"
    return (
        f"Making the {len(runs)} {plural(len(runs), 'result')} took {took}, one after another; the longest, {name}, "
        f"{longest.minutes:.1f}{beside}."
    )
