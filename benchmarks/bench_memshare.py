"""MemShare, its ablation and its rivals on real streams and several ranks: seconds of an epoch, and what they learn.

    python benchmarks/bench_memshare.py [--datasets jodie_wikipedia us_flights_2001] [--events 200000] [--only times|scores] …

Times: epochs of all strategies in turn in one job, pass by pass, so that drift of the machine hits all alike; without a network between the
ranks and with one held to some bytes a second, `--networks` (real_exec.shaped). Ratios are to `--base` in the same pass: median and range.
Scores: trainings of `--epochs` epochs by seed, the best epoch tested; mean ± standard deviation. Prints Markdown; `--into` keeps
everything as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import Prepared
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.execute.jobs import load_passes
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks.launch import launch, start, wait
from chronoscale.real_exec.training.epoch_loop import ENTRY
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, SharingHyper, Workload

LADDER = ("tgl-dist", "memshare-shared", "memshare-history", "memshare-decay", "memshare-negatives", "memshare")
RIVALS = ("mspipe", "disttgl", "tgl-unique")
Figures = dict[str, Any]


def prepared(name: str, events: int, folder: Path) -> Path:
    """The first so many events of a dataset, as ranks read them."""
    found = catalogue.load(name)
    assert isinstance(found, EventStream)
    store.save(folder / "stream", found.span(0, min(events, len(found))))
    Prepared.make(folder / "prepared", folder / "stream", Protocol())
    return folder / "prepared"


def hyper_of(given: argparse.Namespace, seed: int = 0) -> Hyper:
    """Of a training."""
    sharing = SharingHyper(shared=given.shared, theta=given.theta, alpha=given.alpha)
    return Hyper(batch_size=given.batch_size, fanout=(given.fanout,), seed=seed, events=EventHyper(sharing=sharing))


def items(given: argparse.Namespace, data: Path, names: Sequence[str], folder: Path, seed: int = 0) -> Iterator[Item]:
    """Planned, their schedules saved."""
    hyper, stats = hyper_of(given, seed), stream_statistics(Prepared.load(data))
    for name in names:
        work = Workload("stream", stats, shape_for(choice(given), stats, hyper), hyper)
        strategy(name).plan(work, given.ranks, UNUSED).save(folder / f"{name}.schedule.parquet")
        yield Item(name, str(folder / f"{name}.schedule.parquet"), str(data), hyper)


def choice(given: argparse.Namespace) -> ModelChoice:
    """Of a model."""
    return ModelChoice(given.model, hidden=100, heads=2, time=100, clock="both")


def times(given: argparse.Namespace, data: Path, names: Sequence[str], network: float) -> dict[str, Figures]:
    """By strategy: seconds of every pass, those of its batches that validate among them, and bytes that ranks exchanged, as planned."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(learning_rate=given.rate, device="cpu", network=network)
        made = tuple(items(given, data, names, folder))
        launch(Job("times", made, str(folder), choice(given), given.repeats, 1, settings), given.ranks, folder)
        found: dict[str, Figures] = {}
        for label in names:
            passes = load_passes(folder, label)
            over = [int(one.trace.end_ns[one.trace.op == Op.OPTIMIZE].max()) for one in passes]  # what validates follows
            infers = [(int(one.trace.end_ns.max()) - end) / 1e9 for one, end in zip(passes, over, strict=True)]
            found[label] = {"seconds": [one.trace.span_ns / 1e9 for one in passes], "infers": infers}
        return found


def scores(given: argparse.Namespace, data: Path, name: str, seed: int) -> Figures:
    """Of the test events, the epochs' validation, and what was exchanged in the last one."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "epochs").mkdir()
        settings = Settings(learning_rate=given.rate, device="cpu", seed=seed)
        made = tuple(items(given, data, [name], folder, seed))
        file = folder / "job.json"
        Job("scores", made, str(folder), choice(given), given.epochs, 0, settings).save(file)
        wait(start(ENTRY, file, given.ranks, 1), "scores")
        records = [json.loads(path.read_text()) for path in sorted((folder / "epochs").glob("*.json"))]
        validated = [record["scores"]["ap"] for record in records]
        return {**json.loads((folder / "test.json").read_text()), "validated": validated, "counts": records[-1].get("counts", {})}


def _ratio(ours: Sequence[float], base: Sequence[float]) -> str:
    ratios = sorted(one / other for one, other in zip(ours, base, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values) if len(values) > 1 else 0:.4f}"


def main() -> int:
    """Print the tables."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--datasets", nargs="+", default=["jodie_wikipedia", "us_flights_2001"])
    ask.add_argument("--events", type=int, default=200_000, help="the first so many of each")
    ask.add_argument("--only", choices=["times", "scores"])
    ask.add_argument("--strategies", nargs="+", default=[*LADDER, *RIVALS])
    ask.add_argument("--base", default="tgl-dist")
    ask.add_argument("--model", default="tgn")
    ask.add_argument("--networks", type=float, nargs="+", default=[0.0, 0.025e9], help="bytes a second, 0: that of one machine")
    for name, value in {"ranks": 2, "batch-size": 600, "fanout": 10, "repeats": 7, "epochs": 8}.items():
        ask.add_argument(f"--{name}", type=int, default=value)
    for name, number in {"shared": 0.1, "theta": 0.1, "alpha": 0.3, "rate": 0.0005}.items():
        ask.add_argument(f"--{name}", type=float, default=number)
    ask.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    ask.add_argument("--into", type=Path)
    given = ask.parse_args()
    kept: dict[str, object] = {"python": platform.python_version(), "torch": torch.__version__, "cores": os.cpu_count()}
    for name in given.datasets:
        with tempfile.TemporaryDirectory() as temporary:
            data = prepared(name, given.events, Path(temporary))
            for network in () if given.only == "scores" else given.networks:
                found = times(given, data, given.strategies, network)
                kept[f"{name} {network:g}"] = found
                base = found[given.base]["seconds"]
                held = f"{network / 1e9:g} GB/s" if network else "of one machine"
                print(f"\n{name}, network {held}\n\n| strategy | epoch, s | times {given.base} | validation, s |\n|---|---|---|---|")
                for label, one in found.items():
                    seconds, validated = sorted(one["seconds"]), statistics.median(one["infers"])
                    told = f"{statistics.median(seconds):.2f} ({seconds[0]:.2f} to {seconds[-1]:.2f})"
                    print(f"| `{label}` | {told} | {_ratio(one['seconds'], base)} | {validated:.2f} |", flush=True)
            if given.only == "times":
                continue
            print(f"\n{name}\n\n| strategy | test AP | test MRR | validation AP | fetched MB | told |\n|---|---|---|---|---|---|")
            for label in given.strategies:
                by_seed = [scores(given, data, label, seed) for seed in given.seeds]
                kept[f"{name} {label}"] = by_seed
                counts = by_seed[0]["counts"] or {"fetched_bytes": 0, "shared_changes": 0, "shared_spoken": 0}
                told = counts["shared_spoken"] / counts["shared_changes"] if counts["shared_changes"] else 0
                best = _spread([max(one["validated"]) for one in by_seed])
                cells = [_spread([one[key] for one in by_seed]) for key in ("ap", "mrr")]
                print(f"| `{label}` | {' | '.join(cells)} | {best} | {counts['fetched_bytes'] / 1e6:.0f} | {told:.0%} |", flush=True)
            if given.into:
                given.into.write_text(json.dumps(kept, default=float))
    return 0


if __name__ == "__main__":
    sys.exit(main())
