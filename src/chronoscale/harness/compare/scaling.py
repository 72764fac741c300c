"""Scaling of a comparison in words: on how many GPUs each strategy reaches the target first, and why more do not pay."""

from __future__ import annotations

import numpy as np

from chronoscale.harness.compare.outcome import Comparison, StrategyOutcome, count_gpus
from chronoscale.harness.compare.sureness import TimesToTarget
from chronoscale.reports.numbers import number


def scaling_sentences(result: Comparison, times: TimesToTarget) -> list[str]:
    """Return a sentence for each strategy of `chronoscale compare` that was compared on several numbers of GPUs: the number that is the
    fastest to the target, and what the next larger one does to epochs and to learning; none where no strategy reaches it.
    """
    if not np.isfinite(times.median(times.order[0])):
        return []
    by_name: dict[str, list[StrategyOutcome]] = {}
    for one in result.outcomes:
        by_name.setdefault(one.name, []).append(one)
    return [_sentence(result, times, name, points) for name, points in by_name.items() if len(points) > 1]


def _sentence(result: Comparison, times: TimesToTarget, name: str, points: list[StrategyOutcome]) -> str:
    """points: the strategy's outcomes, by numbers of GPUs, ascending."""
    best = min(points, key=lambda one: times.median(one.label))
    if not np.isfinite(times.median(best.label)):
        return f"{name}: no number of GPUs brings half of its trainings to the target"
    text = f"{name}: fastest to the target on {count_gpus(best.ranks)}, after {_epochs(times, best)}"
    larger = points[points.index(best) + 1 :]
    if not larger:
        return f"{text}, the largest number that was compared"
    after = larger[0]
    ratio = number(after.epoch_s / best.epoch_s, 3)
    if np.isfinite(times.median(after.label)):
        learns = f"the target takes {_epochs(times, after)}"
    else:
        learns = f"half of its trainings do not reach the target in {_of_steps(result.epochs, after)}"
    return f"{text}; on {count_gpus(after.ranks)} an epoch takes {ratio} times as long, and {learns}"


def _epochs(times: TimesToTarget, one: StrategyOutcome) -> str:
    """Epochs to the target, as half of the seeds need them, and their steps."""
    return _of_steps(round(times.median(one.label) / one.epoch_s), one)


def _of_steps(epochs: int, one: StrategyOutcome) -> str:
    return f"{epochs} epoch{'s' * (epochs != 1)} of {one.steps} step{'s' * (one.steps != 1)}"
