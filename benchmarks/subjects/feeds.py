"""Index-batching takes an epoch as long as materialised windows do, and a mapped file as long as memory does, although both hold less.

Contestants are strategies: pgt materialises windows as PyTorch Geometric Temporal does, index cuts them from an array in memory,
gen-dist-index from a mapped file. They take turns pass by pass, forth and back, so that none is always first; a pass is the mean of both.

alone  reading and cutting an epoch's training batches without a model, in line, the file in the page cache: the hardest case, and no
       training is like it
epoch  epochs of the program that trains, validation included, in one job; gen-dist-index prefetches on the host lane's thread.
       `GATHER rows, s` is all that differs between the strategies
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns
from setups.data import SENSORS, mapped, steps_of, stored
from setups.jobs import signal_item
from setups.process import fresh, reset_peak

from chronoscale.batching.signals.windows import Windows
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.signals.feeds import FEEDS
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, ModelChoice

Names = tuple[str, ...]


def averaged(names: Names, both: list[Passes]) -> Passes:
    """Return the means of a contestant's passes on the way forth and on the way back."""
    forth, back = both
    return {
        who: [{key: (one[key] + other[key]) / 2 for key in one} for one, other in zip(forth[who], back[who], strict=True)] for who in names
    }


def read(path: Path, names: Names, hyper: Hyper, repeats: int) -> Passes:
    """Read batches without a model in this process."""
    reset_peak()
    signal = mapped(path)
    windows = Windows(len(signal))

    def reader(name: str) -> Callable[[], dict[str, float]]:
        feeding, numbers = strategy(name).feeding, iter(range(2 * repeats + 2))  # type: ignore[attr-defined]
        feed = FEEDS[feeding.store](signal, windows, "training", torch.device("cpu"))
        feed.materialise()
        assigned = feeding.training(windows, hyper, 1)

        def once() -> dict[str, float]:
            batches = assigned.starts(0, next(numbers))
            begin = time.perf_counter()
            for starts in batches:
                feed.cut(feed.read(starts), starts)
            return {"seconds": time.perf_counter() - begin}

        return once

    readers = {name: reader(name) for name in names}
    in_turns(readers, 1)
    turns = {f"{way} {name}": readers[name] for way, order in (("forth", names), ("back", names[::-1])) for name in order}
    passes = in_turns(turns, repeats)
    return averaged(names, [{name: passes[f"{way} {name}"] for name in names} for way in ("forth", "back")])


def alone(name: str, names: Names, hyper: Hyper, setting: Setting) -> Passes:
    """Read batches in a process whose memory is as in a real run."""
    return fresh(read, stored(name, setting.scratch), names, hyper, setting.repeats)


def epochs(name: str, names: Names, hyper: Hyper, model: tuple[str, int], setting: Setting) -> Passes:
    """Time epochs of a job."""
    out, path = setting.scratch, stored(name, setting.scratch)
    items = {way: tuple(signal_item(f"{way}-{who}", who, path, 1, hyper, model, out) for who in names) for way in ("forth", "back")}
    settings = Settings(setting.threads, seed=1, device="cpu")
    launch(Job("feeds", (*items["forth"], *items["back"][::-1]), str(out), ModelChoice(*model), setting.repeats, 1, settings), 1, out)

    def figures(way: str, who: str, repeat: int) -> dict[str, float]:
        trace = Trace.load(out / f"{way}-{who}-r{repeat}.parquet")
        return {"seconds": trace.span_ns / 1e9, "GATHER rows, s": float(trace.duration_ns[trace.op == Op.GATHER].sum()) / 1e9}

    return averaged(names, [{who: [figures(way, who, repeat) for repeat in range(setting.repeats)] for who in names} for way in items])


def cases(quick: bool) -> Iterator[Case]:
    """Yield feeds alone, and epochs by width, of few optimiser steps and whole; of 2 GB with PeMS's sensors pgt's windows do not fit."""
    small, large = ("traffic-6-80", "traffic-6-150") if quick else ("los_loop", f"traffic-{SENSORS}-{steps_of(2)}")
    small_names, large_names = ("pgt", "index", "gen-dist-index"), ("index", "gen-dist-index")

    def hyper(batch: int, batches: int) -> Hyper:
        return Hyper(batch_size=8 if quick else batch, window=12, horizon=12, batches=batches)

    yield Case({"what": "alone", "signal": small}, partial(alone, small, small_names, hyper(64, 0)))
    yield Case({"what": "alone", "signal": large}, partial(alone, large, large_names, hyper(16, 3 if quick else 400)))
    if quick:
        return
    for hidden, batches in ((2, 4), (2, 0), (64, 0)):
        parameters = {"what": "epoch", "signal": small, "hidden": hidden, "batches": batches or "all"}
        yield Case(parameters, partial(epochs, small, small_names, hyper(64, batches), ("pgt-dcrnn", hidden)))
    parameters = {"what": "epoch", "signal": large, "hidden": 2, "batches": 4}
    yield Case(parameters, partial(epochs, large, large_names, hyper(16, 4), ("pgt-dcrnn", 2)))


SUBJECT = Subject(cases, 11)
