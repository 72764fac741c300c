"""Arguments of kernels on NumPy arrays: what lies in memory as they read it, and what they say of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.loader import succeed
from chronoscale.errors import UserError

Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]  # indptr [N + 1], neighbor and event [K] of a T-CSR
_ARGUMENT = 1


class Weighed(NamedTuple):
    """Neighbours of R roots: of root i slots 0 to counts[i] - 1, in the order of their events; all others are -1, of weight 1."""

    neighbor: NDArray[np.int32]  # [R, fanout]
    event: NDArray[np.int32]  # [R, fanout]
    weight: NDArray[np.float32]  # [R, fanout]
    counts: NDArray[np.int32]  # [R]


class Owned(NamedTuple):
    """What is local to part `rank`: events of it whose other end is of it, or of all parts (below 0)."""

    node: NDArray[np.int32]  # [N]
    event: NDArray[np.int32]  # [M]
    rank: int


def require(name: str, array: NDArray[Any], dtype: type[np.generic], size: int | None, writable: bool = False) -> None:
    """Raises UserError unless an array lies in memory as a kernel takes it for; size None: any."""
    right = array.dtype == dtype and array.dtype.isnative and array.ndim == 1 and array.flags.c_contiguous and array.flags.aligned
    if not right or (size is not None and len(array) != size) or (writable and not array.flags.writeable):
        wanted = f"{'writable ' if writable else ''}{np.dtype(dtype).name} [{'any' if size is None else size}]"
        raise UserError(f"{name} is {array.dtype.str} {list(array.shape)}; expected contiguous {wanted}")


def require_rows(what: str, rows: Rows) -> None:
    """Raises UserError unless the arrays of a T-CSR are those of one, as far as that is seen without reading them."""
    require("indptr", rows[0], np.int64, None)
    require("neighbor", rows[1], np.int32, None)
    require("event", rows[2], np.int32, len(rows[1]))
    if not len(rows[0]):
        raise UserError(f"{what}: indptr is empty; expected one entry more than there are nodes")


def as_ids(name: str, ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """In memory as a kernel reads them; none changes its value on the way."""
    ids = np.asarray(ids)
    if ids.dtype != np.int32 and (ids.dtype.kind not in "iu" or (ids.size and (ids.min() < -(2**31) or ids.max() >= 2**31))):
        raise UserError(f"{name} holds {ids.dtype} numbers, not all of which are int32")
    return np.ascontiguousarray(ids, np.int32)


def address(array: NDArray[Any]) -> int:
    return array.ctypes.data


def accepted(name: str, status: int, nodes: int) -> None:
    """Raises UserError where a kernel on a T-CSR has refused its arguments, MachineError where it failed."""
    if status == _ARGUMENT:
        raise UserError(f"{name}: node ids must lie in [0, {nodes}), and entries within their arrays")
    succeed(name, status)
