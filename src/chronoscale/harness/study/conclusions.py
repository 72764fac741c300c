"""Conclusions of a study: the sentences that its simulated points make, under joint assumptions, beside what the paper prints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pydantic import TypeAdapter

from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.simulate.trials import Trials, simulate_trials
from chronoscale.harness.study.code import code_digest
from chronoscale.harness.study.evaluation import scenario_of
from chronoscale.harness.study.findings import NAN, Told
from chronoscale.harness.study.point import Record, content_key
from chronoscale.harness.study.task import Task
from chronoscale.reports.charts.bands import Band, bands
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.simulator.uncertainty.assumptions import ASSUMPTIONS
from chronoscale.simulator.uncertainty.joint import Conclusion

DRAWS, QUICK = 64, 8
_CONCLUSION = TypeAdapter(Conclusion)


class Claim(NamedTuple):
    """Sentence of a study on two of its simulated points: which is faster. printed: how many times as fast, in the paper; NaN for none."""

    what: str
    faster: Record
    slower: Record
    printed: float = NAN


class Answered(NamedTuple):
    """Claim of a study with what holds of it under joint assumptions."""

    claim: Claim
    conclusion: Conclusion

    @property
    def ends(self) -> tuple[float, float, float, float]:
        """How many times as fast the point said to be faster is: as usually assumed, and the 5th, 50th and 95th percentile."""
        of = self.conclusion
        if of.faster == _names(self.claim)[0]:
            return of.usual, of.low, of.middle, of.high
        return 1 / of.usual, 1 / of.high, 1 / of.middle, 1 / of.low

    @property
    def share(self) -> float:
        """Return in what share of the draws the claim holds, 0 to 1."""
        return (
            self.conclusion.share if self.conclusion.faster == _names(self.claim)[0] else 1 - self.conclusion.share - self.conclusion.tied
        )

    @property
    def where(self) -> str:
        """Where the printed number lies: inside the band, or how far outside; '' for none."""
        _, low, _, high = self.ends
        printed = self.claim.printed
        if printed != printed:
            return ""
        return "inside the band" if low <= printed <= high else f"{'above' if printed > high else 'below'} the band"

    def line(self) -> dict[str, object]:
        """Return the row of the study's table of conclusions."""
        usual, low, middle, high = self.ends
        ratios = {"published": self.claim.printed, "usual": usual, "low": low, "middle": middle, "high": high}
        return {"what": self.claim.what, "share": self.share, **ratios, "published_is": self.where, "turned_by": self._turned}

    def sentence(self) -> str:
        """Return what holds, in words, with where the printed number lies."""
        printed = f" Published: {self.claim.printed:.3g}, {self.where}." if self.where else ""
        return f"{self.claim.what}: {self.conclusion}.{printed}"

    @property
    def _turned(self) -> str:
        return (
            "; ".join(f"{flip.assumption} at {flip.shown} (usually {flip.usually})" for flip in self.conclusion.flips) or "none by itself"
        )


def _names(claim: Claim) -> tuple[str, str]:
    """Return names of the two points: their strategies; where those are one, with what else is not the same."""
    points = (claim.faster.point, claim.slower.point)
    first, second = points
    if first.strategy != second.strategy:
        return first.strategy, second.strategy
    if first.gpus != second.gpus:
        return f"{first.strategy} on {first.gpus}", f"{second.strategy} on {second.gpus}"
    apart = [name for name, value in first.axes.items() if second.axes.get(name) != value]
    of_first, of_second = (", ".join([point.strategy, *(f"{name} {point.axes.get(name)}" for name in apart)]) for point in points)
    return of_first, of_second


def answer(claims: Iterable[Claim], folder: Path | None, quick: bool, on_progress: Told) -> list[Answered]:
    """Simulate the points of claims under joint assumptions, and return what holds of each; of points that did not run nothing is claimed.

    folder: keeps a file a claim, and what is there is read; None: nothing is kept. quick: few draws. Raises UserError as a replay.
    """
    answered = []
    for claim in claims:
        if any(record.result.status != "ran" for record in (claim.faster, claim.slower)):
            continue
        draws = QUICK if quick else DRAWS
        path = None if folder is None else folder / f"{_key(claim, draws)}.json"
        if path is not None and path.is_file():
            conclusion = _CONCLUSION.validate_python(json.loads(path.read_text()))
        else:
            on_progress(f"{claim.what}: {draws} joint draws")
            conclusion = _conclude(claim, draws)
            if path is not None:
                write_text(path, json.dumps(asdict(conclusion)))
        answered.append(Answered(claim, conclusion))
    return answered


def _key(claim: Claim, draws: int) -> str:
    """Return the file name of a claim's conclusion. Keys of tasks are of the code that evaluates points; what draws is of this module's."""
    ranges = [f"{each.name} {each.low} {each.high}" for each in ASSUMPTIONS]
    points = [Task(record.point, "sweep", "", (), ()).key for record in (claim.faster, claim.slower)]
    return content_key(points, draws, ranges, code_digest(__name__))


def _conclude(claim: Claim, draws: int) -> Conclusion:
    names = _names(claim)
    scenarios = {name: scenario_of(one.point) for name, one in zip(names, (claim.faster, claim.slower), strict=True)}
    return simulate_trials(Trials.of(scenarios, draws, 0), [names], lambda _: None)[1][0]


def conclusion_chart(answered: Sequence[Answered], name: str, title: str, quick: bool) -> Drawing:
    """Draw a study's claims, a row each: what holds of it under joint assumptions, and the printed number.

    name, title: of the study.
    """
    rows = [Band(each.claim.what, each.share, *each.ends, each.claim.printed) for each in answered]
    several = f"{QUICK if quick else DRAWS} joint draws of what is assumed"
    caption = (
        f"How many times as fast: bars reach from the 5th to the 95th percentile of {several}, a tick is their middle, a circle as usually "
        "assumed, a diamond what the paper prints. At the right the share of the draws in which the claim holds. Simulated."
    )
    return bands(f"{name}-conclusions", title, caption, "times as fast", rows)


def conclusion_table(answered: Iterable[Answered]) -> pd.DataFrame:
    """Return a study's table of conclusions: one row a claim, with the share of draws in which it holds and the band of the ratio."""
    return pd.DataFrame([each.line() for each in answered])
