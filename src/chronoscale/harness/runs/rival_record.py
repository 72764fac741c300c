"""Record of a training's rivals: what predictions without a network scored on its test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.datasets.scores import Scores
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.records import read_json

NAIVE = "naive.json"  # scores of rivals by name, on what a model is tested on
RIVALS = "rivals.json"  # by the same names, what they do, and their scores at each predicted step; before 0.3 there was none


@dataclass(frozen=True, slots=True)
class RivalRecord:
    """Record of a rival in a training's `rivals.json`, beside its scores: what it predicts, and its scores at each predicted step."""

    meaning: str = ""
    steps: Mapping[str, list[float]] = field(default_factory=dict)


def write_rivals(folder: Path, rivals: Sequence[RivalScores]) -> None:
    """Write the scores of a training's rivals into its folder, the run's `train`."""
    records = {rival.name: {"meaning": rival.meaning, "steps": {key: [*values] for key, values in rival.steps.items()}} for rival in rivals}
    write_text(folder / RIVALS, json.dumps(records))
    write_text(folder / NAIVE, json.dumps({rival.name: dict(rival.scores) for rival in rivals}))


def read_rivals(folder: Path) -> list[RivalScores]:
    """Read the scores of a training's rivals; [] where there are none yet, and without a meaning where an earlier version wrote them.

    folder: the run's `train`. Raises UserError for a damaged file.
    """
    if not (folder / NAIVE).exists():
        return []
    scores = read_json(folder / NAIVE, dict[str, Scores], "record of naive predictions")
    records = read_json(folder / RIVALS, dict[str, RivalRecord], "record of naive predictions") if (folder / RIVALS).exists() else {}
    recorded = {name: records.get(name, RivalRecord()) for name in scores}
    return [RivalScores(name, recorded[name].meaning, scores[name], recorded[name].steps) for name in scores]
