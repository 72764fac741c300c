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
from chronoscale.strategies.evaluation.metrics import Summary

FILE = "point.json"


@dataclass(frozen=True, slots=True)
class SimulatedPoint:
    """Record of one strategy simulated on one number of GPUs, as `chronoscale simulate` writes it: `point.json` of a run's piece
    `sim-<gpus>-<strategy>`, beside schedule and trace. What has a default may be absent, as in runs of earlier versions.

    peak_bytes: of the fullest rank's device. host_bytes: planned, of a rank. costs, cluster: by name; preset_gpus: that the cluster has.
    gap: of the schedule to its scheduler's lower bound, None where none planned. partition: which partitioner's counts were planned with.
    prepare_s: what happens once before the first epoch. out_of_memory: why it does not fit, '' where it does. idle_ranks: ranks without
    work. draws_s: the epoch in every draw of what is uncertain, none where nothing is; the trace is of the middle one. endured: a training
    whose devices fail, where any do. few: operations whose costs rest on too few samples. constant_bytes: as of
    `simulator.uncertainty.scenario.Scenario`. assumed: what the user's cluster file leaves out, and what stands in its place. links: the
    busiest ones; none where no link was modelled. steps, targets, mathematics: what an epoch trains on (`strategies.trained_work`).
    summary, op_seconds: the figures that a trace would give, of a point that was replayed some iterations at a time and has none. engine:
    that replayed, "native" or "simpy"; '' in runs of earlier versions.
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
    constant_bytes: int = 0
    assumed: tuple[str, ...] = ()
    few: tuple[str, ...] = ()
    steps: int = 0
    targets: int = 0
    mathematics: str = ""
    engine: str = ""

    @property
    def band(self) -> Band:
        """Low and high end of the epoch over its draws, s."""
        return Band.of(self.draws_s)

    def save(self, folder: Path) -> None:
        """Write the record as JSON into the point's folder of a run."""
        (folder / FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> SimulatedPoint:
        """Read the record in a point's folder of a run. Raises UserError for a file that is missing or damaged."""
        return read_json(folder / FILE, cls, "point")


def points_of(run: Run) -> list[SimulatedPoint]:
    """Load what a run of `chronoscale simulate` has found so far: a record a strategy and number of GPUs."""
    return [SimulatedPoint.load(folder) for folder in run.pieces("sim-") if (folder / FILE).exists()]


def idle_ranks(run: Run) -> Idle:
    """Count the ranks that train nothing in what a run has simulated: (strategy, number of GPUs) -> count."""
    return {(point.strategy, point.gpus): point.idle_ranks for point in points_of(run)}


def streamed_sentences(run: Run) -> list[str]:
    """Return a sentence for each strategy and number of GPUs that a run has replayed some iterations at a time, so that it has no trace."""
    return [f"{point.strategy} on {point.gpus} GPUs: {point.note}" for point in points_of(run) if point.summary is not None]


def left_out_sentences(run: Run) -> list[str]:
    """Return a sentence on what the user's cluster file of a simulation leaves out, and what stands in its place; [] for a preset."""
    first = next(((point.cluster, point.assumed) for point in points_of(run) if point.assumed), None)
    return [f"The file of cluster '{first[0]}' leaves out {'; '.join(first[1])}"] if first else []


def refused_sentences(run: Run) -> list[str]:
    """Return a sentence for each strategy and number of GPUs of a simulation that does not fit in the GPUs' memory, and why."""
    return [f"{point.strategy} on {point.gpus} GPUs does not fit: {point.out_of_memory}" for point in points_of(run) if point.out_of_memory]


def endless_sentences(run: Run) -> list[str]:
    """Return a sentence for each strategy and number of GPUs on which no training came to its end, as GPUs failed too often, and how
    often."""
    endless = [point for point in points_of(run) if point.endured is not None and set(point.endured.ended) == {"endless"}]
    return [
        f"{point.strategy} on {point.gpus} GPU{'s' * (point.gpus > 1)}: no training comes to its end, each was given up after "
        f"{point.endured.failures:,.0f} failures (failures.mtbf_s is in seconds; work is kept after checkpoint_every iterations)"
        for point in endless
        if point.endured is not None
    ]


def engine_sentences(run: Run) -> list[str]:
    """Return a sentence, in a list, on a run in which SimPy has replayed anything; [] where the native library replayed everything."""
    slowly = any(point.engine == "simpy" for point in points_of(run))
    return ["epochs were replayed by SimPy, not by the native library; the times are the same to the nanosecond"] * slowly
