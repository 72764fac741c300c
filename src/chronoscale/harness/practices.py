"""Practices: one a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.practice import Practice
from chronoscale.harness.signals.practice import SignalPractice
from chronoscale.harness.snapshots.practice import SnapshotPractice
from chronoscale.harness.streams.practice import StreamPractice

PRACTICES: Mapping[str, Practice[Any]] = {"snapshots": SnapshotPractice(), "signals": SignalPractice(), "streams": StreamPractice()}


def practice_of(experiment: Experiment) -> Practice[Any]:
    """What is done with experiments of its family."""
    return PRACTICES[experiment.family]
