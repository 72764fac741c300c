from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation import write

from chronoscale.simulator import presets
from chronoscale.simulator.network import collective_times, nccl
from chronoscale.simulator.network.collectives import Collectives
from chronoscale.simulator.network.patterns import double_tree
from chronoscale.strategies.cluster import Cluster, Device, Link
from chronoscale.strategies.costing.nccl_constants import NCCLConstants
from chronoscale.strategies.topology import Fabric, LeafSpine, Topology

PRESET = presets.cluster("h200")
DEVICE = Device("d", 1e9, 1e12, 1e12, Link(10e9, 0.0), 0.0)
GIGA = 1_000_000_000


def bare(cluster: Cluster) -> Cluster:
    """A cluster whose links reach all that they are built for, whose NVSwitch adds nothing up, and sends are one after another."""
    topology = None if cluster.topology is None else cluster.topology.model_copy(update={"nvls": False})
    tuning = NCCLConstants.model_validate(nccl.merge_constants({"sends_at_once": {"nvlink": 1.0, "pcie": 1.0, "network": 1.0}}))
    intra, inter = replace(cluster.intra, efficiency=1.0), replace(cluster.inter, efficiency=1.0)
    return replace(cluster, intra=intra, inter=inter, topology=topology, tuning=tuning)


LATENCIES = {"intra": Link(450e9, 3.4e-6), "inter": Link(50e9, 14e-6)}
H200 = replace(bare(PRESET), **LATENCIES)


def made(nodes: int, gpus: int, intra: float = 100e9, inter: float = 10e9, **extra: object) -> Cluster:
    """Machines whose hops take nothing."""
    return Cluster("c", DEVICE, nodes, gpus, Link(intra, 0.0), Link(inter, 0.0), "specified by hand", **extra)


def only(algorithm: str, protocol: str, **changes: object) -> NCCLConstants:
    """NCCL's constants by which everything but one algorithm with one protocol starts after a second."""
    base = nccl.tuning().base_latency_s.model_dump()
    constant = base[algorithm][protocol]
    late: dict[str, object] = {name: dict.fromkeys(base[name], 1.0) for name in ("ring", "tree")}
    late |= {"nvls": 1.0, algorithm: {**dict.fromkeys(base[algorithm], 1.0), protocol: constant}}
    return NCCLConstants.model_validate(nccl.merge_constants({"base_latency_s": late, "plateau": 1.0, **changes}))


AT_ONCE = {"network_overhead_s": {"ll": 0.0, "ll128": 0.0, "simple": 0.0}}


def seconds(cluster: Cluster, text: str, ranks: int) -> float:
    schedule = write(text, ranks).schedule
    return float(collective_times.collective_costs(Collectives.of(schedule), schedule, cluster).seconds[0])


def reduced(cluster: Cluster, size: int, ranks: int, algorithm: str = "ring", protocol: str = "simple") -> float:
    return seconds(replace(cluster, tuning=only(algorithm, protocol)), f"r: ALLREDUCE@COMM all bytes={size}", ranks)


def test_a_ring_inside_a_machine():
    expected = 8.4e-6 + 2 * 7 * 3.4e-6 + 2 * 7 / 8 * GIGA / 450e9
    assert reduced(H200, GIGA, 8) == pytest.approx(expected, rel=1e-9)


def test_rings_between_machines_are_rails_and_pay_the_network_for_every_machine_but_one():
    """1 GB over 2 x 8 GPUs, up and down: eight rails take what one network card would take for an eighth."""
    hops = 8.4e-6 + (30 - 2) * 3.4e-6 + 2 * 14e-6
    assert reduced(H200, GIGA, 16) == pytest.approx(hops + 2 * 15 / 16 * GIGA / (8 * 50e9), rel=1e-9)
    assert reduced(made(2, 1, inter=50e9), GIGA, 2) == pytest.approx(8.4e-6 + GIGA / 50e9, rel=1e-9)
    later = replace(H200, tuning=only("ring", "simple", plateau=1.5))
    took = seconds(later, f"r: ALLREDUCE@COMM all bytes={GIGA}", 16)
    assert took == pytest.approx(1.5 * hops + 2 * 15 / 16 * GIGA / (8 * 50e9), rel=1e-9)
    assert seconds(later, f"r: ALLREDUCE@COMM all bytes={GIGA}", 8) == pytest.approx(reduced(H200, GIGA, 8), rel=1e-12)


def test_links_reach_a_share_of_what_they_are_built_for():
    slow = replace(H200, intra=replace(H200.intra, efficiency=0.8), inter=replace(H200.inter, efficiency=0.5))
    assert reduced(slow, GIGA, 8) == pytest.approx(8.4e-6 + 2 * 7 * 3.4e-6 + 2 * 7 / 8 * GIGA / 360e9, rel=1e-9)
    hops = 8.4e-6 + (30 - 2) * 3.4e-6 + 2 * 14e-6
    assert reduced(slow, GIGA, 16) == pytest.approx(hops + 2 * 15 / 16 * GIGA / (8 * 25e9), rel=1e-9)


def test_all_rings_cross_what_joins_the_devices_of_a_machine():
    """Of eight rings seven stay inside at every device; 100 GB/s there are less than eight cards."""
    narrow = made(2, 8, 100e9, 50e9, topology=Topology(peer="nvlink", nics=8), tuning=only("ring", "simple", **AT_ONCE))
    took = seconds(narrow, f"r: ALLREDUCE@COMM all bytes={GIGA}", 16)
    assert took == pytest.approx(8.4e-6 + 7 / 8 * 2 * 15 / 16 * GIGA / 100e9, rel=1e-9)


def test_trees_pay_the_network_between_machines_alone():
    """Four machines: up and down, two levels of the network, chains of eight inside; each machine sends the tensor twice."""
    cluster = replace(H200, nodes=4)
    expected = 8.4e-6 + 2 * (7 * 4e-6 + 2 * 14e-6) + 2 * GIGA / (8 * 50e9) / 0.92
    assert reduced(cluster, GIGA, 32, "tree") == pytest.approx(expected, rel=1e-9)
    small = 6.8e-6 + 2 * (7 * 0.6e-6 + 2 * 5.0e-6) + 2 * 1024 / 20.4e9 / 0.9  # 1 KiB by LL, whose bus has a limit; trees reach 0.9 of it
    assert reduced(cluster, 1024, 32, "tree", "ll") == pytest.approx(small, rel=1e-9)


def test_a_tree_in_one_machine_is_a_chain():
    expected = 8.4e-6 + 2 * 7 * 4e-6 + 2 * GIGA / 450e9 / 0.92
    assert reduced(H200, GIGA, 8, "tree") == pytest.approx(expected, rel=1e-9)
    assert reduced(H200, GIGA, 8, "tree", "ll128") == pytest.approx(14e-6 + 14 * 1.25e-6 + 2 * GIGA / 450e9 / (0.92 * 7 / 9), rel=1e-9)


@pytest.mark.parametrize(("protocol", "speed"), [("ll128", 0.92), ("simple", 1.0)])
def test_protocols_of_a_ring(protocol, speed):
    hop = {"ll128": 1.9e-6, "simple": 3.4e-6}[protocol]
    base = {"ll128": 14e-6, "simple": 8.4e-6}[protocol]
    assert reduced(H200, GIGA, 8, protocol=protocol) == pytest.approx(base + 14 * hop + 1.75 * GIGA / 450e9 / speed, rel=1e-9)


def test_ll_has_half_of_the_bandwidth_and_a_limit():
    assert reduced(H200, GIGA, 8, protocol="ll") == pytest.approx(6.6e-6 + 14 * 0.6e-6 + 1.75 * GIGA / 141e9, rel=1e-9)
    slow = replace(H200, intra=Link(100e9, 3.4e-6))
    assert reduced(slow, GIGA, 8, protocol="ll") == pytest.approx(6.6e-6 + 14 * 0.6e-6 + 1.75 * GIGA / 50e9, rel=1e-9)
    step = max(0.6e-6, 1e-6)  # between machines a step takes what posting to the network takes
    expected = 6.6e-6 + (30 - 2) * step + 2 * 2.7e-6 + 1.875 * GIGA / 39e9
    assert reduced(H200, GIGA, 16, protocol="ll") == pytest.approx(expected, rel=1e-9)


def chosen(cluster: Cluster, size: int, ranks: int) -> tuple[str, str]:
    """Which algorithm and protocol take least, each asked for alone."""
    cluster = replace(cluster, tuning=NCCLConstants.model_validate(nccl.merge_constants({"plateau": 1.0})))
    seconds_by_pair = {pair: reduced(cluster, size, ranks, *pair) for pair in product(("ring", "tree"), ("ll", "ll128", "simple"))}
    best = min(seconds_by_pair, key=lambda pair: seconds_by_pair[pair])
    assert seconds(cluster, f"r: ALLREDUCE@COMM all bytes={size}", ranks) == pytest.approx(seconds_by_pair[best], rel=1e-12)
    return best


def test_size_chooses_the_protocol():
    assert [chosen(H200, size, 8)[1] for size in (1000, 10_000_000, GIGA)] == ["ll", "ll128", "simple"]
    assert chosen(H200, 1000, 32) == ("tree", "ll") and chosen(H200, GIGA, 32) == ("ring", "simple")


def test_pcie_has_no_ll128():
    cluster = replace(presets.cluster("a40-ib"), tuning=only("ring", "ll128"))
    assert seconds(cluster, "r: ALLREDUCE@COMM all bytes=1000000", 4) > 1


def test_a_larger_tensor_takes_no_less_time():
    for ranks in (8, 16, 32):
        sizes = np.unique(np.geomspace(1, 4e9, 400).astype(np.int64))
        text = "\n".join(f"r{i}: ALLREDUCE@COMM all bytes={size}" for i, size in enumerate(sizes))
        schedule = write(text, ranks).schedule
        costs = collective_times.collective_costs(Collectives.of(schedule), schedule, H200).seconds
        assert (np.diff(costs) >= 0).all()


def test_an_all_gather_is_half_a_ring():
    cluster = replace(H200, tuning=only("ring", "simple"))
    expected = 8.4e-6 + (15 - 1) * 3.4e-6 + 1 * 14e-6 + 15 * 10_000_000 / (8 * 50e9)
    assert seconds(cluster, "g: ALLGATHER@COMM all bytes=10000000", 16) == pytest.approx(expected, rel=1e-9)
    shares = ",".join(["0"] * 7 + ["80000000"])  # unequal: all of it goes to everybody else
    assert seconds(cluster, f"g: ALLGATHER@COMM all bytes={shares}", 8) == pytest.approx(8.4e-6 + 7 * 3.4e-6 + 80_000_000 / 450e9, rel=1e-9)


def test_an_all_to_all_is_as_slow_as_the_network_cards():
    """Bytes to ranks of the own machine cross no card: 8 of 15 parts do."""
    expected = 8e-6 + 7 * 3.4e-6 + 8 * 14e-6 + 8 / 15 * GIGA / 50e9
    assert seconds(H200, f"a: ALLTOALL@COMM all bytes={GIGA}", 16) == pytest.approx(expected, rel=1e-9)
    assert seconds(H200, f"a: ALLTOALL@COMM all bytes={GIGA}", 8) == pytest.approx(8e-6 + 7 * 3.4e-6 + GIGA / 450e9, rel=1e-9)
    small = 8e-6 + 7 * 0.6e-6 + 8 * 2.7e-6 + 8 / 15 * 15_000 / (0.5 * 50e9)  # a thousand bytes to each: LL
    assert seconds(H200, "a: ALLTOALL@COMM all bytes=15000", 16) == pytest.approx(small, rel=1e-9)


def test_devices_that_share_a_network_card_share_it():
    cluster = replace(bare(presets.cluster("h20")), intra=Link(450e9, 3.4e-6), inter=Link(25e9, 14e-6))  # four cards of 50 GB/s for eight
    each = f"a: ALLTOALL@COMM all bytes={GIGA}"
    assert seconds(cluster, each, 16) == pytest.approx(8e-6 + 7 * 3.4e-6 + 8 * 14e-6 + 2 * 8 / 15 * GIGA / 50e9, rel=1e-9)
    message = f"s: SEND@COMM rank=0 group=0 bytes={GIGA}\nr: RECV@COMM rank=8 group=0 bytes={GIGA}"
    assert seconds(cluster, message, 16) == pytest.approx(8e-6 + 14e-6 + GIGA / 50e9, rel=1e-9)  # one device has the whole card


def test_sends_that_are_under_way_at_once_take_one_hop():
    """Seven inside and eight to another machine, four at once there and as many as there are here."""
    several = {"sends_at_once": {"nvlink": 100.0, "network": 4.0}}
    cluster = replace(H200, tuning=only("ring", "simple", **several))
    expected = 8e-6 + 3.4e-6 + 8 / 4 * 14e-6 + 8 / 15 * GIGA / 50e9
    assert seconds(cluster, f"a: ALLTOALL@COMM all bytes={GIGA}", 16) == pytest.approx(expected, rel=1e-9)


def switched(nodes: int = 1) -> Cluster:
    assert H200.topology is not None
    only_nvls = nccl.merge_constants({"base_latency_s": {name: dict.fromkeys(("ll", "ll128", "simple"), 1.0) for name in ("ring", "tree")}})
    topology = H200.topology.model_copy(update={"nvls": True})
    return replace(H200, nodes=nodes, topology=topology, tuning=NCCLConstants.model_validate(only_nvls))


def test_nvswitch_adds_up():
    """Each GPU sends its tensor and an eighth of the sum, and receives as much; between machines each card sends an eighth up and down."""
    inside = 25e-6 + (1 + 1 / 8) * GIGA / (450e9 * 0.85)
    assert seconds(switched(), f"r: ALLREDUCE@COMM all bytes={GIGA}", 8) == pytest.approx(inside, rel=1e-9)
    two = 25e-6 + 2 * 20.9e-6 + max((1 + 1 / 8) * GIGA / (450e9 * 0.85), GIGA / 8 / 50e9)
    assert seconds(switched(2), f"r: ALLREDUCE@COMM all bytes={GIGA}", 16) == pytest.approx(two, rel=1e-9)
    four = 25e-6 + 4 * 20.9e-6 + max((1 + 1 / 8) * GIGA / (450e9 * 0.85), 2 * GIGA / 8 / 50e9)
    assert seconds(switched(4), f"r: ALLREDUCE@COMM all bytes={GIGA}", 32) == pytest.approx(four, rel=1e-9)


@pytest.mark.sample(14)
@pytest.mark.parametrize("name", presets.names())
@pytest.mark.parametrize("op", ["ALLREDUCE", "ALLGATHER", "ALLTOALL", "SEND"])
def test_a_byte_more_takes_hardly_longer(name, op):
    """No time jumps by more than a tenth for one byte: sizes around powers of two, and anywhere."""
    cluster = presets.cluster(name)
    for ranks in sorted({2, min(cluster.gpus, 8), min(cluster.gpus, 32)} - {1}):
        if ranks > cluster.gpus:
            continue
        anywhere = np.random.default_rng(0).integers(1, 2**26, 40)
        sizes = np.unique(np.concatenate([2 ** np.arange(0, 32) + d for d in (-1, 0)] + [anywhere * max(ranks - 1, 1)]))
        sizes = np.unique(np.concatenate([sizes[sizes > 0] * k for k in (1, ranks - 1)]))
        sizes = np.unique(np.concatenate([sizes, sizes + 1]))
        if op == "SEND":
            rows = [f"s{i}: SEND@COMM rank=0 group={i} bytes={n}\nr{i}: RECV@COMM rank={ranks - 1} group={i}" for i, n in enumerate(sizes)]
        else:
            rows = [f"r{i}: {op}@COMM all bytes={n}" for i, n in enumerate(sizes)]
        schedule = write("\n".join(rows), ranks).schedule
        took = collective_times.collective_costs(Collectives.of(schedule), schedule, cluster).seconds
        next_to = np.flatnonzero(np.diff(sizes) == 1)
        assert len(next_to) > 40 and (took[next_to + 1] <= 1.1 * took[next_to]).all()
        assert (took[next_to + 1] >= took[next_to]).all()


def test_messages():
    def sent(size: int, a: int, b: int) -> float:
        return seconds(H200, f"r: RECV@COMM rank={b} group=0 bytes={size}\ns: SEND@COMM rank={a} group=0 bytes={size}", 16)

    assert sent(GIGA, 0, 1) == pytest.approx(8e-6 + 3.4e-6 + GIGA / 450e9, rel=1e-9)
    assert sent(GIGA, 9, 1) == pytest.approx(8e-6 + 14e-6 + GIGA / 50e9, rel=1e-9)
    assert sent(16384, 1, 9) == pytest.approx(8e-6 + 2.7e-6 + 16384 / (0.5 * 50e9), rel=1e-9)


def test_a_message_of_three():
    text = "s: SEND@COMM rank=0 group=0\nr: RECV@COMM rank=1,2 group=0"
    with pytest.raises(ValueError, match="task 0 is a message of 3 rows, expected SEND and RECV"):
        seconds(H200, text, 3)


def test_what_goes_through_the_hosts_memory_crosses_it_twice():
    memory = 4e9
    slow = made(
        2,
        1,
        topology=Topology.model_validate(
            {"peer": "pcie", "nics": 1, "gpudirect": False, "host": {"memory_bandwidth": memory, "efficiency": 1.0}}
        ),
    )
    assert seconds(slow, f"s: SEND@COMM rank=0 group=0 bytes={GIGA}\nr: RECV@COMM rank=1 group=0", 2) == pytest.approx(
        8e-6 + GIGA / (memory / 2), rel=1e-9
    )


def test_an_oversubscribed_spine_limits_an_all_to_all():
    keys = {"nodes_per_leaf": 2, "oversubscription": 4.0}
    fabric = Fabric(leaf_spine=LeafSpine(**keys))
    cluster = made(4, 1, topology=Topology(peer="pcie", nics=1, fabric=fabric))
    up = 2 * 10e9 / 4  # of a leaf; two machines send 2/3 of their bytes over it
    assert seconds(cluster, f"a: ALLTOALL@COMM all bytes={GIGA}", 4) == pytest.approx(8e-6 + 2 * 2 / 3 * GIGA / up, rel=1e-9)
    assert reduced(cluster, GIGA, 4) == pytest.approx(8.4e-6 + 1.5 * GIGA / 5e9, rel=1e-9)  # one edge of the ring goes up each leaf


def test_a_single_rank_takes_no_time():
    assert seconds(H200, "r: ALLREDUCE@COMM all bytes=1000000", 1) == 0


@pytest.mark.parametrize("nodes", range(1, 40))
def test_double_trees(nodes):
    """Each is a binary tree over all, and no machine has children in both, one of them aside (Sanders, Speck, Traeff 2009)."""
    inner = np.zeros(nodes, int)
    for parent in double_tree(nodes):
        assert (parent < 0).sum() == 1
        assert np.bincount(parent[parent >= 0], minlength=nodes).max(initial=0) <= 2
        for node in range(nodes):
            reached = set()
            while node >= 0:
                assert node not in reached
                reached.add(node)
                node = int(parent[node])
        inner[np.unique(parent[parent >= 0])] += 1
    assert (inner <= 1).sum() >= nodes - 1


@pytest.mark.slow
@given(st.data())
def test_any_subset_of_ranks_takes_what_its_links_take(data):
    """Against bytes counted one edge and one message after another."""
    gpus, nodes = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    ranks = sorted(data.draw(st.sets(st.integers(0, gpus * nodes - 1), min_size=2, max_size=8))) if gpus * nodes > 1 else []
    if not ranks:
        return
    shares = data.draw(st.lists(st.integers(0, 10**9), min_size=len(ranks), max_size=len(ranks)))
    intra, inter = 40e9, 10e9
    cluster = made(nodes, gpus, intra, inter, topology=Topology(peer="nvlink", nics=gpus), tuning=only("ring", "simple", **AT_ONCE))
    for op in ("ALLREDUCE", "ALLGATHER", "ALLTOALL"):
        rows = "\n".join(f"r{rank}: {op}@COMM rank={rank} group=0 bytes={share}" for rank, share in zip(ranks, shares, strict=True))
        took = seconds(cluster, rows, gpus * nodes)
        out: dict[tuple[int, bool], float] = {}
        into: dict[tuple[int, bool], float] = {}

        def send(a: int, b: int, moved: float, out=out, into=into) -> None:
            across = a // gpus != b // gpus
            out[a, across] = out.get((a, across), 0) + moved
            into[b, across] = into.get((b, across), 0) + moved

        machines = [[rank for rank in ranks if rank // gpus == node] for node in range(nodes)]
        machines = [machine for machine in machines if machine]
        rings = min(map(len, machines)) if len(machines) > 1 else 1
        if op == "ALLTOALL":
            for (a, share), b in product(zip(ranks, shares, strict=True), ranks):
                if a != b:
                    send(a, b, share / (len(ranks) - 1))
        else:
            for start in range(rings):
                order = [rank for machine in machines for rank in machine[start:] + machine[:start]]
                for a, b in zip(order, order[1:] + order[:1], strict=True):
                    if op == "ALLREDUCE":
                        send(a, b, 2 * (len(ranks) - 1) / len(ranks) * max(shares) / rings)
                    else:
                        send(a, b, (sum(shares) - shares[ranks.index(b)]) / rings)
        slowest = max(moved / (inter if across else intra) for ends in (out, into) for (_, across), moved in ends.items())
        assert took == pytest.approx((8e-6 if op == "ALLTOALL" else 8.4e-6) + slowest, rel=1e-9)
