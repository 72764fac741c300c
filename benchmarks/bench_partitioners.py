"""Partitioners of event streams side by side: seconds, what they cut, how even they are; and one pass over streams on disk.

    python benchmarks/bench_partitioners.py [--datasets us_flights_2001 jodie_wikipedia uci_messages] [--events 3000000] [--parts 8]
        [--shares 0 0.1] [--batch 600] [--repeats 3] [--reference 200000] [--out FILE]
    python benchmarks/bench_partitioners.py --scale 5000000 20000000 [--folder DIR] [--out FILE]

Beside datasets (CHRONOSCALE_DATA), a generated stream whose sources and partners follow Zipf's law. Seconds: the median of the repeats, one
thread, without the digest of the stream's content; METIS begins a process of its own, which takes some 1.5 of them. cut, remote, max/mean,
worst as `chronoscale data partition` has them, events and nodes: the largest part over the mean; of METIS's repeats, which differ, the one
that cuts least. The reference in plain Python takes the first `--reference` events.

`--scale`: streams of 16,681 nodes (GDELT's) are written to a folder, then cut into files, each in a process of its own; memory is the most
that was resident beyond what the process had before, mapped files counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from chronoscale.batching.streams.partitioning.divide import default_decay, divide
from chronoscale.batching.streams.partitioning.partition import Parts
from chronoscale.batching.streams.partitioning.policies import PARTITIONERS
from chronoscale.batching.streams.partitioning.quality import Division
from chronoscale.batching.streams.partitioning.request import Asked, elapsed
from chronoscale.batching.streams.partitioning.shared_nodes import hottest
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.reference import event_partitioner as event_partitioner_reference
from chronoscale.cuda_ext.scheduling.event_partitioner import EventPartitioner
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.arrays import release
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream

GENERATED, NODES = "power law", 16_681


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    made = f"native library {versions()['cpu']}, NumPy {np.__version__}, DGL {version('dgl')}"
    return f"{model}, {os.cpu_count()} cores; Python {platform.python_version()}, {made}"


def table(head: str, rows: Iterable[str]) -> str:
    rule = "|".join("---" for _ in head.split("|")[1:-1])
    return "\n".join([head, f"|{rule}|", *rows])


def once(stream: EventStream, policy: str, count: int, share: float) -> tuple[float, Parts]:
    start = time.perf_counter()
    asked = Asked(stream, count, hottest(stream, share), default_decay(stream), 0)
    blocks: list[np.ndarray] = []
    node = PARTITIONERS[policy](asked, blocks.append)
    spent = time.perf_counter() - start
    return spent, Parts(node, np.concatenate(blocks), count)


def compared(name: str, stream: EventStream, options: argparse.Namespace) -> Iterable[str]:
    for share in options.shares:
        for policy in PARTITIONERS:
            runs = [once(stream, policy, options.parts, share) for _ in range(options.repeats)]
            found = min((Division.of(stream, parts, options.batch) for _, parts in runs), key=lambda one: one.cut_ratio)
            balance, seconds = found.balance, statistics.median(spent for spent, _ in runs)
            yield (
                f"| {name} | {share:g} | {policy} | {seconds:.2f} | {100 * found.cut_ratio:.1f} % | {100 * found.remote_ratio:.1f} % | "
                f"{balance.mean():.2f} | {balance.max():.2f} | {found.events.max() / found.events.mean():.2f} | "
                f"{found.nodes.max() / found.nodes.mean():.2f} |"
            )


def by_event(name: str, stream: EventStream, options: argparse.Namespace) -> Iterable[str]:
    """Nanoseconds an event of the pass itself, native and in Python."""
    few = min(options.reference, len(stream))
    for share in options.shares:
        mask, decay = hottest(stream, share), default_decay(stream)
        spent = []
        for count, native in ((len(stream), True), (few, False)):
            columns = np.asarray(stream.src[:count]), np.asarray(stream.dst[:count]), elapsed(stream, slice(0, count))
            partitioner = EventPartitioner.start(mask, options.parts, decay)
            start = time.perf_counter()
            if native:
                partitioner.assign(*columns)
            else:
                event_partitioner_reference.assign(partitioner, *columns, np.empty(count, np.int32))
            spent.append((time.perf_counter() - start) / count * 1e9)
        yield f"| {name} | {share:g} | {len(stream):,} | {spent[0]:,.0f} | {spent[1]:,.0f} | {spent[1] / spent[0]:,.0f} |"


def memory(key: str) -> float:
    """Megabytes of this process: now (VmRSS), at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(key))


def scaled(folder: Path, share: float, count: int, said: multiprocessing.Queue[str]) -> None:
    stream = store.load(folder / "stream")
    assert isinstance(stream, EventStream)
    few = stream.span(0, 1000)
    divide(few, count, shared=share)  # what is imported late is there before anything is measured
    for column in (stream.src, stream.dst, stream.t):
        release(column)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    start = time.perf_counter()
    made = divide(stream, count, shared=share, folder=folder / f"parts-{share:g}")
    spent, most = time.perf_counter() - start, memory("VmHWM") - before
    found = Division.of(stream, made, 3000)
    said.put(
        f"| {len(stream):,} | {share:g} | {spent:.1f} | {most:.0f} | {100 * found.cut_ratio:.1f} % | {found.balance.mean():.2f} | "
        f"{found.balance.max():.2f} |"
    )


def at_scale(options: argparse.Namespace) -> Iterable[str]:
    processes = multiprocessing.get_context("spawn")
    for events in options.scale:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = Path(name)
            store.save_events(folder / "stream", RandomStream(NODES, events, events // 16))
            for share in options.shares:
                said = processes.Queue()
                process = processes.Process(target=scaled, args=(folder, share, options.parts, said))
                process.start()
                yield said.get()
                process.join()


def datasets(options: argparse.Namespace) -> Iterable[tuple[str, EventStream]]:
    for name in options.datasets:
        found = catalogue.load(name, 0)
        assert isinstance(found, EventStream)
        yield name, found
    if options.events:
        yield (
            GENERATED,
            RandomStream(options.events // 15, options.events, options.events // 3, source_skew=1.0, destination_skew=1.0).stream(),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="*", default=["us_flights_2001", "jodie_wikipedia", "uci_messages"])
    parser.add_argument("--events", type=int, default=3_000_000, help="of the generated stream; 0: without it")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--batch", type=int, default=600, help="events a part")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--reference", type=int, default=200_000)
    parser.add_argument("--scale", type=int, nargs="*", default=[], help="streams of so many events, on disk, in place of the comparison")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path, help="Markdown file to write the tables to")
    options = parser.parse_args()
    made = [machine()]
    if options.scale:
        made.append(table("| events | k | seconds | resident MB | cut | max/mean | worst |", at_scale(options)))
    else:
        streams = list(datasets(options))
        head = "| stream | k | partitioner | seconds | cut | remote | max/mean | worst | events | nodes |"
        made.append(table(head, (row for name, stream in streams for row in compared(name, stream, options))))
        head = "| stream | k | events | native, ns an event | Python, ns an event | times |"
        made.append(table(head, (row for name, stream in streams for row in by_event(name, stream, options))))
    text = "\n\n".join(made)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
