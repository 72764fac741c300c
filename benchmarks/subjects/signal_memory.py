"""Peaks of memory are those of PGT-I's equations 1 (pgt, the rival) and 2 (index).

Each figure is of a process of its own: the peak of its resident memory (VmHWM, pages of mapped files included), less what it held once all
code had run once, on 48 steps, and the stored signal was open.

read     `prepared`: after standardising, and copying out. `epoch`: after all batches of an epoch were read, too, one at a time; `less a
         batch` leaves that batch out, which the equations do not count
train    the program that trains (float32): the saving, index against pgt, is what the equations say, since the model takes the same beside
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from core.case import Case, Passes, Setting, Subject
from setups.data import mapped, stored
from setups.jobs import signal_item
from setups.process import fresh, memory, reset_peak

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.datasets import store
from chronoscale.datasets.signals.signal import Signal
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.signals.feeds import FEEDS
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.workload import Hyper, ModelChoice

HORIZON, STEPS = 12, 5
STRATEGIES = ("pgt", "index")
MODEL = ("pgt-dcrnn", 2)


def read(path: Path, name: str, batch: int) -> tuple[int, int]:
    """Return peaks of preparing, and of preparing and an epoch of reading."""
    signal, prepared, base = mapped(path), 0, 0
    few = Signal(signal.values[: 4 * HORIZON], signal.edge_index)
    for given in (few, signal):  # a first, small one loads the code
        base, windows = reset_peak(), Windows(len(given), HORIZON, HORIZON)
        feed = FEEDS[strategy(name).feeding.store](given, windows, "training", torch.device("cpu"))  # type: ignore[attr-defined]
        feed.materialise()
        prepared = memory("VmHWM") - base
        for part in (windows.train, windows.validation):
            for starts in WindowAssignment(part, batch=batch).starts(0, 0):
                feed.read(starts)
    return prepared, memory("VmHWM") - base


def train(path: Path, name: str, batch: int) -> int:
    """Return the peak of preparing and a few optimiser steps of the program that trains."""
    hyper = Hyper(batch_size=batch, window=HORIZON, horizon=HORIZON, batches=STEPS)
    job_item = signal_item(name, name, path, 1, hyper, MODEL, path.parent)
    base = reset_peak()
    run_job(Job("memory", (job_item,), str(path.parent), ModelChoice(*MODEL), 1, settings=Settings(device="cpu")))
    return memory("VmHWM") - base


def bytes_held_by(name: str, dtype: str, batch: int, what: str, setting: Setting) -> Passes:
    """Measure both strategies beside their equations."""
    path = setting.scratch / "typed"
    signal = mapped(stored(name, setting.scratch))
    store.save(path, replace(signal, values=signal.values.astype(dtype)))
    windows, sizes = Windows(len(signal), HORIZON, HORIZON), (signal.num_nodes, signal.num_channels, np.dtype(dtype).itemsize)
    planned, one = (
        {"pgt": windows.materialised_bytes(*sizes), "index": windows.index_bytes(*sizes)},
        batch * windows.reach * int(np.prod(sizes)),
    )
    passes, trained = {}, dict[str, int]()
    for who in STRATEGIES:
        start = time.perf_counter()
        figures = {"equation, MB": planned[who] / 1e6}
        if what == "train":
            trained[who] = fresh(train, path, who, batch)
            figures["peak, MB"] = trained[who] / 1e6
        else:
            prepared, epoch = fresh(read, path, who, batch)
            shares = {"prepared": prepared, "epoch": epoch, "less a batch": epoch - one}
            figures |= {f"{key} / equation": taken / planned[who] for key, taken in shares.items()}
        passes[who] = [{"seconds": time.perf_counter() - start, **figures}]
    if what == "train":
        saved = (trained["pgt"] - trained["index"]) / (planned["pgt"] - planned["index"])
        passes["index"] = [{**passes["index"][0], "saved / equations": saved}]
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield signals by types, training, and ranks that are limited."""
    names, batch = (("traffic-6-100",), 8) if quick else (("los_loop", "metr_la_like", "pems_bay_like"), 64)
    whats = (("float32", "read"),) if quick else (("float64", "read"), ("float32", "read"), ("float32", "train"))
    for name, (dtype, what) in product(names, whats):
        yield Case({"signal": name, "dtype": dtype, "what": what}, partial(bytes_held_by, name, dtype, batch, what))


SUBJECT = Subject(cases, 1)
