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
from chronoscale.strategies.costing.nccl_constants import Algorithm, AlgorithmLatencies, NCCLConstants, Protocol
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


def constants_of(cluster: Cluster) -> NCCLConstants:
    """Return the NCCL constants of a cluster's file or, where it has none, NCCL's own."""
    return cluster.tuning or tuning()


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
    every = (1 + reduces) * (ranks - 1)
    network = (1 + reduces) * (nodes - 1)
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
    algorithms: frozenset[str]

    @classmethod
    def of(cls, cluster: Cluster, patterns: Patterns, algorithm: str = "", switched: bool = True) -> NcclModel:
        """Make the model with the NCCL constants of the cluster's file or, where it has none, NCCL's own.

        patterns: which of the cluster's links collectives cross. algorithm: the only one of all-reduces, as NCCL_ALGO names it in lower
        case; '' for the fastest. switched: NVSwitch may add up.
        """
        every = {"ring", "tree"} | ({"nvls"} if switched and patterns.graph.topology.nvls else set())
        requested = "nvls" if algorithm.startswith("nvls") else algorithm
        return cls(cluster, patterns, constants_of(cluster), frozenset({requested} if requested in every else every))

    def costs(self, collectives: Collectives, schedule: Schedule) -> CollectiveCosts:
        """Return the simulated duration of each collective, by the fastest algorithm and protocol; 0 where there is only one rank."""
        result = CollectiveCosts.unknown(len(collectives))
        for group in collectives.groups():
            self.time_group(group, result)
        self._messages(collectives, schedule, result)
        result.seconds[collectives.size == 1] = 0.0
        return result

    def time_group(self, group: CollectiveGroup, result: CollectiveCosts) -> None:
        """Put the simulated durations of all-reduces, all-gathers or all-to-alls among the same ranks, two at least, into `result`."""
        if group.op is Op.ALLTOALL:
            self._exchange(group, result)
        elif group.op is Op.ALLGATHER or "ring" in self.algorithms:
            self._rings(group, result)
        if group.op is Op.ALLREDUCE and "tree" in self.algorithms:
            self._trees(group, result)
        if group.op is Op.ALLREDUCE and "nvls" in self.algorithms:
            self._switched(group, result)

    def hop_s(self, across: bool, algorithm: Algorithm, protocol: Protocol) -> float:
        """Return the seconds of one hop by NCCL's table, in proportion to the cluster's own latency.

        across: over the network, else inside a machine.
        """
        table = self._hops(across)
        return float(getattr(getattr(table, algorithm), protocol)) * self._slowness(across)

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

    def _hops(self, across: bool) -> AlgorithmLatencies:
        """Return NCCL's table of hops over the network, or inside a machine."""
        hops = self.constants.hop_latency_s
        return hops.network if across else hops.nvlink if self.patterns.graph.topology.peer == "nvlink" else hops.pcie

    def _slowness(self, across: bool) -> float:
        """Return the cluster's own latency as a multiple of that which NCCL's table is for."""
        link, usual = self.cluster.inter if across else self.cluster.intra, self._hops(across).ring.simple
        return link.latency_s / usual if usual else 1.0

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
            if protocol == "simple" and nodes > 1 and reduces:
                latency *= self.constants.plateau
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
            result.put(group.index, latency + transfer_s, latency, getattr(self.constants.wire, protocol), "tree")

    def _switched(self, group: CollectiveGroup, result: CollectiveCosts) -> None:
        """Put the costs of all-reduces that NVSwitch adds up inside machines, and trees between them (NVLS, NVLSTree)."""
        nodes, pattern, speed = len(self._machines(group)), self.patterns.of("nvls", group.ranks), self.constants.speed
        ports = self.patterns.graph.are_ports(pattern.link)
        transfer = pattern.seconds(group.moved, np.where(ports, speed.nvls, speed.nvls_network))
        hops = self._hops(False).nvls * self._slowness(False)
        hops += 2 * (nodes - 1).bit_length() * self._hops(True).nvls * self._slowness(True)
        latency = self.constants.base_latency_s.nvls + hops
        result.put(group.index, latency + transfer, latency, layout="nvls")

    def _limited(self, protocol: Protocol, seconds: Floats, volume: Floats, nodes: int) -> Floats:
        """Return `seconds`, or more where LL's bandwidth limits it.

        volume: bytes that pass each link of a ring of all channels (NCCL's bus bandwidth is volume / seconds).
        """
        most = self.constants.ll_bandwidth
        if protocol != "ll":
            return seconds
        rate = most.one_node.of(self.cluster.device.capability) if nodes == 1 else most.two_nodes if nodes == 2 else most.more_nodes
        return np.maximum(seconds, volume / rate)

    def _exchange(self, group: CollectiveGroup, result: CollectiveCosts) -> None:
        """Put the costs of all-to-alls: a send to every other rank, counted for the ranks that have most of them on other machines."""
        ranks, mates = len(group.ranks), int(self._machines(group).min())
        transfer = self.patterns.of("exchange", group.ranks).seconds(group.moved)
        some = np.ones(len(group.index), np.int64)
        self._put_sends(group.index, (mates - 1) * some, (ranks - mates) * some, transfer, result)

    def _messages(self, collectives: Collectives, schedule: Schedule, result: CollectiveCosts) -> None:
        """Put the costs of messages (a SEND and its RECV)."""
        index, source, target = collectives.messages(schedule)
        moved = np.maximum(collectives.moved[collectives.begin[index]], collectives.moved[collectives.begin[index] + 1])
        if len(index):
            self.time_messages(index, source, target, moved, result)

    def time_messages(self, index: Ints, source: Ints, target: Ints, moved: Ints, result: CollectiveCosts) -> None:
        """Put the simulated durations of messages from rank to rank, int64 [n] each, of `moved` bytes, into `result` at `index`."""
        graph = self.patterns.graph
        parts = list(crossed_links(graph, source, target))
        pair, link = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        uses, times = np.unique(pair * len(graph) + link, return_counts=True)  # a link that is crossed twice
        pair, link = np.divmod(uses, len(graph))
        slowness = np.zeros(len(index))
        np.maximum.at(slowness, pair, times / graph.bandwidth[link])
        across = (source // graph.gpus != target // graph.gpus).astype(np.int64)
        self._put_sends(index, 1 - across, across, moved * slowness, result)

    def _put_sends(self, index: Ints, inside: Ints, across: Ints, transfer: Floats, result: CollectiveCosts) -> None:
        """Put the costs of operations in which each rank sends to others, `inside` its machine and `across`, by the faster protocol.

        transfer: seconds that links take for all bytes while uncontended.

        NCCL's model leaves sends out. Here their bytes take what the links need for them, and as many sends as channels allow are under way
        at once (`sends_at_once`), so that a rank with more of them waits for so many hops, one after the other.
        """
        most = self.constants.sends_at_once
        rounds = np.maximum(inside / (most.nvlink if self.patterns.graph.topology.peer == "nvlink" else most.pcie), np.minimum(inside, 1))
        far_rounds = np.maximum(across / most.network, np.minimum(across, 1))
        for protocol in ("ll", "simple"):
            hops = rounds * self.hop_s(False, "ring", protocol) + far_rounds * self.hop_s(True, "ring", protocol)
            latency = self.constants.base_latency_s.sends + hops
            wire = getattr(self.constants.wire, protocol)
            result.put(index, latency + transfer / wire, latency, wire)
