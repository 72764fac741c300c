"""Command: `python -m chronoscale` in a process of its own, on an experiment of a part's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu.place import ROOT, Place
from gpu.record import Failed


def command(place: Place, folder: Path, name: str, experiment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that `chronoscale NAME --json` prints. The experiment and its runs are kept in `folder`. Raises Failed with its words."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(experiment, indent=1))  # YAML enough
    words = [sys.executable, "-m", "chronoscale", name, str(file), "--runs", str(folder / "runs"), "--json"]
    done = subprocess.run(words, cwd=ROOT, env=place.environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"chronoscale {name} ended with code {done.returncode}: {' '.join(done.stderr.split())[-800:]}")
    print(done.stderr, end="", flush=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
