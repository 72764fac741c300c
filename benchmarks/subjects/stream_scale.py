"""A stream larger than memory should hold is generated, described, indexed, sampled and converted in mapped files, in little memory.

20,000,000 events on 16,681 nodes (GDELT's), a pair for every 16 events. Memory is the largest amount beyond what the process had before:
`anonymous` (pages that no file backs, looked at every 20 ms) and `resident` (with pages of mapped files, which the system takes back when
it needs them), the latter also as a multiple of the stream's files. The scratch folder (TMPDIR) needs some 134 bytes an event; `lean`
cases leave describing and converting out, and need 32. A contestant is a step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from core.case import Case, Passes, Setting, Subject
from setups.process import fresh, memory, reset_peak

from chronoscale.datasets import store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.statistics import count_stream, stream_shape
from chronoscale.datasets.streams.tcsr import TCSR

NODES, BATCH, FANOUT = 16_681, 2000, 10
LINES = 100_000  # of text that are written at a time
T = TypeVar("T")
Steps = dict[str, list[dict[str, float]]]


def anonymous() -> int:
    """Return bytes of this process that no file backs."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Anonymous:"))


class Meter:
    """Steps that are measured, by name; `size`: bytes of the stream's files."""

    def __init__(self) -> None:
        self.steps: Steps = {}
        self.size = 0

    def step(self, name: str, work: Callable[[], T]) -> T:
        """Return what a step returns, and measure it."""
        before, ended = anonymous(), threading.Event()
        most, resident = [before], reset_peak()

        def watch() -> None:
            while not ended.wait(0.02):
                most[0] = max(most[0], anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        try:
            result = work()
        finally:
            spent = time.perf_counter() - start
            ended.set()
            watcher.join()
        peak = memory("VmHWM") - resident
        of_files = {"of the files": peak / self.size} if self.size else {}
        self.steps[name] = [{"seconds": spent, "anonymous, MB": (most[0] - before) / 1e6, "resident, MB": peak / 1e6, **of_files}]
        return result


def sample(graph: TCSR, stream: EventStream, batches: int) -> int:
    """Sample recent neighbours of batches from the middle on, and return how many."""
    edges, middle = 0, len(stream) // 2
    for first in range(middle, min(middle + BATCH * batches, len(stream)), BATCH):
        node = np.concatenate([stream.src[first : first + BATCH], stream.dst[first : first + BATCH]])
        edges += int(graph.sample(node, np.full(len(node), first, np.int32), FANOUT).counts.sum())
    return edges


def write_text(stream: EventStream, path: Path, late: bool) -> None:
    """Write a csv; `late`: the last tenth of the events comes first."""
    tenth = len(stream) - len(stream) // 10
    spans = [(tenth, len(stream)), (0, tenth)] if late else [(0, len(stream))]
    with path.open("w") as file:
        for start, stop in spans:
            for begin in range(start, stop, LINES):
                block = slice(begin, min(begin + LINES, stop))
                frame = pd.DataFrame({"src": stream.src[block], "dst": stream.dst[block], "t": stream.t[block]})
                frame.to_csv(file, header=False, index=False)


def run(folder: Path, events: int, lean: bool) -> Steps:
    """Take all steps in this process."""
    meter, few = Meter(), RandomStream(10, 1_000, 20).stream()  # what is imported late is there before anything is measured
    write_text(few, folder / "few.csv", late=False)
    store.save(folder / "few", open_dataset(folder / "few.csv"))
    generator = RandomStream(NODES, events, max(events // 16, NODES))
    meter.step("generated and written", lambda: store.save_events(folder / "stream", generator))
    meter.size = sum(file.stat().st_size for file in (folder / "stream").iterdir())
    stream = meter.step("loaded and checked", lambda: store.load(folder / "stream"))
    assert isinstance(stream, EventStream)
    if not lean:
        meter.step("described", lambda: (count_stream(stream), stream_shape(stream)))
        meter.step("converted, mapped", lambda: store.save(folder / "copy", open_dataset(folder / "stream")))
        for late, what in ((False, "converted from csv"), (True, "converted from csv, a tenth of it late")):
            write_text(stream, text := folder / f"{late}.csv", late)
            meter.step(what, lambda text=text: store.save(text.with_suffix(""), open_dataset(text, sort=True)))  # type: ignore[misc]
            text.unlink()
    graph = meter.step("T-CSR", lambda: TCSR.of(stream, folder=folder / "tcsr"))
    edges = meter.step(what := "300 batches sampled", lambda: sample(graph, stream, 300))
    meter.steps[what][0]["10⁶ edges/s"] = edges / meter.steps[what][0]["seconds"] / 1e6
    return meter.steps


def measure(events: int, lean: bool, setting: Setting) -> Passes:
    """Take all steps in a process of its own."""
    return fresh(run, setting.scratch, events, lean)


def cases(quick: bool) -> Iterator[Case]:
    """Yield the stream in full and lean."""
    for lean in (True,) if quick else (False, True):
        yield Case({"events": 20_000 if quick else 20_000_000, "lean": lean}, partial(measure, 20_000 if quick else 20_000_000, lean))


SUBJECT = Subject(cases, 1)
