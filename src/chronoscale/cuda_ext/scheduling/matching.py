"""Matchings of snapshot groups into pairs: the one that saves most, and one improved step by step for the makespan (REAL, eq. 9-12). Needs
no torch.
"""

from __future__ import annotations

import ctypes
from operator import index

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import INT32_LIMIT, cpu_library_or_warn, require_finite_sums
from chronoscale.cuda_ext.native.loader import require_success
from chronoscale.cuda_ext.reference import matching as matching_reference
from chronoscale.cuda_ext.scheduling.threshold_search import ThresholdSearch
from chronoscale.errors import UserError

Mates = NDArray[np.int32]  # [n], the partner of each group, -1 for none
MAX_WIDTH = 12  # band_matching has 2^width states a group
_SLOW = "schedules are searched"

_DOUBLES, _INTS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)


def band_matching(weight: NDArray[np.float64]) -> tuple[Mates, float]:
    """Pair snapshot groups so that most is saved, natively and exactly: return the partner of each, int32 [n], and the total saved.

    weight [n, width], width <= MAX_WIDTH: weight[i, k] for the pair of i and i + k + 1; pairs of no positive weight are not made, columns
    past the end are not read. In time O(n 2^width width).

    Raises UserError for a wrong shape or width, or numbers that are not finite or whose sum is not, MachineError when memory runs out.
    """
    weight = np.ascontiguousarray(weight, dtype=np.float64)
    if weight.ndim != 2 or weight.shape[1] > MAX_WIDTH or not np.isfinite(weight).all():
        raise UserError(f"band_matching: weight {list(weight.shape)}; expected [n, at most {MAX_WIDTH}], finite")
    require_finite_sums("band_matching", np.abs(weight).max(initial=0), len(weight))
    mate, total = np.empty(len(weight), np.int32), ctypes.c_double()
    if (library := cpu_library_or_warn(_SLOW)) is None:
        return mate, matching_reference.band(weight, mate)
    pointers = weight.ctypes.data_as(_DOUBLES), mate.ctypes.data_as(_INTS)
    require_success("band_matching", library.cs_band_matching(*weight.shape, *pointers, ctypes.byref(total)))
    return mate, total.value


def exchange(
    times: NDArray[np.float64], reuse: NDArray[np.float64], gpus: int, mate: Mates, search: ThresholdSearch, alpha: float = 0.0
) -> tuple[Mates, float]:
    """Improve a pairing of snapshot groups by a native local search; return one of no larger makespan than `mate`, and its makespan.

    mate [n]: the partner of each group, -1 for none. The makespan is the sum over iterations of the largest load + alpha (REAL, eq. 10).
    times [n] and reuse [n, width] as in `greedy.pair_groups`. Partners are exchanged, pairs split and joined, mostly at the seats that an
    iteration waits for, as `search` says. Its work is not counted in seconds: the result depends on nothing but the arguments.

    Raises UserError for arguments that do not fit, MachineError when memory runs out.
    """
    times, reuse = np.ascontiguousarray(times, dtype=np.float64), np.ascontiguousarray(reuse, dtype=np.float64)
    n, partners, gpus, work = len(times), np.array(mate, dtype=np.int32), index(gpus), index(search.work)
    in_range = 1 <= gpus < INT32_LIMIT and 0 <= work <= 2**62
    if times.ndim != 1 or reuse.ndim != 2 or len(reuse) != n or partners.shape != (n,) or not in_range:
        raise UserError(
            f"exchange: times {list(times.shape)}, reuse {list(reuse.shape)}, mate {list(partners.shape)}, gpus={gpus}, work={search.work}"
        )
    if not (np.isfinite(times).all() and np.isfinite(reuse).all() and np.isfinite([alpha, search.pull, search.threshold]).all()):
        raise UserError("exchange: numbers must be finite")
    magnitudes = 2 * float(np.abs(times).max(initial=0)), np.abs(reuse).max(initial=0), abs(alpha)
    require_finite_sums("exchange", *magnitudes, 4 * (n + 1) * (1 + abs(search.pull)))
    paired = np.flatnonzero(partners != -1)
    if len(paired) and (
        partners.min() < -1 or partners.max() >= n or (partners[partners[paired]] != paired).any() or (partners[paired] == paired).any()
    ):
        raise UserError("exchange: mate is not a matching")
    if not n:
        return partners, 0.0
    if (library := cpu_library_or_warn(_SLOW)) is None:
        return partners, matching_reference.exchange(times, reuse, gpus, alpha, search, partners)
    makespan = ctypes.c_double()
    operands = n, times.ctypes.data_as(_DOUBLES), reuse.shape[1], reuse.ctypes.data_as(_DOUBLES), gpus
    results = partners.ctypes.data_as(_INTS), ctypes.byref(makespan)
    require_success("exchange", library.cs_exchange(*operands, alpha, search.pull, search.threshold, work, search.seed, *results))
    return partners, makespan.value
