"""Fabric: switches and cables between machines, and the route from each machine to each other one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chronoscale.datasets.arrays import Int32
from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.topology import Cable, Dragonfly, Fabric, LeafSpine

INFINITE = float("inf")  # from a machine to its switch: the network cards are what limits there
MACHINE = re.compile(r"node (\d+)")
FAR = 3.0  # hops that a link between groups counts for: two of them are no way where one will do, with a hop at either end


class _Link(NamedTuple):
    """Cable between two ends; length in hops."""

    a: str
    b: str
    bandwidth: float
    length: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Routes between machines over the switches of a simulated network; a cable is two links, one a direction.

    names: [l]; bandwidth: bytes/s, float64 [l]; route: the links that one machine's bytes cross to another, int32 [machines, machines,
    hops], -1 where a route is shorter.
    """

    names: tuple[str, ...]
    bandwidth: Floats
    route: Int32

    @classmethod
    def of(cls, fabric: Fabric, nodes: int, node_bandwidth: float) -> Routes:
        """Find the routes with fewest hops between machines of a simulated cluster.

        fabric: its switches and cables, as in a cluster file. nodes: machines. node_bandwidth: bytes/s of all network cards of a machine.
        Raises UserError where cables leave a machine out, do not connect all, or join two ends twice.
        """
        if fabric.leaf_spine is not None:
            cables = _leaf_spine(fabric.leaf_spine, nodes, node_bandwidth)
        elif fabric.dragonfly is not None:
            cables = _dragonfly(fabric.dragonfly, nodes)
        else:
            cables = [_Link(*cable.ends, cable.bandwidth) for cable in _check(fabric.cables or (), nodes)]
        return _find_routes(cables, nodes)


def _leaf_spine(keys: LeafSpine, nodes: int, node_bandwidth: float) -> list[_Link]:
    """Return the cables of a leaf-spine fabric: machines to their leaf switch, leaves to the spine."""
    leaf = [f"leaf {node // keys.nodes_per_leaf}" for node in range(nodes)]
    up = keys.nodes_per_leaf * node_bandwidth / keys.oversubscription
    below = [_Link(f"node {node}", name, INFINITE) for node, name in enumerate(leaf)]
    return below + [_Link(name, "spine", up) for name in dict.fromkeys(leaf)]


def _dragonfly(keys: Dragonfly, nodes: int) -> list[_Link]:
    """Return the cables of a dragonfly fabric: machines to routers, all routers of a group to one another, and one cable
    between two groups.
    """
    routers = keys.routers_per_group
    count = -(-nodes // keys.nodes_per_router)
    groups = -(-count // routers)
    name = [[f"router {group}.{router}" for router in range(routers)] for group in range(groups)]
    at = [divmod(node // keys.nodes_per_router, routers) for node in range(nodes)]
    cables = [_Link(f"node {node}", name[group][router], INFINITE) for node, (group, router) in enumerate(at)]
    for group in name:
        cables += [_Link(group[a], group[b], keys.local_bandwidth) for a in range(routers) for b in range(a + 1, routers)]
    ends = [(a, b) for a in range(groups) for b in range(a + 1, groups)]
    return cables + [_Link(name[a][b % routers], name[b][a % routers], keys.global_bandwidth, FAR) for a, b in ends]


def _check(cables: tuple[Cable, ...], nodes: int) -> tuple[Cable, ...]:
    """Check that every machine has a cable, and no two ends have two. Raises UserError."""
    connected = {int(machine[1]) for cable in cables for end in cable.ends if (machine := MACHINE.fullmatch(end))}
    if missing := sorted(set(range(nodes)) - connected):
        raise UserError(f"topology.fabric.cables: node {missing[0]} has no cable, of {nodes} nodes (numbered from 0)")
    pairs = Counter(frozenset(cable.ends) for cable in cables)
    for ends, times in pairs.items():
        if times > 1 or len(ends) < 2:
            mistake = "to itself" if len(ends) < 2 else "twice; one cable stands for all between two ends"
            raise UserError(f"topology.fabric.cables: {' and '.join(sorted(ends))} joined {mistake}")
    return cables


def _find_routes(cables: list[_Link], nodes: int) -> Routes:
    """Find the shortest route between every two machines. Raises UserError where cables do not connect them."""
    place = {f"node {node}": node for node in range(nodes)}
    for end in (end for cable in cables for end in (cable.a, cable.b)):
        place.setdefault(end, len(place))
    a, b = np.array([(place[cable.a], place[cable.b]) for cable in cables], np.int64).reshape(-1, 2).T
    source, target = np.concatenate([a, b]), np.concatenate([b, a])
    from scipy.sparse import csr_matrix  # noqa: PLC0415 (heavy, and presets without a fabric do without)
    from scipy.sparse.csgraph import connected_components, shortest_path  # noqa: PLC0415

    pairs = csr_matrix(([cable.length for cable in cables] * 2, (source, target)), (len(place), len(place)))
    _, part = connected_components(pairs, directed=False)
    if len(apart := np.flatnonzero(part[:nodes] != part[0])):
        raise UserError(f"topology.fabric.cables: not connected: no way leads from node 0 to node {apart[0]}")
    _, before = shortest_path(pairs, indices=np.arange(nodes), return_predecessors=True)
    bandwidth = np.array([cable.bandwidth for cable in cables] * 2)
    ends = [(cable.a, cable.b) for cable in cables] + [(cable.b, cable.a) for cable in cables]
    counted = np.flatnonzero(np.isfinite(bandwidth))
    link = np.full(len(bandwidth), -1, np.int64)
    link[counted] = np.arange(len(counted))
    names = tuple(f"{ends[i][0]} to {ends[i][1]}" for i in counted)
    return Routes(names, bandwidth[counted], _walk_back(before, nodes, link, source * len(place) + target, len(place)))


def _walk_back(before: Ints, nodes: int, link: Ints, key: Ints, places: int) -> Int32:
    """Return the links on the way from every machine to every other one, last link first."""
    order = np.argsort(key)
    unique, link = key[order], link[order]
    start, machine = np.divmod(np.arange(nodes * nodes), nodes)
    hops = []
    while (moving := machine != start).any():
        previous = np.where(moving, before[start, machine], machine)
        link_crossed = link[np.searchsorted(unique, np.where(moving, previous * places + machine, unique[0]))]
        hops.append(np.where(moving, link_crossed, -1))
        machine = previous
    route = np.stack(hops, axis=-1) if hops else np.empty((nodes * nodes, 0), np.int64)
    route = route[:, (route >= 0).any(axis=0)]
    return route.reshape(nodes, nodes, -1).astype(np.int32)
