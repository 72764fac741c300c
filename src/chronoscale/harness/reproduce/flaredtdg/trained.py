"""Trained: epochs on real snapshots, degrees of the next month predicted, executed on this machine; each training once a process."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chronoscale.datasets import catalogue
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.harness.execute.training import train
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.reproduce.flaredtdg.points import CHUNKS, DECAY, GB, LAYERS, MODELS
from chronoscale.harness.runs.run_folder import as_given
from chronoscale.harness.runs.start import start
from chronoscale.harness.runs.training_record import FOLDER, scores
from chronoscale.harness.study.findings import Told
from chronoscale.real_exec.training.checkpoint import records
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Schedule

DATASETS = ("math_overflow_monthly", "enron_monthly")
EPOCHS, QUICK_EPOCHS = 3, 1
HIDDEN, RATE = 16, 0.003


@dataclass(frozen=True, slots=True)
class Training:
    """One rank, from the same initial weights for all strategies; model: as the paper has it. full, alpha: of windows of 8 snapshots."""

    dataset: str
    model: str
    strategy: str
    epochs: int = EPOCHS
    full: int = DECAY.full
    alpha: float = DECAY.alpha


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """An epoch's seconds, when it ended, in seconds of training so far, and its validation MSE, one each; test MSE of the best validation
    epoch's model, and of naive predictions by name; GB that the schedule's tensors take at their peak."""

    seconds: tuple[float, ...]
    ended: tuple[float, ...]
    validation: tuple[float, ...]
    test: float
    naive: dict[str, float]
    peak_gb: float

    @property
    def epoch_s(self) -> float:
        """Seconds of the shortest epoch."""
        return min(self.seconds)


def at_hand(told: Told, quick: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Data sets that are, the first alone where `quick`; and a line for each that is not."""
    found, absent = list[str](), list[str]()
    for name in DATASETS:
        try:
            assert isinstance(catalogue.load(name), SnapshotSequence)
            found.append(name)
        except UserError as error:
            absent.append(f"Skipped: {error}.")
            told(absent[-1])
    return tuple(found[:1] if quick else found), tuple(absent)


@cache
def trained(one: Training) -> Trained:
    """Raises UserError as `chronoscale train`."""
    window = {"full": one.full, "decayed": DECAY.window - one.full, "alpha": one.alpha, "chunks": CHUNKS, "group_size": DECAY.window}
    task = {"task": "degrees", "validation": 0.1, "test": 0.2, "learning_rate": RATE, "scale_learning_rate": False}
    experiment = check(
        {
            "dataset": one.dataset,
            "model": {"name": MODELS[one.model], "hidden": HIDDEN, "layers": LAYERS},
            "training": {**window, **task},
            "strategies": [one.strategy],
            "ranks": [1],
            "epochs": one.epochs,
        },
        "flaredtdg",
    )
    with tempfile.TemporaryDirectory() as name:
        run, _ = start(Path(name), "train", experiment, as_given(experiment), {})
        train(experiment, run)
        folder = run.folder / FOLDER
        done, found = records(folder), list(scores(folder).values())
        named = dict(zip(list(scores(folder))[1:], (float(other["mse"]) for other in found[1:]), strict=True))
        (plan,) = folder.glob("plans/*/schedule.parquet")
        peak = planned_gb(Schedule.load(plan))
    begin = done[0].start_ns
    return Trained(
        tuple((record.end_ns - record.start_ns) / 1e9 for record in done),
        tuple((record.end_ns - begin) / 1e9 for record in done),
        tuple(float(record.scores["mse"]) for record in done),
        float(found[0]["mse"]),
        named,
        peak,
    )


def planned_gb(schedule: Schedule) -> float:
    """Peak of the fullest rank."""
    machine = presets.local_cpu(schedule.ranks, 1e12, Link(1e9, 1e-4))
    return float(peaks(schedule, replay(schedule, machine, DatasheetCosts(machine.device))).max()) / GB


def notes(datasets: tuple[str, ...], epochs: int, quick: bool, absent: tuple[str, ...]) -> tuple[str, ...]:
    """What was run, and what stands for what."""
    if not datasets:
        return absent
    return (
        *((f"Quick: {epochs} epoch{'s' * (epochs > 1)}, {', '.join(datasets)} alone.",) if quick else ()),
        *absent,
        f"Executed on CPU, one rank, {', '.join(datasets)}, at hand in place of the paper's; {LAYERS} layers of width {HIDDEN}, Adam, "
        f"learning rate {RATE:g}, one seed, {epochs} epoch{'s' * (epochs > 1)}; 10 % of the months validate, the last 20 % test.",
        "Models are tested as they were trained: of flaredtdg and full-history the state runs on through all months; recent-only, "
        "dynagraph and dynahb see a window and begin with none, esdg its group.",
        "So few epochs are no convergence. More, and seeds: `python benchmarks/bench_flaredtdg.py errors`.",
    )
