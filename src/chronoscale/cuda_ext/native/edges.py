"""Calls of the native operators on edges by ctypes. The CPU's kernels check ids in every call; CUDA's step over those out of range."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.abi import CudaLaunch, EntryLayout, pointer
from chronoscale.cuda_ext.native.backend import FLOATS
from chronoscale.cuda_ext.reference.edges import out_of_range_error, unordered_error
from chronoscale.errors import UserError


def aggregate(x: Tensor, target: Tensor, rows: int, source: Tensor | None, deterministic: bool, ascending: bool) -> Tensor:
    """Call the native kernel that sums over edges: out[v] = sum over edges e with target[e] = v of x[source[e]] (x[e] without sources).

    out [rows, F]. On CUDA `deterministic` sums in the order of the edges, for which targets are sorted unless they are `ascending`;
    otherwise by atomics. Raises UserError for bad ids.
    """
    width, name = x.shape[1], "edges"
    out = x.new_empty(rows, width)
    if abi.on_cuda(x):
        out.zero_()
        if deterministic:
            name = "segments"
            if not ascending:
                target, order = torch.sort(target, stable=True)
                source = order.to(target.dtype) if source is None else source[order]
    ids = (target.data_ptr(), pointer(source), int(target.dtype == torch.int64))
    arguments = (rows, len(target), *ids, len(x), x.data_ptr(), width, out.data_ptr())
    cuda = CudaLaunch((), EntryLayout(len(target), None if name == "segments" else 0), width)
    if abi.call_for_status(f"{name}_{FLOATS[x.dtype]}", x, arguments, cuda):
        begins = None if source is None else out_of_range_error("aggregate_edges: source", source, len(x))
        raise _refused(out_of_range_error("aggregate_edges: target", target, rows) or begins)
    return out


def softmax(scores: Tensor, indptr: Tensor, longest: int | None) -> Tensor:
    """Call the native kernel for the softmax of scores [E, H] over each row's entries, for each head: indptr[v] to indptr[v + 1] - 1.

    longest: the most entries of a row, where that is known.
    """
    return _shares("edge_softmax", (scores,), indptr, longest, 2)


def softmax_grad(shares: Tensor, grad_out: Tensor, indptr: Tensor, longest: int | None) -> Tensor:
    """Call the native kernel for the gradient of an edge softmax's scores [E, H].

    grad_out [E, H]: gradient of the softmax; shares [E, H]: the softmax itself, over entries indptr[v] to indptr[v + 1] - 1 of each row v.
    longest: the most entries of a row, where that is known.
    """
    return _shares("edge_softmax_grad", (shares, grad_out), indptr, longest, 1)


def gather(cached: Tensor, sent: Tensor, index: Tensor) -> Tensor:
    """Call the native kernel that gathers rows of two tables, [C, D] and [S, D], by one index: out [n, D].

    out[i] = cached[index[i]] where index[i] < C, else sent[index[i] - C].
    """
    out = cached.new_empty(len(index), cached.shape[1])
    operands = (len(cached), cached.data_ptr(), len(sent), sent.data_ptr(), cached.shape[1], out.data_ptr())
    arguments = (len(index), index.data_ptr(), int(index.dtype == torch.int64), *operands)
    if abi.call_for_status(f"gather_{FLOATS[cached.dtype]}", cached, arguments, CudaLaunch((), EntryLayout(len(index), 0))):
        raise _refused(out_of_range_error("gather_rows: index", index, len(cached) + len(sent)))
    return out


def _shares(name: str, tensors: tuple[Tensor, ...], indptr: Tensor, longest: int | None, partials: int) -> Tensor:
    """Call a kernel on the entries of rows; `tensors` are [E, H], as is the result. Raises UserError where pointers do not ascend."""
    entries, heads = tensors[0].shape
    out = torch.empty_like(tensors[0])
    sizes = (len(indptr) - 1, heads) if abi.on_cuda(out) else (len(indptr) - 1, entries, heads)
    arguments = (*sizes, *(tensor.data_ptr() for tensor in (indptr, *tensors, out)))
    if abi.call_for_status(f"{name}_{FLOATS[out.dtype]}", out, arguments, CudaLaunch((), EntryLayout(entries, longest), partials * heads)):
        raise _refused(unordered_error(indptr, entries))
    return out


def _refused(error: UserError | None) -> Exception:
    """Return the error that explains why a kernel refused its ids."""
    return error or UserError("native kernels refused ids that are in range: they were written meanwhile")
