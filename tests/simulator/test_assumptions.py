"""Assumptions: each changes what its name says, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import NsCosts, each, gpus, write

from chronoscale.harness.simulate.trials import Drawn, Trials
from chronoscale.harness.study.testbeds.host_costs import Rates, ServerCosts
from chronoscale.simulator.engine import replay
from chronoscale.simulator.uncertainty.assumptions import ASSUMPTIONS, Assumption, assume, assumptions_of
from chronoscale.simulator.uncertainty.joint import Trial, epoch_s
from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.simulator.uncertainty.spec import CERTAIN, DeviceClass, Stragglers, Uncertainty
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.topology import Topology

STEP = (
    "h{b}: H2D@H2D bytes=1000 iteration={b}",
    "b{b}: BACKWARD@COMPUTE ns=8000 bytes=4000 kernels=2 iteration={b} <- h{b} o{p}?",
    "g{b}: AGGREGATE@COMPUTE bytes=4000 kernels=1 width=8 iteration={b} <- b{b}",
    "r{b}: ALLREDUCE@COMM all bytes=4000 iteration={b} <- g{b}",
    "x{b}: ALLTOALL@COMM all bytes=4000 iteration={b} <- r{b}",
    "o{b}: OPTIMIZE@COMPUTE bytes=400 kernels=1 iteration={b} <- x{b}",
)
BY_NAME = {one.name: one for one in ASSUMPTIONS}
SWITCHES = {"count": 1, "gpus": 2, "nics": 1, "bandwidth": 1.2e9, "efficiency": 0.9}


def cluster(ranks: int = 4, per_node: int = 2, **keys: object) -> Cluster:
    machines = gpus(ranks, per_node)
    reaches = {"flops": 1e9, "memory_bandwidth": 1e9, "memory_efficiency": 0.9, "sms": 64, "threads": 2}
    device = replace(machines.device, **reaches, launch_s=1e-6, h2d=Link(1e9, 1e-7, 0.9))
    topology = Topology.model_validate({"peer": "nvlink", "nics": 1, "switches": SWITCHES if per_node == 2 else None})
    return replace(
        machines,
        device=device,
        intra=Link(1e9, 1e-7, 0.8),
        inter=Link(0.5e9, 1e-6, 0.9),
        topology=topology,
        contention=True,
        collectives="nccl",
    )


def scenario(schedule: Schedule, where: Cluster, constant_bytes: int = 0) -> Scenario:
    return Scenario(schedule, where, DatasheetCosts(where.device), CERTAIN, constant_bytes)


def with_one(usual: Scenario, name: str, value: float) -> float:
    return epoch_s(assume(usual, [BY_NAME[name]], [value]), 0)


def span_s(schedule: Schedule, where: Cluster, costs: DatasheetCosts | None = None) -> float:
    return replay(schedule, where, costs or DatasheetCosts(where.device)).span_ns / 1e9


def test_each_alone_is_a_replay_of_the_same_plan() -> None:
    schedule, where = write(each(5, *STEP), 4).schedule, cluster()
    usual, device = scenario(schedule, where), where.device
    assert epoch_s(usual, 0) == span_s(schedule, where)

    def of_device(**keys: object) -> Cluster:
        return replace(where, device=replace(device, **keys))

    assert where.topology is not None and where.topology.switches is not None
    without = where.topology.model_copy(update={"switches": None})
    slower = where.topology.model_copy(update={"switches": where.topology.switches.model_copy(update={"efficiency": 0.75})})
    expected = {
        ("GPUs on a PCIe uplink", 1): replace(where, topology=without),
        ("what copies reach of PCIe", 0.75): of_device(h2d=Link(1e9, 1e-7, 0.75)),
        ("what PCIe uplinks reach", 0.75): replace(where, topology=slower),
        ("latency of copies", 2): of_device(h2d=Link(1e9, 2e-7, 0.9)),
        ("what links in machines reach", 0.65): replace(where, intra=Link(1e9, 1e-7, 0.65)),
        ("latency in machines", 2): replace(where, intra=Link(1e9, 2e-7, 0.8)),
        ("what the network reaches", 0.5): replace(where, inter=Link(0.5e9, 1e-6, 0.5)),
        ("latency of the network", 0.5): replace(where, inter=Link(0.5e9, 0.5e-6, 0.9)),
        ("memory that kernels share", 0.8): of_device(memory_efficiency=0.8),
        ("launch of a kernel", 2): of_device(launch_s=2e-6, graph_s=device.graph_s * 2),
    }
    for (name, value), there in expected.items():
        assert with_one(usual, name, value) == span_s(schedule, there), name
    twice = replace(schedule, kernels=schedule.kernels * 2)
    assert with_one(usual, "kernels of an operation", 2) == span_s(twice, where)
    assert with_one(usual, "sends at once in all-to-alls", 1 / 8) > epoch_s(usual, 0)
    for name in ("what passes over arrays reach", "what reads of scattered rows reach", "what dense products reach"):
        assert with_one(usual, name, BY_NAME[name].low) > with_one(usual, name, BY_NAME[name].high), name


def test_work_of_one_kind_alone_takes_another_share() -> None:
    """A read of scattered rows at half of what it usually reaches takes twice as long; dense products stay."""
    schedule, where = (
        write("a: AGGREGATE@COMPUTE bytes=1000000 width=8\nt: TRANSFORM@COMPUTE ns=1000000 <- a", 1).schedule,
        cluster(1, 1),
    )
    costs = replace(DatasheetCosts(where.device), reached=(("gather", 0.25),))
    (before, product), (after, same) = (one.predict(schedule, np.arange(1))[0].tolist() + one.predict(schedule, np.array([1]))[0].tolist()
        for one in (replace(costs, reached=(("gather", 0.5),)), costs))  # fmt: skip
    assert after == pytest.approx(2 * before, rel=1e-6) and product == same == pytest.approx(1e6 / 0.6, rel=1e-6)


def test_sms_of_a_collective_are_those_of_kernels_beside_it() -> None:
    text = "r: ALLREDUCE@COMM all bytes=10000000\na: AGGREGATE@COMPUTE bytes=100000000000 rows=100 width=8"
    where = cluster()
    usual = scenario(write(text, 4).schedule, replace(where, device=replace(where.device, memory_bandwidth=1e12)))
    few, some, most = (with_one(usual, "SMs that a collective takes", sms) for sms in (1, 16, 32))
    assert some - few == pytest.approx(15 / 16 * (most - some), rel=1e-6) and most > some == epoch_s(usual, 0)
    assert BY_NAME["SMs that a collective takes"].usual(usual._replace(cluster=replace(where, contention=False))) is None


@pytest.mark.parametrize(
    ("row", "name", "value", "usual_ns", "ns"),
    [
        ("s: SAMPLE@HOST edges=3000000", "what a host samples", 2, 3_000_000, 1_500_000),
        ("s: GATHER@HOST bytes=3000000", "what a host copies", 0.5, 3_000_000, 6_000_000),
        ("s: SAMPLE@HOST rows=2000000 edges=1000000", "ids that a host looks through", 2, 1_000_000 + 3_000_000, 1_000_000 + 1_500_000),
        ("k: AGGREGATE@COMPUTE bytes=933000000", "what kernels reach of the peak", 0.3, 1_000_000, 2_000_000),
        ("f: FETCH@H2D bytes=3000000 edges=5", "request of a data engine", 2, 8_000_000, 13_000_000),
        ("f: FETCH@H2D bytes=3000000 edges=5", "what a data engine moves", 2, 8_000_000, 6_500_000),
    ],
)
def test_what_costs_take_for_granted(row: str, name: str, value: float, usual_ns: int, ns: int) -> None:
    """1e9 neighbours, bytes and ids a second on a host, 60 % of an A100's 1.555 TB/s, 1 ms a request and 1e9 B/s of an engine."""
    rates = Rates(sample=1e9, gather=1e9, distinct=1e9)
    costs = DatasheetCosts(rates.cluster.device, engine=Link(1e9, 1e-3)) if "engine" in name else ServerCosts(rates)
    feeding = "unique compressed" if "ids" in name else "slots"
    usual = Scenario(replace(write(row).schedule, feeding=feeding), rates.cluster, costs, CERTAIN)
    assert epoch_s(usual, 0) * 1e9 == pytest.approx(usual_ns, rel=0.01) and with_one(usual, name, value) * 1e9 == pytest.approx(
        ns, rel=0.01
    )
    other = Scenario(write("h: H2D@H2D bytes=900").schedule, rates.cluster, costs, CERTAIN)  # does nothing of it
    assert BY_NAME[name].usual(other) is None or name == "what kernels reach of the peak"


def test_costs_say_what_they_assume_nothing_of() -> None:
    for costs, what in ((ServerCosts(Rates()), "engine"), (DatasheetCosts(Rates().cluster.device, engine=Link(1e9, 1e-3)), "sample")):
        with pytest.raises(ValueError, match=f"nothing is assumed of '{what}'"):
            costs.assuming(what, 5.0)  # type: ignore[arg-type, union-attr]


def test_channels_are_assumed_wherever_they_are_taken() -> None:
    where, channels = cluster(), BY_NAME["SMs that a collective takes"]
    reduce, none = (
        scenario(write("r: ALLREDUCE@COMM all bytes=8", 4).schedule, where),
        scenario(write("b: BACKWARD@COMPUTE", 4).schedule, where),
    )
    assert channels.usual(reduce) == channels.usual(reduce._replace(cluster=replace(where, collectives="alpha-beta"))) == 16
    assert channels.usual(none) is channels.usual(reduce._replace(cluster=replace(where, origin="fitted here"))) is None


def test_features_that_stay_are_sent_once_an_iteration() -> None:
    """Of each rank's copies with features the first of an iteration has them; a smaller copy has none."""
    rows = ["a{b}: H2D@H2D bytes=900 iteration={b}", "c{b}: H2D@H2D bytes=900 iteration={b}", "d{b}: H2D@H2D bytes=300 iteration={b}"]
    schedule = write(each(2, *rows), 2).schedule
    usual = scenario(schedule, cluster(2, 2), constant_bytes=500)
    changed = assume(usual, [BY_NAME["features sent with every snapshot"]], [0.0]).schedule
    assert sorted(changed.bytes.tolist()) == sorted([900, 400, 300] * 2 * 2)
    assert BY_NAME["features sent with every snapshot"].usual(scenario(schedule, cluster(2, 2))) is None
    one = write("a: H2D@H2D bytes=900", 2).schedule
    assert BY_NAME["features sent with every snapshot"].usual(scenario(one, cluster(2, 2), 500)) is None


def test_an_operation_of_one_kernel_keeps_it() -> None:
    schedule = write(
        "b: BACKWARD@COMPUTE ns=8000 kernels=1\nc: COPY@COMPUTE bytes=10 kernels=3\nd: COPY@COMPUTE bytes=10 kernels=0", 1
    ).schedule
    halved = assume(scenario(schedule, cluster(1, 1)), [BY_NAME["kernels of an operation"]], [0.5]).schedule
    assert sorted(halved.kernels.tolist()) == [0, 1, 2]


def test_what_matters_nothing_is_left_out() -> None:
    """On one machine nothing crosses the network; a board without switches has none; one share of peak for all has no kinds."""
    schedule = write(each(3, *STEP), 4).schedule
    names = {one.name for one in assumptions_of(scenario(schedule, cluster(4, 4)))}
    assert not {"what the network reaches", "latency of the network", "GPUs on a PCIe uplink", "what PCIe uplinks reach"} & names
    where = cluster()
    assert "sends at once in all-to-alls" not in {
        one.name for one in assumptions_of(scenario(schedule, replace(where, collectives="alpha-beta")))
    }
    names = {one.name for one in assumptions_of(scenario(write("b: BACKWARD@COMPUTE ns=8000", 1).schedule, cluster(1, 1)))}
    assert not {"latency in machines", "what links in machines reach", "sends at once in all-to-alls"} & names
    flat = scenario(schedule, where)._replace(costs=DatasheetCosts(where.device, efficiency=0.5))
    assert not any("arrays" in one.name or "dense" in one.name for one in assumptions_of(flat))


def test_of_measured_costs_the_network_and_the_spread_remain() -> None:
    where = cluster()
    usual = Scenario(write(each(3, *STEP), 4).schedule, where, NsCosts(), CERTAIN)
    names = [one.name for one in assumptions_of(usual)]
    assert not any(word in name for name in names for word in ("kernel", "copies", "reads", "dense"))
    assert {"what the network reaches", "jitter of rows", "sway of ranks", "slowest GPU", "GPUs on a PCIe uplink"} <= set(names)


def test_spread_is_a_median_and_a_straggler_is_as_slow_as_it_says() -> None:
    where = cluster(1, 1)
    usual = scenario(write("b: BACKWARD@COMPUTE ns=8000000", 1).schedule, where)
    trial = Trial(usual, (BY_NAME["jitter of rows"], BY_NAME["slowest GPU"]), 0)
    assert trial.single(1, 1.5) == pytest.approx(1.5 * epoch_s(usual, 0), rel=1e-4)  # whole nanoseconds
    drawn = [epoch_s(usual._replace(uncertainty=Uncertainty(0.2)), 0, draw) for draw in range(3)]
    assert trial.single(0, 0.2) == sorted(drawn)[1] and trial.single(0, 0.0) == epoch_s(usual, 0)


def test_what_is_stated_of_the_spread_is_usual() -> None:
    """Ranges reach to it; stragglers stay as many and what they are; what a profile has shown is not drawn."""
    stated = Uncertainty(0.3, 0.05, Stragglers(3, "node", 1.2))
    where = replace(cluster(), inter=Link(0.5e9, 1e-6, 0.4))
    usual = scenario(write(each(3, *STEP), 4).schedule, where)._replace(uncertainty=stated)
    names = "jitter of rows", "sway of ranks", "slowest GPU"
    assert [BY_NAME[name].usual(usual) for name in names] == [0.3, 0.05, 1.2]
    trials = Trials.of({"a": usual}, 2, 0)
    ranges = {one.name: (one.low, one.high) for one in trials.assumptions}
    assert [ranges[name] for name in (*names, "what the network reaches")] == [(0, 0.3), (0, 0.2), (1, 1.5), (0.4, 0.99)]
    assert assume(usual, [BY_NAME["slowest GPU"]], [1.5]).uncertainty.stragglers == Stragglers(3, "node", 1.5)
    assert assume(usual, [BY_NAME["slowest GPU"]], [1.0]).uncertainty.stragglers is None
    of_profile = usual._replace(uncertainty=Uncertainty("fitted", "fitted"))
    assert not {"jitter of rows", "sway of ranks"} & {one.name for one in assumptions_of(of_profile)}


def test_one_scenario_under_two_names_has_the_same_epochs_in_every_joint_draw() -> None:
    usual = scenario(write(each(3, *STEP), 4).schedule, cluster())
    trials = Trials.of({"a": usual, "bc": usual}, 4, 0)
    drawn = {name: [trials.epoch_s(Drawn(name, draw)) for draw in range(4)] for name in trials.trials}
    assert drawn["a"] == drawn["bc"] and len({*drawn["a"]}) == 4


def test_what_collectives_take_to_start_is_times_that_of_nccl() -> None:
    schedule, where = write("r: ALLREDUCE@COMM all bytes=8", 4).schedule, cluster()
    start = [with_one(scenario(schedule, where), "start of a collective", times) for times in (1, 2, 10)]
    assert start[2] - start[0] == pytest.approx(9 * (start[1] - start[0]), rel=0.01) and start[1] > start[0]


def test_classes_of_devices_stay() -> None:
    usual = scenario(write(each(3, *STEP), 4).schedule, cluster())
    slower = usual._replace(uncertainty=Uncertainty(classes=(DeviceClass(1.0, 0.25),)))
    changed = assume(slower, [BY_NAME["slowest GPU"], BY_NAME["sway of ranks"]], [1.5, 0.1]).uncertainty
    assert changed == Uncertainty(0.0, 0.1, Stragglers(1, "gpu", 1.5), slower.uncertainty.classes)


@pytest.mark.parametrize("one", ASSUMPTIONS, ids=lambda one: one.name)
def test_an_assumption_says_what_it_is(one: Assumption) -> None:
    assert one.low < one.high and one.source and one.shown(one.low) != one.shown(one.high)
    assert (one.value(0.0), one.value(1.0)) == (pytest.approx(one.low), pytest.approx(one.high))
    assert one.low <= one.value(0.37) <= one.high
    usual = scenario(
        write(each(3, "h{b}: H2D@H2D bytes=900 iteration={b}", "i{b}: H2D@H2D bytes=900 iteration={b}", *STEP[1:]), 4).schedule,
        cluster(),
        500,
    )
    device = usual.cluster.device
    others = (DatasheetCosts(device, efficiency=0.5, engine=Link(1e9, 1e-4)), ServerCosts(Rates()))
    host = write("s: SAMPLE@HOST edges=9\ng: GATHER@HOST bytes=900\nf: FETCH@H2D bytes=900", 4).schedule
    every = [usual, *(usual._replace(costs=costs, schedule=replace(host, feeding="slots")) for costs in others)]
    gather = write("s: ALLGATHER@COMM all nodes=9 rows=2", 4).schedule
    every.append(usual._replace(schedule=replace(gather, kind="spread", feeding="parts significant recent shared")))
    usual = next(each for each in every if one.usual(each) is not None)
    value = one.usual(usual)
    assert value is not None and one.low <= value <= one.high
    other = one.low if value == one.high else one.high
    changed = one.change(usual, other)
    times_usual = one.form.startswith("×") and not one.noise
    assert changed != usual and one.usual(changed) in (None, 1.0 if times_usual else other)
    assert assume(usual, [one], [value]) is usual
