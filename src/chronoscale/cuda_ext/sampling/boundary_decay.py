"""Boundary-decay sampling of temporal neighbours (MemShare, eqs. 16 and 17): local ones, and some remote ones with weights. Needs no
torch.
"""

from __future__ import annotations

from math import isfinite
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import (
    INT32_LIMIT,
    CachedRows,
    Ownership,
    TcsrArrays,
    WeightedNeighbors,
    address,
    cpu_library_or_warn,
    require_accepted,
    require_array,
    require_tcsr,
    to_int32_ids,
)
from chronoscale.cuda_ext.reference import boundary_decay as boundary_decay_reference
from chronoscale.cuda_ext.sampling.temporal import MAX_FANOUT
from chronoscale.errors import UserError


def sample(
    arrays: TcsrArrays,
    t: NDArray[np.number[Any]],
    owned: Ownership,
    node: NDArray[np.int32],
    before: NDArray[np.int32],
    fanout: int,
    theta: float,
    decay: float = 0.0,
    complete: bool = True,
    seed: int = 0,
    threads: int = 0,
    least: float = 0.0,
    at_least_one: bool = False,
    cached: CachedRows | None = None,
) -> WeightedNeighbors:
    """Sample up to `fanout` neighbours, with weights, of each root by MemShare's boundary decay, natively (eqs. 16 and 17).

    A root is node[i] before event before[i], both int32 [R]. arrays: a T-CSR (each node's events in order of time). Of the latest `fanout`
    events (temporal.sample's `recent`) all local ones are sampled, with weight 1; each of the R remote ones independently with p =
    min(theta R e^(decay t_k) / sum of e^(decay t_i) over these R, 1), at least `least`, and has weight 1 / p. theta of 1 or more samples
    all, with weight 1. So sums of weight times any function of the event have the recent neighbours' as their expectation. owned: which
    part owns nodes and events.

    at_least_one: a root that has recent neighbours, all of them remote, gets one of them at least: coins are tossed until one is sampled. A
    neighbour is then sampled with probability p / q, q = 1 - (1 - p_1) ... (1 - p_R), and has weight q / p: expectations are the same. Not
    with a theta of 0.

    cached: which rows of other parts can be read. A remote neighbour of which all can is always there, with weight 1; where its coin
    leaves it out, `WeightedNeighbors.cached` says so. Of a root that has one, no coin is tossed again.

    complete: slots that are then free take the latest local events that come before all of those, of weight 1, looking back over 16 x
    fanout entries of the row: what is summed then goes beyond the recent neighbours, so that the above holds only without it.

    t int64 or float64 [M], in the order of events: only differences matter, and int64 ones are exact. Coins depend on the seed (below
    2^64), and only on the root and the event besides: the same root gets the same neighbours in whatever batch, order or thread. threads
    and what is raised: as in temporal.sample; UserError, too, for a theta or decay that is negative or not finite.
    """
    node, before = to_int32_ids("node", node), to_int32_ids("before", before)
    fanout, seed, threads, rank = index(fanout), index(seed), index(threads), index(owned.rank)
    fits = node.ndim == 1 and node.shape == before.shape and 0 <= fanout <= MAX_FANOUT and 0 <= rank < INT32_LIMIT
    if not fits or not (0 <= seed < 2**64 and 0 <= threads < INT32_LIMIT):
        raise UserError(
            f"boundary: node {list(node.shape)}, before {list(before.shape)}, fanout={fanout}, rank={rank}, seed={seed}, "
            f"threads={threads}; expected [R] of each, at most {MAX_FANOUT}, below 2^64, and none that is negative"
        )
    if not (isfinite(theta) and isfinite(decay) and theta >= 0 and decay >= 0 and 0 <= least <= 1):
        raise UserError(f"boundary: theta={theta}, decay={decay}, least={least}; expected finite numbers of 0 or more, the last at most 1")
    require_tcsr("boundary", arrays)
    require_array("t", t, np.int64 if t.dtype.kind == "i" else np.float64, None)
    require_array("the parts of nodes", owned.node, np.int32, len(arrays[0]) - 1)
    require_array("the parts of events", owned.event, np.int32, len(t))
    places = () if cached is None else (("nodes", cached.node, len(arrays[0]) - 1), ("events", cached.event, len(t)))
    for what, array, size in places:
        if array is not None:
            require_array(f"the places of cached {what}", array, np.int32, size)
    neighbor, event = (np.empty((len(node), fanout), np.int32) for _ in range(2))
    weight, read = np.empty((len(node), fanout), np.float32), np.empty((len(node), fanout), np.bool_)
    sampled = WeightedNeighbors(neighbor, event, weight, read, np.empty(len(node), np.int32))
    if (library := cpu_library_or_warn("temporal neighbours across a boundary are sampled")) is None:
        chances = boundary_decay_reference.Chances(theta, decay, least, at_least_one)
        boundary_decay_reference.sample(arrays, t, owned, node, before, chances, complete, seed, cached, *sampled)
        return sampled
    tcsr = (*(address(array) for array in arrays), len(arrays[1]), len(t), address(t), t.dtype.kind == "i")
    ownership = (address(owned.node), address(owned.event), rank)
    roots = (len(node), address(node), address(before), fanout)
    of_cache = tuple(None if array is None else address(array) for array in cached or (None, None))
    arguments = (*tcsr, *ownership, *roots, theta, decay, least, at_least_one, complete, seed, *of_cache, threads)
    require_accepted(
        "boundary", library.cs_boundary(len(arrays[0]) - 1, *arguments, *(address(array) for array in sampled)), len(arrays[0]) - 1
    )
    return sampled
