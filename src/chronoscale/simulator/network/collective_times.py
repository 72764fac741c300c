"""Network: how long collectives take on a cluster's links.

Two models. Of a cluster of datasheets, NCCL's: rings, trees and reductions in NVSwitch (NVLS) laid over the links (`patterns`), with the
latencies, protocols and speeds of its tuning model (`nccl.yaml`). An operation takes what its hops take and what the slowest link takes for
the bytes that cross it:

====================  =====================================================================================
operation             time
====================  =====================================================================================
ALLREDUCE             the least over ring, tree and NVLS, and their protocols, of base + hops + bytes / (speed x bandwidth)
ALLGATHER             the same, of the ring
ALLTOALL              base + a hop for every other rank + bytes / bandwidth; LL for small messages, which doubles them, or Simple
SEND, RECV            the same, with one hop
====================  =====================================================================================

Of links that were fitted, and of a cluster file with `collectives: alpha-beta`, alpha-beta over the slowest link that a collective crosses:
alpha is the link's latency (s), B its bandwidth in one direction (B/s), P the ranks that take part, n a row's `bytes`.

====================  =================================================  ==========================================
operation             time                                               n
====================  =================================================  ==========================================
ALLREDUCE, ring       2 (P-1) alpha + 2 (P-1)/P max(n) / B               the reduced tensor
ALLREDUCE, tree       2 ceil(log2 P) alpha + 2 max(n) / B
ALLGATHER             (P-1) alpha + (sum(n) - min(n)) / B                what a rank contributes
ALLTOALL              (P-1) alpha + max(n) / B                           what a rank sends to (or receives from) all
SEND, RECV            alpha + max(n) / B                                 the message
====================  =================================================  ==========================================

There, all-reduce and all-gather between machines run on rails: as many rings as a machine has ranks in the collective (the machine with the
fewest counts), each with its share of the tensor and a network card of its own. B is then the sum of those shares of the network, but no
more than the link inside a machine, which all rings cross. The cheaper all-reduce counts; on a fitted link the ring does, because that is
what was fitted, and rails do not exist: it is what was measured. A cluster may have a link for all-gathers alone, one for
all-to-alls, and for messages one between each two machines.

Ring all-reduce: MG-WFBP (Shi, Chu, Li; INFOCOM 2019), its costs of all-reduce algorithms, without the reduction, which a GPU hides behind
the transfer. REAL §7.5 takes alpha of eq. 10 from the same model. Tree: double binary trees (Sanders, Speck, Traeff 2009; NCCL since 2.4),
pipelined; every rank sends the tensor once up and once down. All-gather is the ring's second half; with unequal shares the rank that holds
the smallest one receives most. All-to-all is pairwise exchange, P-1 rounds (Thakur, Rabenseifner, Gropp; IJHPCA 2005). Ranks that do not
take part cost nothing; one rank alone takes no time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chronoscale.simulator.network.collectives import CollectiveCosts, Collectives
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.nccl import NcclModel
from chronoscale.simulator.network.patterns import Patterns
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.trace import Source


def times(schedule: Schedule, cluster: Cluster) -> tuple[Ints, Ints]:
    """Return how long each collective of a schedule lasts on a simulated cluster: the rows that take part, and ns; both int64 [rows].

    Raises ValueError when a communication row has no collective id, or another row has one.
    """
    return TimedCollectives.of(schedule, cluster).times()


class TimedCollectives(NamedTuple):
    """Collectives of a schedule, and what each takes on a simulated cluster."""

    collectives: Collectives
    costs: CollectiveCosts

    @classmethod
    def of(cls, schedule: Schedule, cluster: Cluster) -> TimedCollectives:
        """Find the collectives of a schedule and what each takes on a simulated cluster.

        Raises ValueError when a communication row has no collective id, or another row has one.
        """
        collectives = Collectives.of(schedule)
        return cls(collectives, collective_costs(collectives, schedule, cluster) if len(collectives) else CollectiveCosts.unknown(0))

    def times(self) -> tuple[Ints, Ints]:
        """Return the schedule's rows that take part in collectives and how long each lasts (ns), both int64 [rows]."""
        return self.collectives.row, np.repeat(np.rint(self.costs.seconds * 1e9).astype(np.int64), self.collectives.size)


def collective_costs(collectives: Collectives, schedule: Schedule, cluster: Cluster) -> CollectiveCosts:
    """Return the simulated duration of every collective, by the model that fits the cluster's links: NCCL's, or alpha-beta."""
    if origin(cluster) is Source.FITTED or cluster.collectives == "alpha-beta":
        return alpha_beta_costs(collectives, cluster)
    return NcclModel.of(cluster, patterns(cluster)).costs(collectives, schedule)


@lru_cache(maxsize=1)  # schedules of several strategies are replayed on one cluster
def patterns(cluster: Cluster) -> Patterns:
    """Return which links of a simulated cluster each kind of collective crosses; kept for the last cluster.

    Raises UserError where parts of its topology do not fit.
    """
    return Patterns(LinkGraph.of(cluster))


def origin(cluster: Cluster) -> Source:
    """Return where times on a simulated cluster's links come from: FITTED where its `origin` begins with "fitted", else SPECIFIED.

    A paper's hardware table repeats datasheets, so its links are SPECIFIED too.
    """
    return Source.FITTED if cluster.origin.startswith("fitted") else Source.SPECIFIED


def alpha_beta_costs(collectives: Collectives, cluster: Cluster) -> CollectiveCosts:
    """Return the simulated duration of every collective by latency and bandwidth (alpha-beta), the model of fitted links.

    Its equations stand at this module's head.
    """
    begin, ranks = collectives.begin, collectives.size
    op, moved = collectives.op, collectives.moved
    rails_exist = origin(cluster) is Source.SPECIFIED
    node = collectives.rank // cluster.gpus_per_node
    ends = np.minimum.reduceat(node, begin), np.maximum.reduceat(node, begin)  # machines; of a message, both
    across = ends[0] != ends[1]
    rails = np.where(across & rails_exist, _fewest(node, ranks), 1)
    alpha = np.where(across, cluster.inter.latency_s, cluster.intra.latency_s)
    bandwidth = np.where(across, cluster.inter.rate, cluster.intra.rate)
    shared = np.where(across, np.minimum(rails * cluster.inter.rate, np.maximum(cluster.intra.rate, bandwidth)), bandwidth)
    bandwidth = np.where((op == Op.ALLREDUCE) | (op == Op.ALLGATHER), shared, bandwidth)
    if cluster.gather is not None:
        alpha = np.where(op == Op.ALLGATHER, cluster.gather.latency_s, alpha)
        bandwidth = np.where(op == Op.ALLGATHER, cluster.gather.rate, bandwidth)
    for pair in cluster.messages:
        between = ((op == Op.SEND) | (op == Op.RECV)) & (ends[0] == pair.first) & (ends[1] == pair.second)
        alpha, bandwidth = np.where(between, pair.link.latency_s, alpha), np.where(between, pair.link.rate, bandwidth)
    if cluster.exchange is not None:
        alpha = np.where(op == Op.ALLTOALL, cluster.exchange.latency_s, alpha)
        bandwidth = np.where(op == Op.ALLTOALL, cluster.exchange.rate, bandwidth)

    largest, total = np.maximum.reduceat(moved, begin).astype(np.float64), np.add.reduceat(moved, begin)
    kind = [op == Op.ALLREDUCE, op == Op.ALLGATHER, op == Op.ALLTOALL]
    rounds = np.select(kind, [2 * (ranks - 1), ranks - 1, ranks - 1], 1)
    volume = np.select(kind, [2 * (ranks - 1) / ranks * largest, total - np.minimum.reduceat(moved, begin), largest], largest)
    single = ranks == 1
    latency, seconds = rounds * alpha, rounds * alpha + volume / bandwidth
    up = 2 * np.ceil(np.log2(ranks)) * alpha
    tree = (op == Op.ALLREDUCE) & rails_exist & (up + 2 * largest / bandwidth < seconds)
    seconds, latency = np.where(tree, up + 2 * largest / bandwidth, seconds), np.where(tree, up, latency)
    return CollectiveCosts(np.where(single, 0.0, seconds), np.where(single, 0.0, latency), np.ones(len(collectives)), tree.astype(np.uint8))


def _fewest(node: Ints, ranks: Ints) -> Ints:
    """Return how many ranks of each collective are on the machine that has fewest of them, int64 [collectives].

    ranks: how many take part in each; those of one collective stand together in `node`.
    """
    group = np.repeat(np.arange(len(ranks)), ranks)
    _, index, count = np.unique(np.stack([group, node]), axis=1, return_inverse=True, return_counts=True)
    return np.asarray(np.minimum.reduceat(count[index.ravel()], np.cumsum(ranks) - ranks), np.int64)
