"""Links: what the bytes of a cluster cross from memory to memory; each link is one direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError
from chronoscale.simulator.network.fabric import Routes
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.topology import Switches, Topology

WAYS = ("in", "out")


def topology(cluster: Cluster) -> Topology:
    """Return how devices, switches and network cards of a simulated cluster are joined: as its file says, else as its bandwidths suggest.

    That is a network card for every device, and devices joined by NVLink where `intra` is faster than the bus to the host, by PCIe where
    not.
    """
    if cluster.topology is not None:
        return cluster.topology
    return Topology(peer="nvlink" if cluster.intra.bandwidth > cluster.device.h2d.bandwidth else "pcie", nics=cluster.gpus_per_node)


@dataclass(frozen=True, slots=True, eq=False)
class LinkGraph:
    """Links of a simulated cluster, numbered machine by machine, then those between switches.

    Of a machine: its sockets' memories, each PCIe switch's link from and to the host, each device's bus in and out and its port in and out
    (to other devices of the machine, over NVLink or PCIe), each network card in and out. names: [L], for reports; kinds: [L], what they
    are; bandwidth: bytes/s that transfers reach, float64 [L].

    Paths, as methods return them, are int64 [n, hops] of link numbers, -1 where one has fewer hops; a link that is crossed twice stands
    twice.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    bandwidth: Floats
    gpus: int  # of a machine
    nodes: int
    topology: Topology
    routes: Routes | None

    @classmethod
    def of(cls, cluster: Cluster) -> LinkGraph:
        """Lay out the links of all machines of a cluster, for the simulator's network model.

        Raises UserError naming the key where parts of its topology do not fit, or are not connected.
        """
        keys, gpus = topology(cluster), cluster.gpus_per_node
        if keys.nics > gpus:
            raise UserError(f"topology.nics: expected at most one for each of gpus_per_node {gpus} (got {keys.nics})")
        if keys.switches is not None:
            _check(keys.switches, gpus, keys.nics)
        card = cluster.inter.rate * gpus / keys.nics
        bus = max(cluster.device.h2d.rate, cluster.inter.rate, cluster.intra.rate if keys.peer == "pcie" else 0.0)
        port = "NVLink" if keys.peer == "nvlink" else "PCIe peer"
        up = 0.0 if keys.switches is None else keys.switches.bandwidth * keys.switches.efficiency
        host = float("inf") if keys.host is None else keys.host.memory_bandwidth * keys.host.efficiency
        parts = [
            (_sockets(keys), "memory of socket {}", "host memory", host),
            *((_count(keys), f"PCIe switch {{}} {way}", "PCIe switches", up) for way in WAYS),
            *((gpus, f"GPU {{}} PCIe {way}", "PCIe", bus) for way in WAYS),
            *((gpus, f"GPU {{}} {port} {way}", port, cluster.intra.rate) for way in WAYS),
            *((keys.nics, f"NIC {{}} {way}", "NICs", card) for way in WAYS),
        ]
        machine = [(name.format(i), kind, bandwidth) for count, name, kind, bandwidth in parts for i in range(count)]
        names = [f"node {node} {name}" for node in range(cluster.nodes) for name, _, _ in machine]
        kinds = [kind for _, kind, _ in machine] * cluster.nodes
        routes = None
        if keys.fabric is not None:
            routes = Routes.of(keys.fabric, cluster.nodes, cluster.inter.rate * gpus)
            names += routes.names
            kinds += ["network switches"] * len(routes.names)
        bandwidth = np.tile(np.array([rate for _, _, rate in machine]), cluster.nodes)
        if routes is not None:
            bandwidth = np.concatenate([bandwidth, routes.bandwidth])
        return cls(tuple(names), tuple(kinds), bandwidth, gpus, cluster.nodes, keys, routes)

    def __len__(self) -> int:
        return len(self.names)

    def to_device(self, rank: Ints) -> Ints:
        """Return which links the copies from hosts to their devices cross, int64 [n, hops], -1 for none.

        rank: of the devices, int64 [n].
        """
        node, gpu = np.divmod(rank, self.gpus)
        return np.stack([self._host(node, gpu), self._switch(node, gpu, outward=False), self._at(node, gpu, 0)], axis=1)

    def to_host(self, rank: Ints) -> Ints:
        """Return which links the copies from devices to their hosts cross, int64 [n, hops], -1 for none.

        rank: of the devices, int64 [n].
        """
        node, gpu = np.divmod(rank, self.gpus)
        return np.stack([self._at(node, gpu, 1), self._switch(node, gpu, outward=True), self._host(node, gpu)], axis=1)

    def inside(self, source: Ints, target: Ints) -> Ints:
        """Return which links are crossed between two devices of one machine, int64 [n, hops]. source, target: their ranks, int64 [n]."""
        (node, a), (_, b) = np.divmod(source, self.gpus), np.divmod(target, self.gpus)
        ports = [self._at(node, a, 3), self._at(node, b, 2)]
        if self.topology.peer == "pcie":
            same_switch = self._switch_of(a) == self._switch_of(b)
            up, down = self._switch(node, a, outward=True), self._switch(node, b, outward=False)
            ports += [self._at(node, a, 1), np.where(same_switch, -1, up), np.where(same_switch, -1, down), self._at(node, b, 0)]
        return np.stack(ports, axis=1)

    def leaving(self, rank: Ints) -> Ints:
        """Return which links are crossed from devices out of their machines, int64 [n, hops], -1 for none.

        rank: of the devices, int64 [n].
        """
        node, gpu = np.divmod(rank, self.gpus)
        return np.stack([self._at(node, gpu, 1), *self._to_card(node, gpu, outward=True), self._card(node, gpu, outward=True)], axis=1)

    def entering(self, rank: Ints) -> Ints:
        """Return which links are crossed from outside of machines to their devices, int64 [n, hops], -1 for none.

        rank: of the devices, int64 [n].
        """
        node, gpu = np.divmod(rank, self.gpus)
        return np.stack([self._card(node, gpu, outward=False), *self._to_card(node, gpu, outward=False), self._at(node, gpu, 0)], axis=1)

    def between(self, source: Ints, target: Ints) -> Ints:
        """Return which links between switches are crossed from machine to machine, int64 [n, hops], -1 for none.

        source, target: numbers of machines, int64 [n].
        """
        if self.routes is None:
            return np.empty((len(source), 0), np.int64)
        route = self.routes.route[source, target].astype(np.int64)
        return np.where(route < 0, -1, route + self.nodes * self._size)

    def are_ports(self, link: Ints) -> NDArray[np.bool_]:
        """Return which links are devices' ports to other devices of their machine, bool [n]. link: numbers, int64 [n]."""
        first = self._at(np.zeros(1, np.int64), np.zeros(1, np.int64), 2)[0]
        place = link % self._size - first
        return np.asarray((link < self.nodes * self._size) & (place >= 0) & (place < 2 * self.gpus), np.bool_)

    @property
    def _size(self) -> int:
        """Number of links of a machine."""
        return _sockets(self.topology) + 2 * _count(self.topology) + 4 * self.gpus + 2 * self.topology.nics

    def _host(self, node: Ints, gpu: Ints) -> Ints:
        """Return the links of the host memories next to devices."""
        return node * self._size + gpu * _sockets(self.topology) // self.gpus

    def _switch_of(self, gpu: Ints) -> Ints:
        """Return the PCIe switch of each device."""
        return gpu * _count(self.topology) // self.gpus if _count(self.topology) else gpu

    def _switch(self, node: Ints, gpu: Ints, outward: bool) -> Ints:
        """Return the links between devices' PCIe switches and their hosts; -1 where there are no switches."""
        count = _count(self.topology)
        if not count:
            return np.full(len(node), -1, np.int64)
        return node * self._size + _sockets(self.topology) + outward * count + self._switch_of(gpu)

    def _at(self, node: Ints, gpu: Ints, kind: int) -> Ints:
        """Return a device's link by kind: 0 bus in, 1 bus out, 2 port in, 3 port out."""
        return node * self._size + _sockets(self.topology) + 2 * _count(self.topology) + kind * self.gpus + gpu

    def _card_of(self, gpu: Ints) -> Ints:
        """Return the network card of each device."""
        return gpu * self.topology.nics // self.gpus

    def _card(self, node: Ints, gpu: Ints, outward: bool) -> Ints:
        """Return the links of devices' network cards."""
        return (node + 1) * self._size - (2 - outward) * self.topology.nics + self._card_of(gpu)

    def _to_card(self, node: Ints, gpu: Ints, outward: bool) -> list[Ints]:
        """Return the hops between a device and its network card: through the host's memory, or from switch to switch where they differ."""
        if not self.topology.gpudirect:
            return [self._switch(node, gpu, outward), self._host(node, gpu), self._host(node, gpu)]
        switches = self.topology.switches
        if switches is None:
            return []
        near = self._card_of(gpu) // switches.nics == self._switch_of(gpu) if switches.nics else np.zeros(len(gpu), bool)
        ways = [self._switch(node, gpu, outward)]
        if switches.nics:  # a card on another switch
            ways.append(self._switch(node, self._card_of(gpu) // switches.nics * switches.gpus, not outward))
        return [np.where(near, -1, way) for way in ways]


def _sockets(keys: Topology) -> int:
    """Return the sockets of a machine."""
    return 1 if keys.host is None else keys.host.sockets


def _count(keys: Topology) -> int:
    """Return the PCIe switches of a machine."""
    return 0 if keys.switches is None else keys.switches.count


def _check(switches: Switches, gpus: int, nics: int) -> None:
    """Check that PCIe switches hold as many GPUs and NICs as a machine has. Raises UserError."""
    for key, each, present, key_of_count in (
        ("gpus", switches.gpus, gpus, "gpus_per_node"),
        ("nics", switches.nics, nics, "topology.nics"),
    ):
        if each and switches.count * each != present:
            raise UserError(f"topology.switches.{key}: {switches.count} switches of {each} do not make {key_of_count} {present}")
