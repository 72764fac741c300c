"""Marks: what a number rests on, in few words that stand beside it."""

from __future__ import annotations

from chronoscale.reports.strategy_result import StrategyResult

REPEATS = 5  # the fewest that make a measured figure
ORIGIN = {
    "measured": "",  # what else, where it was executed
    "fitted": "profile",
    "specified": "datasheet, no profile",
    "published": "published times",
    "extrapolated": "extrapolated",
}


def idle_ranks(ranks: int, count: int) -> str:
    """`count` of `ranks` that have no work, in words; '' for none."""
    return f"{count} of {ranks} ranks idle" if count else ""


def limitations(run: StrategyResult) -> str:
    """Where its durations come from, ranks without work, GPUs that the cluster has not, and samples that are too few; '' for nothing that
    limits it."""
    found = [ORIGIN.get(source, source) for source in run.summary.sources.split(", ")]
    found.append(idle_ranks(run.ranks, run.idle))
    if 0 < run.there < run.ranks:
        found.append(f"{run.ranks:,} GPUs of a cluster of {run.there:,}")
    if run.kind == "executed" and run.summary.repeats < REPEATS:
        found.append(f"{run.summary.repeats} repeat{'s' * (run.summary.repeats > 1)}")
    if run.few:
        found.append(f"few samples of {', '.join(name.lower() for name in run.few)}")
    return "; ".join(dict.fromkeys(filter(None, found)))
