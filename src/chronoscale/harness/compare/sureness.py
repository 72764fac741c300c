"""Sureness of a comparison: times to the target resampled over seeds and timed epochs, and left out seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.costs import Floats

DRAWS = 4_000  # resamples


@dataclass(frozen=True, slots=True, eq=False)
class TimesToTarget:
    """Times in which strategies reach a target, and how sure they are.

    seconds: strategy -> each seed's time, float64 [seeds], infinite where its training never gets there. low, high: strategy -> ends of
    nine tenths of the resampled medians. first_in: strategy -> share of resamples in which its median is the least; they add up to less
    than 1 where in some nobody gets there. without: seed -> the strategy that is first without it, '' for none.
    """

    seconds: Mapping[str, Floats]
    low: Mapping[str, float]
    high: Mapping[str, float]
    first_in: Mapping[str, float]
    without: Mapping[int, str]

    def median(self, name: str) -> float:
        """Return the median over seeds, s; infinite where fewer than half of the trainings get there."""
        return median(self.seconds[name])

    def reached(self, name: str) -> int:
        """Return how many seeds' trainings reach the target."""
        return int(np.isfinite(self.seconds[name]).sum())

    @property
    def order(self) -> list[str]:
        """Return the strategies by median, those that never get there last."""
        return sorted(self.seconds, key=self.median)


def median(times: Floats) -> float:
    """Return the time to a target within which half of the seeds' trainings of `chronoscale compare` get there: the middle one, of an even
    number the lower of the two; infinite where fewer than half do."""
    return float(np.sort(times)[(len(times) - 1) // 2])


def times_to_target(
    epochs: Mapping[str, Floats], passes_s: Mapping[str, tuple[float, ...]], seeds: tuple[int, ...], simulated: bool = False
) -> TimesToTarget:
    """Return the times to the target for `chronoscale compare`: the epochs that each seed takes, times the median epoch, both resampled.

    epochs: strategy -> epochs to the target, float64 [seeds], infinite where never reached. passes_s: strategy -> seconds of its timed
    epochs, or of a simulated one in each draw of what is uncertain. Seeds are resampled for all strategies alike, since a seed's luck is
    shared; so are simulated draws, one a resample, since a cluster is as it is for all; timed epochs for each strategy by itself.
    """
    names = list(epochs)
    seconds = {name: epochs[name] * float(np.median(passes_s[name])) for name in names}
    draw = np.random.default_rng(0)
    chosen = draw.integers(len(seeds), size=(DRAWS, len(seeds)))
    drawn = draw.permutation(DRAWS)
    medians = np.empty((DRAWS, len(names)))
    for column, name in enumerate(names):
        passes = np.array(passes_s[name])
        if simulated:
            epoch_s = passes[drawn % len(passes)]
        else:
            epoch_s = np.median(passes[draw.integers(len(passes), size=(DRAWS, len(passes)))], axis=1)
        ordered = np.sort(epochs[name][chosen], axis=1)
        medians[:, column] = ordered[:, (len(seeds) - 1) // 2] * epoch_s
    least = medians.min(1, keepdims=True)
    first = (medians == least) & np.isfinite(least)
    first = first / np.maximum(first.sum(1, keepdims=True), 1)  # those that tie share the place
    ends = {name: np.quantile(medians[:, column], (0.05, 0.95), method="nearest") for column, name in enumerate(names)}
    without: dict[int, str] = {}
    if len(seeds) > 1:
        leader = min(names, key=lambda name: median(seconds[name]))
        without = {seed: _first({name: np.delete(seconds[name], place) for name in names}, leader) for place, seed in enumerate(seeds)}
    return TimesToTarget(
        seconds,
        {name: float(low) for name, (low, _) in ends.items()},
        {name: float(high) for name, (_, high) in ends.items()},
        {name: float(first[:, column].mean()) for column, name in enumerate(names)},
        without,
    )


def _first(seconds: Mapping[str, Floats], leader: str) -> str:
    """The strategy whose middle time is the least, of an even number the later of the two: nobody is first by half of the seeds. leader:
    who is first with all seeds, and stays so where it ties."""
    middle = {name: float(np.sort(times)[len(times) // 2]) for name, times in seconds.items()}
    best = min(middle, key=lambda name: (middle[name], name != leader))
    return best if np.isfinite(middle[best]) else ""
