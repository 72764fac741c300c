"""NCCL: its constants, and what collectives take by its tuning model (src/graph/tuning.cc: ncclTopoTuneModel, ncclTopoGetAlgoTime)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from chronoscale import yaml_files
from chronoscale.simulator.network.collectives import CollectiveCosts, CollectiveGroup, Collectives
from chronoscale.simulator.network.patterns import Patterns, crossed_links
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costing.nccl_constants import Algorithm, NCCLConstants, Protocol
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Op, Schedule


@cache
def _constants() -> dict[str, Any]:
    """Read NCCL's constants, unchecked."""
    constants: dict[str, Any] = yaml_files.read(resources.files("chronoscale.simulator.network") / "nccl.yaml", "constants of NCCL")
    return constants


@cache
def tuning() -> NCCLConstants:
    """Return the constants of NCCL's tuning model as NCCL is released with them, for the simulator's network model."""
    return NCCLConstants.model_validate(_constants())


def merge_constants(changes: Any) -> Any:
    """Return NCCL's constants with those of a cluster file in their place.

    changes: mapping that names some of them, at any depth; not checked, and anything but a mapping comes back as it is.
    """
    return changes if not isinstance(changes, Mapping) else _merge(_constants(), changes)


def _merge(constants: Any, changes: Any) -> Any:
    """Return `constants` with `changes` in their place, at any depth."""
    if not isinstance(constants, Mapping) or not isinstance(changes, Mapping):
        return changes
    return {**constants, **{key: _merge(constants.get(key), value) for key, value in changes.items()}}


def ring_hops(ranks: int, nodes: int, reduces: bool) -> tuple[int, int]:
    """Return how many hops of a simulated ring are inside machines, and how many between them.

    nodes: machines. reduces: an all-reduce, which goes round twice.
    """
    every = 2 * (ranks - 1) if reduces else ranks - 1
    network = min((2 * nodes if reduces else nodes - 1) if nodes > 1 else 0, every)
    return every - network, network


def tree_hops(counts: Ints) -> tuple[int, int]:
    """Return how many hops a simulated tree all-reduce has, up and down: of the longest chain inside a machine, and between machines.

    counts: ranks of each machine.
    """
    return 2 * (int(counts.max()) - 1), 2 * (len(counts) - 1).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class NcclModel:
    """NCCL's tuning model, by which the simulator predicts what collectives take over the links of a cluster."""

    cluster: Cluster
    patterns: Patterns
    constants: NCCLConstants

    @classmethod
    def of(cls, cluster: Cluster, patterns: Patterns) -> NcclModel:
        """Make the model with the NCCL constants of the cluster's file or, where it has none, NCCL's own.

        patterns: which of the cluster's links collectives cross.
        """
        return cls(cluster, patterns, cluster.tuning or tuning())

    def costs(self, collectives: Collectives, schedule: Schedule) -> CollectiveCosts:
        """Return the simulated duration of each collective, by the fastest algorithm and protocol; 0 where there is only one rank."""
        result = CollectiveCosts.unknown(len(collectives))
        for group in collectives.groups():
            if group.op is Op.ALLTOALL:
                self._exchange(group, result)
            else:
                self._rings(group, result)
            if group.op is Op.ALLREDUCE:
                self._trees(group, result)
        self._messages(collectives, schedule, result)
        result.seconds[collectives.size == 1] = 0.0
        return result

    def hop_s(self, across: bool, algorithm: Algorithm, protocol: Protocol) -> float:
        """Return the seconds of one hop by NCCL's table, in proportion to the cluster's own latency.

        across: over the network, else inside a machine.
        """
        peer = self.patterns.graph.topology.peer
        table = self.constants.hop_latency_s.network if across else getattr(self.constants.hop_latency_s, peer)
        link = self.cluster.inter if across else self.cluster.intra
        hop: float = getattr(getattr(table, algorithm), protocol)
        return hop * link.latency_s / table.ring.simple if table.ring.simple else hop

    def tree_speed(self, protocol: Protocol, size: Floats) -> Floats:
        """Return what share of its full speed a tree all-reduce reaches at `size` bytes, float64.

        Linear in the logarithm of the size. NCCL takes the next smaller power of 2, by which a larger tensor could take less time.
        """
        shares = getattr(self.constants.tree_speed, protocol)
        return np.asarray(np.interp(np.log2(np.maximum(size, 1.0) / 64), np.arange(len(shares)), shares))

    def protocols(self) -> tuple[Protocol, ...]:
        """Return the NCCL protocols that the cluster's links allow.

        LL128 needs stores of 128 bytes that arrive whole, which NVLink has and PCIe has not.
        """
        return ("ll", "ll128", "simple") if self.patterns.graph.topology.peer == "nvlink" else ("ll", "simple")

    def _machines(self, group: CollectiveGroup) -> Ints:
        """Return how many ranks of a group each of its machines has."""
        return np.unique(group.ranks // self.patterns.graph.gpus, return_counts=True)[1]

    def _rings(self, group: CollectiveGroup, result: CollectiveCosts) -> None:
        """Put the costs of all-reduces and all-gathers over rings, by each protocol."""
        reduces = group.op is Op.ALLREDUCE
        ranks, nodes = len(group.ranks), len(self._machines(group))
        pattern = self.patterns.of("ring" if reduces else "gather", group.ranks)
        inside, across = ring_hops(ranks, nodes, reduces)
        volume = pattern.inputs(group.moved)[-1] * (1 + reduces) * (ranks - 1) / ranks
        transfer = pattern.seconds(group.moved)
        for protocol in self.protocols():
            least = getattr(self.constants.network_overhead_s, protocol) if nodes > 1 else 0.0
            hops = inside * max(self.hop_s(False, "ring", protocol), least) + across * self.hop_s(True, "ring", protocol)
            speed = getattr(self.constants.speed.ring, protocol)
            if protocol == "ll" and nodes == 1 and not reduces:
                speed = self.constants.speed.ring_node_gather_ll
            transfer_s = self._limited(protocol, transfer / speed, volume, nodes)
            latency = getattr(self.constants.base_latency_s.ring, protocol) + hops
            result.put(group.index, latency + transfer_s, latency, getattr(self.constants.wire, protocol))

    def _trees(self, group: CollectiveGroup, result: CollectiveCosts) -> None:
        """Put the costs of all-reduces over double binary trees, by each protocol."""
        counts, pattern = self._machines(group), self.patterns.of("tree", group.ranks)
        inside, across = tree_hops(counts)
        transfer, (size,) = pattern.seconds(group.moved), pattern.inputs(group.moved)
        for protocol in self.protocols():
            speed = getattr(self.constants.speed.tree, protocol)
            if protocol == "ll128" and len(counts) == 1:
                speed = self.constants.speed.tree_node_ll128
            transfer_s = self._limited(protocol, transfer / speed, 2 * size, len(counts)) / self.tree_speed(protocol, size)
            hops = inside * self.hop_s(False, "tree", protocol) + across * self.hop_s(True, "tree", protocol)
            latency = getattr(self.constants.base_latency_s.tree, protocol) + hops
            result.put(group.index, latency + transfer_s, latency, getattr(self.constants.wire, protocol), tree=True)

    def _limited(self, protocol: Protocol, seconds: Floats, volume: Floats, nodes: int) -> Floats:
        """Return `seconds`, or more where LL's bandwidth limits it.

        volume: bytes that pass each link of a ring of all channels (NCCL's bus bandwidth is volume / seconds).
        """
        most = self.constants.ll_bandwidth
        if protocol != "ll":
            return seconds
        return np.maximum(seconds, volume / (most.one_node if nodes == 1 else most.two_nodes if nodes == 2 else most.more_nodes))

    def _exchange(self, group: CollectiveGroup, result: CollectiveCosts) -> None:
        """Put the costs of all-to-alls: a round for every other rank, counted for the ranks that have most of them on other machines."""
        ranks, mates = len(group.ranks), int(self._machines(group).min())
        transfer = self.patterns.of("exchange", group.ranks).seconds(group.moved)
        each = np.asarray(-(-group.moved.max(axis=0) // (ranks - 1)))
        self._put_messages(group.index, np.full(len(each), mates - 1), np.full(len(each), ranks - mates), each, transfer, result)

    def _messages(self, collectives: Collectives, schedule: Schedule, result: CollectiveCosts) -> None:
        """Put the costs of messages (a SEND and its RECV)."""
        index, source, target = collectives.messages(schedule)
        if not len(index):
            return
        graph = self.patterns.graph
        parts = list(crossed_links(graph, source, target))
        pair, link = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        from scipy.sparse import coo_matrix  # noqa: PLC0415 (heavy, and little of what imports this file comes here)

        slowness = coo_matrix((1 / graph.bandwidth[link], (pair, link)), (len(index), len(graph))).tocsr().max(axis=1).toarray().ravel()
        moved = np.maximum(collectives.moved[collectives.begin[index]], collectives.moved[collectives.begin[index] + 1])
        across = (source // graph.gpus != target // graph.gpus).astype(np.int64)
        self._put_messages(index, 1 - across, across, moved, moved * slowness, result)

    def _put_messages(self, index: Ints, inside: Ints, across: Ints, each: Ints, transfer: Floats, result: CollectiveCosts) -> None:
        """Put the costs of messages of `each` bytes, in rounds inside machines and across.

        transfer: seconds that links take for all of them while uncontended.

        NCCL's model leaves messages out: here they take what the links need for the bytes that cross them, and a ring's hops.
        """
        small = each <= self.constants.message_ll_bytes
        protocols: tuple[tuple[Protocol, Any], ...] = (("ll", small), ("simple", ~small))
        for protocol, chosen in protocols:
            hops = inside * self.hop_s(False, "ring", protocol) + across * self.hop_s(True, "ring", protocol)
            latency = (getattr(self.constants.base_latency_s.ring, protocol) + hops)[chosen]
            wire = getattr(self.constants.wire, protocol)
            result.put(index[chosen], latency + transfer[chosen] / wire, latency, wire)
