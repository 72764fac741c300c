"""Index-batching's epoch over that of materialised windows: `python benchmarks/bench_feeds.py [--datasets los_loop] [--models ...]`.

One job: strategies take turns epoch by epoch, in the order pgt, index, index, pgt, so that neither is always first. A ratio is taken turn
by turn. `feed alone` reads all batches of an epoch without a model, with what is copied to the device; it is the hardest case, and no
training is like it. An epoch holds training and validation windows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from planned import item, machine, mapped, spread, stored

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.signals.feeds import FEEDS
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.signals import stores
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, ModelChoice

HYPER = Hyper(batch_size=64, window=12, horizon=12)
TURNS = ("pgt", "index", "index", "pgt")


def epochs(path: Path, model: tuple[str, int], repeats: int, threads: int, batches: int, out: Path) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of an epoch and of its GATHER rows, float64 [repeats, turns], of a job in a fresh process."""
    hyper = Hyper(batch_size=64, window=12, horizon=12, batches=batches)
    items = tuple(item(f"{i}-{name}", name, path, 1, hyper, model, out) for i, name in enumerate(TURNS))
    launch(Job("feeds", items, str(out), ModelChoice(*model), repeats, 1, Settings(threads, seed=1, device="cpu")), 1, out)
    traces = [[Trace.load(out / f"{one.label}-r{repeat}.parquet") for one in items] for repeat in range(repeats)]
    span = [[trace.span_ns / 1e9 for trace in row] for row in traces]
    return np.array(span), np.array([[trace.duration_ns[trace.op == Op.GATHER].sum() / 1e9 for trace in row] for row in traces])


def alone(path: Path, repeats: int) -> np.ndarray:
    """Seconds of reading an epoch's training batches, float64 [repeats, turns]."""
    signal = mapped(path)
    windows = Windows(len(signal), HYPER.window, HYPER.horizon)
    kinds = {"pgt": stores.WINDOWS, "index": stores.ARRAY}
    feeds = {name: FEEDS[kind](signal, windows, "training", torch.device("cpu")) for name, kind in kinds.items()}
    for feed in feeds.values():
        feed.materialise()
    found = []
    for repeat in range(repeats + 1):
        row = []
        for name in TURNS:
            batches = WindowAssignment(windows.train, batch=HYPER.batch_size).starts(0, repeat)
            start = time.perf_counter()
            for starts in batches:
                feeds[name].read(starts)
            row.append(time.perf_counter() - start)
        found.append(row)
    return np.array(found[1:])


def line(name: str, seconds: np.ndarray) -> str:
    """Cells of a table: seconds of each strategy, their ratio."""
    pgt, index = (seconds[:, [i for i, turn in enumerate(TURNS) if turn == kind]].mean(1) for kind in ("pgt", "index"))
    return f"{name} | {len(seconds)} | {spread(pgt.tolist(), 4)} | {spread(index.tolist(), 4)} | {spread((index / pgt).tolist(), 4)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["los_loop"])
    parser.add_argument("--models", nargs="+", default=["pgt-dcrnn:2", "pgt-dcrnn:64"], help="NAME:HIDDEN")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--batches", type=int, default=0, help="optimiser steps an epoch at most; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| dataset | what | repeats | pgt, s | index, s | index / pgt |\n|---|---|---:|---:|---:|---:|")
    for dataset in options.datasets:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            path = stored(dataset, out)
            print(f"| {dataset} | {line('feed alone', alone(path, 4 * options.repeats))} |", flush=True)
            for model in options.models:
                name, hidden = model.split(":")
                span, gather = epochs(path, (name, int(hidden)), options.repeats, options.threads, options.batches, out)
                print(f"| {dataset} | {line(f'{name} {hidden}, epoch', span)} |")
                print(f"| {dataset} | {line(f'{name} {hidden}, its GATHER rows', gather)} |", flush=True)
    print(f"\n{machine(options.threads)}")


if __name__ == "__main__":
    main()
