"""A stream larger than memory should hold: generated, kept as T-CSR and sampled in mapped files, with seconds and memory of each.

    python benchmarks/bench_stream_scale.py [--events 20000000] [--folder DIR]

16,681 nodes (GDELT's) and a pair for every 16 events. Memory is the largest amount of anonymous memory (pages that no file backs) beyond
what the process had before, looked at every 20 ms. The folder, a temporary one by default, needs some 32 bytes an event.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR

T = TypeVar("T")
NODES, BATCH, BATCHES, FANOUT = 16_681, 2000, 300, 10


def anonymous() -> float:
    """Megabytes of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("Anonymous:"))


def measured(what: str, work: Callable[[], T]) -> T:
    before, ended = anonymous(), threading.Event()
    most = [before]

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
    print(f"| {what} | {spent:.1f} | {most[0] - before:.0f} |", flush=True)
    return found


def sampled(graph: TCSR, stream: EventStream) -> int:
    edges, middle = 0, len(stream) // 2
    for first in range(middle, middle + BATCH * BATCHES, BATCH):
        node = np.concatenate([stream.src[first : first + BATCH], stream.dst[first : first + BATCH]])
        edges += int(graph.sample(node, np.full(len(node), first, np.int32), FANOUT).counts.sum())
    return edges


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    made = RandomStream(NODES, options.events, options.events // 16)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        print(f"{options.events:,} events\n\n| | seconds | MB |\n|---|---|---|")
        measured("generated and written", lambda: store.save_events(folder / "stream", made))
        stream = measured("loaded and checked", lambda: store.load(folder / "stream"))
        assert isinstance(stream, EventStream)
        graph = measured("T-CSR", lambda: TCSR.of(stream, folder=folder / "tcsr"))
        start = time.perf_counter()
        edges = measured(f"{BATCHES} batches of {BATCH:,} events sampled, recent", lambda: sampled(graph, stream))
        print(f"\n{edges / (time.perf_counter() - start) / 1e6:.0f} million edges a second", flush=True)


if __name__ == "__main__":
    main()
