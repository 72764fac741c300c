"""Budget: which probes a profile takes: those that its costs will be asked for, and no more than it may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from chronoscale.harness.workflows.execution import ProbeCandidate
from chronoscale.strategies.costing.curves import Curve, curves
from chronoscale.strategies.costing.request import Ranges, descriptor_ranges
from chronoscale.strategies.costs import CostModel, durations
from chronoscale.strategies.schedule import Schedule

SAMPLES = 8  # of a curve: half of them are fitted, a quarter chooses its form, its error is told on the last quarter
ALIKE = 4  # of one whose rows are all described alike: there is nothing to choose
SLACK = 0.1  # as `FittedCosts.slack`: how far costs may be asked beyond what was measured


def work_ns(schedule: Schedule, costs: CostModel) -> int:
    """Return the time that the busiest rank works in one pass over a schedule, by `costs`, ns; waiting and collectives left out.

    `chronoscale profile` compares schedules by it, to choose what to time.
    """
    ns, _ = durations(costs, schedule)
    return int(np.bincount(schedule.rank, ns).max()) if len(schedule) else 0


@dataclass(slots=True)
class Budget:
    """Budget of `chronoscale profile`: the time that probes (short schedules to time) may take, and the cost curves that they have to
    sample.

    requested: for every curve that a plan or replay will ask, the ranges of the rows' descriptors (edges, rows, …). allowed_ns: work of a
    pass over all probes; it and `spent_ns` are by `costs`, a datasheet's, which serve as shares of an epoch only. incomplete: `requested`
    lacks curves, so that probes of others are useful, too.
    """

    requested: Mapping[Curve, Ranges]
    allowed_ns: float
    costs: CostModel
    incomplete: bool = False
    spent_ns: float = 0.0
    _seen: dict[Curve, Ranges] = field(default_factory=dict)
    _samples: dict[Curve, int] = field(default_factory=dict)

    def choose(self, candidates: Iterable[ProbeCandidate]) -> list[ProbeCandidate]:
        """Choose the probes to time, in their order, until time is spent and every requested curve has samples enough.

        Those that bring requested samples which none before them has brought are taken at whatever cost, others while the budget lasts.
        Those with rows that nobody requests are tried last.
        """
        chosen = list[ProbeCandidate]()
        later = list[ProbeCandidate]()
        for candidate in candidates:
            if not self._useful(candidate.schedule):
                later.append(candidate)
            elif self._brings(candidate.schedule) or self.spent_ns + work_ns(candidate.schedule, self.costs) <= self.allowed_ns:
                self._take(chosen, candidate)
            if self.spent_ns >= self.allowed_ns and not self.missing:
                return chosen
        for candidate in later:
            if self._brings(candidate.schedule):
                self._take(chosen, candidate)
        return chosen

    @property
    def missing(self) -> list[Curve]:
        """Requested curves that the probes chosen so far sample too seldom, or over too small a range."""
        return [curve for curve in self.requested if self._few(curve) or self._short(curve)]

    def _few(self, curve: Curve) -> bool:
        varies = any(low < high for low, high in self.requested[curve].values())
        return self._samples.get(curve, 0) < (SAMPLES if varies else ALIKE)

    def _short(self, curve: Curve) -> list[tuple[str, int]]:
        """Descriptors, and which end of their range is not reached."""
        seen = self._seen.get(curve, {})
        short = []
        for name, (low, high) in self.requested[curve].items():
            if name not in seen or seen[name][0] * (1 - SLACK) > low:
                short.append((name, 0))
            if name not in seen or seen[name][1] * (1 + SLACK) < high:
                short.append((name, 1))
        return short

    def _brings(self, schedule: Schedule) -> bool:
        for curve, ranges in descriptor_ranges(schedule).items():
            if curve not in self.requested:
                continue
            if self._few(curve):
                return True
            seen = self._seen[curve]
            if any(
                ranges[name][end] < seen[name][0] if end == 0 else ranges[name][end] > seen[name][1] for name, end in self._short(curve)
            ):
                return True
        return False

    def _useful(self, schedule: Schedule) -> bool:
        return self.incomplete or descriptor_ranges(schedule).keys() <= self.requested.keys()

    def _take(self, chosen: list[ProbeCandidate], candidate: ProbeCandidate) -> None:
        schedule = candidate.schedule
        chosen.append(candidate)
        self.spent_ns += work_ns(schedule, self.costs)
        for curve, rows in curves(schedule, np.arange(len(schedule))):
            self._samples[curve] = self._samples.get(curve, 0) + len(rows)
        for curve, ranges in descriptor_ranges(schedule).items():
            known = self._seen.setdefault(curve, dict(ranges))
            for name, (low, high) in ranges.items():
                known[name] = min(known[name][0], low), max(known[name][1], high)
