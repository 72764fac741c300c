"""FAST beside TGL, ETC, TASER and SIMPLE on real events: epochs and their parts, executed in one job, passes interleaved.

    python benchmarks/bench_fast.py [--dataset us_flights_2001] [--width 128] [--models tgat tgn] [--layers 1] [--batches 40] [--repeats 5]
        [--ranks 1 2] [--bus 0 16e9] [--threads 1] [--ratio 0.2] [--strategies …] [--scratch DIR]

Features of events are generated, `width` wide, standard normal; a model without memory reads as many of nodes. An epoch is its first
`batches` optimiser steps of 2,000 events and as many that validate, fan-out 10, the latest. bus: bytes a second that transfers are held to
on a CPU, which has no bus of its own (0: none). The naive rival is `tgl-unique`, which merges what is alike before it computes, and has
no cache. Prints one row a strategy: median epoch, its range, times as fast as `tgl`, and seconds of each part.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from chronoscale.cuda_ext.loader import versions
from chronoscale.datasets import store
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.streams.events import EventStream

STRATEGIES = ("tgl", "etc", "taser", "simple", "fast", "tgl-unique", "fast-merged")
PARTS = ("sample", "gather", "transfer", "memory", "layers", "backward", "optimiser", "communication")


def made(options: argparse.Namespace, scratch: Path) -> Path:
    """The stream with generated features, stored."""
    folder, events = scratch / f"{options.dataset}-{options.width}", load(options.dataset)
    assert isinstance(events, EventStream)
    if not folder.exists():
        drawn = np.random.default_rng(0).standard_normal((len(events), options.width), np.float32)
        store.save(folder, replace(events, features=drawn, node_features=None))
    return folder


def run(options: argparse.Namespace, data: Path, model: str, bus: float, scratch: Path) -> list[dict[str, Any]]:
    """What `chronoscale bench --json` says of one experiment."""
    asked = {
        "dataset": {"path": str(data)},
        "model": {"name": model, "hidden": 100, "layers": options.layers, "inputs": options.width},
        "training": {"batch_size": 2000, "fanout": [10], "batches": options.batches, "cache_ratio": options.ratio},
        "strategies": list(options.strategies),
        "ranks": options.ranks,
        "repeats": options.repeats,
        "threads": options.threads,
        **({"bus": str(int(bus))} if bus else {}),
    }
    file = scratch / f"{model}-{bus:g}.yaml"
    file.write_text(yaml.safe_dump(asked))
    command = [sys.executable, "-m", "chronoscale", "bench", str(file), "--runs", str(scratch / "runs"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="FAST beside its rivals, executed")
    parser.add_argument("--dataset", default="us_flights_2001")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--models", nargs="*", default=["tgat", "tgn"])
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--bus", type=float, nargs="*", default=[0, 16e9])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ratio", type=float, default=0.2)
    parser.add_argument("--strategies", nargs="*", default=STRATEGIES)
    parser.add_argument("--scratch", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = options.scratch or Path(folder)
        data = made(options, scratch)
        print(f"torch {torch.__version__}, native {versions()['cpu']}; {options}\n")
        for model, bus in product(options.models, options.bus):
            rows = run(options, data, model, bus, scratch)
            base = {row["ranks"]: row["epoch_s"] for row in rows if row["strategy"] == options.strategies[0]}
            parts = [part for part in PARTS if any(part in row["breakdown"] for row in rows)]
            print(f"{model}, {options.layers} layer(s), bus {f'{bus / 1e9:g} GB/s' if bus else 'none'}\n")
            print("| strategy | ranks | epoch, s | spread | times | AP | " + " | ".join(parts) + " |\n|" + "---|" * (6 + len(parts)))
            for row in rows:
                seconds = [row["breakdown"].get(part, {}).get("seconds") for part in parts]
                spread, ap = row["spread_s"] / row["epoch_s"], row["ap"]
                cells = [
                    row["strategy"],
                    row["ranks"],
                    f"{row['epoch_s']:.3f}",
                    f"{spread:.1%}",
                    f"{base[row['ranks']] / row['epoch_s']:.2f}",
                ]
                print("| " + " | ".join(map(str, [*cells, f"{ap:.4f}", *("–" if s is None else f"{s:.3f}" for s in seconds)])) + " |")
            print(flush=True)


if __name__ == "__main__":
    main()
