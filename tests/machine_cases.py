"""Experiments for machines that are network namespaces: how they are started, what they print and have learnt."""

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from namespaces import Machines

COMMON = {"ranks": [4], "repeats": 2, "epochs": 2, "device": "cpu", "costs": "datasheet", "compare": {"seeds": 2, "rates": [0.01]}}
SNAPSHOTS = {"dataset": {"name": "growth_small"}, "model": {"name": "wd-gcn", "hidden": 4}, "training": {"validation": 0.2}}
SIGNALS = {
    "dataset": {"name": "traffic_small"},
    "model": {"name": "pgt-dcrnn", "hidden": 4},
    "training": {"window": 4, "horizon": 3, "batches": 8},
}
STREAMS = {"dataset": {"name": "events_small"}, "model": {"name": "tgn", "hidden": 8}, "training": {"batch_size": 100}}
FAMILIES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "snapshots": (SNAPSHOTS, ["psg", "flaredtdg"]),
    "signals": (SIGNALS, ["ddp", "dist-index"]),
    "streams": (STREAMS, ["tgl-dist", "memshare"]),
}


def losses_of(folder: Path) -> dict[str, np.ndarray]:
    """Losses of passes, by the name of their file."""
    return {file.name: np.load(file) for file in folder.rglob("*-losses.npy")}


def learnt(folder: Path) -> dict[str, Any]:
    """What a run has learnt: losses and scores of passes, of epochs, and at the end."""
    values = {f.name: np.load(f).tolist() for f in folder.rglob("*-losses.npy") if not f.name.startswith(("h2d", "all-reduce", "messages"))}
    for file in folder.rglob("epochs/*.json"):
        record = json.loads(file.read_text())
        values["/".join(file.parts[-3:])] = (record["losses"], record["scores"])
    return values | {"/".join(file.parts[-2:]): json.loads(file.read_text()) for file in folder.rglob("test.json")}


def alone(folder: Path, experiment: dict[str, Any], command: str) -> dict[str, Any]:
    """What one machine learns."""
    (folder / "exp.yaml").write_text(yaml.safe_dump(experiment))
    done = subprocess.run([sys.executable, "-m", "chronoscale", command, "exp.yaml"], cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return learnt(folder / "runs")


def begin(
    made: Machines, experiment: dict[str, Any], command: str, ranks: list[int], *options: str, own: Sequence[str] = ()
) -> list[subprocess.Popen[str]]:
    """Start a command on all machines; the first one has the experiment. own: options of torchrun's own."""
    made.home(0).mkdir(exist_ok=True)
    (made.home(0) / "exp.yaml").write_text(yaml.safe_dump(experiment))
    return [made.torchrun(node, count, command, "exp.yaml", *options, options=own) for node, count in enumerate(ranks)]


def outputs(started: list[subprocess.Popen[str]], timeout: float = 240) -> list[str]:
    """What each machine printed, once all have ended."""
    results = dict[int, str]()

    def listen(node: int) -> None:
        results[node] = started[node].communicate(timeout=timeout)[0]

    threads = [threading.Thread(target=listen, args=(node,)) for node in range(len(started))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(started), "a machine has not ended"
    return [" ".join(results[node].split()) for node in range(len(started))]
