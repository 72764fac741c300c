"""Verdict: the record of one candidate's simulation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.records import read_json
from chronoscale.simulator.critical_path import PathShare

FILE = "verdict.json"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Record of one candidate's simulation by `chronoscale advise`: `verdict.json` of a run's piece `point-<number>`.

    point: the simulated epoch; None where the candidate was `refused`, in words. epoch_s: of the trace. iterations: optimiser steps an
    epoch. blames: parts of the critical path. waits: mean time that GPUs run nothing beyond that of the busiest one, a share of the epoch.
    warnings: of the simulation.
    """

    point: SimulatedPoint | None
    epoch_s: float = 0.0
    iterations: int = 0
    blames: tuple[PathShare, ...] = ()
    waits: float = 0.0
    refused: str = ""
    warnings: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Write the record as JSON into the candidate's folder of a run of `chronoscale advise`."""
        (folder / FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Verdict:
        """Read the record in a candidate's folder of a run of `chronoscale advise`.

        Raises UserError for a file that is missing or damaged.
        """
        return read_json(folder / FILE, cls, "verdict")
