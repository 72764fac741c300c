"""Budget: which probes a profile takes: those that its costs will be asked for, and no more than it may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from chronoscale.harness.workflows.workflow import ProbeCandidate
from chronoscale.strategies.costing.curves import Curve, curves
from chronoscale.strategies.costing.request import Ranges, descriptor_ranges
from chronoscale.strategies.costs import CostModel, durations
from chronoscale.strategies.schedule import Schedule

SAMPLES = 8  # of a curve: half of them are fitted, a quarter chooses its form, its error is told on the last quarter
ALIKE = 4  # of one whose rows are all described alike: there is nothing to choose
SLACK = 0.1  # as `FittedCosts.slack`: how far costs may be asked beyond what was measured


def work_ns(schedule: Schedule, costs: CostModel) -> int:
    """Return what the busiest rank has to do in a pass, by `costs`, ns; waiting and collectives left out."""
    ns, _ = durations(costs, schedule)
    return int(np.bincount(schedule.rank, ns).max()) if len(schedule) else 0


@dataclass(slots=True)
class Budget:
    """What probes may take, what they have to bring, and what those chosen so far have brought.

    requested: what costs will be asked for, by curve. allowed_ns: of a pass over all probes, by `costs`, a datasheet's: shares of an
    epoch are all that is taken from it. incomplete: not all that will be requested is known.
    """

    requested: Mapping[Curve, Ranges]
    allowed_ns: float
    costs: CostModel
    incomplete: bool = False
    spent_ns: float = 0.0
    _seen: dict[Curve, Ranges] = field(default_factory=dict)
    _samples: dict[Curve, int] = field(default_factory=dict)

    def choose(self, candidates: Iterable[ProbeCandidate]) -> list[ProbeCandidate]:
        """Choose candidates in their order: those that bring what is requested and nothing before them has brought, at whatever cost, and
        others while the budget lasts. What holds rows that nobody requests comes last, and only where it brings something. No more are
        looked at when the budget is spent and nothing is missing."""
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
        """Curves of which more is requested than is there."""
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
