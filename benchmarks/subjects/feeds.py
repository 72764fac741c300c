"""Index-batching's epoch takes as long as that of materialised windows, although it holds less.

One job: strategies take turns epoch by epoch, in the order pgt, index, index, pgt, so that neither is always first; a pass is the mean of
a strategy's two. `feed alone` reads all batches of an epoch without a model; it is the hardest case, and no training is like it. An epoch
holds training and validation windows. Rival: pgt, which materialises windows as PyTorch Geometric Temporal does; both read the same
values.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from core.case import Case, Passes, Setting, Subject
from setups.signals import item, mapped, stored

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.signals.feeds import FEEDS
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.signals import stores
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, ModelChoice

TURNS = ("pgt", "index", "index", "pgt")


def averaged(rows: list[list[dict[str, float]]]) -> Passes:
    """Return passes of both strategies from the figures of all TURNS."""
    return {
        who: [
            {key: float(np.mean([one[key] for one, turn in zip(row, TURNS, strict=True) if turn == who])) for key in row[0]} for row in rows
        ]
        for who in ("pgt", "index")
    }


def epochs(name: str, batch: int, batches: int, model: tuple[str, int], setting: Setting) -> Passes:
    """Time epochs of a job in a fresh process."""
    hyper = Hyper(batch_size=batch, window=12, horizon=12, batches=batches)
    out, path = setting.scratch, stored(name, setting.scratch)
    items = tuple(item(f"{i}-{who}", who, path, 1, hyper, model, out) for i, who in enumerate(TURNS))
    settings = Settings(setting.threads, seed=1, device="cpu")
    launch(Job("feeds", items, str(out), ModelChoice(*model), setting.repeats, 1, settings), 1, out)
    traces = [[Trace.load(out / f"{one.label}-r{repeat}.parquet") for one in items] for repeat in range(setting.repeats)]
    return averaged(
        [
            [{"seconds": one.span_ns / 1e9, "GATHER rows, s": one.duration_ns[one.op == Op.GATHER].sum() / 1e9} for one in row]
            for row in traces
        ]
    )


def alone(name: str, batch: int, setting: Setting) -> Passes:
    """Time reading an epoch's training batches."""
    signal = mapped(stored(name, setting.scratch))
    windows, kinds = Windows(len(signal), 12, 12), {"pgt": stores.WINDOWS, "index": stores.ARRAY}
    feeds = {who: FEEDS[kind](signal, windows, "training", torch.device("cpu")) for who, kind in kinds.items()}
    for feed in feeds.values():
        feed.materialise()
    first = WindowAssignment(windows.train, batch=batch).starts(0, 0)[0]
    assert torch.equal(*(feed.cut(feed.read(first), first) for feed in feeds.values())), "feeds read different windows"
    rows = []
    for repeat in range(setting.repeats + 1):
        row = []
        for who in TURNS:
            starts = WindowAssignment(windows.train, batch=batch).starts(0, repeat)
            begin = time.perf_counter()
            for one in starts:
                feeds[who].read(one)
            row.append({"seconds": time.perf_counter() - begin})
        rows.append(row)
    return averaged(rows[1:])


def cases(quick: bool) -> Iterator[Case]:
    """Yield the feed alone and two widths, four optimiser steps an epoch and whole ones."""
    name, batch = ("traffic-6-80", 8) if quick else ("los_loop", 64)
    yield Case({"what": "alone", "signal": name}, partial(alone, name, batch))
    for hidden, batches in () if quick else ((2, 4), (2, 0), (64, 0)):
        parameters = {"what": "epoch", "signal": name, "hidden": hidden, "batches": batches or "all"}
        yield Case(parameters, partial(epochs, name, batch, batches, ("pgt-dcrnn", hidden)))


SUBJECT = Subject(cases, 11)
