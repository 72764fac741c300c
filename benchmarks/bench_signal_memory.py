"""Peaks of memory against PGT-I's equations 1 (pgt) and 2 (index): `python benchmarks/bench_signal_memory.py [--datasets ...]`.

Each figure is a process of its own: the peak of its resident memory (VmHWM, pages of mapped files included), less what it held once all
code had run once, on 48 steps, and the stored signal was open. `prepared`: after standardising, and copying out. `epoch`: after all
batches of an epoch were read, too, one at a time; `-batch` leaves that batch out, which the equations do not count. The second table runs
the program that trains (float32) and compares the saving, index against pgt, since the model takes the same beside either.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from planned import item, machine, mapped

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.datasets import store
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.signals.signal import Signal
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import QUIET
from chronoscale.real_exec.signals.feeds import FEEDS
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.workload import Hyper, ModelChoice

BATCH, HORIZON, STEPS = 64, 12, 5
STRATEGIES = ("pgt", "index")
MODEL = ("pgt-dcrnn", 2)


def status(field: str) -> int:
    """Bytes that the system states of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) << 10


def begin() -> int:
    """Resident bytes now, where the peak starts anew."""
    torch.set_num_threads(1)
    set_threads(1)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def read(path: Path, name: str) -> list[int]:
    """Peaks of preparing, and of preparing and an epoch of reading."""
    signal = mapped(path)
    few = Signal(signal.values[: 4 * HORIZON], signal.edge_index)
    for given in (few, signal):  # a first, small one loads the code
        base, windows = begin(), Windows(len(given), HORIZON, HORIZON)
        feed = FEEDS[strategy(name).feeding.store](given, windows, "training", torch.device("cpu"))
        feed.materialise()
        prepared = status("VmHWM") - base
        for part in (windows.train, windows.validation):
            for starts in WindowAssignment(part, batch=BATCH).starts(0, 0):
                feed.read(starts)
    return [prepared, status("VmHWM") - base]


def train(path: Path, name: str, out: Path) -> list[int]:
    """Peak of preparing and a few optimiser steps of the program that trains."""
    hyper = Hyper(batch_size=BATCH, window=HORIZON, horizon=HORIZON, batches=STEPS)
    one = item(name, name, path, 1, hyper, MODEL, out)
    base = begin()
    run_job(Job("memory", (one,), str(out), ModelChoice(*MODEL), 1, settings=Settings(device="cpu")))
    return [status("VmHWM") - base]


def fresh(kind: str, path: Path, name: str, out: Path) -> list[int]:
    """What a process of its own finds, with memory as in a real run."""
    command = [sys.executable, __file__, "--child", kind, str(path), name, str(out)]
    environment = {**QUIET, "OMP_NUM_THREADS": "1", **os.environ}
    found: list[int] = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    return found


def kept(name: str, wide: bool, out: Path) -> Path:
    """A signal of the catalogue, stored as float64 or float32."""
    path = out / f"{name}-{64 if wide else 32}"
    signal = load(name)
    assert isinstance(signal, Signal)
    store.save(path, replace(signal, values=signal.values.astype(np.float64 if wide else np.float32)))
    return path


def equations(path: Path) -> tuple[dict[str, int], int]:
    """Bytes that each strategy holds, and a batch's."""
    signal = mapped(path)
    windows, sizes = Windows(len(signal), HORIZON, HORIZON), (signal.num_nodes, signal.num_channels, signal.values.dtype.itemsize)
    return {"pgt": windows.materialised_bytes(*sizes), "index": windows.index_bytes(*sizes)}, BATCH * windows.reach * int(np.prod(sizes))


def cell(taken: int, planned: int) -> str:
    return f"{taken / 1e6:,.1f} ({taken / planned:.3f})"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, path, name, out = sys.argv[2:]
        print(json.dumps(read(Path(path), name) if kind == "read" else train(Path(path), name, Path(out))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["los_loop", "metr_la_like", "pems_bay_like"])
    options = parser.parse_args()
    trained = []
    print("| dataset | dtype | strategy | equation, MB | prepared, MB (of it) | epoch, MB (of it) | epoch - batch, MB (of it) |")
    print("|---|---|---|---:|---:|---:|---:|")
    for dataset in options.datasets:
        for wide in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                path = kept(dataset, wide, Path(folder))
                planned, batch = equations(path)
                for name in STRATEGIES:
                    prepared, epoch = fresh("read", path, name, Path(folder))
                    cells = [cell(taken, planned[name]) for taken in (prepared, epoch, epoch - batch)]
                    kind = "float64" if wide else "float32"
                    print(f"| {dataset} | {kind} | {name} | {planned[name] / 1e6:,.1f} | {' | '.join(cells)} |", flush=True)
                if not wide:
                    pgt, index = (fresh("train", path, name, Path(folder))[0] for name in STRATEGIES)
                    saved = cell(pgt - index, planned["pgt"] - planned["index"])
                    trained.append(f"| {dataset} | {pgt / 1e6:,.1f} | {index / 1e6:,.1f} | {saved} |")
    print("\n| dataset | pgt trains, MB | index trains, MB | saved, MB (of eq. 1 - eq. 2) |\n|---|---:|---:|---:|")
    print("\n".join(trained), f"\n\n{machine(1)}; {MODEL[0]}, hidden {MODEL[1]}, batches of {BATCH}, horizon {HORIZON}")


if __name__ == "__main__":
    main()
