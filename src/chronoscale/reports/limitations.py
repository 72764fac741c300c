"""Limitations of a result: what its number rests on, in few words that stand beside it."""

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
    """Return in words how many of `ranks` have no work, for a report's tables and sentences; '' for none."""
    return f"{count} of {ranks} ranks idle" if count else ""


def limitations(run: StrategyResult) -> str:
    """Return the reasons why a result of a report can be trusted only so far, in few words; '' for none.

    That is where durations come from, ranks without work, more GPUs than the cluster has, and too few samples or repeats.
    """
    limits = [ORIGIN.get(source, source) for source in run.summary.sources.split(", ")]
    limits.append(idle_ranks(run.ranks, run.idle_ranks))
    if 0 < run.cluster_gpus < run.ranks:
        limits.append(f"{run.ranks:,} GPUs of a cluster of {run.cluster_gpus:,}")
    if run.kind == "executed" and run.summary.repeats < REPEATS:
        limits.append(f"{run.summary.repeats} repeat{'s' * (run.summary.repeats > 1)}")
    if run.few_samples:
        limits.append(f"few samples of {', '.join(name.lower() for name in run.few_samples)}")
    return "; ".join(dict.fromkeys(filter(None, limits)))
