"""Kernels: every kernel on graphs far beyond the L2 cache, beside its rivals and a copy of the same size, in one run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import aggregate, increment_, rebuild
from chronoscale.cuda_ext.operators.attention import attention, attention_increment_
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from gpu import checks, rivals
from gpu.crossover import SHARES, crossover
from gpu.device import present
from gpu.graphs import adjacency, change, drawn, flipped, keys_of, normal
from gpu.machine import smi
from gpu.place import Place
from gpu.record import Record, Wrong
from gpu.timing import Call, measure

L2_BYTES = 64 << 20  # where torch does not tell; operands of a batch are several times as large
COPIED = 4 << 30  # bytes of the largest copy, and as many are written
CAPTURED = frozenset({"aggregate", "aggregate bf16", "increment_", "triton"})
SMALL = 0.05  # share up to which index_add_ is captured, too: its messages stay in the graph's own memory
CHECKED = 0.1  # share whose increment is compared with index_add_'s


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the graphs; feature widths, the first of which gets the curves fitted; interleaved repeats."""

    nodes: int = 4_000_000
    edges: int = 64_000_000
    widths: tuple[int, ...] = (64, 128, 16)
    repeats: int = 7
    graphs: tuple[str, ...] = ("uniform", "skewed")


REHEARSED = Sizes(nodes=2_000, edges=20_000, widths=(64, 16), repeats=3)


@dataclass(frozen=True, slots=True)
class Bench:
    """One graph, one width, and where rows of figures and of what went wrong go."""

    record: Record
    wrong: Wrong
    repeats: int
    name: str
    graph: CSR
    x: Tensor

    @property
    def device(self) -> str:
        return self.x.device.type

    def add(self, key: str, **row: Any) -> None:
        """A row; what of this project's could not be timed in it is wrong."""
        common = {"graph": self.name, "F": self.x.shape[1], "longest": int(self.graph.indptr.diff().max())}
        self.record.add(key, {**common, **row})
        times: dict[str, Any] = row.get("times", {})
        missing = [f"{who}: {one['left_out']}" for who, one in times.items() if "left_out" in one and who not in rivals.NAMES]
        self.wrong.extend(missing)
        print(key, common, {who: round(one["ms"], 3) if "ms" in one else one for who, one in times.items()}, flush=True)

    def rows(self, key: str) -> list[dict[str, Any]]:
        """Of this graph and width."""
        return [row for row in self.record.data.get(key, []) if (row["graph"], row["F"]) == (self.name, self.x.shape[1])]


def run(place: Place, record: Record) -> None:
    """Raises Failed where a kernel of this project could not be timed, or computed something else than another way does."""
    present(place)
    try:
        bench(place.device, REHEARSED if place.rehearsal else Sizes(), record)
    finally:
        record.put(gpu_afterwards=smi())  # its clock, while it is warm


def bench(device: str, sizes: Sizes, record: Record) -> None:
    """Into the record: `whole`, `changes`, `crossover`, `attention`, `rebuild`, each a list of rows. Raises as `run`."""
    if device == "cpu":
        torch.set_num_threads(1)
    record.put(sizes={name: getattr(sizes, name) for name in Sizes.__dataclass_fields__}, absent=rivals.absent(), l2_bytes=_cache(device))
    wrong = Wrong()
    for width in sizes.widths:
        first = width == sizes.widths[0]
        for name in sizes.graphs:
            with wrong.kept(f"{name}, F = {width}"):
                graph = drawn(sizes.nodes, sizes.edges, name == "skewed", device)
                bench = Bench(record, wrong, sizes.repeats, name, graph, normal(device, graph.num_cols, width))
                del graph
                for section in (_whole, _changes, *([_crossover, _rebuild] if first else []), _attention):
                    with wrong.kept(f"{section.__name__}, {name}, F = {width}"):
                        section(bench)
                del bench
            if device == "cuda":
                torch.cuda.empty_cache()
    wrong.raise_any("wrong or not timed")


def _cache(device: str) -> int:
    """Bytes of the L2 cache."""
    return getattr(torch.cuda.get_device_properties(0), "L2_cache_size", L2_BYTES) if device == "cuda" else 0


def copy_of(moved: int, device: str) -> tuple[list[Call], int]:
    """A copy that moves as many bytes, within the memory and beyond the cache; and the bytes that it moves."""
    size = min(max(moved // 2, 4 * _cache(device), 1 << 20), COPIED)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    into = torch.empty_like(source)
    return [lambda: into.copy_(source)], 2 * size


def rates(times: dict[str, Any], copied: int, **moved: int) -> dict[str, Any]:
    """Copy bandwidth in GB/s, and the share of it that `moved` bytes of each kernel come to; None and nothing without a copy's time."""
    if "ms" not in times["copy"]:
        return {"copy_gb_s": None, "of_copy": {}}
    bandwidth = copied / times["copy"]["ms"] / 1e6
    shares = {who: size / times[who]["ms"] / 1e6 / bandwidth for who, size in moved.items() if "ms" in times.get(who, {})}
    return {"copy_gb_s": bandwidth, "of_copy": shares}


def _whole(on: Bench) -> None:
    """Neighbour sums: a row of x is read for every edge. In a skewed graph many come from the cache, and it may pass a copy's
    bandwidth; `least` counts every byte once."""
    graph, x, width = on.graph, on.x, on.x.shape[1]
    gathered = graph.nbytes + 4 * width * (graph.nnz + graph.num_rows)
    half = x.bfloat16()
    copy, copied = copy_of(gathered, on.device)
    calls = {"aggregate": [lambda: aggregate(graph, x)], "aggregate bf16": [lambda: aggregate(graph, half)], "copy": copy}
    times = measure({**calls, **rivals.whole(graph, x)}, on.device, on.repeats, CAPTURED)
    least = graph.nbytes + 4 * width * (graph.num_cols + graph.num_rows)
    shares = rates(times, copied, **{"aggregate": gathered, "aggregate bf16": graph.nbytes + (2 * graph.nnz + 4 * graph.num_rows) * width})
    del copy, calls
    errors: dict[str, float] = {}
    with on.wrong.kept(f"sums, {on.name}, F = {width}"):
        errors = checks.sums(graph, x, half)
    on.add("whole", edges=graph.nnz, gathered=gathered, least=least, times=times, **shares, **errors)


def _changes(on: Bench) -> None:
    for share in SHARES:
        with on.wrong.kept(f"change of {share:.1%}, {on.name}, F = {on.x.shape[1]}"):
            _change(on, share)


def _change(on: Bench, share: float) -> None:
    """Increments over a share of changed edges. All add to the same sums, again and again: what a kernel does depends on no value."""
    graph, x, sums = on.graph, on.x, aggregate(on.graph, on.x)
    deltas = [change(graph, share, 0)]
    moved = _moved(deltas[0], x.shape[1])
    error: dict[str, float] = {}
    if share == CHECKED:
        with on.wrong.kept(f"increment, {on.name}, F = {x.shape[1]}"):
            error = {"error": checks.increment(sums, deltas[0], x)}
    several = min(32, -(-4 * _cache(on.device) // moved)) if on.device == "cuda" else 2
    deltas += [change(graph, share, seed) for seed in range(1, several)]
    copy, copied = copy_of(moved, on.device)
    calls = {"increment_": [partial(increment_, sums, delta, x) for delta in deltas], "aggregate": [lambda: aggregate(graph, x)]}
    captured = CAPTURED | {"index_add_"} if share <= SMALL else CAPTURED
    times = measure({**calls, "copy": copy, **rivals.change(sums, deltas, x)}, on.device, on.repeats, captured)
    count = {"share": share, "changed": deltas[0].nnz, "rows": len(deltas[0].rows), "moved": moved, "operands": len(deltas), **error}
    on.add("changes", **count, times=times, **rates(times, copied, increment_=moved))


def _crossover(on: Bench) -> None:
    """Of the changes that were timed."""
    on.add("crossover", **crossover(on.graph, on.x, on.rows("changes"), on.repeats))


def _moved(delta: Delta, width: int) -> int:
    """The change, its sources' rows, and the touched rows read once and written twice."""
    return delta.nbytes + 4 * width * (delta.nnz + 3 * len(delta.rows))


def _attention(on: Bench) -> None:
    graph, x, z = on.graph, on.x, on.x.clone().requires_grad_()
    left, right = (normal(on.device, graph.num_rows, seed=seed).requires_grad_() for seed in (1, 2))

    def trained() -> None:
        attention(graph, z, left, right).output().sum().backward()
        z.grad = left.grad = right.grad = None

    def forward() -> object:
        with torch.no_grad():
            return attention(graph, z, left, right).output()

    with torch.no_grad():
        times = measure({"attention": [forward], **rivals.attended(graph, x, left, right)}, on.device, on.repeats)
    times |= measure({"attention, forward and backward": [trained]}, on.device, on.repeats)
    error: dict[str, float] = {}
    with on.wrong.kept(f"attention's outputs, {on.name}, F = {x.shape[1]}"), torch.no_grad():
        error = {"error": checks.attended(graph, x, left, right)}
    on.add("attention", edges=graph.nnz, times=times, **error)


def _rebuild(on: Bench) -> None:
    """The next adjacency and attention from a change, beside making them afresh."""
    nodes = on.graph.num_rows
    before = adjacency(keys_of(on.graph), nodes)
    z, left, right = normal(on.device, nodes, 16), normal(on.device, nodes, seed=1), normal(on.device, nodes, seed=2)
    for share in (0.01, 0.1):
        step, after = flipped(before, share, 1)
        with on.wrong.kept(f"rebuild, {on.name}, {share:.0%}"):
            checks.rebuilt(before, step, after)
        keys, state = keys_of(after), attention(before, z, left, right)
        back = replace(step, sign=-step.sign, net=None)  # to and fro: a change is one only of the state that it was made for
        calls: dict[str, list[Call]] = {
            "rebuild": [lambda step=step: rebuild(before, step)],  # type: ignore[misc]
            "sorted afresh": [lambda keys=keys: adjacency(keys, nodes)],  # type: ignore[misc]
            "attention_increment_": [
                partial(attention_increment_, state, graph, one, z, left, right) for graph, one in ((after, step), (before, back))
            ],
            "attention": [lambda after=after: attention(after, z, left, right)],  # type: ignore[misc]
        }
        on.add("rebuild", share=share, edges=after.nnz, changed=step.nnz, times=measure(calls, on.device, on.repeats))
