"""Epoch record: what training writes down of every epoch, `epochs/<number>.json` in its folder; reading it needs no torch."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chronoscale.datasets.scores import Scores
from chronoscale.real_exec.execution.launch_summary import LaunchSummary
from chronoscale.records import read_json


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Record of one trained epoch, as rank 0 writes it. Times are ns of the system's clock.

    plan, stage, strategy: those that the epoch followed. switch_ns: time spent on taking up a new plan before it. losses: one value an
    iteration. scores: of validation, by key; empty where nothing validates. rates: the lowest and the highest learning rate of a step.
    counts: those of `EpochResult`. launched: how rows were launched, where CUDA graphs were requested. ranks: that trained it; 0: not
    recorded.
    """

    epoch: int
    plan: int
    stage: str
    strategy: str
    switch_ns: int
    start_ns: int
    end_ns: int
    losses: tuple[float, ...]
    scores: Scores
    rates: tuple[float, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    launched: LaunchSummary | None = None
    ranks: int = 0

    @property
    def loss(self) -> float:
        """Return the mean training loss over the epoch's iterations."""
        return sum(self.losses) / max(len(self.losses), 1)


def epoch_records(folder: Path, known: Container[int] = ()) -> list[EpochRecord]:
    """Read the records of all trained epochs from the folder of a training, in order. known: numbers of epochs to leave out."""
    files = sorted(path for path in (folder / "epochs").glob("[0-9]*.json") if path.stem.isdecimal())
    return [read_json(path, EpochRecord, "record of an epoch") for path in files if int(path.stem) not in known]
