"""FAST beside TGL, ETC, TASER and SIMPLE on real events: epochs and their parts, executed in one job, passes interleaved.

    python benchmarks/bench_fast.py [--dataset us_flights_2001] [--width 128] [--models tgat tgn] [--layers 1] [--events 120000]
        [--repeats 5] [--ranks 1 2] [--bus 0 16e9 0.25e9] [--threads 1] [--ratio 0.2] [--strategies …] [--scratch DIR]

Features of events are generated, `width` wide, standard normal; a model without memory reads as many of nodes. An epoch is of the
first `events`, in batches of 2,000, with those that validate, fan-out 10, the latest. bus: bytes a second that transfers are held to
on a CPU, which has no bus of its own (0: none). The naive rival is `tgl-unique`, which merges what is alike before it computes, and has
no cache. Prints one row a strategy: median epoch, its range, times as fast as `tgl`, and seconds of each part.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import Prepared
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.datasets import store
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.execute.jobs import item, load_passes
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.reports.breakdown import PARTS, Breakdown
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload

STRATEGIES = ("tgl", "etc", "taser", "simple", "fast", "tgl-unique", "fast-merged")


def made(options: argparse.Namespace, scratch: Path) -> Path:
    """The stream with generated features, prepared."""
    folder, events = scratch / f"{options.dataset}-{options.events}-{options.width}", load(options.dataset)
    assert isinstance(events, EventStream)
    events = events.span(0, options.events)
    if not folder.exists():
        drawn = np.random.default_rng(0).standard_normal((len(events), options.width), np.float32)
        store.save(folder / "stream", replace(events, features=drawn, node_features=None))
        Prepared.make(folder / "prepared", Path("..") / "stream", Protocol())
    return folder / "prepared"


def run(options: argparse.Namespace, data: Path, name: str, ranks: int, bus: float, scratch: Path) -> list[str]:
    """A row a strategy; all are passed through in turn."""
    choice = ModelChoice(name, 100, options.layers, options.width, heads=2)
    hyper = Hyper(batch_size=2000, fanout=(10,), events=EventHyper(cache_ratio=options.ratio))
    stats, items = stream_statistics(Prepared.load(data)), []
    work = Workload(options.dataset, stats, shape_for(choice, stats, hyper), hyper)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        out = Path(folder)
        for planner in options.strategies:
            items.append(item(out, planner, strategy(planner).plan(work, ranks, UNUSED), data, hyper))
        settings = Settings(options.threads, 1e-3, bus=bus)
        launch(Job("fast", tuple(items), str(out), choice, options.repeats, 1, settings), ranks, out)
        found = {planner: load_passes(out, planner) for planner in options.strategies}
    seconds = {planner: [one.trace.span_ns / 1e9 for one in passes] for planner, passes in found.items()}
    rows = []
    for planner, times in seconds.items():
        ratios = [base / time for base, time in zip(seconds[options.strategies[0]], times, strict=True)]  # pass by pass
        parts = Breakdown.middle([one.trace for one in found[planner]]).seconds
        same = (found[planner][0].losses == found[options.strategies[0]][0].losses).all()
        cells = [planner, f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"]
        cells += [f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", "equal" if same else "to rounding"]
        rows.append("| " + " | ".join([*cells, *(f"{parts[part]:.3f}" if part in parts else "–" for part in PARTS)]) + " |")
    return rows


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="FAST beside its rivals, executed")
    parser.add_argument("--dataset", default="us_flights_2001")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--models", nargs="*", default=["tgat", "tgn"])
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--events", type=int, default=120_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--bus", type=float, nargs="*", default=[0, 16e9, 0.25e9])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ratio", type=float, default=0.2)
    parser.add_argument("--strategies", nargs="*", default=STRATEGIES)
    parser.add_argument("--scratch", type=Path)
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder:
        scratch = options.scratch or Path(folder)
        data = made(options, scratch)
        shown = {key: value for key, value in vars(options).items() if key != "scratch"}
        print(f"{device_name(torch.device('cpu'))}, torch {torch.__version__}, native {versions()['cpu']}; {shown}\n")
        for name, ranks, bus in product(options.models, options.ranks, options.bus):
            print(f"{name}, {ranks} rank(s), bus: {f'{bus / 1e9:g} GB/s' if bus else 'none'}\n")
            print("| strategy | epoch, s | times as fast | losses | " + " | ".join(f"{part}, s" for part in PARTS) + " |")
            print("|" + "---|" * (4 + len(PARTS)))
            print("\n".join(run(options, data, name, ranks, bus, scratch)) + "\n", flush=True)


if __name__ == "__main__":
    main()
