"""Contention: what a replay makes of rows that want one device's memory and SMs, and one machine's switches and cards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from notation import NsCosts, gpus, write
from random_schedules import schedules

from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.network.collective_times import TimedCollectives
from chronoscale.simulator.network.nccl import tuning
from chronoscale.simulator.sharing.collective_kernels import device_shares, memory_bytes
from chronoscale.simulator.sharing.uncontended import UncontendedRows
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costing.nccl_constants import Channels
from chronoscale.strategies.costs import DatasheetCosts, Floats
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.trace import Trace

H200 = presets.cluster("h200")
FREE = replace(H200, contention=False)


class Half(NsCosts):
    """Every row of a device takes `nodes` % of its memory and `edges` % of its SMs."""

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        on_device = schedule.lane[rows] != Lane.HOST
        return schedule.nodes[rows] / 100 * on_device, schedule.edges[rows] / 100 * on_device


def both(schedule: Schedule, cluster: Cluster, costs: NsCosts | DatasheetCosts) -> Trace:
    """The trace, the same by either engine."""
    traces, other = (replay(schedule, cluster, costs, engine) for engine in ("native", "simpy"))
    assert (traces.start_ns == other.start_ns).all() and (traces.end_ns == other.end_ns).all()
    return traces


def test_two_lanes_of_a_device_share_its_memory() -> None:
    text = "a: AGGREGATE@COMPUTE nodes=80 ns=1000\nb: TEMPORAL@COMPUTE2 nodes=80 ns=1000"
    written = write(text)
    assert both(written.schedule, gpus(1, contention=True), Half()).end_ns.tolist() == [1600, 1600]
    assert both(written.schedule, gpus(1), Half()).end_ns.tolist() == [1000, 1000]
    assert both(write(text.replace("80", "50")).schedule, gpus(1, contention=True), Half()).end_ns.tolist() == [1000, 1000]


def test_memory_and_sms_are_two_resources_and_every_device_has_its_own() -> None:
    schedule = write("a: AGGREGATE@COMPUTE nodes=90 edges=10 ns=100\nb: TEMPORAL@COMPUTE2 nodes=5 edges=90 ns=100", 2).schedule
    assert both(schedule, gpus(2, contention=True), Half()).end_ns.tolist() == [100] * 4
    schedule = write("a: AGGREGATE@COMPUTE nodes=90 edges=60 ns=100\nb: TEMPORAL@COMPUTE2 nodes=5 edges=60 ns=100", 2).schedule
    assert both(schedule, gpus(2, contention=True), Half()).end_ns.tolist() == [120] * 4


def test_copies_to_gpus_on_one_switch_share_its_link_to_the_host() -> None:
    """Two GPUs a switch, whose link to the host is as wide as that of one."""
    size, bus = 55_629_000_000, H200.device.h2d
    copy, costs = f"h: H2D@H2D bytes={size} rank=", DatasheetCosts(H200.device)
    one, two, apart = (both(write(copy + ranks, 8).schedule, H200, costs).span_ns for ranks in ("0", "0,1", "0,2"))
    latency = bus.latency_s * 1e9
    assert one == pytest.approx(latency + size / bus.rate * 1e9, rel=1e-9)
    assert two == pytest.approx(latency + 2 * size / bus.rate * 1e9, rel=1e-9) and apart == one
    assert both(write(copy + "0,1", 8).schedule, FREE, costs).span_ns == one


@pytest.mark.parametrize(
    ("kernel", "size", "lost"),
    [
        ("edges=100", 1_000_000_000, 16 / 132),  # channels, an SM each
        ("edges=100", 50_000, 1 / 132),  # a channel has 32 kB at least
        ("edges=85", 1_000_000_000, 0.0),  # leaves SMs free
        ("nodes=100", 1_000_000_000, None),
        ("nodes=100", 50_000, None),
    ],
)
@pytest.mark.parametrize("nvls", [True, False])
def test_a_collective_takes_sms_and_memory_of_kernels_beside_it(kernel: str, size: int, lost: float | None, nvls: bool) -> None:
    """What a kernel loses is what the collective takes, while its bytes are under way; the collective is as fast as uncontended."""
    cluster = H200 if nvls else replace(H200, topology=H200.topology.model_copy(update={"nvls": False}))  # type: ignore[union-attr]
    reduce = f"r: ALLREDUCE@COMM all bytes={size}"
    uncontended_ns = both(write(reduce, 8).schedule, cluster, Half()).span_ns
    rows = UncontendedRows.of(write(reduce, 8).schedule, cluster, Half())
    moving = uncontended_ns - int(rows.crossed.traffic.latency_ns[0])  # type: ignore[union-attr]
    switched = nvls and size > 1_000_000
    written = write(f"{reduce}\nk: AGGREGATE@COMPUTE {kernel} ns=100000000", 8)
    trace = both(written.schedule, cluster, Half())
    assert written.span(trace, "r") == (0, uncontended_ns) and uncontended_ns < 100_000_000
    ways = 1 if switched else 2 * 7 / 8  # n bytes each way by NVSwitch, 2 * 7/8 n by a ring; at the rate of the memory
    expected = moving * lost if lost is not None else 2 * size * ways / (4.8e12 * 0.92) * 1e9
    assert [written.span(trace, f"k/{rank}")[1] - 100_000_000 for rank in range(8)] == [pytest.approx(expected, abs=2)] * 8


@pytest.mark.parametrize("seed", range(4))
def test_many_ranks_that_a_collective_joins(seed: int) -> None:
    """Each has kernels of its own length and shares, and copies, beside two collectives: up to a hundred activities share at a time."""
    rng = np.random.default_rng(seed)

    def values(low: int, high: int, alike: bool = False) -> str:
        return ",".join(map(str, np.repeat(rng.integers(low, high), 32) if alike else rng.integers(low, high, 32)))

    text = "\n".join(
        f"k{i}: AGGREGATE@COMPUTE edges={values(80, 101)} nodes={values(0, 101)} ns={values(10_000, 3_000_000, alike=i == 1)}\n"
        f"l{i}: TEMPORAL@COMPUTE2 edges={values(0, 101)} nodes={values(30, 101)} ns={values(10_000, 3_000_000)}\n"
        f"h{i}: H2D@H2D bytes={values(1, 10)} ns={values(10_000, 9_000_000)}"
        for i in range(3)
    )
    written = write(f"r: ALLREDUCE@COMM all bytes=100000000\n{text}\nx: ALLTOALL@COMM all bytes=50000000", 32)
    cluster = presets.scaled(H200, 32)
    shared, free = (both(written.schedule, one, Half()) for one in (cluster, replace(cluster, contention=False)))
    assert (shared.end_ns >= free.end_ns).all() and (shared.end_ns > free.end_ns).mean() > 0.5


def test_bytes_of_memory_that_collectives_move() -> None:
    """What ranks send and what they receive, also where they do not bring as much; one number of channels for all of them."""
    text = """
    r: ALLREDUCE@COMM all bytes=1000
    g: ALLGATHER@COMM all bytes=10,20,30,400
    x: ALLTOALL@COMM all bytes=0,0,0,300
    s: SEND@COMM group=7 bytes=50 rank=0
    t: RECV@COMM group=7 bytes=0 rank=1
    o: ALLREDUCE@COMM group=8 bytes=70 rank=2
    """
    cluster = replace(H200, tuning=tuning().model_copy(update={"channels": Channels(most=16, bytes=100)}))
    timed = TimedCollectives.of(write(text, 4).schedule, cluster)
    moved, of = memory_bytes(timed), np.repeat(timed.collectives.op, timed.collectives.size)
    single = np.repeat(timed.collectives.size == 1, timed.collectives.size)
    assert moved[(of == Op.ALLREDUCE) & ~single].tolist() == [3000.0] * 4
    assert moved[of == Op.ALLGATHER].tolist() == [440 + 450, 430 + 440, 60 + 430, 450 + 60]  # sent on round the ring, and received
    assert moved[of == Op.ALLTOALL].tolist() == [100, 100, 100, 300] and moved[of == Op.SEND].tolist() == [50, 50]
    memory, sms = device_shares(timed, cluster)
    assert not memory[single].any() and not sms[single].any()
    channels = {Op.ALLREDUCE: 10, Op.ALLGATHER: 4, Op.ALLTOALL: 3, Op.SEND: 1}
    for op, count in channels.items():
        assert sms[(of == op) & ~single].tolist() == [count / 132] * (2 if op is Op.SEND else 4)
    unknown = replace(cluster, device=replace(cluster.device, sms=0))
    assert not device_shares(timed, unknown)[1].any() and device_shares(timed, unknown)[0].any()
    assert not any(share.any() for share in device_shares(timed, replace(cluster, origin="fitted here")))


def test_a_collective_slows_down_where_one_of_its_links_is_busy() -> None:
    """An all-to-all of two machines, and a copy that takes what its first GPU needs of a switch."""
    together = write("x: ALLTOALL@COMM all bytes=1000000000\nh: H2D@H2D bytes=2000000000 rank=0,1", 16).schedule
    cluster = presets.scaled(H200, 16)
    shared, free = (both(together, one, DatasheetCosts(H200.device)) for one in (cluster, replace(cluster, contention=False)))
    assert (shared.end_ns >= free.end_ns).all() and shared.span_ns > 1.05 * free.span_ns


def test_a_demand_is_what_the_fullest_resource_gives() -> None:
    """Of a kernel the larger of its two shares; of what crosses links its bytes a second on the fullest one, shared or not."""
    schedule = write("a: AGGREGATE@COMPUTE nodes=90 edges=60\nb: TEMPORAL@COMPUTE2 nodes=30 edges=60").schedule
    shares = UncontendedRows.of(schedule, gpus(1, contention=True), Half()).shares
    assert shares is not None and shares.demand.tolist() == [0.9, 0.6]
    schedule, cluster = (
        write("x: ALLREDUCE@COMM all bytes=1000000000\nh: H2D@H2D bytes=2000000000 rank=0,1", 16).schedule,
        presets.scaled(H200, 16),
    )
    rows = UncontendedRows.of(schedule, cluster, DatasheetCosts(H200.device))
    assert rows.shares is not None and rows.crossed is not None
    traffic, apart = rows.crossed.traffic, 0
    for i, row in enumerate(traffic.row):
        uses = slice(traffic.ptr[i], traffic.ptr[i + 1])
        rates = traffic.bytes[uses] / ((rows.ns[row] - traffic.latency_ns[i]) * 1e-9)
        assert rows.shares.demand[row] == pytest.approx(rates.max() / cluster.device.memory_bandwidth, rel=1e-12)
        entries = rows.shares.resource[rows.shares.ptr[row] : rows.shares.ptr[row + 1]] - 2 * 16
        apart += rates.max() > 1.01 * rates[np.isin(traffic.link[uses], entries)].max()
    assert apart  # a row whose fullest link is one that it shares with nobody


@pytest.mark.slow
@given(schedules())
def test_rows_end_no_sooner_for_what_others_take(schedule: Schedule) -> None:
    rows = np.arange(len(schedule))
    messages = np.where(schedule.op == Op.SEND, np.uint8(Op.ALLTOALL), schedule.op)  # drawn ones have any number of ends
    varied = replace(schedule, op=messages, nodes=rows * 37 % 101, edges=rows * 53 % 101, flops=schedule.flops * 1000)
    try:
        replay(varied, gpus(4, 2), Half())
    except UserError:
        assume(False)  # ranks wait for one another in a cycle
    shared, free = (both(varied, gpus(4, 2, contention=one), Half()) for one in (True, False))
    assert (shared.end_ns >= free.end_ns).all() and (shared.duration_ns >= free.duration_ns).all()


def test_nothing_that_was_measured_together_is_shared_once_more() -> None:
    schedule = write("h: H2D@H2D bytes=1000\na: AGGREGATE@COMPUTE ns=9 <- h\nr: ALLREDUCE@COMM all bytes=10 <- a", 4).schedule
    measured = presets.local_cpu(4, 1e12, H200.inter)
    assert (
        UncontendedRows.of(schedule, measured, NsCosts()).shares is None and UncontendedRows.of(schedule, FREE, NsCosts()).crossed is None
    )
    assert UncontendedRows.of(schedule, H200, DatasheetCosts(H200.device)).shares is not None


@pytest.mark.parametrize(("cores", "sample", "kernel"), [(1.0, 2000, 3000), (1.5, 1333, 2333), (2.0, 1000, 2000), (0.0, 1000, 2000)])
def test_threads_of_a_cpu_rank_share_its_cores_but_for_those_that_wait(cores: float, sample: int, kernel: int) -> None:
    """What costs say of a GPU's memory and SMs is of none here; every rank has cores of its own."""
    wants = "nodes=90 edges=90" if cores else ""
    text = f"""
    s: SAMPLE@HOST {wants} ns=1000
    k: AGGREGATE@COMPUTE {wants} ns=2000
    f: FETCH@H2D {wants} ns=1500
    r: ALLREDUCE@COMM all bytes=1200
    """
    made = gpus(2, contention=True)
    written = write(text, 2)
    trace = both(written.schedule, replace(made, device=replace(made.device, on_host=True, cores=cores)), Half())
    ends = {label: [written.span(trace, f"{label}/{rank}")[1] for rank in (0, 1)] for label in "skfr"}
    assert ends == {"s": [sample] * 2, "k": [kernel] * 2, "f": [1500] * 2, "r": [1200] * 2}


@pytest.mark.parametrize(
    ("cores", "taken", "ends"),
    [(1.0, 1.0, (2400, 3200)), (1.0, 0.0, (1200, 2000)), (2.0, 1.0, (1200, 2000)), (1.0, 0.25, (1200, 2300))],
)
def test_ranks_of_one_machine_copy_messages_with_a_core(cores: float, taken: float, ends: tuple[int, int]) -> None:
    """A quarter of what a rank's four threads take together, too."""
    made, written = gpus(2, contention=True), write("r: ALLREDUCE@COMM all bytes=1200\nk: AGGREGATE@COMPUTE ns=2000", 2)
    trace = both(written.schedule, replace(made, device=replace(made.device, on_host=True, cores=cores, message_cores=taken)), NsCosts())
    assert [(written.span(trace, f"r/{rank}")[1], written.span(trace, f"k/{rank}")[1]) for rank in (0, 1)] == [ends] * 2
