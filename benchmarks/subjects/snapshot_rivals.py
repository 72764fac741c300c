"""Training on snapshots takes less time than PyTorch Geometric Temporal's, and than the obvious lines of PyTorch.

One rank, float32, CPU, one layer, hidden = inputs = 64 (EvolveGCN of the package has no other), the same seeded features. An epoch:
windows of 4 snapshots, stride 1, the first 12 from snapshot 16 on; of each a forward pass, the mean squared error on
log(1 + in-degree) a snapshot ahead, a backward pass, a step of Adam. Trainers have a process each, as their users would (ours is set up as
a rank of a job is), and take turns, an epoch each; seconds are a window's.

rows       ours: one group a step, what consecutive snapshots have in common computed once, rows that stay too (real-g+ without pairs)
psg        ours: the schedule of strategy psg, executed by the interpreter, all that `chronoscale bench` times
pygt       the package's module in the loop of its examples: the state carried through a window, edges normalised in every call
once       the same with edges normalised before training: what a careful user would do. T-GCN has no such option; its convolutions have
torch      sparse matrix, cell, Adam, in torch alone; normalised before training. Its mathematics and its first weights are ours
ahead      the same with neighbours' features added up before training: nothing of the convolution is left but its product

`losses` compares them step by step, from the same weights, on the first four windows: `difference` is the largest relative one; `times`
are taken apart.

Loss, readout, windows and features are the same everywhere; of T-GCN and EvolveGCN-O the package has other equations, which
docs/measured/execution.md spells out, and is compared where both are one function.

Needs torch_geometric and torch_geometric_temporal, but for cases with rivals=torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product

from core.case import Case, Passes, Setting, Subject, seconds
from core.turns import in_turns
from rivals import pygt
from rivals.plain_torch import PlainTorch
from rivals.processes import Apart, Asked, Name
from rivals.pygt import Pygt, Taken
from rivals.snapshots import ROWS, Ours
from rivals.windows import Losses, Windows, apart
from setups.data import sequence_of

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelShape

MODELS = ("t-gcn", "evolvegcn-o", "evolvegcn-h")
RIVALS: dict[str, tuple[Name, ...]] = {"torch": ("torch", "ahead"), "pygt": ("pygt", "once", "torch", "ahead")}
RATE, SEED, COMPARED, ALLOWED = 1e-3, 0, 4, 1e-4
HYPER = Hyper(group_size=4)


def cut(sequence: SnapshotSequence, first: int, groups: int) -> SnapshotSequence:
    """Return the snapshots of so many windows and their targets. Raises UserError where there are not that many."""
    last = first + groups + HYPER.group_size
    if not 0 <= first < last <= len(sequence) or groups < 1:
        raise UserError(f"{sequence.name} has {len(sequence)} snapshots; {groups} windows from snapshot {first} on need {last}")
    return SnapshotSequence.from_snapshots([sequence[t] for t in range(first, last)], sequence.name).without_self_edges()


def ours(sequence: SnapshotSequence, shape: ModelShape, rate: float = RATE) -> tuple[Ours, Windows]:
    """Return our trainer, and the same windows for others."""
    trainer = Ours(sequence, shape, HYPER, rate, SEED)
    return trainer, Windows.of(sequence, trainer.material, HYPER, shape.predicts_each)


def pairs(sequence: SnapshotSequence, shape: ModelShape, rivals: str) -> Iterator[tuple[str, Callable[[], tuple[Losses, Losses]]]]:
    """Yield what is compared, and an epoch's losses of both."""

    def plain() -> tuple[Losses, Losses]:
        made, windows = ours(sequence, shape)
        return PlainTorch(made.model, windows, RATE).epoch(), made.epoch()

    def turned() -> tuple[Losses, Losses]:
        made, windows = ours(sequence, replace(shape, temporal="gru"))
        return Pygt(made.model, windows, RATE, Taken(once=True, turned=True)).epoch(), made.epoch()

    def opened() -> tuple[Losses, Losses]:
        made, windows = ours(sequence, shape, 0.0)
        pygt.aligned(made.model)
        rival = Pygt(made.model, windows, 0.0, Taken(once=True))
        pygt.lifted(made.model)
        return rival.epoch(), made.epoch()

    def sharing() -> tuple[Losses, Losses]:
        made, windows = ours(sequence, shape)
        return PlainTorch(made.model, windows, RATE, ahead=True).epoch(), Ours(sequence, shape, HYPER, RATE, SEED, planner=ROWS).epoch()

    yield "torch and psg, trained", plain
    yield "ahead and rows, trained", sharing
    if rivals == "pygt":
        if shape.evolves_weights:
            yield "once, W transposed, and psg of a GRU, trained", turned
        else:
            yield "once and psg, where they are one function, not trained", opened


def differences(data: str, model: str, width: int, rivals: str, first: int, setting: Setting) -> Passes:
    """Compare losses, and assert that those of the same mathematics agree. Raises UserError without the package."""
    _require(rivals)
    passes: dict[str, list[dict[str, float]]] = {}
    for what, epochs in pairs(cut(sequence_of(data), first, COMPARED), model_shape(model, width, width), rivals):
        start = time.perf_counter()
        difference = apart(*epochs())
        assert difference < ALLOWED, f"{what}: losses differ by {difference:.1e}"
        passes[what] = [{"seconds": time.perf_counter() - start, "difference": difference}]
    return passes


def times(data: str, model: str, width: int, rivals: str, first: int, groups: int, setting: Setting) -> Passes:
    """Time epochs by turns, after one of each that warms up. Raises UserError without the package."""
    _require(rivals)
    sequence, shape = cut(sequence_of(data), first, groups), model_shape(model, width, width)
    names: tuple[Name, ...] = ("rows", "psg", *RIVALS[rivals])
    with ExitStack() as stack:
        trainers = {name: stack.enter_context(Apart(Asked(name, sequence, shape, HYPER, RATE, SEED))) for name in names}
        epochs = {name: partial(trainer.timed, setting.threads) for name, trainer in trainers.items()}
        in_turns(epochs, 1)
        return seconds(in_turns(epochs, setting.repeats))


def _require(rivals: str) -> None:
    if rivals == "pygt":
        pygt.module("temporalgcn")


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets by models, beside torch alone and beside the package."""
    if quick:
        yield Case({"what": "losses", "data": "growth-80", "rivals": "torch"}, partial(differences, "growth-80", "t-gcn", 4, "torch", 1))
        return
    for data, model, rivals in product(("enron_monthly", "math_overflow_monthly"), MODELS, RIVALS):
        parameters = {"data": data, "model": model, "rivals": rivals}
        yield Case({"what": "losses", **parameters}, partial(differences, data, model, 64, rivals, 16))
        yield Case({"what": "times", **parameters}, partial(times, data, model, 64, rivals, 16, 12))


SUBJECT = Subject(cases, 5, ("torch_geometric", "torch_geometric_temporal"))
