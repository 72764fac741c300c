"""REAL-G, the greedy scheduler: which two snapshot groups share a GPU, and when (REAL, section 5.3, Algorithm 1). Needs no torch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from operator import index
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import INT32_LIMIT, cpu_library_or_warn, require_finite_sums
from chronoscale.cuda_ext.native.loader import require_success
from chronoscale.cuda_ext.reference import greedy as greedy_reference
from chronoscale.errors import UserError

Ties = Literal["first", "reuse"]  # which of several targets that waste alike is taken: the first, or the one that saves most


@dataclass(frozen=True)
class Pairing:
    """Place of each of n snapshot groups in a schedule, as the native greedy scheduler of REAL returns it: int32 [n] each.

    iteration counts from 0; gpu in [0, gpus): GPU 0 of an iteration holds its target pair, the others follow in the order they were paired;
    slot is 0, or 1 for the later of two groups that share a GPU in an iteration.
    """

    iteration: NDArray[np.int32]
    gpu: NDArray[np.int32]
    slot: NDArray[np.int32]


def pair_groups(
    times: NDArray[np.float64], reuse: NDArray[np.float64], gpus: int, max_targets: int = 0, threads: int = 0, ties: Ties = "first"
) -> Pairing:
    """Decide which two snapshot groups share a GPU, and when, by Algorithm 1 of REAL (section 5.3), natively.

    times [n], any unit; reuse [n, width] in that unit, banded: reuse[i, k] is saved when groups i and i + k + 1 share a GPU, and groups
    farther apart save nothing (eq. 17). max_targets: how many candidate targets are tried, evenly spaced in rank, besides the few groups
    that save something with the longest one; 0: all. threads: 0 uses as many as set_threads allows; the result does not depend on it.
    ties: of targets that waste alike (on one GPU all do) 'first' takes the first, as line 9's "<" says: the one of the shortest partner, so
    that on one GPU every group runs alone. 'reuse' takes the one whose pairs save most, then the first.

    Where the algorithm leaves a choice: |SG| counts real groups, so the last gpus groups run alone, one a GPU.

    Raises UserError for wrong shapes, for numbers that are negative, not finite or so large that the sums of loads are not, and for gpus <
    1; MachineError when memory runs out.
    """
    times = np.ascontiguousarray(times, dtype=np.float64)
    reuse = np.ascontiguousarray(reuse, dtype=np.float64)
    if times.ndim != 1 or reuse.ndim != 2 or len(reuse) != len(times):
        raise UserError(f"pair_groups: times {list(times.shape)} and reuse {list(reuse.shape)}; expected [n] and [n, width]")
    for name, numbers in (("times", times), ("reuse", reuse)):
        if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
            raise UserError(f"pair_groups: {name} must be finite and not negative")
    gpus, max_targets, threads = index(gpus), index(max_targets), index(threads)
    if not (1 <= gpus < INT32_LIMIT and 0 <= max_targets < INT32_LIMIT and 0 <= threads < INT32_LIMIT):
        raise UserError(f"pair_groups: gpus={gpus}, max_targets={max_targets}, threads={threads}; expected at least 1, 0, 0, below 2^31")
    require_finite_sums("pair_groups", 2 * float(times.max(initial=0)), reuse.max(initial=0), 2 * (2 * len(times) + gpus))
    iteration, gpu, slot = (np.zeros(len(times), dtype=np.int32) for _ in range(3))
    if (library := cpu_library_or_warn("pair_groups runs")) is None:
        greedy_reference.schedule(times.tolist(), reuse.tolist(), gpus, max_targets, ties == "reuse", iteration, gpu, slot)
        return Pairing(iteration, gpu, slot)
    doubles, ints = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)
    outputs = [column.ctypes.data_as(ints) for column in (iteration, gpu, slot)]
    operands = (len(times), times.ctypes.data_as(doubles), reuse.shape[1], reuse.ctypes.data_as(doubles))
    require_success("pair_groups", library.cs_greedy(*operands, gpus, max_targets, ties == "reuse", threads, *outputs))
    return Pairing(iteration, gpu, slot)
