"""FlareDTDG beside full history and its own ablations on real snapshots: epochs, memory, communication; and test errors over seeds.

    python benchmarks/bench_flaredtdg.py times [--datasets math_overflow_monthly enron_monthly] [--models t-gcn:1 t-gcn:2 mpnn-lstm:2]
        [--hidden 64] [--ranks 2] [--alpha 0.05] [--repeats 5] [--threads 1] [--strategies …] [--scratch DIR]
    python benchmarks/bench_flaredtdg.py errors [--hidden 16] [--epochs 40] [--seeds 5] [--rate 0.003] …

times: one job, passes of all strategies in turn, after one to warm up; every pass is an epoch with an order of chunks of its own, the same
for all strategies. Prints the median epoch and its range, what it takes of the same pass's epoch of `full-history` (median and range), the
planned peak of a rank's memory (held to what torch allocates in tests/real_exec/test_window_memory.py), and how long a rank communicates
while it computes nothing (Table 11), the mean of ranks. errors: `chronoscale train`, degrees of the next month; the model of the best
validation epoch, tested on the last fifth.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import yaml

from chronoscale.batching.snapshots.chunks import Chunks, Counted, chunked
from chronoscale.batching.snapshots.held_out import Held
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.datasets import store
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.execute.jobs import item, load_passes
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.evaluation.metrics import exposed_communication_ns
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Recency, Workload

OURS, REFERENCE = "flaredtdg", "full-history"
TIMED = (REFERENCE, "flaredtdg", "flaredtdg-remap", "flaredtdg-no-overlap", "flaredtdg-turns", "recent-only")
TRAINED = ("flaredtdg", REFERENCE, "recent-only", "esdg", "dynagraph", "dynahb")
CHUNKS = 64


def sequence(name: str) -> SnapshotSequence:
    """A dataset of the catalogue as experiments read it. Raises UserError for one without snapshots."""
    found = load(name)
    if not isinstance(found, SnapshotSequence):
        raise UserError(f"'{name}' has no snapshots; expected a dataset like enron_monthly")
    return found.without_self_edges()


def model_of(text: str) -> tuple[str, int]:
    """A model and its layers, as `t-gcn:2`."""
    kind, _, layers = text.partition(":")
    if kind not in MODELS or not layers.isdigit() or int(layers) < 1:
        raise argparse.ArgumentTypeError(f"expected a model and its layers, like t-gcn:2, got '{text}'")
    return kind, int(layers)


def told(values: Sequence[float], unit: str = "") -> str:
    """Median and range."""
    return f"{statistics.median(values):.3g}{unit} ({min(values):.3g} to {max(values):.3g})"


def times(options: argparse.Namespace, scratch: Path) -> None:
    """A table a dataset and model."""
    for name in options.datasets:
        graphs, folder = sequence(name), scratch / name
        if not folder.exists():
            store.save(folder, graphs)
            np.save(scratch / f"{name}.npy", chunked(graphs, CHUNKS).assignment)
        parts = str(scratch / f"{name}.npy")
        chunks = Chunks(np.load(parts), CHUNKS)
        hyper = Hyper(recency=Recency(Decay(options.full, options.decayed, options.alpha), CHUNKS), task="degrees", held=Held(0.1, 0.2))
        for kind, layers in options.models:
            shape = model_shape(kind, 2, options.hidden, layers, 2)
            work = Workload(name, statistics_of(graphs), shape, hyper, chunking=Counted(graphs, chunks))
            choice = ModelChoice(kind, options.hidden, layers, 2)
            print(f"\n{name}, {kind}, {layers} layer(s), {options.hidden} wide, {options.ranks} ranks, K = {options.full}, ", end="")
            print(f"m = {options.decayed}, alpha = {options.alpha:g}\n")
            timed(options, work, choice, str(folder), parts, scratch / f"{name}-{kind}-{layers}")


def timed(options: argparse.Namespace, work: Workload, choice: ModelChoice, data: str, parts: str, out: Path) -> None:
    """One job, and its table."""
    out.mkdir(parents=True, exist_ok=True)
    machine = presets.local_cpu(options.ranks, 1e12, Link(1e9, 1e-4))
    costs = DatasheetCosts(machine.device)
    plans = {name: strategy(name).plan(work, options.ranks, costs) for name in options.strategies}
    items = []
    for name, plan in plans.items():
        items.append(replace(item(out, name, plan, data, work.hyper), parts=parts))
    settings = Settings(options.threads, 0.003, device="cpu")
    launch(Job("flaredtdg", tuple(items), str(out), choice, options.repeats, 1, settings), options.ranks, out)
    passes = {name: load_passes(out, name) for name in plans}
    spans = {name: [one.trace.span_ns / 1e9 for one in done] for name, done in passes.items()}
    peak = {name: int(peaks(plan, replay(plan, machine, costs)).max()) for name, plan in plans.items()}
    print(f"| strategy | windows | epoch, s | of {REFERENCE} | peak, MB | of {REFERENCE} | communicates alone, ms |")
    print("|---|---|---|---|---|---|---|")
    for name, plan in plans.items():
        share = [own / other for own, other in zip(spans[name], spans[REFERENCE], strict=True)]
        alone = [float(exposed_communication_ns(one.trace).mean()) / 1e6 for one in passes[name]]
        cells = (name, plan.iterations, told(spans[name]), told(share), f"{peak[name] / 1e6:.1f}", f"{peak[name] / peak[REFERENCE]:.3f}")
        print(f"| {' | '.join(map(str, (*cells, told(alone))))} |", flush=True)
    print()
    for name in plans if OURS in plans else ():
        if name.startswith(f"{OURS}-"):
            share = [own / other for own, other in zip(spans[OURS], spans[name], strict=True)]
            print(f"{OURS} takes {told(share)} of the same pass's {name}", flush=True)


def errors(options: argparse.Namespace, scratch: Path) -> None:
    """A table a dataset and model: test MSE of every seed's best validation epoch."""
    for name in options.datasets:
        for kind, layers in options.models:
            print(f"\n{name}, {kind}, {layers} layer(s), {options.hidden} wide, {options.epochs} epochs\n")
            print("| strategy | test MSE, mean | standard deviation | by seed |\n|---|---|---|---|")
            naive: dict[str, float] = {}
            for planner in options.strategies:
                found = []
                for seed in range(options.seeds):
                    folder = scratch / f"{name}-{kind}-{layers}-{planner}-{seed}"
                    test, naive = trained(options, name, kind, layers, planner, seed, folder)
                    found.append(test)
                spread = statistics.stdev(found) if len(found) > 1 else float("nan")
                each = ", ".join(f"{value:.4f}" for value in found)
                print(f"| {planner} | {statistics.mean(found):.4f} | {spread:.4f} | {each} |", flush=True)
            for predictor, value in naive.items():
                print(f"| {predictor} | {value:.4f} | | |")


def trained(options: argparse.Namespace, data: str, kind: str, layers: int, planner: str, seed: int, folder: Path) -> tuple[float, dict]:
    """Test MSE of a run, and of naive predictions."""
    folder.mkdir(parents=True, exist_ok=True)
    training = {"task": "degrees", "validation": 0.1, "test": 0.2, "learning_rate": options.rate, "scale_learning_rate": False}
    window = {"full": options.full, "decayed": options.decayed, "alpha": options.alpha, "chunks": CHUNKS}
    experiment = {
        "dataset": data,
        "model": {"name": kind, "hidden": options.hidden, "layers": layers},
        "training": {**training, **window, "group_size": options.full + options.decayed},
        "strategies": [planner],
        "ranks": [options.ranks],
        "threads": options.threads,
        "seed": seed,
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(experiment))
    command = [sys.executable, "-m", "chronoscale", "train", str(folder / "run.yaml"), "--epochs", str(options.epochs)]
    done = subprocess.run([*command, "--runs", str(folder / "runs")], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(done.args)}\n{done.stderr}")
    train = max((folder / "runs").glob("*/train"), key=lambda part: part.stat().st_mtime)
    found, naive = (json.loads((train / file).read_text()) for file in ("test.json", "naive.json"))
    return found["mse"], {key: scores["mse"] for key, scores in naive.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("times", "errors"))
    parser.add_argument("--datasets", nargs="+", default=["math_overflow_monthly", "enron_monthly"])
    parser.add_argument("--models", nargs="+", type=model_of, default=[("t-gcn", 1), ("t-gcn", 2)])
    parser.add_argument("--strategies", nargs="+")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--full", type=int, default=2)
    parser.add_argument("--decayed", type=int, default=6)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--scratch", type=Path)
    options = parser.parse_args()
    run = times if options.what == "times" else errors
    options.strategies = list(options.strategies or (TIMED if options.what == "times" else TRAINED))
    if options.what == "times" and REFERENCE not in options.strategies:
        options.strategies.insert(0, REFERENCE)
    print(f"{device_name(torch.device('cpu'))}, torch {torch.__version__}, libraries {versions()}, {options.threads} thread(s) a rank")
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(options, options.scratch or Path(folder))
        except UserError as error:
            sys.exit(f"bench_flaredtdg: {error}")


if __name__ == "__main__":
    main()
