"""Twin: aggregate and increment_ in Triton, one program a row, all its columns at once."""

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


def aggregate(graph: CSR, x: Tensor) -> Callable[[], object] | None:
    """The whole sum of unweighted rows; None where there is no Triton or no GPU."""
    if triton is None or not x.is_cuda:
        return None
    kernel, width, rows = _whole(), x.shape[1], graph.num_rows
    columns = triton.next_power_of_2(width)

    def call() -> object:
        out = torch.empty(rows, width, device=x.device)
        kernel[(rows,)](graph.indptr, graph.indices, x, out, width, columns=columns)
        return out

    return call


def increment(sums: Tensor, change: Delta, x: Tensor) -> Callable[[], object] | None:
    """The change's sum into `sums`, and the touched rows; None as above."""
    if triton is None or not x.is_cuda:
        return None
    kernel, width, rows = _change(), x.shape[1], len(change.rows)
    columns = triton.next_power_of_2(width)

    def call() -> object:
        touched = torch.empty(rows, width, device=x.device)
        kernel[(rows,)](change.rows, change.indptr, change.indices, change.values, x, sums, touched, width, columns=columns)
        return touched

    return call


@cache
def _whole() -> Any:
    @triton.jit  # type: ignore[untyped-decorator]
    def kernel(indptr, indices, x, out, width, columns: tl.constexpr):  # type: ignore[no-untyped-def]
        r = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, columns)
        inside = column < width
        acc = tl.zeros((columns,), tl.float32)
        for e in range(tl.load(indptr + r), tl.load(indptr + r + 1)):
            acc += tl.load(x + tl.load(indices + e).to(tl.int64) * width + column, mask=inside, other=0.0)
        tl.store(out + r * width + column, acc, mask=inside)

    return kernel


@cache
def _change() -> Any:
    @triton.jit  # type: ignore[untyped-decorator]
    def kernel(rows, indptr, indices, values, x, sums, touched, width, columns: tl.constexpr):  # type: ignore[no-untyped-def]
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

    return kernel
