"""Training on snapshots beside what a user would pick instead: PyTorch Geometric Temporal, and the obvious lines of PyTorch; in one run.

    python benchmarks/bench_pygt.py [--datasets enron_monthly math_overflow_monthly] [--models t-gcn evolvegcn-o evolvegcn-h]
        [--threads 1 2] [--groups 12] [--first 16] [--repeats 5] [--width 64] [--rivals pygt once torch] [--only losses times]

One rank, float32, CPU, one layer, hidden = inputs = --width (EvolveGCN of the package has no other), the same seeded features. An epoch:
windows of 4 snapshots, stride 1, the first `--groups` from snapshot `--first` on; of each a forward pass, the mean squared error on
log(1 + in-degree) a snapshot ahead, a backward pass, a step of Adam. Trainers have a process each, as their users would (ours is set up as
a rank of a job is), and take turns, an epoch each; times are a window's, a ratio is taken repeat by repeat, its spread is half the range
between the quartiles.

psg        ours: the schedule of strategy psg, executed by the interpreter, all that `chronoscale bench` times
flaredtdg  ours: two snapshots of a window whole and two in part (alpha 0.05, 64 chunks), and states inherited; its epoch is split at
           random, and has up to three windows less
pygt       the package's module in the loop of its examples: the state carried through a window, edges normalised in every call
once       the same with edges normalised before training: what a careful user would do. T-GCN has no such option; its convolutions have
torch      sparse matrix, cell, Adam, in torch alone; normalised before training. Its mathematics and its first weights are ours

Losses are compared first, step by step, from the same weights, each kind on the first four windows; then times are taken.

Mathematics. Loss, readout, windows and features are the same everywhere. Ours and theirs are A + I normalised, but by in- and out-degree
ours, by the in-degree on both sides theirs (`once` gets ours). Then:

t-gcn        Not the same. Theirs: gates read three convolutions, without an activation, by three linear layers; the reset gate is applied
             before the product, as in the paper. Ours: one convolution with a ReLU, then torch's GRU, which applies it behind the product.
             They are one function where the reset gate is 1 and the ReLU does nothing: losses of every window are compared there, with
             the learning rate 0, for they would not be trained alike.
evolvegcn-o  Not the same. Theirs evolves by a GRU, ours and the paper's by an LSTM; theirs takes rows of W, ours and the paper's columns.
             Compared: theirs with W transposed and ours of a GRU, trained.
evolvegcn-h  The same but for rows and columns of W. Compared: theirs with W transposed, trained.
flaredtdg    The same as psg where all snapshots are whole and no state is inherited: losses of its first epoch's windows, not trained.
as it is     Every module, unchanged, against its equations in float64, trained: that it is run as it says it computes.

Needs torch_geometric and torch_geometric_temporal, unless --rivals leaves pygt and once out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import torch
from rivals import pygt
from rivals.plain_torch import PlainTorch
from rivals.processes import Apart, Asked, Name
from rivals.psg import Psg
from rivals.pygt import Equations, Pygt, Taken
from rivals.windowed import WindowTrainer
from rivals.windows import Windows, apart

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.strategies.flaredtdg.strategy import WindowStrategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelShape, Recency

MODELS = ("t-gcn", "evolvegcn-o", "evolvegcn-h")
OURS: tuple[Name, Name] = ("psg", "flaredtdg")
THEIRS = ("pygt", "once")
RATE, SEED, COMPARED = 1e-3, 0, 4
HYPER = Hyper(group_size=4, recency=Recency(Decay(2, 2, 0.05)))
WHOLE = WindowStrategy("whole", "Whole windows", "", lambda recency: Decay(recency.decay.window, 0, 1.0), inherits=False)


def cut(sequence: SnapshotSequence, first: int, groups: int) -> SnapshotSequence:
    """The snapshots of so many windows and their targets. Raises UserError where there are not that many."""
    last = first + groups + HYPER.group_size
    if not 0 <= first < last <= len(sequence) or groups < 1:
        raise UserError(f"{sequence.name} has {len(sequence)} snapshots; {groups} windows from snapshot {first} on need {last}")
    return SnapshotSequence.from_snapshots([sequence[t] for t in range(first, last)], sequence.name).without_self_edges()


def ours(sequence: SnapshotSequence, shape: ModelShape, rate: float = RATE) -> tuple[Psg, Windows]:
    made = Psg(sequence, shape, HYPER, rate, SEED)
    return made, Windows.of(sequence, made.material, HYPER, shape.predicts_each)


def differences(sequence: SnapshotSequence, shape: ModelShape, rivals: list[str]) -> Iterator[tuple[str, float]]:
    """What is compared, and the largest relative difference of a loss."""
    made, _ = ours(sequence, shape, 0.0)
    windowed = WindowTrainer(sequence, shape, HYPER, 0.0, SEED, strategy=WHOLE)
    losses, order = made.epoch(), windowed.order
    yield "flaredtdg of whole windows and psg, not trained", apart(windowed.epoch(), [losses[window] for window in order])
    if "torch" in rivals:
        made, windows = ours(sequence, shape)
        other = PlainTorch(made.model, windows, RATE)
        yield "torch and psg, trained", apart(other.epoch(), made.epoch())
    if not set(THEIRS) & set(rivals):
        return
    made, windows = ours(sequence, shape)
    rival = Pygt(made.model, windows, RATE)
    equations = Equations(rival, windows, RATE)
    yield "pygt as it is and its equations, trained", apart(rival.epoch(), equations.epoch())
    if shape.evolves_weights:
        made, windows = ours(sequence, replace(shape, temporal="gru"))
        rival = Pygt(made.model, windows, RATE, Taken(once=True, turned=True))
        yield "once, W transposed, and psg of a GRU, trained", apart(rival.epoch(), made.epoch())
    else:
        made, windows = ours(sequence, shape, 0.0)
        pygt.aligned(made.model)
        rival = Pygt(made.model, windows, 0.0, Taken(once=True))
        pygt.lifted(made.model)
        yield "once and psg, where they are one function, not trained", apart(rival.epoch(), made.epoch())


def seconds(of: dict[str, Apart], repeats: int, threads: int) -> dict[str, list[float]]:
    """Epochs in turn, the first of each, which warms up, left out."""
    found: dict[str, list[float]] = {name: [] for name in of}
    for repeat in range(repeats + 1):
        for name, trainer in of.items():
            spent = trainer.timed(threads)
            if repeat:
                found[name].append(spent)
    return found


def spread(values: list[float]) -> float:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 2


def compared(sequences: dict[str, SnapshotSequence], options: argparse.Namespace) -> None:
    print("| dataset | model | losses of | largest relative difference |\n|---|---|---|---:|", flush=True)
    for dataset, sequence in sequences.items():
        short = cut(sequence, options.first, min(options.groups, COMPARED))
        for model in options.models:
            for what, difference in differences(short, model_shape(model, options.width, options.width), options.rivals):
                print(f"| {dataset} | {model} | {what} | {difference:.1e} |", flush=True)
    print()


def raced(sequences: dict[str, SnapshotSequence], options: argparse.Namespace) -> None:
    columns = ["dataset", "model", "threads", "psg, ms", "flaredtdg, ms"]
    columns += [part for name in options.rivals for part in (f"{name}, ms", f"over {OURS[0]}", f"over {OURS[1]}")]
    print(f"| {' | '.join(columns)} |\n|---|---|{'---:|' * (len(columns) - 2)}", flush=True)
    for dataset, sequence in sequences.items():
        part = cut(sequence, options.first, options.groups)
        for model in options.models:
            shape = model_shape(model, options.width, options.width)
            with ExitStack() as stack:
                names = (*OURS, *options.rivals)
                of = {name: stack.enter_context(Apart(Asked(name, part, shape, HYPER, RATE, SEED))) for name in names}
                for threads in options.threads:
                    found = seconds(of, options.repeats, threads)
                    print(f"| {dataset} | {model} | {threads} | {' | '.join(_cells(found, model))} |", flush=True)
    if options.rivals:
        print("\n\\* not the same mathematics (see the benchmark's first lines)")


def _cells(found: dict[str, list[float]], model: str) -> Iterator[str]:
    for name, values in found.items():
        yield f"{1e3 * statistics.median(values):.1f} ± {1e3 * spread(values):.1f}"
        if name in OURS:
            continue
        for own in OURS:
            ratios = [theirs / mine for theirs, mine in zip(values, found[own], strict=True)]
            same = "" if own == "psg" and (name == "torch" or model == "evolvegcn-h") else " *"
            yield f"{statistics.median(ratios):.2f} ± {spread(ratios):.2f}{same}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["enron_monthly", "math_overflow_monthly"])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--groups", type=int, default=12, help="windows an epoch")
    parser.add_argument("--first", type=int, default=16, help="the snapshot that the first window begins with")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rivals", nargs="*", choices=(*THEIRS, "torch"), default=[*THEIRS, "torch"])
    parser.add_argument("--only", nargs="+", choices=("losses", "times"), default=["losses", "times"])
    options = parser.parse_args()
    try:
        packages = ["torch"]
        if set(THEIRS) & set(options.rivals):
            pygt.package()  # before any work
            packages += ["torch_geometric", "torch_geometric_temporal"]
        sequences = {name: _snapshots(name) for name in options.datasets}
        torch.set_num_threads(options.threads[0])
        set_threads(options.threads[0])
        if "losses" in options.only:
            compared(sequences, options)
        if "times" in options.only:
            raced(sequences, options)
    except UserError as error:
        sys.exit(f"bench_pygt: {error}")
    print(f"\n{device_name(torch.device('cpu'))}, {', '.join(f'{name} {version(name)}' for name in packages)}; {options.groups} windows")


def _snapshots(name: str) -> SnapshotSequence:
    found = load(name)
    if not isinstance(found, SnapshotSequence):
        raise UserError(f"'{name}' has no snapshots; expected a dataset like enron_monthly")
    return found


if __name__ == "__main__":
    main()
