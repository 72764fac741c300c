"""Verdict: what the simulation of one candidate came to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.harness.simulate.point import Point
from chronoscale.records import read_json
from chronoscale.simulator.critical_path import PathShare

FILE = "verdict.json"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`verdict.json` of a piece `point-<number>`.

    point: None where it was `refused`, in words. epoch_s: of the trace. iterations: optimiser steps an epoch. blames: what the critical
    path is made of. waits: time that GPUs run nothing beyond that of the one that runs most, their mean, a share of the epoch. warnings:
    what was warned of meanwhile.
    """

    point: Point | None
    epoch_s: float = 0.0
    iterations: int = 0
    blames: tuple[PathShare, ...] = ()
    waits: float = 0.0
    refused: str = ""
    warnings: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """JSON, into the folder of the piece."""
        (folder / FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Verdict:
        """Read what `save` wrote. Raises UserError for a file that is missing or damaged."""
        return read_json(folder / FILE, cls, "verdict")
