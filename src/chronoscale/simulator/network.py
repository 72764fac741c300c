"""Network: how long collectives take on a cluster's links.

Alpha-beta over the slowest link that a collective crosses: alpha is the link's latency (s), B its bandwidth in one direction (B/s), P the
ranks that take part, n a row's `bytes`. Ranks that do not take part cost nothing; one rank alone takes no time.

All-reduce and all-gather between machines run on rails, as NCCL builds them: as many rings as a machine has ranks in the collective (the
machine with the fewest counts), each with its share of the tensor and, between machines, a network card of its own. B is then the sum of
those shares of the network, but no more than the link inside a machine, which all rings cross. Rails are of presets and datasheets; a
fitted link is what was measured, and a cluster may have one for all-gathers alone, and one for all-to-alls.

====================  =================================================  ==========================================
operation             time                                               n
====================  =================================================  ==========================================
ALLREDUCE, ring       2 (P-1) alpha + 2 (P-1)/P max(n) / B               the reduced tensor
ALLREDUCE, tree       2 ceil(log2 P) alpha + 2 max(n) / B
ALLGATHER             (P-1) alpha + (sum(n) - min(n)) / B                what a rank contributes
ALLTOALL              (P-1) alpha + max(n) / B                           what a rank sends to (or receives from) all
SEND, RECV            alpha + max(n) / B                                 the message
====================  =================================================  ==========================================

Ring all-reduce: MG-WFBP (Shi, Chu, Li; INFOCOM 2019), its costs of all-reduce algorithms, without the reduction, which a GPU hides behind
the transfer. REAL §7.5 takes alpha of eq. 10 from the same model. Tree: double binary trees (Sanders, Speck, Traeff 2009; NCCL since 2.4),
pipelined; every rank sends the tensor once up and once down. The cheaper one counts, as NCCL chooses; on a fitted link the ring does,
because that is what was fitted. All-gather is the ring's second half; with unequal shares the rank that holds the smallest one receives
most. All-to-all is pairwise exchange, P-1 rounds (Thakur, Rabenseifner, Gropp; IJHPCA 2005).
"""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule
from chronoscale.strategies.trace import Source


def times(schedule: Schedule, cluster: Cluster) -> tuple[Ints, Ints]:
    """Rows that take part in collectives and how long each lasts (ns), both int64 [rows].

    Raises ValueError when a communication row has no collective id, or another row has one.
    """
    row = np.flatnonzero(schedule.collective >= 0)
    communicates = np.isin(schedule.op, [int(op) for op in COLLECTIVES])
    if wrong := np.flatnonzero(communicates != (schedule.collective >= 0)).tolist():
        task = wrong[0]
        raise ValueError(
            f"schedule '{schedule.name}': task {task} is {Op(schedule.op[task]).name} with collective id {schedule.collective[task]}"
        )
    if not len(row):
        return row, np.zeros(0, np.int64)
    row = row[np.argsort(schedule.collective[row], kind="stable")]
    begin = np.flatnonzero(np.diff(schedule.collective[row], prepend=-1))
    ranks = np.diff(begin, append=len(row))
    op = schedule.op[row[begin]]
    node = schedule.rank[row].astype(np.int64) // cluster.gpus_per_node
    across = np.minimum.reduceat(node, begin) != np.maximum.reduceat(node, begin)
    rails = np.where(across & (origin(cluster) is Source.SPECIFIED), _fewest(schedule.collective[row], node, ranks), 1)
    alpha = np.where(across, cluster.inter.latency_s, cluster.intra.latency_s)
    bandwidth = np.where(across, cluster.inter.bandwidth, cluster.intra.bandwidth)
    shared = np.where(across, np.minimum(rails * cluster.inter.bandwidth, np.maximum(cluster.intra.bandwidth, bandwidth)), bandwidth)
    bandwidth = np.where((op == Op.ALLREDUCE) | (op == Op.ALLGATHER), shared, bandwidth)
    if cluster.gather is not None:
        alpha = np.where(op == Op.ALLGATHER, cluster.gather.latency_s, alpha)
        bandwidth = np.where(op == Op.ALLGATHER, cluster.gather.bandwidth, bandwidth)
    if cluster.exchange is not None:
        alpha = np.where(op == Op.ALLTOALL, cluster.exchange.latency_s, alpha)
        bandwidth = np.where(op == Op.ALLTOALL, cluster.exchange.bandwidth, bandwidth)

    moved = schedule.bytes[row]
    largest, total = np.maximum.reduceat(moved, begin).astype(np.float64), np.add.reduceat(moved, begin)
    kind = [op == Op.ALLREDUCE, op == Op.ALLGATHER, op == Op.ALLTOALL]
    rounds = np.select(kind, [2 * (ranks - 1), ranks - 1, ranks - 1], 1)
    volume = np.select(kind, [2 * (ranks - 1) / ranks * largest, total - np.minimum.reduceat(moved, begin), largest], largest)
    seconds = rounds * alpha + volume / bandwidth
    if origin(cluster) is Source.SPECIFIED:
        tree = 2 * np.ceil(np.log2(ranks)) * alpha + 2 * largest / bandwidth
        seconds = np.where(op == Op.ALLREDUCE, np.minimum(seconds, tree), seconds)
    ns = np.rint(np.where(ranks > 1, seconds, 0.0) * 1e9).astype(np.int64)
    return row, np.repeat(ns, ranks)


def _fewest(collective: Ints, node: Ints, ranks: Ints) -> Ints:
    """Ranks of a collective on the machine that has fewest of them; int64 [collectives]. Members stand together, `ranks` of each."""
    group = np.repeat(np.arange(len(ranks)), ranks)
    _, index, count = np.unique(np.stack([group, node]), axis=1, return_inverse=True, return_counts=True)
    return np.asarray(np.minimum.reduceat(count[index.ravel()], np.cumsum(ranks) - ranks), np.int64)


def origin(cluster: Cluster) -> Source:
    """Where times on its links come from: `fitted` for a cluster whose `origin` says so first ("fitted on ..."), else `specified`.

    A paper's hardware table repeats datasheets, so its links are `specified` too.
    """
    return Source.FITTED if cluster.origin.startswith("fitted") else Source.SPECIFIED
