"""Arguments of native functions on NumPy arrays: the library or a warning that there is none, checks before a call, errors after it."""

from __future__ import annotations

import warnings
from ctypes import CDLL
from functools import cache
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.loader import cpu_library, require_success
from chronoscale.errors import ChronoscaleWarning, UserError

INT32_LIMIT = 2**31  # ids and counts that are handed to the library are below it
BAD_ARGUMENT = 1  # the status of a native function that has refused its arguments

TcsrArrays = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]  # of a T-CSR: indptr [N + 1], neighbor [K], event [K]


class WeightedNeighbors(NamedTuple):
    """Sampled neighbours of R root nodes with importance weights, as the native boundary-decay sampler returns them.

    Root i has slots 0 to counts[i] - 1, in the order of their events; other slots hold -1, weight 1 and False.
    """

    neighbor: NDArray[np.int32]  # [R, fanout]
    event: NDArray[np.int32]  # [R, fanout]
    weight: NDArray[np.float32]  # [R, fanout]
    cached: NDArray[np.bool_]  # [R, fanout]: left out by its coin, and there since its rows are cached
    counts: NDArray[np.int32]  # [R]


class Ownership(NamedTuple):
    """Part that owns each node and each event, as seen from the part `rank`, for the native boundary-decay sampler.

    An event is local to `rank` if it belongs to `rank` and its other end belongs to `rank` or to all parts (a negative number).
    """

    node: NDArray[np.int32]  # [N]
    event: NDArray[np.int32]  # [M]
    rank: int


class CachedRows(NamedTuple):
    """Rows of other parts that can be read without asking for them, for the native boundary-decay sampler: where each is in a cache, a
    negative number for nowhere. event None: features of events are not read, and none has to be cached."""

    node: NDArray[np.int32]  # [N]
    event: NDArray[np.int32] | None  # [M]


@cache  # the warning comes once for each kind of work
def cpu_library_or_warn(work: str) -> CDLL | None:
    """Return the native CPU library; where none was built, warn that the work runs in Python and return None.

    work: words for the warning, such as "schedules are replayed".
    """
    if (library := cpu_library()) is None:
        message = f"no native library: {work} in Python, minutes where the library takes seconds"
        warnings.warn(message, ChronoscaleWarning, stacklevel=3)
    return library


def require_array(name: str, array: NDArray[Any], dtype: type[np.generic], size: int | None, writable: bool = False) -> None:
    """Raise UserError unless an array for a native function is one-dimensional, contiguous, of `dtype` and of `size` entries.

    name: of the array, for the message. size: None: any number.
    """
    readable = array.dtype == dtype and array.dtype.isnative and array.ndim == 1 and array.flags.c_contiguous and array.flags.aligned
    if not readable or (size is not None and len(array) != size) or (writable and not array.flags.writeable):
        expected = f"{'writable ' if writable else ''}{np.dtype(dtype).name} [{'any' if size is None else size}]"
        raise UserError(f"{name} is {array.dtype.str} {list(array.shape)}; expected contiguous {expected}")


def require_tcsr(caller: str, arrays: TcsrArrays) -> None:
    """Raise UserError unless arrays for a native function have the dtypes and sizes of a T-CSR; their numbers are not read.

    A T-CSR holds each node's events in order of time. caller: function named in the message.
    """
    require_array("indptr", arrays[0], np.int64, None)
    require_array("neighbor", arrays[1], np.int32, None)
    require_array("event", arrays[2], np.int32, len(arrays[1]))
    if not len(arrays[0]):
        raise UserError(f"{caller}: indptr is empty; expected one entry more than there are nodes")


def require_finite_sums(caller: str, *numbers: float) -> None:
    """Raise UserError unless a native search can add up its numbers in a double: (the sum of all but the last) times the last is finite.

    Searches compare sums of times: were they infinite, no choice would be better than another, and none would end. caller: function named
    in the message.
    """
    *largest, times = (float(number) for number in numbers)
    if not isfinite(sum(largest) * times):
        raise UserError(f"{caller}: the largest numbers are too large to be added up in a double; use another unit")


def to_int32_ids(name: str, ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return ids as a contiguous int32 array for a native function. Raises UserError where a number would change on the way."""
    ids = np.asarray(ids)
    if ids.dtype != np.int32 and (ids.dtype.kind not in "iu" or (ids.size and (ids.min() < -(2**31) or ids.max() >= 2**31))):
        raise UserError(f"{name} holds {ids.dtype} numbers, not all of which are int32")
    return np.ascontiguousarray(ids, np.int32)


def address(array: NDArray[Any]) -> int:
    """Return the address of a NumPy array's memory, to hand to a native function."""
    return array.ctypes.data


def require_accepted(caller: str, status: int, nodes: int) -> None:
    """Raise UserError where a native function on a T-CSR of `nodes` nodes refused its arguments, MachineError where it failed."""
    if status == BAD_ARGUMENT:
        raise UserError(f"{caller}: node ids must lie in [0, {nodes}), and entries within their arrays")
    require_success(caller, status)
