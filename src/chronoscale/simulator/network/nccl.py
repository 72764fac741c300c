"""NCCL: its constants, and what collectives take by its tuning model (src/graph/tuning.cc, ncclTopoTuneModel, ncclTopoGetAlgoTime)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from chronoscale import yaml_files
from chronoscale.simulator.network.collectives import Collectives, Costs, Group
from chronoscale.simulator.network.patterns import Patterns, crossed
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costing.nccl_constants import Algorithm, NCCLConstants, Protocol
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Op, Schedule


@cache
def _constants() -> dict[str, Any]:
    found: dict[str, Any] = yaml_files.read(resources.files("chronoscale.simulator.network") / "nccl.yaml", "constants of NCCL")
    return found


@cache
def tuning() -> NCCLConstants:
    """NCCL's own constants."""
    return NCCLConstants.model_validate(_constants())


def merged(changes: Any) -> Any:
    """NCCL's constants, unchecked, with those that `changes` names, at any depth, in their place."""
    return changes if not isinstance(changes, Mapping) else _over(_constants(), changes)


def _over(known: Any, changes: Any) -> Any:
    if not isinstance(known, Mapping) or not isinstance(changes, Mapping):
        return changes
    return {**known, **{key: _over(known.get(key), value) for key, value in changes.items()}}


def steps(ranks: int, nodes: int, reduces: bool) -> tuple[int, int]:
    """Hops of a ring: inside machines, and between them. A reduction goes round twice."""
    every = 2 * (ranks - 1) if reduces else ranks - 1
    network = min((2 * nodes if reduces else nodes - 1) if nodes > 1 else 0, every)
    return every - network, network


def depth(counts: Ints) -> tuple[int, int]:
    """Hops of a tree, up and down: of the longest chain inside a machine, and between machines. counts: ranks a machine."""
    return 2 * (int(counts.max()) - 1), 2 * (len(counts) - 1).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """NCCL's model of collectives over the links of a cluster."""

    cluster: Cluster
    patterns: Patterns
    constants: NCCLConstants

    @classmethod
    def of(cls, cluster: Cluster, patterns: Patterns) -> Model:
        """With the constants of the cluster's file, where that has some."""
        return cls(cluster, patterns, cluster.tuning or tuning())

    def costs(self, found: Collectives, schedule: Schedule) -> Costs:
        """What each takes; nothing where one rank is alone."""
        result = Costs.unknown(len(found))
        for group in found.groups():
            if group.op is Op.ALLTOALL:
                self._exchange(group, result)
            else:
                self._rings(group, result)
            if group.op is Op.ALLREDUCE:
                self._trees(group, result)
        self._messages(found, schedule, result)
        result.seconds[found.size == 1] = 0.0
        return result

    def hop_s(self, across: bool, algorithm: Algorithm, protocol: Protocol) -> float:
        """Seconds of one hop, inside a machine or across the network: NCCL's, in proportion to the cluster's own latency."""
        peer = self.patterns.graph.topology.peer
        table = self.constants.hop_latency_s.network if across else getattr(self.constants.hop_latency_s, peer)
        link = self.cluster.inter if across else self.cluster.intra
        known: float = getattr(getattr(table, algorithm), protocol)
        return known * link.latency_s / table.ring.simple if table.ring.simple else known

    def tree_speed(self, protocol: Protocol, size: Floats) -> Floats:
        """What a tree reaches of its speed at `size` bytes; linear in the logarithm of the size, where NCCL takes the next smaller
        power of 2, by which a larger tensor could take less time."""
        shares = getattr(self.constants.tree_speed, protocol)
        return np.asarray(np.interp(np.log2(np.maximum(size, 1.0) / 64), np.arange(len(shares)), shares))

    def protocols(self) -> tuple[Protocol, ...]:
        """LL128 needs stores of 128 bytes that arrive whole, which NVLink has and PCIe has not."""
        return ("ll", "ll128", "simple") if self.patterns.graph.topology.peer == "nvlink" else ("ll", "simple")

    def _machines(self, group: Group) -> Ints:
        return np.unique(group.ranks // self.patterns.graph.gpus, return_counts=True)[1]

    def _rings(self, group: Group, result: Costs) -> None:
        reduces, ranks, nodes = group.op is Op.ALLREDUCE, len(group.ranks), len(self._machines(group))
        pattern = self.patterns.of("ring" if reduces else "gather", group.ranks)
        inside, across = steps(ranks, nodes, reduces)
        volume = pattern.inputs(group.moved)[-1] * (1 + reduces) * (ranks - 1) / ranks
        alone = pattern.seconds(group.moved)
        for protocol in self.protocols():
            least = getattr(self.constants.network_overhead_s, protocol) if nodes > 1 else 0.0
            hops = inside * max(self.hop_s(False, "ring", protocol), least) + across * self.hop_s(True, "ring", protocol)
            speed = getattr(self.constants.speed.ring, protocol)
            if protocol == "ll" and nodes == 1 and not reduces:
                speed = self.constants.speed.ring_node_gather_ll
            taken = self._capped(protocol, alone / speed, volume, nodes)
            latency = getattr(self.constants.base_latency_s.ring, protocol) + hops
            result.put(group.index, latency + taken, latency, getattr(self.constants.wire, protocol))

    def _trees(self, group: Group, result: Costs) -> None:
        counts, pattern = self._machines(group), self.patterns.of("tree", group.ranks)
        inside, across = depth(counts)
        alone, (size,) = pattern.seconds(group.moved), pattern.inputs(group.moved)
        for protocol in self.protocols():
            speed = getattr(self.constants.speed.tree, protocol)
            if protocol == "ll128" and len(counts) == 1:
                speed = self.constants.speed.tree_node_ll128
            taken = self._capped(protocol, alone / speed, 2 * size, len(counts)) / self.tree_speed(protocol, size)
            hops = inside * self.hop_s(False, "tree", protocol) + across * self.hop_s(True, "tree", protocol)
            latency = getattr(self.constants.base_latency_s.tree, protocol) + hops
            result.put(group.index, latency + taken, latency, getattr(self.constants.wire, protocol), tree=True)

    def _capped(self, protocol: Protocol, seconds: Floats, volume: Floats, nodes: int) -> Floats:
        """`volume`: bytes that pass each link of a ring of all channels, NCCL's bus bandwidth being volume / seconds."""
        most = self.constants.ll_bandwidth
        if protocol != "ll":
            return seconds
        return np.maximum(seconds, volume / (most.one_node if nodes == 1 else most.two_nodes if nodes == 2 else most.more_nodes))

    def _exchange(self, group: Group, result: Costs) -> None:
        """A round for every other rank, of the ranks that have most of them on other machines."""
        ranks, mates = len(group.ranks), int(self._machines(group).min())
        alone = self.patterns.of("exchange", group.ranks).seconds(group.moved)
        each = np.asarray(-(-group.moved.max(axis=0) // (ranks - 1)))
        self._sent(group.index, np.full(len(each), mates - 1), np.full(len(each), ranks - mates), each, alone, result)

    def _messages(self, found: Collectives, schedule: Schedule, result: Costs) -> None:
        index, source, target = found.messages(schedule)
        if not len(index):
            return
        graph = self.patterns.graph
        parts = list(crossed(graph, source, target))
        pair, link = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        from scipy.sparse import coo_matrix  # noqa: PLC0415 (heavy, and little of what imports this file comes here)

        slowness = coo_matrix((1 / graph.bandwidth[link], (pair, link)), (len(index), len(graph))).tocsr().max(axis=1).toarray().ravel()
        moved = np.maximum(found.moved[found.begin[index]], found.moved[found.begin[index] + 1])
        across = (source // graph.gpus != target // graph.gpus).astype(np.int64)
        self._sent(index, 1 - across, across, moved, moved * slowness, result)

    def _sent(self, index: Ints, inside: Ints, across: Ints, each: Ints, alone: Floats, result: Costs) -> None:
        """Messages of `each` bytes, in rounds inside machines and across; `alone`: what links take for all of them.

        NCCL's model leaves messages out: they take the links for what crosses them, and a ring's hops.
        """
        small = each <= self.constants.message_ll_bytes
        protocols: tuple[tuple[Protocol, Any], ...] = (("ll", small), ("simple", ~small))
        for protocol, mine in protocols:
            hops = inside * self.hop_s(False, "ring", protocol) + across * self.hop_s(True, "ring", protocol)
            latency = (getattr(self.constants.base_latency_s.ring, protocol) + hops)[mine]
            wire = getattr(self.constants.wire, protocol)
            result.put(index[mine], latency + alone[mine] / wire, latency, wire)
