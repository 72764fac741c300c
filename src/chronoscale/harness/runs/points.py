"""Points: what a simulation found out about each strategy on each number of GPUs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chronoscale.harness.runs.idle import Idle
from chronoscale.harness.runs.run_folder import Run
from chronoscale.records import read_json
from chronoscale.reports.strategy_result import Band
from chronoscale.simulator.failures.summary import FailureSummary
from chronoscale.simulator.network.traffic import LinkUse
from chronoscale.simulator.uncertainty.assumptions import Effect
from chronoscale.strategies.evaluation.metrics import Summary

FILE = "point.json"


@dataclass(frozen=True, slots=True)
class SimulatedPoint:
    """Record of one strategy on one number of GPUs: `point.json` of a piece `sim-<gpus>-<strategy>`, beside its schedule and its trace.
    What has a default may be absent, as in runs of earlier versions.

    peak_bytes: of the fullest rank's device. host_bytes: planned, of a rank. costs, cluster: by name; preset_gpus: that the cluster has.
    gap: of the schedule to its scheduler's bound, None where none planned. prepare_s: what happens once before the first epoch.
    out_of_memory: why it does not fit, '' where it does. idle_ranks: `Schedule.idle`. draws_s: the epoch in every draw, none where nothing
    is uncertain; the trace beside it is of the middle one. endured: a training whose devices fail, where any do. effects: of the
    assumptions that move the epoch, on the most GPUs of the experiment. few: operations whose costs rest on too few samples. links: the
    busiest ones; none where no link was modelled. steps, targets, mathematics: what an epoch trains on (`strategies.trained_work`).
    summary, op_seconds: of a point that was streamed, the figures that a trace would give; None and none where schedule and trace lie
    beside it.
    """

    strategy: str
    gpus: int
    peak_bytes: int
    costs: str
    cluster: str
    preset_gpus: int
    host_bytes: int = 0
    gap: float | None = None
    note: str = ""
    partition: str = ""
    prepare_s: float | None = None
    out_of_memory: str = ""
    summary: Summary | None = None
    op_seconds: dict[str, float] = field(default_factory=dict)
    idle_ranks: int = 0
    links: tuple[LinkUse, ...] = ()
    draws_s: tuple[float, ...] = ()
    endured: FailureSummary | None = None
    effects: tuple[Effect, ...] = ()
    few: tuple[str, ...] = ()
    steps: int = 0
    targets: int = 0
    mathematics: str = ""

    @property
    def band(self) -> Band:
        """Low and high end of the epoch over its draws, s."""
        return Band.of(self.draws_s)

    def save(self, folder: Path) -> None:
        """Write the record as JSON into the folder of the piece."""
        (folder / FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> SimulatedPoint:
        """Read the record in the folder of a piece. Raises UserError for a file that is missing or damaged."""
        return read_json(folder / FILE, cls, "point")


def points_of(run: Run) -> list[SimulatedPoint]:
    """Load the points that a run has so far."""
    return [SimulatedPoint.load(folder) for folder in run.pieces("sim-") if (folder / FILE).exists()]


def idle_ranks(run: Run) -> Idle:
    """Count the ranks that train nothing, by strategy and number of GPUs."""
    return {(point.strategy, point.gpus): point.idle_ranks for point in points_of(run)}


def streamed_sentences(run: Run) -> list[str]:
    """Name the points that were streamed, without a trace, a sentence each."""
    return [f"{point.strategy} on {point.gpus} GPUs: {point.note}" for point in points_of(run) if point.summary is not None]


def refused_sentences(run: Run) -> list[str]:
    """Say which points do not fit in memory, and why, a sentence each."""
    return [f"{point.strategy} on {point.gpus} GPUs does not fit: {point.out_of_memory}" for point in points_of(run) if point.out_of_memory]
