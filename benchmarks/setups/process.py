"""Processes of their own, and what the system and torch say of a process's memory."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.real_exec.ranks.launch import QUIET

T = TypeVar("T")


def memory(field: str) -> int:
    """Return bytes that /proc/self/status states: VmRSS now, VmHWM at most, pages of mapped files included."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) << 10


def reset_peak() -> int:
    """Begin VmHWM anew, and return the resident bytes."""
    torch.set_num_threads(1)
    set_threads(1)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def fresh(work: Callable[..., T], *given: object) -> T:
    """Return what a function returns in a process of its own, whose allocator is set as a rank's.

    The function is one of a module, its arguments and result can be pickled.
    """
    before = dict(os.environ)
    os.environ.update({**QUIET, "OMP_NUM_THREADS": "1", **before})
    try:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(work, given)
    finally:
        os.environ.clear()
        os.environ.update(before)


def bytes_held(epoch: Callable[[], object]) -> int:
    """Return the most bytes that torch's profiler saw at once, beyond what was there before: of what the calling thread takes and gives
    back, for it sees no other thread."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        epoch()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(path := str(Path(folder) / "trace.json"))
        events = [event for event in json.loads(Path(path).read_text())["traceEvents"] if event.get("name") == "[memory]"]
    return int(np.cumsum([event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])]).max())
