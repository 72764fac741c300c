"""Command: `python -m chronoscale` in a process of its own, on an experiment of a part's."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu.child import run, tail
from gpu.place import Place
from gpu.record import Failed, Record


def command(place: Place, record: Record, folder: Path, name: str, experiment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that `chronoscale NAME --json` prints. The experiment and its runs are kept in `folder`. Raises Failed with its words."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(experiment, indent=1))  # YAML enough
    words = [sys.executable, "-m", "chronoscale", name, str(file), "--runs", str(folder / "runs"), "--json"]
    log = place.log(record.path.stem)
    code, answer = run(words, log, place.environment(), apart=True)
    if code:
        raise Failed(f"chronoscale {name} ended with code {code}: {' '.join(tail(log).split())[-800:]}")
    answers: list[dict[str, Any]] = json.loads(answer)
    return answers
