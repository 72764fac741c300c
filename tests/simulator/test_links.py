from __future__ import annotations

from dataclasses import replace
from importlib import resources
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import yaml

from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.network.fabric import Routes
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.topology import Fabric, Topology


def written(folder, **changes):
    """A cluster file like the preset h200, with keys replaced, also at depth ("topology.nics")."""
    data = resources.files("chronoscale.simulator")
    entry = yaml.safe_load((data / "clusters" / "h200.yaml").read_text())
    if any(key.startswith("device.") for key in changes):
        entry["device"] = yaml.safe_load((data / "devices" / f"{entry['device']}.yaml").read_text())
    for key, value in changes.items():
        *above, last = key.split(".")
        place = entry
        for step in above:
            place = place.setdefault(step, {})
        place[last] = value
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(entry))
    return path


def ways(graph: LinkGraph, way: np.ndarray) -> list[list[str]]:
    return [[graph.names[link] for link in row if link >= 0] for row in way]


def at(*ranks: int) -> np.ndarray:
    return np.array(ranks, np.int64)


def test_copies_cross_the_hosts_memory_a_switch_and_the_bus():
    graph = LinkGraph.of(presets.cluster("h200"))
    assert ways(graph, graph.to_device(at(0, 13))) == [
        ["node 0 memory of socket 0", "node 0 PCIe switch 0 in", "node 0 GPU 0 PCIe in"],
        ["node 1 memory of socket 1", "node 1 PCIe switch 2 in", "node 1 GPU 5 PCIe in"],
    ]
    assert ways(graph, graph.to_host(at(3))) == [["node 0 GPU 3 PCIe out", "node 0 PCIe switch 1 out", "node 0 memory of socket 0"]]
    place = {name: graph.bandwidth[i] for i, name in enumerate(graph.names)}
    assert place["node 3 memory of socket 1"] == 0.85 * 307.2e9 and place["node 0 PCIe switch 3 in"] == 0.883 * 63e9
    assert place["node 0 NIC 7 out"] == 0.94 * 50e9 and place["node 2 GPU 1 NVLink in"] == 0.823 * 450e9
    assert len(graph) == len(set(graph.names)) == len(graph.bandwidth) == 4 * (2 + 8 + 32 + 16)


def test_bytes_between_devices_and_machines():
    graph = LinkGraph.of(presets.cluster("h20"))
    assert ways(graph, graph.inside(at(1), at(6))) == [["node 0 GPU 1 NVLink out", "node 0 GPU 6 NVLink in"]]
    assert ways(graph, graph.leaving(at(5))) == [["node 0 GPU 5 PCIe out", "node 0 NIC 2 out"]]
    assert ways(graph, graph.entering(at(8))) == [["node 1 NIC 0 in", "node 1 GPU 0 PCIe in"]]
    graph = LinkGraph.of(presets.cluster("a40-10g"))
    way = ["node 0 GPU 3 PCIe peer out", "node 0 GPU 0 PCIe peer in", "node 0 GPU 3 PCIe out", "node 0 GPU 0 PCIe in"]
    assert ways(graph, graph.inside(at(3), at(0))) == [way]
    host = "node 1 memory of socket 0"
    assert ways(graph, graph.leaving(at(5))) == [["node 1 GPU 1 PCIe out", host, host, "node 1 NIC 0 out"]]


def test_pcie_peers_on_two_switches_go_up_and_down(tmp_path):
    keys = {"topology.peer": "pcie", "topology.switches": {"count": 2, "gpus": 4, "nics": 0, "bandwidth": 30e9}}
    graph = LinkGraph.of(presets.read(written(tmp_path, **keys)))
    assert "PCIe switch" not in " ".join(ways(graph, graph.inside(at(0), at(3)))[0])
    assert ways(graph, graph.inside(at(0), at(4)))[0][3:5] == ["node 0 PCIe switch 0 out", "node 0 PCIe switch 1 in"]
    assert ways(graph, graph.leaving(at(4))) == [["node 0 GPU 4 PCIe out", "node 0 PCIe switch 1 out", "node 0 NIC 4 out"]]


def test_a_card_on_another_switch_is_reached_through_both(tmp_path):
    keys = {"topology.nics": 2, "topology.switches": {"count": 4, "gpus": 2, "nics": 2, "bandwidth": 63e9}}
    with pytest.raises(UserError, match=r"mine\.yaml: topology\.switches\.nics: 4 switches of 2 do not make topology\.nics 2$"):
        presets.read(written(tmp_path, **keys))
    topology = Topology.model_validate({"peer": "nvlink", "nics": 3, "switches": {"count": 3, "gpus": 2, "nics": 1, "bandwidth": 1e9}})
    graph = LinkGraph.of(replace(presets.cluster("h200"), gpus_per_node=6, topology=topology))
    assert ways(graph, graph.leaving(at(3))) == [["node 0 GPU 3 PCIe out", "node 0 NIC 1 out"]]


def test_without_a_topology_two_bandwidths_say_what_there_is():
    cluster = replace(presets.cluster("h200"), topology=None)
    graph = LinkGraph.of(cluster)
    assert graph.topology == Topology(peer="nvlink", nics=8)
    assert ways(graph, graph.leaving(at(5))) == [["node 0 GPU 5 PCIe out", "node 0 NIC 5 out"]]
    assert np.isinf(graph.bandwidth[graph.to_device(at(0))[0, 0]])  # nothing is known of the memory
    assert LinkGraph.of(replace(presets.cluster("a40-ib"), topology=None)).topology.peer == "pcie"


def fabric(**keys: object) -> Fabric:
    return Fabric.model_validate(keys)


def walked(routes: Routes, a: int, b: int) -> list[str]:
    return [routes.names[link] for link in routes.route[a, b] if link >= 0][::-1]


def test_leaf_and_spine():
    routes = Routes.of(fabric(leaf_spine={"nodes_per_leaf": 16, "oversubscription": 2.0}), 40, 400e9)
    assert walked(routes, 0, 15) == [] and walked(routes, 3, 39) == ["leaf 0 to spine", "spine to leaf 2"]
    assert set(routes.bandwidth) == {16 * 400e9 / 2}


def test_a_dragonfly_takes_one_global_link():
    keys = {"nodes_per_router": 2, "routers_per_group": 3, "local_bandwidth": 25e9, "global_bandwidth": 100e9}
    routes = Routes.of(fabric(dragonfly=keys), 30, 50e9)
    assert walked(routes, 0, 1) == [] and walked(routes, 0, 4) == ["router 0.0 to router 0.2"]
    assert walked(routes, 0, 24) == ["router 0.0 to router 0.1", "router 0.1 to router 4.0"]
    for a in range(30):
        for b in range(30):
            way = walked(routes, a, b)
            assert len(way) <= 3 and sum("." in one and one.split()[1][0] != one.split()[-1][0] for one in way) == (a // 6 != b // 6)


def test_routes_are_shortest_ways():
    """Against networkx, over random cables."""
    random = np.random.default_rng(0)
    for _ in range(20):
        nodes = int(random.integers(2, 8))
        names = [f"node {i}" for i in range(nodes)] + [f"switch {i}" for i in range(int(random.integers(1, 5)))]
        graph = nx.gnm_random_graph(len(names), 2 * len(names), seed=int(random.integers(1 << 30)))
        if not nx.is_connected(graph):
            continue
        cables = [{"ends": [names[a], names[b]], "bandwidth": 1e9} for a, b in graph.edges]
        routes = Routes.of(fabric(cables=cables), nodes, 1e9)
        for a in range(nodes):
            for b in range(nodes):
                way = [f"node {a}", *(one.split(" to ")[1] for one in walked(routes, a, b))]
                assert len(way) - 1 == nx.shortest_path_length(graph, a, b) and way[-1] == f"node {b}"
                assert all(f"{one} to {other}" in routes.names for one, other in pairwise(way))


def test_a_fabric_joins_links_of_machines(tmp_path):
    cables = [{"ends": [f"node {node}", "switch"], "bandwidth": 10e9} for node in range(4)]
    cluster = presets.read(written(tmp_path, **{"topology.fabric": {"cables": cables}}))
    graph = LinkGraph.of(cluster)
    assert ways(graph, graph.between(at(2), at(0))) == [["switch to node 0", "node 2 to switch"]]
    with pytest.raises(UserError, match=r"^topology\.fabric\.cables: node 4 has no cable, of 5 nodes \(numbered from 0\)$"):
        LinkGraph.of(presets.scaled(cluster, 33))


APART = [{"ends": [f"node {a}", f"node {b}"], "bandwidth": 1e9} for a, b in ((0, 1), (2, 3))]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topology.fabric": {"cables": APART}}, "topology.fabric.cables: not connected: no way leads from node 0 to node 2"),
        ({"topology.fabric": {"cables": APART[:1]}}, "topology.fabric.cables: node 2 has no cable, of 4 nodes (numbered from 0)"),
        ({"topology.fabric": {"cables": [*APART, *APART]}}, "topology.fabric.cables: node 0 and node 1 joined twice; one cable"),
        ({"topology.fabric": {}}, "topology.fabric: expected one of leaf_spine, dragonfly and cables (got {})"),
        ({"topology.switches.gpus": 3}, "topology.switches.gpus: 4 switches of 3 do not make gpus_per_node 8"),
        ({"topology.nic": 4}, "unknown key 'topology.nic'; did you mean 'topology.nics'?"),
        ({"topology.peer": "nvswitch"}, "topology.peer: expected 'nvlink' or 'pcie' (got 'nvswitch')"),
        ({"topology.host.memory_bandwidth": 307.2}, "topology.host.memory_bandwidth: expected bytes/s in one direction, at least 1e6"),
        ({"inter.bandwidth": 400}, "inter.bandwidth: expected bytes/s in one direction, at least 1e6 (400 Gb/s are 50.0e+9) (got 400)"),
        ({"intra.bandwidth": float("nan")}, "intra.bandwidth: expected a finite number (got nan)"),
        ({"inter.latency_s": -1e-6}, "inter.latency_s: expected at least 0 (got -1e-06)"),
        ({"intra.latency_s": 3.4}, "intra.latency_s: expected at most 1 (got 3.4)"),
        ({"topology.nics": 16}, "topology.nics: expected at most one for each of gpus_per_node 8 (got 16)"),
        (
            {"topology.fabric": {"leaf_spine": {"nodes_per_leaf": 1, "oversubscription": float("inf")}}},
            "topology.fabric.leaf_spine.oversubscription: expected a finite",
        ),
        ({"origin": "fitted to what our lab has"}, "origin: 'fitted' is said of links that a profile has measured; say where"),
        ({"device.memory_bandwidth": 4.8}, "device.memory_bandwidth: expected bytes/s in one direction, at least 1e6"),
        ({"device.flops": 67.0}, "device.flops: expected at least"),
        ({"device.memory": 141.0}, "device.memory: expected at least"),
        ({"device.launch_s": 5.0}, "device.launch_s: expected at most 0.01 (got 5.0)"),
        ({"device.launch_s": float("inf")}, "device.launch_s: expected"),
        ({"host_memory": 2048}, "host_memory: expected at least"),
        ({"collectives": "nncl"}, "collectives: expected 'nccl' or 'alpha-beta' (got 'nncl')"),
        ({"nccl": {"speed": {"ring": {"ll": 2}}}}, "nccl.speed.ring.ll: expected at most 1 (got 2)"),
        ({"nccl": {"sends_at": 1}}, "unknown key 'nccl.sends_at'; did you mean 'nccl.sends_at_once'?"),
        ({"nccl": 3}, "nccl: expected keys and values (got 3)"),
        (
            {"nccl": {"hop_latency_s": {"network": {"ring": {"ll": -1}}}}},
            "nccl.hop_latency_s.network.ring.ll: expected at least 0 (got -1)",
        ),
    ],
)
def test_a_wrong_topology_names_file_and_key(tmp_path, changes, message):
    with pytest.raises(UserError) as error:
        presets.read(written(tmp_path, **changes))
    assert f"mine.yaml: {message}" in str(error.value) and "\n" not in str(error.value)


def test_constants_of_ones_own(tmp_path):
    cluster = presets.read(written(tmp_path, nccl={"hop_latency_s": {"network": {"tree": {"ll": 9e-6}}}}))
    assert cluster.tuning is not None and cluster.tuning.hop_latency_s.network.tree.ll == 9e-6
    assert cluster.tuning.hop_latency_s.network.tree.simple == 14e-6 and hash(cluster)


def test_a_bus_is_no_slower_than_what_must_cross_it():
    device = replace(presets.cluster("h200").device, h2d=Link(1e9, 0.0))
    graph = LinkGraph.of(Cluster("c", device, 2, 1, Link(2e9, 0.0), Link(10e9, 0.0), "by hand"))
    assert graph.bandwidth[graph.leaving(at(0))[0, 0]] == 10e9
