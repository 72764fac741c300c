"""Operators on edges in Triton: twins of the CUDA kernels, to compare them with. Imported where backend 'triton' is asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

EDGES, ITEMS, COLUMNS = 32, 128, 128  # of a program: edges, or rows of a table; a row's heads; columns at most


def aggregate(x: Tensor, target: Tensor, rows: int, source: Tensor | None, deterministic: bool, ascending: bool) -> Tensor:
    """Sum over edges into out [rows, F] by a Triton kernel: a program a row after a sort (deterministic), else by atomics.

    out[v] = sum over edges e with target[e] = v of x[source[e]] (x[e] without sources). ascending: targets are sorted already.
    """
    edges, width = len(target), x.shape[1]
    out = x.new_zeros(rows, width)
    if not (rows and edges and width):
        return out
    columns = min(COLUMNS, triton.next_power_of_2(width))
    across = triton.cdiv(width, columns)
    ids = target if source is None else source  # never read where there is no source
    if not deterministic:
        arguments = (target, ids, x, out, rows, edges, len(x), width)
        _atomics()[(triton.cdiv(edges, EDGES), across)](*arguments, has_source=source is not None, each=EDGES, columns=columns)
        return out
    if not ascending:
        target, order = torch.sort(target, stable=True)
        ids = order if source is None else source[order]
    indptr = torch.searchsorted(target, torch.arange(rows + 1, dtype=target.dtype, device=x.device))
    _segments()[(rows, across)](indptr, ids, x, out, len(x), width, has_source=source is not None or not ascending, columns=columns)
    return out


def softmax(scores: Tensor, indptr: Tensor, longest: int | None) -> Tensor:
    """Return the softmax of scores [E, H] over each row's entries, for each head, by a Triton kernel.

    Row v's entries are indptr[v] to indptr[v + 1] - 1. A program goes through the entries of many rows at once, as many times as the
    longest row has entries.
    """
    shares, items = torch.empty_like(scores), (len(indptr) - 1) * scores.shape[1]
    if items and len(scores):
        _softmax()[(triton.cdiv(items, ITEMS),)](indptr, scores, shares, len(scores), scores.shape[1], items, each=ITEMS)
    return shares


def softmax_grad(shares: Tensor, grad_out: Tensor, indptr: Tensor, longest: int | None) -> Tensor:
    """Return the gradient of an edge softmax's scores [E, H] by a Triton kernel.

    grad_out [E, H]: gradient of the softmax; shares [E, H]: the softmax itself.
    """
    gradient, items = torch.empty_like(shares), (len(indptr) - 1) * shares.shape[1]
    if items and len(shares):
        _softmax_grad()[(triton.cdiv(items, ITEMS),)](indptr, shares, grad_out, gradient, len(shares), shares.shape[1], items, each=ITEMS)
    return gradient


def gather(cached: Tensor, sent: Tensor, index: Tensor) -> Tensor:
    """Gather rows of two tables by one index in a Triton kernel: out [n, D].

    out[i] = cached[index[i]] where index[i] < C, else sent[index[i] - C].
    """
    width = cached.shape[1]
    out = cached.new_empty(len(index), width)
    if len(index) and width:
        columns = min(COLUMNS, triton.next_power_of_2(width))
        grid = (triton.cdiv(len(index), EDGES), triton.cdiv(width, columns))
        _gather()[grid](cached, sent, index, out, len(cached), len(sent), len(index), width, each=EDGES, columns=columns)
    return out


@cache
def _atomics() -> Any:
    """Return the kernel that adds edges to their targets by atomics."""

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(  # type: ignore[no-untyped-def]
        target, source, x, out, rows, edges, sources, width, has_source: tl.constexpr, each: tl.constexpr, columns: tl.constexpr
    ):
        e = tl.program_id(0).to(tl.int64) * each + tl.arange(0, each)
        column = tl.program_id(1) * columns + tl.arange(0, columns)
        to = tl.load(target + e, mask=e < edges, other=-1).to(tl.int64)
        at = e
        if has_source:
            at = tl.load(source + e, mask=e < edges, other=0).to(tl.int64)
        inside = ((to >= 0) & (to < rows))[:, None] & (column < width)[None, :]
        there = ((at >= 0) & (at < sources))[:, None]
        read = tl.load(x + at[:, None] * width + column[None, :], mask=inside & there, other=float("nan"))
        tl.atomic_add(out + to[:, None] * width + column[None, :], read, mask=inside)

    return kernel


@cache
def _segments() -> Any:
    """Return the kernel that sums the edges of a row, a program a row."""

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(indptr, source, x, out, sources, width, has_source: tl.constexpr, columns: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * columns + tl.arange(0, columns)
        total = tl.zeros((columns,), x.dtype.element_ty)
        for e in range(tl.load(indptr + row), tl.load(indptr + row + 1)):
            at = e + row * 0
            if has_source:
                at = tl.load(source + e).to(tl.int64)
            there = tl.where((at >= 0) & (at < sources), width, 0)
            total += tl.load(x + at * width + column, mask=column < there, other=float("nan"))
        tl.store(out + row * width + column, total, mask=column < width)

    return kernel


@cache
def _softmax() -> Any:
    """Return the kernel of the softmax over the entries of rows."""

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(indptr, scores, shares, entries, heads, items, each: tl.constexpr):  # type: ignore[no-untyped-def]
        item = tl.program_id(0).to(tl.int64) * each + tl.arange(0, each)
        row, head = item // heads, item % heads
        begin = tl.maximum(tl.load(indptr + row, mask=item < items, other=0), 0)
        end = tl.minimum(tl.load(indptr + row + 1, mask=item < items, other=0), entries)
        longest = tl.max(end - begin, axis=0)
        top = tl.full((each,), float("-inf"), scores.dtype.element_ty)
        for k in range(longest):
            score = tl.load(scores + (begin + k) * heads + head, mask=begin + k < end, other=float("-inf"))
            top = tl.where(score > top, score, top)
        total = tl.zeros((each,), scores.dtype.element_ty)
        for k in range(longest):
            score = tl.load(scores + (begin + k) * heads + head, mask=begin + k < end, other=0.0)
            total += tl.where(begin + k < end, tl.exp(score - top), 0.0)
        for k in range(longest):
            at = (begin + k) * heads + head
            score = tl.load(scores + at, mask=begin + k < end, other=0.0)
            tl.store(shares + at, tl.exp(score - top) / total, mask=begin + k < end)

    return kernel


@cache
def _softmax_grad() -> Any:
    """Return the kernel of the softmax's gradient."""

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(indptr, shares, grad_out, made, entries, heads, items, each: tl.constexpr):  # type: ignore[no-untyped-def]
        item = tl.program_id(0).to(tl.int64) * each + tl.arange(0, each)
        row, head = item // heads, item % heads
        begin = tl.maximum(tl.load(indptr + row, mask=item < items, other=0), 0)
        end = tl.minimum(tl.load(indptr + row + 1, mask=item < items, other=0), entries)
        longest = tl.max(end - begin, axis=0)
        total = tl.zeros((each,), shares.dtype.element_ty)
        for k in range(longest):
            at, there = (begin + k) * heads + head, begin + k < end
            total += tl.load(shares + at, mask=there, other=0.0) * tl.load(grad_out + at, mask=there, other=0.0)
        for k in range(longest):
            at, there = (begin + k) * heads + head, begin + k < end
            share = tl.load(shares + at, mask=there, other=0.0)
            tl.store(made + at, share * (tl.load(grad_out + at, mask=there, other=0.0) - total), mask=there)

    return kernel


@cache
def _gather() -> Any:
    """Return the kernel that gathers rows of two tables."""

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(  # type: ignore[no-untyped-def]
        cached, sent, index, out, cached_rows, sent_rows, count, width, each: tl.constexpr, columns: tl.constexpr
    ):
        i = tl.program_id(0).to(tl.int64) * each + tl.arange(0, each)
        column = tl.program_id(1) * columns + tl.arange(0, columns)
        at = tl.load(index + i, mask=i < count, other=-1).to(tl.int64)
        inside = (i < count)[:, None] & (column < width)[None, :]
        here, there = (at >= 0) & (at < cached_rows), (at >= cached_rows) & (at < cached_rows + sent_rows)
        own = tl.load(cached + at[:, None] * width + column[None, :], mask=inside & here[:, None], other=float("nan"))
        came = tl.load(sent + (at - cached_rows)[:, None] * width + column[None, :], mask=inside & there[:, None], other=0.0)
        tl.store(out + i[:, None] * width + column[None, :], tl.where(there[:, None], came, own), mask=inside)

    return kernel
