from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import write

from chronoscale.simulator import presets
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.traffic import LinkTraffic, Traffic, link_utilisation
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.schedule import Op, Schedule

H200 = presets.cluster("h200")


def crossed(schedule: Schedule, cluster: Cluster) -> tuple[Traffic, dict[int, dict[str, float]]]:
    """By row, bytes by link."""
    graph = LinkGraph.of(cluster)
    traffic = Traffic.of(schedule, cluster)
    bytes_by_link = {}
    for i, row in enumerate(traffic.row.tolist()):
        part = slice(traffic.ptr[i], traffic.ptr[i + 1])
        links = [graph.names[link] for link in traffic.link[part]]
        assert len(set(links)) == len(links) or not graph.topology.gpudirect
        bytes_by_link[row] = dict(zip(links, traffic.bytes[part].tolist(), strict=True))
    return traffic, bytes_by_link


def test_copies_and_their_latency():
    schedule = write("h: H2D@H2D bytes=1000,2000\nd: D2H@D2H bytes=500 rank=1 <- h\ng: GATHER@HOST bytes=7", 2).schedule
    traffic, by_row = crossed(schedule, H200)
    assert traffic.row.tolist() == [0, 1, 2] and traffic.latency_ns.tolist() == [10_000] * 3
    assert by_row[1] == {"node 0 memory of socket 0": 2000.0, "node 0 PCIe switch 0 in": 2000.0, "node 0 GPU 1 PCIe in": 2000.0}
    assert set(by_row[2]) == {"node 0 GPU 1 PCIe out", "node 0 PCIe switch 0 out", "node 0 memory of socket 0"}


@pytest.mark.parametrize("op", ["ALLREDUCE", "ALLGATHER", "ALLTOALL"])
@pytest.mark.parametrize("size", [1000, 3_000_000, 1_000_000_000])
@pytest.mark.parametrize("ranks", [2, 8, 13, 32])
def test_no_link_needs_longer_than_the_row_lasts(op, size, ranks):
    schedule = write(f"a: AGGREGATE@COMPUTE\nc: {op}@COMM all bytes={size} <- a", ranks).schedule
    for cluster in (H200, presets.cluster("polaris"), presets.cluster("a40-ib"), presets.cluster("a40-10g")):
        cluster = presets.scaled(cluster, 32)
        graph = LinkGraph.of(cluster)
        traffic = Traffic.of(schedule, cluster)
        rows, ns = collective_times.times(schedule, cluster)
        assert traffic.row.tolist() == [rows.min()]
        busy = traffic.bytes / graph.bandwidth[traffic.link] * 1e9
        assert busy.max() <= ns[0] - traffic.latency_ns[0] + 1 and (busy > 0).all()


@pytest.mark.parametrize("size", [1000, 3_000_000])
@pytest.mark.parametrize("target", [1, 7, 9])
def test_no_link_needs_longer_than_a_message_lasts(size, target):
    schedule = write(f"s: SEND@COMM rank=0 group=0 bytes={size}\nr: RECV@COMM rank={target} group=0 bytes={size}", 10).schedule
    for name in ("h200", "a40-10g"):
        cluster = presets.scaled(presets.cluster(name), 10)
        graph = LinkGraph.of(cluster)
        traffic = Traffic.of(schedule, cluster)
        lasts = collective_times.times(schedule, cluster)[1][0] - traffic.latency_ns[0]
        assert (traffic.bytes / graph.bandwidth[traffic.link]).max() * 1e9 == pytest.approx(lasts, abs=1)


def test_what_a_ring_of_rails_sends():
    schedule = write("r: ALLREDUCE@COMM all bytes=1000000000", 32).schedule
    assert H200.topology is not None
    traffic, by_row = crossed(schedule, replace(H200, topology=H200.topology.model_copy(update={"nvls": False})))
    edge = 2 * 31 / 32 * 1e9 / 8
    assert traffic.latency_ns.tolist() == [round(1.4 * (8_400 + (62 - 6) * 3_400 + 6 * 14_000))]
    assert by_row[0]["node 2 NIC 5 out"] == by_row[0]["node 2 NIC 5 in"] == pytest.approx(edge, rel=1e-12)
    assert by_row[0]["node 2 GPU 5 NVLink out"] == pytest.approx(7 * edge, rel=1e-12)
    assert by_row[0]["node 2 GPU 5 PCIe out"] == pytest.approx(edge, rel=1e-12)


def test_flags_of_ll_cross_links_too():
    schedule = write("s: SEND@COMM rank=0 group=0 bytes=1000\nr: RECV@COMM rank=1 group=0 bytes=1000", 2).schedule
    _, by_row = crossed(schedule, H200)
    assert by_row == {0: {"node 0 GPU 0 NVLink out": 2000.0, "node 0 GPU 1 NVLink in": 2000.0}}


def test_an_exchange_keeps_the_own_machines_bytes_inside():
    shares = [0] * 16
    shares[3] = 15_000_000
    schedule = write(f"x: ALLTOALL@COMM all bytes={','.join(map(str, shares))}", 16).schedule
    _, by_row = crossed(schedule, H200)
    assert by_row[0]["node 0 NIC 3 out"] == pytest.approx(8e6, rel=1e-12) and by_row[0]["node 0 NIC 4 out"] == 0
    assert by_row[0]["node 1 NIC 6 in"] == pytest.approx(1e6, rel=1e-12) and by_row[0]["node 0 NIC 6 in"] == 0
    assert by_row[0]["node 0 GPU 3 NVLink out"] == pytest.approx(7e6, rel=1e-12)
    assert by_row[0]["node 0 GPU 5 NVLink in"] == pytest.approx(1e6, rel=1e-12)


def test_groups_of_ranks_beside_one_another():
    """Two halves of the ranks, and rows of one group in another order."""
    text = "a: ALLTOALL@COMM rank=0,1 group=4 bytes=30000000,0\nb: ALLTOALL@COMM rank=3,2 group=7 bytes=0,90000000"
    _, by_row = crossed(write(text + "\nc: ALLTOALL@COMM rank=1,0 group=9 bytes=60000000,0", 4).schedule, H200)
    assert {row: max(links.values()) for row, links in by_row.items()} == {0: 3e7, 2: 9e7, 4: 6e7}
    assert by_row[4]["node 0 GPU 1 NVLink out"] == 6e7 and by_row[2]["node 0 GPU 2 NVLink out"] == 9e7


def test_fitted_links_and_cpus_have_no_traffic():
    schedule = write("h: H2D@H2D bytes=10\nr: ALLREDUCE@COMM all bytes=10 <- h", 2).schedule
    from_fit = replace(H200, origin="fitted on this machine")
    traffic = Traffic.of(schedule, from_fit)
    assert (len(traffic.row), traffic.ptr.tolist(), len(traffic.link)) == (0, [0], 0)
    assert link_utilisation(LinkTraffic(LinkGraph.of(from_fit), traffic), 10).empty


@pytest.mark.parametrize("collectives", ["nccl", "alpha-beta"])
def test_volumes_add_up_and_the_busiest_link_stands_first(collectives):
    cluster = replace(presets.scaled(H200, 16), collectives=collectives)
    text = "h: H2D@H2D bytes=63000000\nx: ALLTOALL@COMM all bytes=15000000 <- h\nr: ALLREDUCE@COMM all bytes=1000000000 <- x"
    schedule = write(text, 16).schedule
    table = link_utilisation(LinkTraffic.of(schedule, cluster), 10_000_000)
    assert list(table.columns) == ["link", "bytes", "utilisation"] and (np.diff(table["utilisation"]) <= 0).all()
    by_link = table.set_index("link")
    assert by_link.loc["node 0 PCIe switch 0 in", "bytes"] == 2 * 63e6
    assert by_link.loc["node 1 GPU 2 PCIe in", "utilisation"] >= 63e6 / 63e9 / 10e-3
    total = sum(by_link.loc[f"node {node} NIC {card} out", "bytes"] for node in range(2) for card in range(8))
    rows, ns = collective_times.times(schedule, cluster)
    assert len(rows) == 32 and total >= 16 * 8e6
    assert schedule.op[rows[0]] == Op.ALLTOALL and ns[0] > 0
