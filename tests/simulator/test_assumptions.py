from __future__ import annotations

from dataclasses import replace

import pytest
from notation import NsCosts, each, gpus, write

from chronoscale.simulator.engine import replay
from chronoscale.simulator.uncertainty.assumptions import ASSUMPTIONS, Assumption, Scenario, effects
from chronoscale.simulator.uncertainty.spec import CERTAIN, DeviceClass, Stragglers, Uncertainty
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.topology import Topology

STEP = (
    "h{b}: H2D@H2D bytes=1000 iteration={b}",
    "b{b}: BACKWARD@COMPUTE ns=8000 kernels=2 iteration={b} <- h{b} o{p}?",
    "r{b}: ALLREDUCE@COMM all bytes=4000 iteration={b} <- b{b}",
    "o{b}: OPTIMIZE@COMPUTE ns=10 kernels=1 iteration={b} <- r{b}",
)
NAMES = {one.name: one for one in ASSUMPTIONS}


def cluster(ranks: int = 4, per_node: int = 2) -> Cluster:
    machines = gpus(ranks, per_node)
    device = replace(machines.device, flops=1e9, memory_bandwidth=1e9, launch_s=1e-6, h2d=Link(1e9, 1e-7))
    return replace(machines, device=device, intra=Link(1e9, 1e-7), inter=Link(0.5e9, 1e-6))


def tried(schedule: Schedule, where: Cluster, uncertainty: Uncertainty = CERTAIN) -> dict[str, tuple[float, float, float]]:
    by_name = effects(schedule, where, DatasheetCosts(where.device), uncertainty, 0)
    return {effect.assumption: (effect.epoch_s, effect.low_s, effect.high_s) for effect in by_name}


def test_each_assumption_alone_is_a_replay_of_the_same_plan():
    schedule, where = write(each(5, *STEP), 4).schedule, cluster()
    costs = DatasheetCosts(where.device)

    def span(cluster: Cluster, costs: DatasheetCosts) -> float:
        return replay(schedule, cluster, costs).span_ns / 1e9

    by_name, usual = tried(schedule, where), span(where, costs)
    assert {epoch for epoch, _, _ in by_name.values()} == {usual}
    assert by_name["kernel efficiency"][1:] == (span(where, replace(costs, efficiency=0.3)), span(where, replace(costs, efficiency=0.9)))
    quick = replace(where.device, launch_s=0.5e-6)
    assert by_name["kernel launch"][1] == span(replace(where, device=quick), DatasheetCosts(quick))
    slow = replace(where.device, h2d=Link(0.5e9, 1e-7))
    assert by_name["PCIe bandwidth"][1:] == (span(replace(where, device=slow), DatasheetCosts(slow)), usual)
    assert by_name["network bandwidth"][1] == span(replace(where, inter=Link(0.25e9, 1e-6)), costs)
    assert by_name["network latency"][2] == span(replace(where, inter=Link(0.5e9, 2e-6)), costs)
    assert by_name["jitter of rows"][1] == usual < by_name["jitter of rows"][2]


def test_a_slower_bus_is_slower_where_gpus_share_a_switch():
    """Two GPUs of a machine copy through one switch of 1.2 GB/s: less than what both may have, and halved with the rest of the bus."""
    schedule = write(each(3, "h{b}: H2D@H2D bytes=100000 iteration={b}"), 4).schedule

    def switched(bandwidth: float, each_bandwidth: float) -> Cluster:
        switches = {"count": 1, "gpus": 2, "nics": 1, "bandwidth": bandwidth}
        machines = replace(cluster(), topology=Topology.model_validate({"peer": "nvlink", "nics": 1, "switches": switches}))
        return replace(machines, contention=True, device=replace(machines.device, h2d=Link(each_bandwidth, 1e-7)))

    where = switched(1.2e9, 1e9)
    _, low, high = tried(schedule, where)["PCIe bandwidth"]
    slow = switched(0.6e9, 0.5e9)
    assert low == replay(schedule, slow, DatasheetCosts(slow.device)).span_ns / 1e9
    assert low == pytest.approx(2 * 3 * 100_000 / 0.6e9, rel=0.01) and high == pytest.approx(low / 2, rel=0.01)


def test_what_moves_nothing_is_left_out():
    """On one machine nothing crosses the network; on one rank nothing waits for the slowest."""
    schedule = write(each(3, *STEP), 4).schedule
    assert not {"network bandwidth", "network latency"} & set(tried(schedule, cluster(4, 4)))
    by_name = tried(write("b: BACKWARD@COMPUTE ns=8000", 1).schedule, cluster(1, 1))
    assert "latency inside a node" not in by_name
    assert by_name["slowest GPU"][2] == pytest.approx(1.5 * by_name["slowest GPU"][0], rel=1e-4)  # whole nanoseconds


def test_of_measured_costs_the_network_and_the_spread_remain():
    schedule, where = write(each(3, *STEP), 4).schedule, cluster()
    names = {effect.assumption for effect in effects(schedule, where, NsCosts(), CERTAIN, 0)}
    network = {"network latency", "network bandwidth", "bandwidth inside a node"}  # rails cross the links of a node
    assert names == network | {"jitter of rows", "sway of ranks", "slowest GPU"}


def test_stated_jitter_is_left_aside_and_classes_are_not():
    schedule, where = write(each(3, *STEP), 4).schedule, cluster()
    stated = Uncertainty(0.3, 0.3, Stragglers())
    assert tried(schedule, where, stated) == tried(schedule, where)
    slower = Uncertainty(classes=(DeviceClass(1.0, 0.25),))
    assert tried(schedule, where, slower)["kernel launch"][0] > tried(schedule, where)["kernel launch"][0]


@pytest.mark.parametrize("one", ASSUMPTIONS, ids=lambda one: one.name)
def test_an_assumption_says_what_it_is(one: Assumption):
    assert one.low != one.high and one.source
    assert one.lower is not None or one.upper is not None
    where = replace(cluster(), contention=True)
    usual = Scenario(where, DatasheetCosts(where.device), CERTAIN)
    assert any(change is not None and change(usual) != usual for change in (one.lower, one.upper))
    assert NAMES[one.name] is one
