"""Cases: Table 4's speed-ups under other assumptions, one at a time, and which of them comes near a printed one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chronoscale.harness.study.findings import AGREES, NOT_PRINTED, UNKNOWN
from chronoscale.harness.study.hooks.fast_costs import Rates
from chronoscale.harness.study.hooks.fast_points import SIMPLE_RATIO, TGL, Point, ratio, simulate
from chronoscale.harness.study.hooks.fast_rates import paced, seconds, solved
from chronoscale.harness.study.point import StudyPoint

RIVALS: Mapping[str, str] = {"tgl": TGL, "etc": "etc", "simple": "simple"}  # by the names of Table 4
NEAR, PART = 0.15, 0.7  # a case explains what it brings within this of the printed; part, where it leaves at most this of the difference
OPERATORS, BOUND = 1.7, 1.3  # see `cases`


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A set of assumptions. rates: other figures than the solved ones. points: other fields of a strategy's points. paced:
    kernels reach the share of peak that FAST's printed epoch implies. assumptions: how many."""

    name: str
    rates: Mapping[str, Any] = field(default_factory=dict)
    points: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paced: bool = False
    assumptions: int = 1

    def figures(self, quick: bool) -> Rates:
        """Solved, and then changed."""
        found = paced(quick) if self.paced else solved(quick)
        return replace(found, **{key: value * getattr(found, key) if key in SCALED else value for key, value in self.rates.items()})

    def epoch(self, dataset: str, model: str, strategy: str, quick: bool) -> float:
        """Seconds. strategy: as Table 4 names it."""
        share = {"fast": lambda: ratio(dataset, model, quick), "simple": lambda: SIMPLE_RATIO}.get(strategy, lambda: 0.0)()
        point = Point(dataset, model, RIVALS.get(strategy, strategy), quick, share)
        return simulate(replace(point, **self.points.get(strategy, {})), self.figures(quick)).epoch_s

    def gain(self, dataset: str, model: str, rival: str, quick: bool) -> float:
        """FAST over a rival."""
        return self.epoch(dataset, model, rival, quick) / self.epoch(dataset, model, "fast", quick)


SCALED = frozenset({"sample", "gather", "distinct"})  # given as a factor of what is solved or measured
BASE = Case("as solved")
UNFETCHED: Mapping[str, Mapping[str, Any]] = {"fast": {"ahead": 0}}
ONCE: Mapping[str, Mapping[str, Any]] = {"simple": {"once": True}}
PACED = "computing as slow as FAST's printed epoch of TGAT on WikiTalk"
SOLVED_CASE = Case(f"{PACED}; FAST fetches nothing ahead", points=UNFETCHED, paced=True, assumptions=2)


def cases() -> tuple[Case, ...]:
    """One assumption at a time.

    Operators: layers of all but FAST take `OPERATORS` times as long: 57 % of a forward pass is aggregation and edge softmax (Figure 2), and
    FAST's take from 1/2.3 to 1/4.2 of the time (Figure 9), so that 1 - 0.57 + 0.57 / 3.2 = 1 / 1.65 is left. Bound: of 1.14 to 1.46
    (Figure 10).
    """
    return (
        BASE,
        Case("FAST fetches nothing ahead, as TGL", points=UNFETCHED),
        Case("SIMPLE fetches nothing ahead", points={"simple": {"ahead": 0}}),
        Case("SIMPLE samples an epoch before it, in its time", {"beforehand": True}),
        Case("SIMPLE sends a row once a batch", points=ONCE),
        Case("gathering twice as fast", {"gather": 2.0}),
        Case("gathering half as fast", {"gather": 0.5}),
        Case("sampling twice as fast", {"sample": 2.0}),
        Case("sampling half as fast", {"sample": 0.5}),
        Case("a bus of 12 GB/s, pageable memory", {"bus": 12e9}),
        Case("kernels at 30 % of peak", {"efficiency": 0.3}),
        Case(PACED, paced=True),
        Case("node memory within the CPU's cache twice as fast", {"near": 2.0}),
        Case("a kernel's start 15 µs", {"launch_s": 15e-6}),
        Case("a kernel's start 50 µs", {"launch_s": 50e-6}),
        Case("operators as printed", {"operators": OPERATORS}),
        Case("bound threads as printed", {"bound": BOUND}),
        Case("telling ids apart ten times as slow", {"distinct": 0.1}),
        SOLVED_CASE,
        Case(f"{PACED}; FAST fetches nothing ahead, SIMPLE sends a row once a batch", {}, {**UNFETCHED, **ONCE}, paced=True, assumptions=3),
        Case(
            f"{PACED}; FAST fetches nothing ahead, SIMPLE sends a row once a batch; operators and bound threads as printed",
            {"operators": OPERATORS, "bound": BOUND}, {**UNFETCHED, **ONCE}, paced=True, assumptions=5,
        ),
    )  # fmt: skip


def cause(printed: float, gains: Mapping[Case, float], off: Mapping[str, float]) -> str:
    """Which case brings our speed-up (`BASE`'s) near the printed one, in words: of those that do and leave no more than `PART` of the
    difference the one of fewest assumptions, and of these the one that fits all printed speed-ups best, so that chance has less of a say.

    off: by which factor a case misses them, by name.
    """
    if not np.isfinite(printed):
        return NOT_PRINTED
    if abs(gains[BASE] / printed - 1) <= AGREES:
        return f"within {AGREES:.0%}"

    def apart(case: Case) -> float:
        return float(abs(np.log(gains[case] / printed)))

    others = [case for case in gains if case is not BASE]
    near = [case for case in others if apart(case) <= min(np.log1p(NEAR), PART * apart(BASE))]
    if near:
        best = min(near, key=lambda case: (case.assumptions, off[case.name]))
        return f"{best.name}: {gains[best]:.2f}"
    best = min(others, key=lambda case: (round(apart(case), 3), case.assumptions))
    if apart(best) > PART * apart(BASE):
        return UNKNOWN
    return f"part of it: {best.name}: {gains[best]:.2f}; the rest is {UNKNOWN}"


AHEAD = "tgl with prefetching"


def compared(point: StudyPoint) -> dict[str, Any]:
    """Return the seconds of an epoch, printed and ours, what share of the features is cached, and of a rival the speed-up of FAST over it
    by case. `AHEAD` stands beside TGL as released."""
    of, name, quick = (point.dataset, point.model), point.strategy, point.setting("short")
    case = Case(AHEAD, points={"tgl": {"ahead": 1}}) if name == AHEAD else BASE
    share = ratio(*of, quick) if name == "fast" else SIMPLE_RATIO if name == "simple" else 0.0
    return {
        "printed_s": seconds(*of, name),
        "ours_s": case.epoch(*of, "tgl" if name == AHEAD else name, quick),
        "cached": share,
        "gains": {case.name: case.gain(*of, name, quick) for case in cases()} if name in RIVALS else {},
    }


def fits(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return over all printed speed-ups, for each case: by which factor ours is off in the geometric mean, and how many are within 15 %."""
    names = [case.name for case in cases()]
    known = [line for line in lines if np.isfinite(line["printed"])]
    ours = np.asarray([[line[name] for line in known] for name in names], np.float64)
    off = np.abs(np.log(ours / np.asarray([line["printed"] for line in known], np.float64)))
    columns = zip(names, np.exp(off.mean(1)), (off <= np.log(1.15)).sum(1), strict=True)
    return [{"assumption": name, "off by, times": apart, "within 15 %": count, "of": len(known)} for name, apart, count in columns]


def explained(line: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> str:
    """Return why a speed-up differs from the printed one. found: what `fits` gives."""
    off = {str(one["assumption"]): float(one["off by, times"]) for one in found}
    return cause(line["printed"], {case: line[case.name] for case in cases()}, off)
