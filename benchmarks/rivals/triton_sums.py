"""Neighbour sums and increments in Triton, one program a row, all its columns at once; None where there is no Triton or no GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, Delta

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


def aggregate(graph: CSR, x: Tensor) -> Callable[[], Tensor] | None:
    """Return a call that adds up x over the rows of an unweighted graph."""
    if triton is None or not x.is_cuda:
        return None
    width = x.shape[1]

    def call() -> Tensor:
        out = torch.empty(graph.num_rows, width, device=x.device)
        _kernels()[0][(graph.num_rows,)](graph.indptr, graph.indices, x, out, width, columns=triton.next_power_of_2(width))
        return out

    return call


def increment(sums: Tensor, change: Delta, x: Tensor) -> Tensor:
    """Add a change to `sums`, and return the touched rows."""
    width, rows = x.shape[1], len(change.rows)
    touched = torch.empty(rows, width, device=x.device)
    operands = change.rows, change.indptr, change.indices, change.values, x, sums, touched
    _kernels()[1][(rows,)](*operands, width, columns=triton.next_power_of_2(width))
    return touched


@cache
def _kernels() -> tuple[Any, Any]:
    @triton.jit  # type: ignore[untyped-decorator]
    def whole(indptr, indices, x, out, width, columns: tl.constexpr):  # type: ignore[no-untyped-def]
        r = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, columns)
        inside = column < width
        acc = tl.zeros((columns,), tl.float32)
        for e in range(tl.load(indptr + r), tl.load(indptr + r + 1)):
            acc += tl.load(x + tl.load(indices + e).to(tl.int64) * width + column, mask=inside, other=0.0)
        tl.store(out + r * width + column, acc, mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def change(rows, indptr, indices, values, x, sums, touched, width, columns: tl.constexpr):  # type: ignore[no-untyped-def]
        r = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, columns)
        inside = column < width
        acc = tl.zeros((columns,), tl.float32)
        for e in range(tl.load(indptr + r), tl.load(indptr + r + 1)):
            source = tl.load(indices + e).to(tl.int64)
            acc += tl.load(values + e) * tl.load(x + source * width + column, mask=inside, other=0.0)
        at = sums + tl.load(rows + r).to(tl.int64) * width + column
        acc += tl.load(at, mask=inside, other=0.0)
        tl.store(at, acc, mask=inside)
        tl.store(touched + r * width + column, acc, mask=inside)

    return whole, change
