"""A stream larger than memory should hold: generated, described, kept as T-CSR and sampled in mapped files, converted from them and from
text, with seconds and memory of each.

    python benchmarks/bench_stream_scale.py [--events 20000000] [--folder DIR] [--lean]

16,681 nodes (GDELT's) and a pair for every 16 events. Memory is the largest amount beyond what the process had before: anonymous (pages
that no file backs, looked at every 20 ms), and resident (with pages of mapped files, which the system takes back when it needs them; its
own account, /proc/self/status), the latter also as a multiple of the stream's files. The folder, a temporary one by default, needs some
110 bytes an event, and TMPDIR 24; `--lean` leaves describing and converting out, and needs 32.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from chronoscale.datasets import store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.statistics import count_stream, stream_shape
from chronoscale.datasets.streams.tcsr import TCSR

T = TypeVar("T")
NODES, BATCH, BATCHES, FANOUT = 16_681, 2000, 300, 10
LINES = 100_000  # of text that are written at a time


def anonymous() -> float:
    """Megabytes of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("Anonymous:"))


def resident(key: str) -> float:
    """Megabytes of this process: now (VmRSS), at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(key))


def measured(what: str, work: Callable[[], T], size: float = math.nan) -> T:
    """`size`: megabytes of the stream's files."""
    before, ended = anonymous(), threading.Event()
    most, held = [before], resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew

    def watch() -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        found = work()
    finally:
        spent = time.perf_counter() - start
        ended.set()
        watcher.join()
    peak = resident("VmHWM") - held
    print(f"| {what} | {spent:.1f} | {most[0] - before:.0f} | {peak:.0f} | {peak / size:.2f} |".replace("nan", "–"), flush=True)
    return found


def sampled(graph: TCSR, stream: EventStream) -> int:
    edges, middle = 0, len(stream) // 2
    for first in range(middle, middle + BATCH * BATCHES, BATCH):
        node = np.concatenate([stream.src[first : first + BATCH], stream.dst[first : first + BATCH]])
        edges += int(graph.sample(node, np.full(len(node), first, np.int32), FANOUT).counts.sum())
    return edges


def as_text(stream: EventStream, path: Path, late: bool) -> None:
    """A csv; `late`: the last tenth of the events comes first."""
    tenth = len(stream) - len(stream) // 10
    spans = [(tenth, len(stream)), (0, tenth)] if late else [(0, len(stream))]
    with path.open("w") as file:
        for start, stop in spans:
            for begin in range(start, stop, LINES):
                block = slice(begin, min(begin + LINES, stop))
                frame = pd.DataFrame({"src": stream.src[block], "dst": stream.dst[block], "t": stream.t[block]})
                frame.to_csv(file, header=False, index=False)


def converted(stream: EventStream, folder: Path, size: float) -> None:
    measured("described", lambda: (count_stream(stream), stream_shape(stream)), size)
    measured("converted, mapped", lambda: store.save(folder / "copy", open_dataset(folder / "stream")), size)
    for late, what in ((False, "converted from csv"), (True, "converted from csv, a tenth of it late")):
        text = folder / f"{late}.csv"
        as_text(stream, text, late)
        measured(what, lambda text=text: store.save(text.with_suffix(""), open_dataset(text, sort=True)), size)  # type: ignore[misc]
        text.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--lean", action="store_true", help="generate, load, T-CSR, sample")
    options = parser.parse_args()
    made = RandomStream(NODES, options.events, options.events // 16)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        print(f"Python {platform.python_version()}, NumPy {np.__version__}, pandas {pd.__version__}, {os.cpu_count()} cores")
        few = RandomStream(10, 1_000, 20).stream()  # what is imported late is there before anything is measured
        as_text(few, folder / "few.csv", late=False)
        store.save(folder / "few", open_dataset(folder / "few.csv"))
        print(f"{options.events:,} events\n\n| | seconds | anonymous MB | resident MB | of the files |\n|---|---|---|---|---|")
        measured("generated and written", lambda: store.save_events(folder / "stream", made))
        size = sum(file.stat().st_size for file in (folder / "stream").iterdir()) / 1e6
        stream = measured("loaded and checked", lambda: store.load(folder / "stream"), size)
        assert isinstance(stream, EventStream)
        if not options.lean:
            converted(stream, folder, size)
        graph = measured("T-CSR", lambda: TCSR.of(stream, folder=folder / "tcsr"), size)
        start = time.perf_counter()
        edges = measured(f"{BATCHES} batches of {BATCH:,} events sampled, recent", lambda: sampled(graph, stream), size)
        print(f"\n{edges / (time.perf_counter() - start) / 1e6:.0f} million edges a second", flush=True)


if __name__ == "__main__":
    main()
