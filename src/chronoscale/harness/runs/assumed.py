"""Assumed: what a simulation found out about its strategies under joint assumptions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.harness.runs.run_folder import Run
from chronoscale.records import read_json
from chronoscale.simulator.uncertainty.effect import Effect
from chronoscale.simulator.uncertainty.joint import Conclusion

FILE, PIECE = "assumed.json", "assumed-"


@dataclass(frozen=True, slots=True)
class AssumedRecord:
    """Record of the strategies of a simulation under joint assumptions, on the most GPUs: `assumed.json` of the piece `assumed-<gpus>`.

    drawn_s: the epoch of each strategy in every draw; effects: of each assumption alone that moves it. conclusions: of pairs of strategies
    that train alike.
    """

    gpus: int
    drawn_s: dict[str, tuple[float, ...]]
    effects: dict[str, tuple[Effect, ...]]
    conclusions: tuple[Conclusion, ...]

    def save(self, folder: Path) -> None:
        """Write the record as JSON into the folder of the piece."""
        (folder / FILE).write_text(json.dumps(asdict(self)))


def conclusion_sentences(run: Run) -> list[str]:
    """Return what holds of each pair of strategies of a simulation under joint assumptions, a sentence a pair, the largest ratio first."""
    record = assumed_of(run)
    conclusions = () if record is None else record.conclusions
    return [f"On {record.gpus} GPUs {each}." for each in sorted(conclusions, key=lambda each: -each.usual) if record]


def assumed_of(run: Run) -> AssumedRecord | None:
    """Read what a run of `chronoscale simulate` found under joint assumptions; None where nothing was drawn. Raises UserError for a file
    that is damaged.
    """
    folders = list(run.pieces(PIECE))
    return read_json(folders[-1] / FILE, AssumedRecord, "record of assumptions") if folders else None
