"""Kernels: every kernel on graphs far beyond the L2 cache, beside its rivals and a copy of the same size, in one run."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.attention import attention, attention_increment_
from chronoscale.cuda_ext.graph import CSR, Delta
from chronoscale.cuda_ext.ops import aggregate, increment_, rebuild
from gpu import rivals
from gpu.crossover import SHARES, crossover
from gpu.device import present
from gpu.graphs import adjacency, change, drawn, flipped, keys_of
from gpu.place import Place
from gpu.record import Failed, Record
from gpu.timing import Call, measure

L2_BYTES = 64 << 20  # no GPU here has more; operands of a batch are several times as large
COPIED = 4 << 30  # bytes of the largest copy, and as many are written
CAPTURED = frozenset({"aggregate", "aggregate bf16", "increment_", "triton", "copy"})
SMALL = 0.05  # share up to which index_add_ is captured, too: its messages stay in the graph's own memory
WRONG = 1e-3  # of the largest sum: rows of millions of float32 terms, added up in two orders
OURS = frozenset({"aggregate", "aggregate bf16", "increment_", "attention", "rebuild"})


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the graphs; feature widths, the first of which gets the curves fitted; interleaved repeats."""

    nodes: int = 4_000_000
    edges: int = 64_000_000
    widths: tuple[int, ...] = (64, 128, 16)
    repeats: int = 7
    graphs: tuple[str, ...] = ("uniform", "skewed")


REHEARSED = Sizes(nodes=2_000, edges=20_000, widths=(64, 16), repeats=3)


def run(place: Place, record: Record) -> None:
    """Raises Failed where a kernel of this project could not be timed."""
    present(place)
    bench(place.device, REHEARSED if place.rehearsal else Sizes(), record)


KEYS = ("whole", "changes", "attention", "rebuild")
Add = Callable[..., None]


def bench(device: str, sizes: Sizes, record: Record) -> None:
    """Into the record: `whole`, `changes`, `crossover`, `attention`, `rebuild`, each a list of rows."""
    if device == "cpu":
        torch.set_num_threads(1)
    record.put(sizes={name: getattr(sizes, name) for name in Sizes.__dataclass_fields__}, absent=rivals.absent())
    wrong: list[str] = []
    for width in sizes.widths:
        for name in sizes.graphs:
            graph = drawn(sizes.nodes, sizes.edges, name == "skewed", device)
            add = partial(_add, record, {"graph": name, "F": width, "longest": int(graph.indptr.diff().max())})
            x = torch.randn(graph.num_cols, width, device=device)
            first = width == sizes.widths[0]
            for section in (_whole, _changes, *([_crossover, _rebuild] if first else []), _attention):
                try:
                    section(add, graph, x, sizes, record)
                except Exception as error:  # what comes after it is measured all the same, and the part fails
                    traceback.print_exc()
                    wrong.append(f"{section.__name__}, {name}, F = {width}: {type(error).__name__}: {str(error)[:200]}")
            del graph, x
            if device == "cuda":
                torch.cuda.empty_cache()
    wrong += [f"{who}: {one['left_out']}" for key in KEYS for row in record.data.get(key, []) for who, one in row["times"].items()
              if who in OURS and "left_out" in one]  # fmt: skip
    if wrong:
        raise Failed(f"{len(wrong)} not timed: {'; '.join(wrong[:5])}")


def _add(record: Record, common: dict[str, Any], key: str, **row: Any) -> None:
    record.add(key, {**common, **row})
    print(key, common, {who: round(one["ms"], 3) if "ms" in one else one for who, one in row.get("times", {}).items()}, flush=True)


def _copy(moved: int, device: str) -> tuple[list[Call], int]:
    """A copy that moves as many bytes, within the memory and beyond the cache; and the bytes that it moves."""
    size = min(max(moved // 2, 4 * L2_BYTES if device == "cuda" else 1 << 20), COPIED)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    into = torch.empty_like(source)
    return [lambda: into.copy_(source)], 2 * size


def _rates(times: dict[str, Any], copied: int, **moved: int) -> dict[str, Any]:
    """Copy bandwidth in GB/s, and the share of it that `moved` bytes of each kernel come to."""
    bandwidth = copied / times["copy"]["ms"] / 1e6
    shares = {who: size / times[who]["ms"] / 1e6 / bandwidth for who, size in moved.items() if "ms" in times.get(who, {})}
    return {"copy_gb_s": bandwidth, "of_copy": shares}


def _whole(add: Add, graph: CSR, x: Tensor, sizes: Sizes, record: Record) -> None:
    """Neighbour sums: a row of x is read for every edge. In a skewed graph many come from the cache, and it may pass a copy's
    bandwidth; `least` counts every byte once."""
    device, width = x.device.type, x.shape[1]
    gathered = graph.nbytes + 4 * width * (graph.nnz + graph.num_rows)
    half = x.bfloat16()
    copy, copied = _copy(gathered, device)
    calls = {"aggregate": [lambda: aggregate(graph, x)], "aggregate bf16": [lambda: aggregate(graph, half)], "copy": copy}
    times = measure({**calls, **rivals.whole(graph, x)}, device, sizes.repeats, CAPTURED)
    least = graph.nbytes + 4 * width * (graph.num_cols + graph.num_rows)
    rates = _rates(times, copied, **{"aggregate": gathered, "aggregate bf16": graph.nbytes + (2 * graph.nnz + 4 * graph.num_rows) * width})
    sums, other = aggregate(graph, x), rivals.summed(graph, x)
    error = float((sums - other).abs().max() / other.abs().max())
    add("whole", edges=graph.nnz, gathered=gathered, least=least, error=error, times=times, **rates)
    if not error <= WRONG:
        raise Failed(f"sums differ from torch.sparse's by {error:.1e} of the largest")


def _changes(add: Add, graph: CSR, x: Tensor, sizes: Sizes, record: Record) -> None:
    """Increments over shares of changed edges."""
    device, width, sums = x.device.type, x.shape[1], aggregate(graph, x)
    for share in SHARES:
        deltas = [change(graph, share, 0)]
        moved = _moved(deltas[0], width)
        several = min(32, -(-4 * L2_BYTES // moved)) if device == "cuda" else 2
        deltas += [change(graph, share, seed) for seed in range(1, several)]
        copy, copied = _copy(moved, device)
        calls = {"increment_": [partial(increment_, sums, delta, x) for delta in deltas], "aggregate": [lambda: aggregate(graph, x)]}
        captured = CAPTURED | {"index_add_"} if share <= SMALL else CAPTURED
        times = measure({**calls, "copy": copy, **rivals.change(sums, deltas, x)}, device, sizes.repeats, captured)
        count = {"share": share, "changed": deltas[0].nnz, "rows": len(deltas[0].rows), "moved": moved, "operands": len(deltas)}
        add("changes", **count, times=times, **_rates(times, copied, increment_=moved))


def _crossover(add: Add, graph: CSR, x: Tensor, sizes: Sizes, record: Record) -> None:
    """Of the changes that were timed last."""
    add("crossover", **crossover(graph, x, record.data["changes"][-len(SHARES) :], sizes.repeats))


def _moved(delta: Delta, width: int) -> int:
    """The change, its sources' rows, and the touched rows read once and written twice."""
    return delta.nbytes + 4 * width * (delta.nnz + 3 * len(delta.rows))


def _attention(add: Add, graph: CSR, x: Tensor, sizes: Sizes, record: Record) -> None:
    device, z = x.device.type, x.clone().requires_grad_()
    left, right = (torch.randn(graph.num_rows, device=device).requires_grad_() for _ in range(2))

    def trained() -> None:
        attention(graph, z, left, right).output().sum().backward()
        z.grad = left.grad = right.grad = None

    def forward() -> object:
        with torch.no_grad():
            return attention(graph, z, left, right).output()

    with torch.no_grad():
        others = rivals.attended(graph, x, left, right)
        calls = {"attention": [forward], **others}
        times = measure(calls, device, sizes.repeats)
    times |= measure({"attention, forward and backward": [trained]}, device, sizes.repeats)
    add("attention", edges=graph.nnz, times=times)


def _rebuild(add: Add, graph: CSR, x: Tensor, sizes: Sizes, record: Record) -> None:
    """The next adjacency and attention from a change, beside making them afresh."""
    device, nodes = graph.device.type, graph.num_rows
    before = adjacency(keys_of(graph), nodes)
    z, left, right = torch.randn(nodes, 16, device=device), torch.randn(nodes, device=device), torch.randn(nodes, device=device)
    for share in (0.01, 0.1):
        step, after = flipped(before, share, 1)
        keys, state = keys_of(after), attention(before, z, left, right)
        calls: dict[str, list[Call]] = {
            "rebuild": [lambda step=step: rebuild(before, step)],  # type: ignore[misc]
            "sorted afresh": [lambda keys=keys: adjacency(keys, nodes)],  # type: ignore[misc]
            "attention_increment_": [partial(attention_increment_, state, after, step, z, left, right)],
            "attention": [lambda after=after: attention(after, z, left, right)],  # type: ignore[misc]
        }
        times = measure(calls, device, sizes.repeats)
        add("rebuild", share=share, edges=after.nnz, changed=step.nnz, times=times)
