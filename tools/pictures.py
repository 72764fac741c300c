"""Draw the pictures of README and docs again, and keep what they show, so that a test can tell when they are out of date.

    python tools/pictures.py            # simulate, draw, copy; some minutes on one core
    python tools/pictures.py --check    # simulate the largest number of GPUs again and compare; exit code 1 where a picture is out of date

docs/pictures.yaml says of each picture which experiment it shows and which figure of that experiment's report it is.
docs/pictures.json keeps what was simulated when they were drawn: seconds an epoch by strategy and number of GPUs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SHOWN = DOCS / "pictures.json"
CLOSE = 1e-6  # relative; simulated seconds are the same to the nanosecond on every machine, but files keep fewer digits


def simulate(experiment: dict[str, Any], folder: Path) -> dict[str, dict[str, float]]:
    """Simulate an experiment in a folder; return seconds an epoch by strategy and number of GPUs."""
    file = folder / "picture.yaml"
    file.write_text(yaml.safe_dump(experiment))
    printed = subprocess.run([*_chronoscale(), "simulate", file.name, "--json"], cwd=folder, check=True, stdout=subprocess.PIPE).stdout
    seconds: dict[str, dict[str, float]] = {}
    for row in json.loads(printed):
        seconds.setdefault(row["strategy"], {})[str(row["ranks"])] = row["epoch_s"]
    return seconds


def digest(file: Path) -> str:
    """Name a file's content in 16 digits."""
    return sha256(file.read_bytes()).hexdigest()[:16]


def draw() -> None:
    """Simulate every experiment that has pictures, copy the figures of its report, and write what they show."""
    shown: dict[str, Any] = {}
    for path, figures in pictures().items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            seconds = simulate(yaml.safe_load((ROOT / path).read_text()), folder)
            subprocess.run([*_chronoscale(), "report", *map(str, (folder / "runs").iterdir())], cwd=folder, check=True)
            for picture, figure in figures.items():
                shutil.copyfile(folder / "report" / "figures" / f"{figure}.png", DOCS / picture)
        drawn = {picture: digest(DOCS / picture) for picture in figures}
        shown[path] = {"experiment": digest(ROOT / path), "pictures": drawn, "epoch_s": seconds}
    SHOWN.write_text(json.dumps(shown, indent=1) + "\n")


def outdated() -> list[str]:
    """Say which pictures show another file, another picture, or other seconds on the most GPUs than the simulator gives today."""
    lines = []
    for path, record in json.loads(SHOWN.read_text()).items():
        lines += changed(path, record)
        experiment = yaml.safe_load((ROOT / path).read_text())
        experiment["gpus"] = [max(experiment["gpus"])]
        with tempfile.TemporaryDirectory() as name:
            today = simulate(experiment, Path(name))
        for strategy, by_gpus in today.items():
            for gpus, seconds in by_gpus.items():
                before = record["epoch_s"].get(strategy, {}).get(gpus)
                if before is None or abs(seconds - before) > CLOSE * seconds:
                    lines.append(f"{path}: {strategy} on {gpus} GPUs takes {seconds:.4g} s an epoch, the pictures show {before} s")
    return lines


def changed(path: str, record: dict[str, Any]) -> list[str]:
    """Say what of an experiment and its pictures is another file than when they were drawn."""
    lines = [] if digest(ROOT / path) == record["experiment"] else [f"{path} has changed since its pictures were drawn"]
    return lines + [
        f"docs/{name} is not the picture that was drawn" for name, of in record["pictures"].items() if digest(DOCS / name) != of
    ]


def pictures() -> dict[str, dict[str, str]]:
    """Read which figure of which experiment's report each picture is: {experiment: {picture: figure}}."""
    figures: dict[str, dict[str, str]] = {}
    for picture, of in yaml.safe_load((DOCS / "pictures.yaml").read_text()).items():
        figures.setdefault(of["experiment"], {})[picture] = of["figure"]
    return figures


def _chronoscale() -> list[str]:
    return [sys.executable, "-m", "chronoscale"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="draw nothing; say what is out of date")
    if parser.parse_args().check:
        old = outdated()
        print("\n".join(old) or "all pictures show what is simulated today")
        sys.exit(bool(old))
    draw()
