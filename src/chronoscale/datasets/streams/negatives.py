"""Negative destinations: nodes that an event did not meet, which a model has to score below the one that it did.

Training draws them anew in every epoch and leaves out the event's own destination alone (TGN's code not even that): what its source meets
at the same time in another event may be drawn. Evaluation leaves that out too, and ranks each event against the same ones in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.arrays import Bool, Int32, Int64, require, require_ids
from chronoscale.datasets.atomic import atomic_file
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.gaps import Gaps
from chronoscale.errors import UserError, unknown

NegativeKind = Literal["mixed", "historical", "random"]
NONE = -1  # where there are fewer negatives than asked for
MAX_NEGATIVES = draws.SLOTS // 2  # negatives of an event
CELLS = 1 << 20  # drawn at once: memory, and what stays in the cache
TRAINING, HISTORICAL, RANDOM, LOCAL = range(4)  # what is drawn


def destinations(dst: Int32, num_nodes: int) -> Int32:
    """Return the different nodes among the destinations of an event stream, int32 [D], ascending: of a bipartite one its second side.
    Negatives are drawn from them. dst int32 [B], of ids below num_nodes.

    Raises UserError for another array or an id out of range.
    """
    require(dst, "dst", "int32", (None,))
    require_ids(dst, "dst", num_nodes)
    there = np.zeros(num_nodes, np.bool_)
    there[dst] = True
    return np.flatnonzero(there).astype(np.int32)


def training_negatives(dst: Int32, event: Int64, among: Int32, per_event: int = 1, *, seed: int, epoch: int) -> Int32:
    """Draw negative destinations (other nodes than the one that an event met) for training events, uniform over `among`: int32 [B,
    per_event].

    dst int32 [B]; event int64 [B], its number in the stream: an event has the same negatives in whatever batch or rank it falls, others in
    the next epoch. among int32 [D], ascending, at least one: `destinations` of the events that are trained on, as in TGN's code, which
    keeps hidden nodes out. The slots of an event are drawn each for itself, and may repeat. Only where `among` is nothing but the event's
    destination is that its negative. Raises UserError for arrays that do not fit, a negative seed or epoch, or per_event below 1 or too
    large.
    """
    require(dst, "dst", "int32", (None,))
    require(event, "event", "int64", (dst.size,))
    require(among, "among", "int32", (None,))
    if among.size == 0 or (among[1:] <= among[:-1]).any():
        raise UserError("among: expected different nodes in ascending order, one at least")
    if not 1 <= per_event < draws.SLOTS:
        raise UserError(f"negatives an event: expected 1..{draws.SLOTS - 1}, got {per_event}")
    return draw_negatives(draws.derive_key(seed, TRAINING, epoch), dst, event, among, per_event)


def draw_negatives(key: int, dst: Int32, event: Int64, among: Int32, per_event: int = 1) -> Int32:
    """Draw `per_event` negative destinations for each event, int32 [B, per_event], as `training_negatives` does, by a key
    (`draws.derive_key`) and without checks of the arrays: dst int32 [B], event int64 [B] its number, among int32 [D] ascending."""
    member = contains(among, dst)
    count = np.where(member & (among.size > 1), among.size - 1, among.size)
    ranks = np.stack([draws.draw_below(key, event, slot, count) for slot in range(per_event)], axis=1)
    ranks += (count < among.size)[:, None] & (ranks >= np.searchsorted(among, dst)[:, None])
    return among[ranks]


def any_nodes(event: Int64, num_nodes: int, *, seed: int, epoch: int) -> Int32:
    """Draw a negative for each training event from all `num_nodes` nodes alike, int32 [B, 1], as TGL's and FAST's public `NegLinkSampler`:
    nodes that are never a destination as well, and the event's own. event int64 [B]: its number in the stream, as for `training_negatives`.
    Raises UserError for a negative seed or epoch."""
    return draws.draw_below(draws.derive_key(seed, TRAINING, epoch), event, 0, num_nodes).astype(np.int32)[:, None]


def contains(nodes: Int32, ids: Int32) -> Bool:
    """Return which of `ids`, int32 [n], are among `nodes`, int32, ascending and at least one: a mask, bool [n]."""
    present: Bool = nodes[np.minimum(np.searchsorted(nodes, ids), nodes.size - 1)] == ids
    return present


@dataclass(frozen=True, slots=True, eq=False)
class Negatives:
    """Negative destinations of the events `part` of a stream, fixed for evaluation: a model ranks each event against the same ones in every
    run. dst int32 [E, k]: historical ones (that the source met before) first, then random ones, then NONE.

    digest: SHA-256 of the stream's content and of what they were drawn by. Raises UserError for arrays that do not fit.
    """

    part: range
    dst: Int32
    digest: str

    def __post_init__(self) -> None:
        require(self.dst, "Negatives.dst", "int32", (len(self.part), None))

    def save(self, path: Path) -> None:
        """Write the negatives to an archive (.npz), whole or not at all."""
        with atomic_file(path) as file:
            np.savez(file, dst=self.dst, start=np.int64(self.part.start), digest=np.array(self.digest))


def load(path: Path, part: range, expected: str) -> Negatives:
    """Load evaluation's negatives of the events `part` from the archive that `Negatives.save` wrote. Raises UserError naming the file if it
    is damaged, of another part or not of the digest `expected`."""
    archive = read_archive(path)
    if set(archive) != {"dst", "start", "digest"} or str(archive["digest"]) != expected:
        raise UserError(
            f"{path}: negatives of other data or another protocol; delete the run's folder 'data', and its command makes it anew"
        )
    require(archive["start"], f"{path}: start", "int64", ())
    require(archive["dst"], f"{path}: dst", "int32", (None, None))
    start = int(archive["start"])
    if (events := range(start, start + len(archive["dst"]))) != part:
        raise UserError(f"{path}: negatives of events {events.start}..{events.stop - 1}, expected {part}")
    return Negatives(part, archive["dst"], expected)


def digest(
    events: EventStream, train_end: int, part: range, k: int, kind: NegativeKind | Literal["published"] = "mixed", seed: int = 0
) -> str:
    """Return the SHA-256 of an event stream and of everything else by which `evaluation_negatives` draws: stored negatives are checked
    against it. k: negatives an event; 0 of published ones."""
    checksum = sha256(f"negatives 2 {kind} {k} {seed} {train_end} {part.start} {part.stop} {events.num_nodes} {events.t.dtype}\n".encode())
    for column in (events.src, events.dst, events.t):
        checksum.update(np.ascontiguousarray(column).data)
    return checksum.hexdigest()


def evaluation_negatives(
    events: EventStream, train_end: int, part: range, k: int, kind: NegativeKind = "mixed", seed: int = 0
) -> Negatives:
    """Draw k fixed negative destinations for each event of `part`, which a model is evaluated on: TGB's protocol (Huang et al. 2023, §4,
    and its public generator, `hist_rnd`).

    With D the destinations of the whole stream, taken(s, t) what source s meets at time t in `part`, met(s) what it met among the first
    `train_end` events:

    - `mixed`: of met(s) - taken(s, t) up to k // 2, the others of D - met(s) - taken(s, t);
    - `historical`: the same with up to k of the former (Poursafaei et al. 2022, §4.2: random ones fill up);
    - `random`: of D - taken(s, t), met or not.

    All negatives of an event differ, and every order of them is as likely as another: the first of either sort is a single draw. Where
    fewer are left than k, all are taken and the other slots are NONE (TGB's rows are shorter there). Unlike in TGB's, two events of one
    source, destination and time draw each their own, and a node that is never a destination is not drawn, also where its id lies between
    theirs. Events on hidden nodes count as met: evaluation is the same, inductive or not. Raises UserError for an unknown kind, a negative
    seed, k below 1 or above MAX_NEGATIVES, or a part that has gaps, begins before train_end, or ends after the stream.
    """
    if kind not in get_args(NegativeKind):
        raise unknown("kind of negatives", kind, get_args(NegativeKind))
    if not 1 <= k <= MAX_NEGATIVES:
        raise UserError(f"negatives an event: expected 1..{MAX_NEGATIVES}, got {k}")
    if part.step != 1 or not 0 <= train_end <= part.start <= part.stop <= len(events):
        raise UserError(
            f"events of evaluation: expected a range of step 1 in {train_end} (train_end, 0 or more)..{len(events)}, got {part}"
        )
    limit = {"mixed": k // 2, "historical": k, "random": 0}[kind]
    among = destinations(events.dst, events.num_nodes)
    past, now = slice(0 if kind == "random" else train_end), slice(part.start, part.stop)
    met = _sets(events.src[past].astype(np.int64), np.searchsorted(among, events.dst[past]), events.num_nodes)

    # Events with one source and time are a group: they share what is taken.
    t = events.t[now]
    time = np.concatenate([[0], np.cumsum(t[1:] != t[:-1])])
    source, place = events.src[now].astype(np.int64), np.searchsorted(among, events.dst[now])
    group_key = (source << 32) | time[: source.size]
    order = np.lexsort((place, group_key))
    source, place = source[order], place[order]
    first = edge_keys.first_of_run(group_key[order])
    group = np.cumsum(first) - 1
    met_place, unmet_place = met.find(source, place)
    groups, was_met = int(np.count_nonzero(first)), met_place >= 0
    taken_met = _sets(group[was_met], met_place[was_met], groups)
    taken_unmet = _sets(group[~was_met], unmet_place[~was_met], groups)

    keys = draws.derive_key(seed, HISTORICAL), draws.derive_key(seed, RANDOM)
    dst = np.full((len(part), k), NONE, np.int32)
    rows_at_once = max(CELLS // k, 1)
    for begin in range(0, len(part), rows_at_once):
        block = slice(begin, begin + rows_at_once)
        s = source[block]
        g = group[block]
        event = order[block] + part.start
        old = met.counts[s] - taken_met.counts[g]
        new = among.size - met.counts[s] - taken_unmet.counts[g]
        num_old = np.minimum(old, limit)
        num_new = np.minimum(new, k - num_old)
        rows = np.full((s.size, k), NONE, np.int64)

        rank = draws.draw_distinct(keys[0], event, old, num_old, limit)
        row, column = np.nonzero(rank >= 0)
        rows[row, column] = met.number[met.ptr[s[row]] + taken_met.nth(g[row], rank[row, column])]

        rank = draws.draw_distinct(keys[1], event, new, num_new, k)
        row, column = np.nonzero(rank >= 0)
        rows[row, num_old[row] + column] = met.nth(s[row], taken_unmet.nth(g[row], rank[row, column]))
        dst[order[block]] = np.where(rows >= 0, among[rows], NONE)
    return Negatives(part, dst, digest(events, train_end, part, k, kind, seed))


def _sets(segment: Int64, number: Int64, segments: int) -> Gaps:
    """Build sets from pairs (segment, number) in any order, repeated or not."""
    keys = np.unique((segment << 32) | number)
    return Gaps(keys >> 32, keys & 0xFFFFFFFF, segments)
