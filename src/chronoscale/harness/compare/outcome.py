"""Outcome of a comparison: what every strategy's trainings reached, when, and at what cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chronoscale.datasets.scores import Score
from chronoscale.harness.compare.target import Target
from chronoscale.strategies.costs import Floats

INF = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class StrategyOutcome:
    """What one strategy's trainings on one number of ranks reached in a comparison.

    label: names it among all, `name` or with the number of GPUs. group: labels of all that train alike; their curves are one training's,
    their epochs are timed apart. rate: the learning rate that was chosen. curves: seed -> score on validation after each epoch. test: seed
    -> score of the best epoch's model on the test, where there is one. passes_s: seconds of each timed epoch, or of a simulated one in each
    draw. steps, targets, mathematics: of an epoch. peak_bytes: of the fullest rank's device; moved_bytes: over the bus and between ranks in
    an epoch, of all ranks. failed: seed -> the number that was not finite.
    """

    label: str
    name: str
    ranks: int
    group: tuple[str, ...]
    rate: float
    curves: Mapping[int, tuple[float, ...]]
    test: Mapping[int, float]
    passes_s: tuple[float, ...]
    peak_bytes: int
    steps: int
    targets: int
    mathematics: str
    moved_bytes: int
    failed: Mapping[int, str]

    @property
    def epoch_s(self) -> float:
        """Return the median of the timed epochs, s."""
        return float(np.median(self.passes_s))

    def epochs_to(self, target: Target) -> Floats:
        """Return the epochs after which each seed's training first meets the target, float64 [seeds]; infinity where it never does."""
        firsts = []
        for curve in self.curves.values():
            met = [number + 1 for number, value in enumerate(curve) if target.met(value)]
            firsts.append(met[0] if met else INF)
        return np.array(firsts, np.float64)

    def best(self, score: Score) -> Floats:
        """Return each seed's best score, float64 [seeds]; NaN for a training without any."""
        return np.array([score.best(curve) for curve in self.curves.values()], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Everything that a run of `chronoscale compare` found out, by numbers of ranks and in the order of the experiment.

    naive: score on validation of predictions without a model, by name; meanings: what they predict. scales: numbers of ranks, ascending.
    epochs, seeds: that were trained. cluster: that epochs are simulated on, '' where they were timed. refused: sentences on what a
    scale leaves out; remarks: on how epochs were simulated, or timed amid noise. rates: learning rates that each was tried with,
    ascending.
    """

    score: Score
    target: Target
    outcomes: tuple[StrategyOutcome, ...]
    naive: Mapping[str, float]
    scales: tuple[int, ...]
    epochs: int
    seeds: tuple[int, ...]
    rates: tuple[float, ...] = ()
    cluster: str = ""
    refused: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)


def places(scales: Sequence[int], cluster: str) -> str:
    """Return the words for where strategies were compared, such as "on 2 ranks" or "on 8 and 64 GPUs of h200, simulated".

    scales: numbers of ranks. cluster: on which epochs are simulated, '' where they were timed.
    """
    counts = listed(list(map(str, scales)))
    many = "s" * (counts != "1")
    return f"on {counts} GPU{many} of {cluster}, simulated" if cluster else f"on {counts} rank{many}"


def listed(words: Sequence[str]) -> str:
    """Return words in a row, such as "a, b and c"; at least one."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


def count_gpus(count: int) -> str:
    """Return a number of GPUs in words, such as "8 GPUs"."""
    return f"{count} GPU{'s' * (count != 1)}"
