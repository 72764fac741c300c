"""Memory traffic: bytes that an operation reads and writes in device memory, if nothing were cached between two operations.

Operands are read once and results written once. An operation that picks rows reads those alone, and one that writes some of a tensor's rows
touches those alone. Our own kernels on a graph read a row of features for every edge. What a sort or a scan does in several passes counts
as one: like the count of kernels, a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from chronoscale.cuda_ext.native.abi import CudaLaunch

FILLED = frozenset({"copy_", "fill_", "zero_"})  # write their first operand, and do not read it
MADE = frozenset({"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like", "rand_like", "bernoulli_"})  # nor these
PICKED = frozenset({"index", "index_select", "gather", "embedding", "masked_select"})  # read of it what they hand out
PLACED = frozenset({"index_put_", "index_put", "index_copy_", "index_copy", "index_add_", "index_add", "scatter_", "scatter_add_"})
ADDED = frozenset({"index_add_", "index_add", "scatter_add_"})  # of those: read what they write


def operation_bytes(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> int:
    """Return the bytes of device memory that one operation of ATen would read and write on a GPU, for counts of a rank's kernels.

    func, args, kwargs: as torch dispatches them; result: what it returned.
    """
    name, operands = func.overloadpacket.__name__, list(zip(func._schema.arguments, args, strict=False))
    written = [value for argument, value in operands if argument.alias_info is not None and argument.alias_info.is_write]
    if name == "_fused_adam_":
        written = [value for value in written if value is not args[1]]  # gradients are scaled where losses are, and ours are not
    into = [value for argument in func._schema.arguments if argument.is_out and (value := kwargs.get(argument.name)) is not None]
    read = [*args, *(value for key, value in kwargs.items() if not any(value is other for other in into))]
    sparse: list[Tensor] = [tensor for tensor in args if isinstance(tensor, Tensor) and tensor.layout is torch.sparse_csr]
    if sparse:  # a product: as ours on a graph
        parts = [sparse[0].crow_indices(), sparse[0].col_indices(), sparse[0].values()]
        return nbytes([*parts, result]) + int(sparse[0]._nnz()) * int(result.shape[1]) * int(result.element_size())
    if name in PLACED:
        rows = nbytes(args[1:])
        whole = 0 if written else 2 * nbytes(args[:1])  # a copy with other rows
        source = nbytes([args[-1] if not name.startswith("index_put") else args[2]])
        return whole + rows + source * (1 + (name in ADDED))
    if name in PICKED:
        return nbytes(args[1:]) + 2 * nbytes([result])
    if name in MADE:
        return nbytes([result])
    if name in FILLED:
        return nbytes(args[1:]) + nbytes(args[:1])
    return nbytes(read) + nbytes([written, into, result])


def nbytes(values: Iterable[Any]) -> int:
    """Return the bytes of all tensors in `values`, memory that several view once; an expanded tensor counts as it lies in memory."""
    sizes: dict[tuple[int, int], int] = {}
    for tensor in tree_leaves(list(values)):
        if isinstance(tensor, Tensor) and tensor.numel():
            there = tensor.element_size()
            for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
                there *= size if stride else 1
            sizes[tensor.data_ptr(), there] = there
    return sum(sizes.values())


def kernel_bytes(name: str, arguments: tuple[Any, ...], cuda: CudaLaunch) -> int:
    """Return the bytes of device memory that one call of chronoscale's own CUDA kernels would read and write, for counts of a rank's
    kernels.

    name: the kernel's with its dtype, such as `aggregate_f32`. arguments: of its C function (`csrc/cuda`). cuda: those that only the CUDA
    call has, and its graph.
    """
    kernel, _, kind = name.rpartition("_")
    return _NATIVE[kernel if kind in _SIZES else name](arguments, cuda, _SIZES.get(kind, 4))


def _aggregate(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, _, _, values, _, width, _ = args
    if cuda.arguments[0] is not None:  # which rows, the device alone knows: a few
        return int(rows)
    return int(rows * (POINTER + width * max(size, 4)) + cuda.matrix.nnz * (ID + max(size, 4) * (values is not None) + width * size))


def _increment(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, _, fresh, _, _, values, _, width, *_ = args
    return int(
        rows * (ID + POINTER + (fresh is not None) + 3 * width * size) + cuda.matrix.nnz * (ID + size * (values is not None) + width * size)
    )


def _rebuild(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, *_, row, _, _, values = args[:12]
    changes, changed, _, added, _ = (argument or 0 for argument in cuda.arguments)
    weighted = (4 + 8) * (values is not None)  # a weight written, a factor read
    copied = rows * (2 * POINTER + ID + 8 * (row is not None)) + cuda.matrix.nnz * ID
    return int(copied + changes * (ID + POINTER) + changed * (ID + POINTER) + added * (ID + weighted))


def _softmax(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, listed, _, _, sign, base, *_ = args
    if cuda.arguments[0] is not None:
        return int(rows)
    row = POINTER + ID * (listed is not None) + 3 * size + size * (base is not None) + 1
    return int(rows * row + cuda.matrix.nnz * (ID + 2 * size + (sign is not None)))


def _softmax_grad(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, listed, *_ = args
    width = args[9]
    if cuda.arguments[0] is not None:
        return int(rows)
    row = POINTER + ID * (listed is not None) + (width + 3) * size
    return int(rows * row + cuda.matrix.nnz * (ID + 3 * size + width * size))


def _edges(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, entries, _, source, wide, _, _, width, _ = args
    return int(rows * width * size + entries * (ID * (1 + wide) * (1 + (source is not None)) + width * size))


def _shares(tensors: int) -> Callable[[tuple[Any, ...], CudaLaunch, int], int]:
    return lambda args, cuda, size: int(POINTER * args[0] + tensors * cuda.matrix.nnz * args[1] * size)


def _gather(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, _, wide, *_, width, _ = args
    return int(rows * (ID * (1 + wide) + 2 * width * size))


def _slots(vectors: int, rows: int) -> Callable[[tuple[Any, ...], CudaLaunch, int], int]:
    """Return the counting function of attention to slots: vectors read or written for each target and head, rows for each slot."""

    def moved(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
        targets, fanout, heads, width, edges, clock = args[:6]
        slot = POINTER + 1 + size * ((clock > 0) + heads + rows * (width + edges))
        return int(targets * (vectors * heads * (width + edges + clock) * size + fanout * slot))

    return moved


def _gates(rows: int) -> Callable[[tuple[Any, ...], CudaLaunch, int], int]:
    return lambda args, cuda, size: int(args[0] * (1 + rows * args[1] * size))


def _lstm_step(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, hidden, _, read, from_state, c, parent, *_ = args
    return int(rows * (ID * _count(read, parent) + hidden * size * (4 + 4 * _count(from_state) + _count(c) + 4 + 2)))


def _lstm_step_grad(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, hidden, _, c, parent, _, _, grad_c, read, products, _, old_c = args
    tensors = 4 + _count(c) + 1 + 1 + _count(grad_c) + 4 + 8 * _count(products) + _count(old_c)
    return int(rows * (ID * _count(parent, read) + hidden * size * tensors))


def _gru_step(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, hidden, _, read, _, stride, h, parent, *_ = args
    return int(rows * (ID * _count(read, parent) + hidden * size * (3 + 3 * (stride > 0) + _count(h) + 4 + 1)))


def _gru_step_grad(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, hidden, _, h, parent, _, read, add, products, _, grad_h = args
    return int(
        rows * (ID * _count(parent, read) + hidden * size * (4 + _count(h) + 1 + 3 + 3 * (1 + add) * _count(products) + _count(grad_h)))
    )


def _count(*pointers: int | None) -> int:
    """Return how many of a kernel's operands are there."""
    return sum(pointer is not None for pointer in pointers)


def _encode(args: tuple[Any, ...], cuda: CudaLaunch, size: int) -> int:
    rows, clock, *_, last = args
    return int(rows * size * (1 + clock * (1 + (last is not None))))


POINTER, ID = 8, 4  # bytes of where a row begins, and of a node's number
_SIZES = {"f32": 4, "f64": 8, "bf16": 2}
_NATIVE: Mapping[str, Callable[[tuple[Any, ...], CudaLaunch, int], int]] = {
    "aggregate": _aggregate, "weigh": _aggregate, "increment": _increment, "rebuild": _rebuild, "softmax": _softmax,
    "softmax_grad": _softmax_grad, "edges": _edges, "segments": _edges, "gather": _gather, "edge_softmax": _shares(2),
    "edge_softmax_grad": _shares(3),
    "slots": _slots(2, 1), "slots_grad": _slots(3, 2), "gates": _gates(8), "gates_grad": _gates(15), "encode": _encode,
    "encode_grad": _encode, "lstm_step": _lstm_step, "lstm_step_grad": _lstm_step_grad, "gru_step": _gru_step,
    "gru_step_grad": _gru_step_grad,
}  # fmt: skip
