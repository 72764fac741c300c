"""The operators on edges through the C ABI. On the CPU the kernels look at ids in every call; on CUDA they step over those out of range."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.abi import CudaLaunch, EntryLayout, pointer
from chronoscale.cuda_ext.native.backend import FLOATS
from chronoscale.cuda_ext.reference.edges import out_of_range_error, unordered_error
from chronoscale.errors import UserError


def aggregate(x: Tensor, target: Tensor, rows: int, source: Tensor | None, deterministic: bool, ascending: bool) -> Tensor:
    """As edges.aggregate_edges."""
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
    """As edge_softmax.edge_softmax."""
    return _shares("edge_softmax", (scores,), indptr, longest, 2)


def softmax_grad(shares: Tensor, into: Tensor, indptr: Tensor, longest: int | None) -> Tensor:
    """As edges_reference.softmax_grad."""
    return _shares("edge_softmax_grad", (shares, into), indptr, longest, 1)


def gather(cached: Tensor, sent: Tensor, index: Tensor) -> Tensor:
    """As tables.gather_rows."""
    out = cached.new_empty(len(index), cached.shape[1])
    tables = (len(cached), cached.data_ptr(), len(sent), sent.data_ptr(), cached.shape[1], out.data_ptr())
    arguments = (len(index), index.data_ptr(), int(index.dtype == torch.int64), *tables)
    if abi.call_for_status(f"gather_{FLOATS[cached.dtype]}", cached, arguments, CudaLaunch((), EntryLayout(len(index), 0))):
        raise _refused(out_of_range_error("gather_rows: index", index, len(cached) + len(sent)))
    return out


def _shares(name: str, given: tuple[Tensor, ...], indptr: Tensor, longest: int | None, share: int) -> Tensor:
    entries, heads = given[0].shape
    out = torch.empty_like(given[0])
    sizes = (len(indptr) - 1, heads) if abi.on_cuda(out) else (len(indptr) - 1, entries, heads)
    arguments = (*sizes, *(tensor.data_ptr() for tensor in (indptr, *given, out)))
    if abi.call_for_status(f"{name}_{FLOATS[out.dtype]}", out, arguments, CudaLaunch((), EntryLayout(entries, longest), share * heads)):
        raise _refused(unordered_error(indptr, entries))
    return out


def _refused(why: UserError | None) -> Exception:
    return why or UserError("native kernels refused ids that are in range: they were written meanwhile")
