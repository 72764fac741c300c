from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import gpus, write

from chronoscale.simulator import presets
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.presets import local_cpu
from chronoscale.strategies.cluster import Cluster, Device, Link, PairLink
from chronoscale.strategies.trace import Source

DEVICE = Device("d", 1e9, 1e12, 1e12, Link(1e9, 0.0), 0.0)
CLUSTER = Cluster(
    "c", DEVICE, 2, 2, Link(100e9, 2e-6), Link(10e9, 5e-6), "specified by hand", collectives="alpha-beta"
)  # intra: 100 B/ns, inter: 10 B/ns


def ns(text: str, ranks: int = 4, cluster: Cluster = CLUSTER) -> list[int]:
    schedule = write(text, ranks).schedule
    rows, times = collective_times.times(schedule, cluster)
    result = np.full(len(schedule), -1)
    result[rows] = times
    return result.tolist()


def test_ring_all_reduce_within_a_node():
    assert ns("r: ALLREDUCE@COMM all bytes=1000000", ranks=2) == [2 * 1 * 2000 + 2 * 1 * 1_000_000 // 2 // 100] * 2


def test_ring_all_reduce_across_nodes():
    assert ns("r: ALLREDUCE@COMM all bytes=1000000") == [2 * 3 * 5000 + 2 * 3 * 1_000_000 // 4 // 20] * 4  # two rails


def test_rails_of_a_cluster_of_eight_gpus_a_machine():
    """1 GB over 2 x 8 GPUs: 37.9 ms on one ring, 5.1 on eight rails."""
    cluster = replace(presets.cluster("h200"), nodes=2, collectives="alpha-beta", intra=Link(450e9, 3.4e-6), inter=Link(50e9, 1.4e-5))
    schedule = write("r: ALLREDUCE@COMM all bytes=1000000000", 16).schedule
    assert collective_times.times(schedule, cluster)[1][0] == round((2 * 15 * 1.4e-5 + 2 * 15 / 16 * 1e9 / (8 * 50e9)) * 1e9)
    narrow = replace(cluster, intra=Link(100e9, 1e-6))  # all rings cross the link inside a machine
    assert collective_times.times(schedule, narrow)[1][0] == round((2 * 15 * 1.4e-5 + 2 * 15 / 16 * 1e9 / 100e9) * 1e9)


def test_the_machine_with_fewest_ranks_says_how_many_rails_there_are():
    text = "\n".join(f"r{rank}: ALLREDUCE@COMM rank={rank} group=0 bytes=6000000" for rank in range(3))
    assert ns(text) == [round(2 * 2 * 5000 + 2 * 2 / 3 * 6_000_000 / 10)] * 3


def test_all_gather_waits_for_the_largest_share_to_travel():
    assert ns("r: ALLGATHER@COMM all bytes=1000") == [3 * 5000 + 3 * 1000 // 20] * 4
    assert ns("r: ALLGATHER@COMM all bytes=0,0,0,4000") == [3 * 5000 + 200] * 4


def test_pairwise_all_to_all_is_as_slow_as_its_busiest_rank():
    assert ns("r: ALLTOALL@COMM all bytes=100,100,9000,100") == [3 * 5000 + 900] * 4


def test_messages_take_the_link_between_their_ranks():
    assert ns("s: SEND@COMM rank=2 group=0 bytes=1000\nr: RECV@COMM rank=3 group=0 bytes=1000") == [2000 + 10] * 2
    assert ns("s: SEND@COMM rank=1 group=0 bytes=1000\nr: RECV@COMM rank=2 group=0 bytes=1000") == [5000 + 100] * 2


def test_messages_take_the_link_of_their_machines_where_that_was_measured():
    cluster = replace(
        CLUSTER, nodes=3, messages=(PairLink(0, 1, Link(1e9, 1e-6)), PairLink(1, 2, Link(5e8, 3e-6)), PairLink(0, 0, Link(2e9, 0.0)))
    )

    def message(source: int, target: int) -> list[int]:
        text = f"s: SEND@COMM rank={source} group=0 bytes=1000\nr: RECV@COMM rank={target} group=0 bytes=1000"
        return ns(text, 6, cluster)

    assert message(1, 2) == message(3, 0) == [1000 + 1000] * 2  # either way
    assert message(4, 3) == [3000 + 2000] * 2
    assert message(0, 1) == [500] * 2
    assert message(2, 3) == [2000 + 10] * 2 and message(5, 1) == [5000 + 100] * 2  # not measured
    assert ns("r: ALLREDUCE@COMM all bytes=1000000", cluster=cluster) == ns("r: ALLREDUCE@COMM all bytes=1000000")


def test_a_single_rank_takes_no_time_and_other_rows_are_left_out():
    assert ns("a: AGGREGATE@COMPUTE\nr: ALLREDUCE@COMM all bytes=1000000", ranks=1) == [-1, 0]


def test_an_all_reduce_over_all_ranks_uses_the_link_of_the_cluster():
    for ranks in (2, 3, 4):
        link = CLUSTER.link(ranks)
        rails = 2 if ranks == 4 else 1  # of three ranks one machine has one
        expected = (2 * (ranks - 1) * link.latency_s + 2 * (ranks - 1) / ranks * 600_000 / link.bandwidth / rails) * 1e9
        assert ns("r: ALLREDUCE@COMM all bytes=600000", ranks) == [round(expected)] * ranks


def test_a_small_all_reduce_takes_trees():
    assert ns("r: ALLREDUCE@COMM all bytes=600") == [2 * 2 * 5000 + 2 * 600 // 20] * 4


def test_on_a_fitted_link_the_ring_stays():
    cluster = local_cpu(4, 8e9, Link(1e9, 1e-5))
    schedule = write("r: ALLREDUCE@COMM all bytes=600", 4).schedule
    assert collective_times.times(schedule, cluster)[1].tolist() == [2 * 3 * 10_000 + 900] * 4


def test_all_gathers_may_have_been_measured_for_themselves():
    cluster = local_cpu(4, 8e9, Link(1e9, 1e-5), Link(2e9, 3e-5))
    schedule = write("r: ALLREDUCE@COMM all bytes=600\ng: ALLGATHER@COMM all bytes=1000 <- r", 4).schedule
    assert collective_times.times(schedule, cluster)[1].tolist() == [2 * 3 * 10_000 + 900] * 4 + [3 * 30_000 + 3 * 500] * 4


@pytest.mark.parametrize("line", ["r: ALLREDUCE@COMM", "r: FETCH@COMM group=3"])
def test_a_collective_id_goes_with_communication(line):
    with pytest.raises(ValueError, match=r"task 0 is (ALLREDUCE|FETCH) with collective id"):
        ns(line, ranks=1)


def test_fitted_links_say_so():
    assert collective_times.origin(CLUSTER) is Source.SPECIFIED
    assert collective_times.origin(local_cpu(2, 8e9, Link(1e9, 1e-5))) is Source.FITTED
    assert collective_times.origin(gpus(2)) is Source.SPECIFIED
