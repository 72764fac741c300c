"""Reference of boundary-decay sampling (MemShare, eqs. 16 and 17) in plain Python."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import exp, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.reference.splitmix import STEP, WORD, mix
from chronoscale.errors import UserError

if TYPE_CHECKING:
    from chronoscale.cuda_ext.native.arguments import CachedRows, Ownership, TcsrArrays

BACK = 16  # completion looks back over so many fan-outs


class Chances(NamedTuple):
    """Settings of the probabilities of remote neighbours: eq. 17's Theta over their number and decay, the least probability, and whether
    one neighbour is sampled at least."""

    theta: float
    decay: float
    least: float
    at_least_one: bool


def sample(
    arrays: TcsrArrays,
    t: NDArray[np.number[Any]],
    owned: Ownership,
    node: NDArray[np.int32],
    before: NDArray[np.int32],
    chances: Chances,
    complete: bool,
    seed: int,
    cached: CachedRows | None,
    out_neighbor: NDArray[np.int32],
    out_event: NDArray[np.int32],
    out_weight: NDArray[np.float32],
    out_cached: NDArray[np.bool_],
    out_count: NDArray[np.int32],
) -> None:
    """Sample neighbours with weights by MemShare's boundary decay in Python, the reference of the native kernel, by the same coins.

    arrays: indptr, neighbor and event of a T-CSR (each node's events in order of time); t: times of all events; owned: which part owns
    nodes and events. Root i is node[i] before event before[i]. Of its latest events all local ones are sampled, and remote ones with the
    probabilities of eq. 17, from `chances` and `seed`; cached: where rows of other parts are, which have a slot in any case; `complete`
    fills free slots with older local ones. Writes into out_neighbor, out_event, out_weight and out_cached [R, fan-out], and out_count [R].
    Raises UserError for ids and rows out of range.
    """
    indptr, neighbor, event = arrays
    nodes, fanout = len(indptr) - 1, out_neighbor.shape[1]
    if len(node) and not (node.min() >= -1 and node.max() < nodes):
        raise UserError(f"boundary: node ids must lie in [-1, {nodes})")
    out_neighbor.fill(-1)
    out_event.fill(-1)
    out_weight.fill(1)
    out_cached.fill(False)

    def local(place: int) -> bool:
        v, e = int(neighbor[place]), int(event[place])
        if not (0 <= v < nodes and 0 <= e < len(t)):
            raise UserError(f"boundary: node ids must lie in [0, {nodes}), and events in [0, {len(t)})")
        return bool(owned.event[e] == owned.rank and (owned.node[v] == owned.rank or owned.node[v] < 0))

    def is_cached(place: int) -> bool:
        v, e = int(neighbor[place]), int(event[place])
        if cached is None or not (owned.node[v] == owned.rank or owned.node[v] < 0 or cached.node[v] >= 0):
            return False
        return bool(cached.event is None or owned.event[e] == owned.rank or cached.event[e] >= 0)

    for i, (v, bound) in enumerate(zip(node.tolist(), before.tolist(), strict=True)):
        begin, end = (0, 0) if v < 0 else (int(indptr[v]), int(indptr[v + 1]))
        if not 0 <= begin <= end <= len(event):
            raise UserError("boundary: a row does not lie within the entries")
        end = bisect_left(event, bound, begin, end)
        recent = range(max(begin, end - fanout), end)
        others = [place for place in recent if not local(place) and chances.theta < 1]
        chance = _chances([t[event[place]].item() for place in others], chances)
        weight = {place: 1.0 for place in recent if place not in set(others)}
        there = {place for place in others if is_cached(place)}
        key = mix(seed ^ mix((v & WORD >> 32) << 32 | bound & WORD >> 32))
        at_least_one = chances.at_least_one and chances.theta > 0 and not weight and not there
        fetched = _fetched(chance, [_coin(key, int(event[place])) for place in others], at_least_one)
        weight |= {place: 1.0 if place in there else w for place, w in zip(others, fetched, strict=True) if w or place in there}
        left = {place for place, w in zip(others, fetched, strict=True) if not w and place in there}
        if complete:
            older = range(recent.start - 1, max(begin, recent.start - BACK * fanout) - 1, -1)
            weight |= dict.fromkeys(_first(fanout - len(weight), local, older), 1.0)
        places = sorted(weight)
        filled = slice(0, len(places))
        out_neighbor[i, filled], out_event[i, filled], out_count[i] = neighbor[places], event[places], len(places)
        out_weight[i, filled] = [weight[place] for place in places]
        out_cached[i, filled] = [place in left for place in places]


def _fetched(chance: list[float], coins: list[float], at_least_one: bool) -> list[float]:
    """Return the weight of each remote neighbour, 0 of those that their coins leave out.

    at_least_one: they leave out all but one at most, where none is certain: of those before which none was sampled, a coin decides given
    that one is.
    """
    some = 1 - prod(1 - p for p in chance) if at_least_one else 1.0
    weights: list[float] = []
    for k, (p, coin) in enumerate(zip(chance, coins, strict=True)):
        still = at_least_one and not any(weights)
        given = p / (1 - prod(1 - q for q in chance[k:])) if still and p else p
        weights.append(some / p if p and (p == 1 or coin < given or (still and k + 1 == len(chance))) else 0.0)
    return weights


def _chances(times: list[Any], chances: Chances) -> list[float]:
    """Return the probability that each remote neighbour is sampled (eq. 17, at least as much as is asked for), from times, ascending."""
    whole = bool(times) and isinstance(times[-1], int)
    gaps = [float((times[-1] - time) & WORD if whole else times[-1] - time) for time in times]
    shares = [exp(-chances.decay * gap) if chances.decay else 1.0 for gap in gaps]
    total = 0.0
    for share in shares:  # `sum` compensates for what is rounded off
        total += share
    return [min(max(chances.theta * len(times) * share / total, chances.least), 1.0) for share in shares]


def _coin(key: int, event: int) -> float:
    """Return the random number in (0, 1) that decides about an event, drawn from the root's key."""
    return ((mix(key + (event + 1) * STEP & WORD) >> 12) + 0.5) * 2.0**-52


def _first(count: int, local: Callable[[int], bool], places: range) -> list[int]:
    """Return up to `count` places that are local, in order; none beyond them is looked at."""
    local_places: list[int] = []
    for place in places:
        if len(local_places) == count:
            break
        if local(place):
            local_places.append(place)
    return local_places
