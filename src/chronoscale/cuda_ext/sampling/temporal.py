"""T-CSR (temporal CSR) and the sampling of temporal neighbours from it, on NumPy arrays, memory-mapped or not. Needs no torch."""

from __future__ import annotations

from operator import index
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import (
    INT32_LIMIT,
    TcsrArrays,
    address,
    cpu_library_or_warn,
    require_accepted,
    require_array,
    require_tcsr,
    to_int32_ids,
)
from chronoscale.cuda_ext.reference import temporal as temporal_reference
from chronoscale.errors import UserError, unknown

Policy = Literal["recent", "uniform"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
MAX_FANOUT = 1024
_SLOW = "temporal neighbours are sampled"


class SampledNeighbors(NamedTuple):
    """Neighbours of R root nodes as the native temporal sampler returns them.

    Root i has slots 0 to counts[i] - 1, in the order of their events; other slots hold -1.
    """

    neighbor: NDArray[np.int32]  # [R, fanout]
    event: NDArray[np.int32]  # [R, fanout]
    counts: NDArray[np.int32]  # [R]


def count(src: NDArray[np.int32], dst: NDArray[np.int32], both: bool, degree: NDArray[np.int64]) -> None:
    """Add to degree [N] how many entries these events have in each row of a T-CSR, natively; the first of two passes that build one.

    A T-CSR holds, row by row, each node's events in order of time: those that it sends and, with `both`, those that it receives, an event
    to itself once. src, dst int32 [M]. Raises UserError for ids outside [0, N).
    """
    src, dst = _ends(src, dst)
    require_array("degree", degree, np.int64, None, writable=True)
    if (library := cpu_library_or_warn(_SLOW)) is None:
        return temporal_reference.count(src, dst, both, degree)
    require_accepted("count", library.cs_tcsr_count(len(degree), len(src), address(src), address(dst), both, address(degree)), len(degree))


def fill(
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    first: int,
    both: bool,
    cursor: NDArray[np.int64],
    neighbor: NDArray[np.int32],
    event: NDArray[np.int32],
) -> None:
    """Write the entries of these events into a T-CSR (each node's events in order of time), natively; the second of two passes.

    cursor [N]: where each row's next entry goes; it is moved on. first: the number of the first of these events. neighbor and event, int32
    [K], get the other end and the event's number. Raises UserError for ids outside [0, N), and where an entry has no room.
    """
    src, dst = _ends(src, dst)
    require_array("cursor", cursor, np.int64, None, writable=True)
    require_array("neighbor", neighbor, np.int32, None, writable=True)
    require_array("event", event, np.int32, len(neighbor), writable=True)
    if not 0 <= index(first) <= INT32_LIMIT - 1 - len(src):
        raise UserError(f"fill: events from number {first} on; expected numbers below 2^31")
    if (library := cpu_library_or_warn(_SLOW)) is None:
        return temporal_reference.fill(src, dst, first, both, cursor, neighbor, event)
    outputs = (len(neighbor), address(cursor), address(neighbor), address(event))
    require_accepted("fill", library.cs_tcsr_fill(len(cursor), len(src), first, address(src), address(dst), both, *outputs), len(cursor))


def sample(
    arrays: TcsrArrays,
    node: NDArray[np.int32],
    before: NDArray[np.int32],
    fanout: int,
    policy: Policy = "recent",
    seed: int = 0,
    threads: int = 0,
    since: NDArray[np.int32] | None = None,
) -> SampledNeighbors:
    """Sample up to `fanout` temporal neighbours of each root natively: node[i] before event before[i], both int32 [R]; node -1 has none.

    arrays: indptr int64 [N + 1], neighbor and event int32 [K], of a T-CSR, whose events ascend in each row. since int32 [R]: only events
    from since[i] on are neighbours; None: from the first on.

    Policy recent: the latest of those events. uniform: all of them alike, without replacement, drawn from the seed (below 2^64), the root
    (node and `before`) and the slot, and nothing else: the same root gets the same neighbours in whatever batch, order or thread. `since`
    takes no part in that, so that one which leaves no event out changes nothing; windows that follow one another draw apart by their
    `before`. Work grows with the fanout's square for `uniform`.

    threads 0: those that are bound (bound_threads.bind), each with its part of the roots; where none are, as many as set_threads allows.

    Raises UserError for an unknown policy, a fanout outside [0, 1024], arrays of another kind, ids outside [-1, N) and rows beyond the
    entries, MachineError when memory runs out.
    """
    if policy not in POLICIES:
        raise unknown("policy", policy, POLICIES)
    node, before = to_int32_ids("node", node), to_int32_ids("before", before)
    since = None if since is None else to_int32_ids("since", since)
    fanout, seed, threads = index(fanout), index(seed), index(threads)
    fits = node.ndim == 1 and node.shape == before.shape and (since is None or since.shape == node.shape) and 0 <= fanout <= MAX_FANOUT
    if not fits or not (0 <= seed < 2**64 and 0 <= threads < INT32_LIMIT):
        raise UserError(
            f"sample: node {list(node.shape)}, before {list(before.shape)}, {'' if since is None else f'since {list(since.shape)}, '}"
            f"fanout={fanout}, seed={seed}, threads={threads}; expected [R] of each, at most {MAX_FANOUT}, below 2^64, and none that is "
            "negative"
        )
    require_tcsr("sample", arrays)
    neighbor, event = (np.empty((len(node), fanout), np.int32) for _ in range(2))
    sampled = SampledNeighbors(neighbor, event, np.empty(len(node), np.int32))
    if (library := cpu_library_or_warn(_SLOW)) is None:
        temporal_reference.sample(arrays, node, before, since, policy == "uniform", seed, *sampled)
        return sampled
    roots = (len(node), address(node), address(before), None if since is None else address(since))
    arguments = (*(address(array) for array in arrays), len(arrays[1]), *roots, fanout, policy == "uniform", seed, threads)
    require_accepted(
        "sample", library.cs_sample(len(arrays[0]) - 1, *arguments, *(address(array) for array in sampled)), len(arrays[0]) - 1
    )
    return sampled


def _ends(src: NDArray[np.int32], dst: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return both ends of events as int32 arrays. Raises UserError unless they are [M] each."""
    src, dst = to_int32_ids("src", src), to_int32_ids("dst", dst)
    if src.ndim != 1 or src.shape != dst.shape:
        raise UserError(f"src {list(src.shape)} and dst {list(dst.shape)}; expected [M] twice")
    return src, dst
