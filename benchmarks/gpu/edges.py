"""Edges: FAST's operators at the sizes of its batches and beyond the L2 cache, beside their rivals and a copy of the same size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rivals.reductions import FANOUT, degrees, obvious_softmax
from torch import Tensor

from chronoscale.cuda_ext.native.backend import TRITON, unavailable_reason
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.operators.tables import gather_rows
from gpu.checks import off
from gpu.device import present
from gpu.graphs import normal
from gpu.kernels import copy_of, rates
from gpu.place import Place
from gpu.record import Record, Wrong
from gpu.rivals import absent, dgl, pyg
from gpu.slots import MOST, attended, encoded, gated
from gpu.slots import OURS as OF_SLOTS
from gpu.timing import Call, measure

HEADS = 2
OURS = ("by atomics", "ascending", "sorted first", "aggregate", "edge_softmax", "edge_softmax, both", "gather_rows", "copy", *OF_SLOTS)
CAPTURED = frozenset({"by atomics", "ascending", "aggregate", "edge_softmax", "gather_rows", "triton"})


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the batches: targets of up to FANOUT edges each, feature widths; interleaved repeats."""

    targets: tuple[int, ...] = (4_000, 60_000, 1_000_000)
    widths: tuple[int, ...] = (100, 128, 172)
    repeats: int = 7


REHEARSED = Sizes(targets=(400,), widths=(100, 128), repeats=3)


@dataclass(frozen=True, slots=True)
class Batch:
    """Edges into `targets` nodes, in rows; each reads one of `nodes`."""

    name: str
    targets: int
    nodes: int
    indptr: Tensor
    target: Tensor  # int32 [E], ascending
    source: Tensor  # int32 [E]

    @property
    def edges(self) -> int:
        return len(self.target)


def run(place: Place, record: Record) -> None:
    """Raises Failed as gpu.kernels.run does."""
    present(place)
    bench(place.device, REHEARSED if place.rehearsal else Sizes(), record)


def bench(device: str, sizes: Sizes, record: Record) -> None:
    """Into the record: `sums`, `shares`, `gathers`, and of sampled slots `slots`, `gates`, `encodings`, each a list of rows."""
    if device == "cpu":
        torch.set_num_threads(1)
    record.put(sizes={name: getattr(sizes, name) for name in Sizes.__dataclass_fields__}, absent=absent())
    wrong = Wrong()
    for targets in sizes.targets:
        for skewed in (False, True):
            batch = drawn(targets, skewed, device)
            sampled = [] if skewed or targets > MOST else [("slots", _attended), ("gates", _gated), ("encodings", _encoded)]
            for width in sizes.widths:
                shares = [("shares", _shares)] if width == sizes.widths[0] else []
                for key, section in (("sums", _sums), ("gathers", _gathers), *shares, *sampled):
                    with wrong.kept(f"{key}, {batch.name}, {targets} targets, F = {width}"):
                        row = {"graph": batch.name, "targets": targets, "edges": batch.edges, "F": width}
                        row |= section(batch, width, device, sizes.repeats)
                        record.add(key, row)
                        wrong.extend(f"{who}: {one['left_out']}" for who, one in row["times"].items() if who in OURS and "left_out" in one)
                if device == "cuda":
                    torch.cuda.empty_cache()
    wrong.raise_any("wrong or not timed")


def drawn(targets: int, skewed: bool, device: str) -> Batch:
    """Return a batch with sampled or skewed degrees, as `reductions.degrees` draws them."""
    draw = torch.Generator().manual_seed(targets)
    counts = degrees(targets, skewed, draw)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    source = torch.randint(0, 3 * targets, (int(indptr[-1]),), generator=draw, dtype=torch.int32)
    target = torch.repeat_interleave(torch.arange(targets, dtype=torch.int32), counts)
    name = "skewed" if skewed else "sampled"
    return Batch(name, targets, 3 * targets, indptr.to(device), target.to(device), source.to(device))


def _sums(on: Batch, width: int, device: str, repeats: int) -> dict[str, Any]:
    """A row of x is read for every edge, and a sum written for every target."""
    x = normal(device, on.nodes, width)
    order = torch.randperm(on.edges, device=device)
    mixed, begins = on.target[order], on.source[order]
    row, column = on.target.long(), on.source.long()
    graph = CSR(on.indptr, on.source, None, on.nodes).check()
    matrix = torch.sparse_csr_tensor(on.indptr.int(), on.source, torch.ones(on.edges, device=device), (on.targets, on.nodes))
    moved = 8 * on.edges + 4 * width * (on.edges + on.targets)
    copy, copied = copy_of(moved, device)

    def scattered() -> Tensor:
        return torch.zeros(on.targets, width, device=device).scatter_reduce_(0, row[:, None].expand(-1, width), x[column], "sum")

    calls: dict[str, list[Call]] = {
        "by atomics": [lambda: aggregate_edges(x, on.target, on.targets, on.source, deterministic=False)],
        "ascending": [lambda: aggregate_edges(x, on.target, on.targets, on.source, ascending=True)],
        "sorted first": [lambda: aggregate_edges(x, mixed, on.targets, begins)],
        "aggregate": [lambda: aggregate(graph, x)],
        "index_add_": [lambda: torch.zeros(on.targets, width, device=device).index_add_(0, row, x[column])],
        "scatter_reduce_": [scattered],
        "torch.sparse": [lambda: torch.sparse.mm(matrix, x)],
        "copy": copy,
    }
    if dgl is not None:
        block = dgl.create_block((on.source, on.target), num_src_nodes=on.nodes, num_dst_nodes=on.targets).int()
        block.create_formats_()
        calls["dgl"] = [lambda: dgl.ops.copy_u_sum(block, x)]
    if unavailable_reason(TRITON) is None and device == "cuda":
        calls["triton"] = [lambda: aggregate_edges(x, on.target, on.targets, on.source, deterministic=False, backend=TRITON)]
    times = measure(calls, device, repeats, CAPTURED)
    expected = torch.zeros(on.targets, width, device=device, dtype=torch.float64).index_add_(0, row, x.double()[column])
    errors = (off(f"sums {who} and index_add_'s", calls[who][0](), expected) for who in ("by atomics", "ascending", "sorted first"))
    return {
        "error": max(errors),
        "times": times,
        **rates(times, copied, **dict.fromkeys(("by atomics", "ascending", "sorted first"), moved)),
    }


def _shares(on: Batch, width: int, device: str, repeats: int) -> dict[str, Any]:
    """Scores of HEADS heads; `width` counts for nothing here."""
    scores = normal(device, on.edges, HEADS).requires_grad_()
    row, longest = on.target.long(), FANOUT if on.name == "sampled" else None
    into = normal(device, on.edges, HEADS, seed=5)
    moved = 8 * on.targets + 2 * 4 * HEADS * on.edges
    copy, copied = copy_of(moved, device)

    def obvious() -> Tensor:
        return obvious_softmax(scores, row, on.targets)

    forms: dict[str, Callable[[], Tensor]] = {"edge_softmax": lambda: edge_softmax(scores, on.indptr, longest=longest), "obvious": obvious}
    if pyg is not None:
        forms["pyg"] = lambda: pyg.softmax(scores, row, num_nodes=on.targets)
    if unavailable_reason(TRITON) is None and device == "cuda":
        forms["triton"] = lambda: edge_softmax(scores, on.indptr, TRITON)
    calls: dict[str, list[Call]] = {who: [torch.no_grad()(form)] for who, form in forms.items()}
    calls |= {f"{who}, both": [lambda form=form: torch.autograd.grad(form(), scores, into)] for who, form in forms.items()}  # type: ignore[misc]
    times = measure({**calls, "copy": copy}, device, repeats, CAPTURED)
    error = off("shares and a softmax of torch's", forms["edge_softmax"]().detach(), obvious().detach())
    return {"error": error, "times": times, **rates(times, copied, edge_softmax=moved)}


def _gathers(on: Batch, width: int, device: str, repeats: int) -> dict[str, Any]:
    """Half of the rows are kept, half were sent."""
    both = normal(device, on.nodes, width)
    kept, sent = both[: on.nodes // 2].clone(), both[on.nodes // 2 :].clone()
    moved = 4 * on.edges + 2 * 4 * width * on.edges
    copy, copied = copy_of(moved, device)
    calls: dict[str, list[Call]] = {
        "gather_rows": [lambda: gather_rows(kept, sent, on.source)],
        "cat": [lambda: torch.cat((kept, sent)).index_select(0, on.source)],
        "index_select": [lambda: both.index_select(0, on.source)],
    }
    if unavailable_reason(TRITON) is None and device == "cuda":
        calls["triton"] = [lambda: gather_rows(kept, sent, on.source, TRITON)]
    times = measure({**calls, "copy": copy}, device, repeats, CAPTURED)
    error = off("gathered rows and one table's", gather_rows(kept, sent, on.source), both[on.source.long()], 0.0)
    return {"error": error, "times": times, **rates(times, copied, gather_rows=moved)}


def _attended(on: Batch, width: int, device: str, repeats: int) -> dict[str, Any]:
    return attended(on.targets, width, device, repeats)


def _gated(on: Batch, width: int, device: str, repeats: int) -> dict[str, Any]:
    return gated(on.targets, width, device, repeats)


def _encoded(on: Batch, width: int, device: str, repeats: int) -> dict[str, Any]:
    return encoded(on.targets, width, device, repeats)
