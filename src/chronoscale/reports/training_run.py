"""Training run: epochs of the data plane, in stages, beside what the control plane did at the time."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.datasets.scores import scores_present
from chronoscale.reports.breakdown import Breakdown
from chronoscale.reports.horizon import Horizon
from chronoscale.reports.setting import EXECUTED, Setting

NAN = float("nan")
WAITING = "runtime statistics"  # the control plane looks at epochs as they come; it has nothing to do meanwhile


@dataclass(frozen=True, slots=True)
class Epoch:
    """Epoch of a training run as a report shows it; times in ns of one clock.

    stage: of the run, such as warm-up. switch_ns: spent before it on taking up a new schedule; scores: of the validation at its end, by
    key. learning_rate: of its largest step.
    """

    number: int
    stage: str
    strategy: str
    switch_ns: int
    start_ns: int
    end_ns: int
    loss: float
    scores: Mapping[str, float] = field(default_factory=dict)
    learning_rate: float = NAN  # of its largest step


@dataclass(frozen=True, slots=True)
class Activity:
    """Activity of the control plane (what plans while ranks train), on the same clock as the epochs."""

    what: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Training run as a report shows it: epochs in stages, what the control plane planned meanwhile, scores and notes.

    missed: stage and strategy that were requested and in which no epoch was trained. tested: scores of the test by predictor and key, the
    model's first, its rivals' beside it. horizon: a forecaster's errors at each step ahead; rivals: predictions without a network, with
    theirs. verdict: sentences on whether the model beats its rivals, the first of the notes. best: the epoch whose model was tested, None
    where that is the last. breakdowns: by stage, of the epochs whose traces are there. stopped: which number that is not finite stopped it,
    and where; '' where none did.
    """

    name: str
    ranks: int
    epochs: tuple[Epoch, ...]
    activities: tuple[Activity, ...]
    notes: tuple[str, ...] = ()
    missed: tuple[str, str] | None = None
    tested: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    horizon: Horizon = field(default_factory=dict, kw_only=True)
    rivals: Sequence[RivalScores] = field(default=(), kw_only=True)
    best: int | None = field(default=None, kw_only=True)
    breakdowns: Mapping[str, Breakdown] = field(default_factory=dict, kw_only=True)
    setting: Setting = field(default=EXECUTED, kw_only=True)
    stopped: str = field(default="", kw_only=True)
    verdict: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def failed(self) -> str:
        """Return why the run's figures compare with nothing: what stopped it, or where its loss stopped being a number; '' if they do."""
        lost = (f"loss not finite in epoch {epoch.number}" for epoch in self.epochs if not math.isfinite(epoch.loss))
        return self.stopped or next(lost, "")

    @property
    def timed(self) -> bool:
        """Return whether epochs have times; those of virtual ranks have none."""
        return any(epoch.end_ns for epoch in self.epochs)

    @property
    def tested_epoch(self) -> int:
        """Return the epoch whose model was tested, or will be: the best where one was saved, else the last."""
        return self.epochs[-1].number if self.best is None else self.best

    @property
    def stages(self) -> dict[str, list[Epoch]]:
        """Return the run's epochs by stage, in order of appearance."""
        by_stage: dict[str, list[Epoch]] = {}
        for epoch in self.epochs:
            by_stage.setdefault(epoch.stage, []).append(epoch)
        return by_stage

    def table(self) -> pd.DataFrame:
        """Return a report's table of the run's stages, one row each.

        Columns: epochs; seconds an epoch (median, half the interquartile range); seconds spent on taking the schedule up; the learning rate
        of its largest step; first and last loss; seconds that the control plane worked in the stage; where anything validated, the best of
        the first score that there is, and all scores of the last epoch. A stage that was missed has none of them; a run that failed has no
        best, and says so. Without times there are no columns of them.
        """
        rows, scores = [], scores_present(epoch.scores for epoch in self.epochs)
        for stage, epochs in self.stages.items():
            seconds = np.array([epoch.end_ns - epoch.start_ns for epoch in epochs]) / 1e9
            low, high = np.quantile(seconds, [0.25, 0.75])
            begin, end = epochs[0].start_ns - epochs[0].switch_ns, epochs[-1].end_ns
            if epochs[0] is self.epochs[0]:  # the ranks' own start belongs to the first stage
                begin = min([begin, *(a.start_ns for a in self.activities)])
            busy = [min(a.end_ns, end) - max(a.start_ns, begin) for a in self.activities if a.what != WAITING]
            rows.append(
                {
                    "stage": stage,
                    "strategy": epochs[-1].strategy,
                    "epochs": f"{epochs[0].number}..{epochs[-1].number}",
                    "epoch_s": float(np.median(seconds)),
                    "spread_s": float(high - low) / 2,
                    "switch_s": epochs[0].switch_ns / 1e9,
                    "learning_rate": epochs[-1].learning_rate,
                    "first_loss": epochs[0].loss,
                    "last_loss": epochs[-1].loss,
                    "control_s": sum(max(ns, 0) for ns in busy) / 1e9,
                    "failed": self.failed,
                    **{
                        f"best_{score.key}": NAN if self.failed else score.best(epoch.scores.get(score.key, NAN) for epoch in epochs)
                        for score in scores[:1]
                    },
                    **{f"last_{score.key}": epochs[-1].scores.get(score.key, NAN) for score in scores},
                }
            )
        if self.missed is not None:
            rows.append({"stage": self.missed[0], "strategy": self.missed[1], "epochs": "none"})
        table = pd.DataFrame(rows)
        rare = ["learning_rate", *(f"best_{score.key}" for score in scores[:1]), *(f"last_{score.key}" for score in scores)]
        unknown = [name for name in rare if len(table) and table[name].isna().all()]
        unknown += [] if self.failed or not len(table) else ["failed"]
        unknown += [] if self.timed or not self.epochs else ["epoch_s", "spread_s", "switch_s"]
        return table.drop(columns=unknown if self.activities or not len(table) else [*unknown, "control_s"])

    def compared(self) -> pd.DataFrame:
        """Return a table of test scores, the model's and those of its rivals, one row each; no rows where nothing was tested."""
        score_kinds = scores_present(self.tested.values())
        return pd.DataFrame(
            [
                {"predictor": name, **{score.key: scores.get(score.key, NAN) for score in score_kinds}}
                for name, scores in self.tested.items()
            ]
        )

    def chrome(self) -> str:
        """Return the run as JSON for the Chrome trace viewer: the control plane is process 0, the data plane (ranks) process 1."""
        zero = min([e.start_ns - e.switch_ns for e in self.epochs] + [a.start_ns for a in self.activities], default=0)
        events: list[dict[str, object]] = [
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
            for pid, name in enumerate(("control plane", "data plane"))
        ]

        def span(pid: int, name: str, start: int, end: int, **arguments: object) -> None:
            at = {"ts": (start - zero) / 1e3, "dur": (end - start) / 1e3}
            events.append({"ph": "X", "name": name, "pid": pid, "tid": 0, **at, "args": arguments})

        for a in self.activities:
            span(0, a.what, a.start_ns, a.end_ns)
        for epochs in self.stages.values():
            span(1, f"take up {epochs[0].strategy}", epochs[0].start_ns - epochs[0].switch_ns, epochs[0].start_ns)
            for e in epochs:
                span(1, f"epoch {e.number}", e.start_ns, e.end_ns, stage=e.stage, strategy=e.strategy, loss=e.loss)
        return json.dumps({"traceEvents": events})
