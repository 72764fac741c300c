"""Costs: a datasheet's by hand, and fitted curves inside and outside what they were fitted on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from notation import write

from chronoscale.errors import UserError
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costing.calibrated import CalibratedCosts
from chronoscale.strategies.costing.roofline import work_kinds
from chronoscale.strategies.costs import FORMS, CostModel, DatasheetCosts, Fit, FittedCosts, Floats, launch_overlap_ns
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule
from chronoscale.strategies.trace import Source

# 1 FLOP/ns, 4 B/ns; a copy to the device: 2 B/ns after 700 ns; a kernel 30 ns of the host, or 9 ns in a graph
DEVICE = Device("d", 1e9, 1e9, 4e9, Link(2e9, 700e-9), 30e-9, graph_s=9e-9)


def one(op: str, lane: str, **columns: int) -> Schedule:
    """A schedule of one row."""
    schedule = write(f"x: {op}@{lane}").schedule
    same = {"flops": 0, "bytes": 0, **columns}
    return replace(schedule, **{name: np.full(1, value, getattr(schedule, name).dtype) for name, value in same.items()})


@pytest.mark.parametrize(
    ("row", "ns"),
    [
        (one("H2D", "H2D", bytes=1000), 700 + 500),
        (one("D2H", "D2H", bytes=1000), 700 + 500),
        (one("GATHER", "HOST", bytes=1000), 700 + 500),  # datasheets name no host memory
        (one("COPY", "COMPUTE", bytes=1000), 500),  # 250 ns at half of the peak
        (one("AGGREGATE", "COMPUTE", bytes=1000, flops=800), 1600),
        (one("AGGREGATE", "COMPUTE", bytes=8000, flops=800), 4000),
    ],
)
def test_a_datasheet_by_hand(row: Schedule, ns: int) -> None:
    duration, source = DatasheetCosts(DEVICE, efficiency=0.5).predict(row, np.array([0]))
    assert duration.tolist() == [ns] and source is Source.SPECIFIED


def test_a_copy_reaches_a_share_of_the_bus() -> None:
    costs = DatasheetCosts(replace(DEVICE, h2d=replace(DEVICE.h2d, efficiency=0.8)))
    for row in (one("H2D", "H2D", bytes=1000), one("D2H", "D2H", bytes=1000)):
        assert costs.predict(row, np.array([0]))[0].tolist() == [700 + 625]


CHIP = replace(DEVICE, memory_latency_s=50e-9, sms=4, threads=100)  # 4 B/ns, 1 FLOP/ns


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (one("COPY", "COMPUTE", bytes=8000, kernels=1), (8000 / 4 + 50) / 0.89),  # as bandwidth x latency = 200 bytes more
        (one("OPTIMIZE", "COMPUTE", bytes=8000, kernels=9), (8000 / 4 + 9 * 50) / 0.89),
        (one("AGGREGATE", "COMPUTE", bytes=8000, kernels=1, width=16), (8000 / 4 + 50) / 0.534),
        (one("AGGREGATE", "COMPUTE", bytes=8000, kernels=1, width=10), (8000 / 4 + 50) / 0.534 * 64 / 40),  # 40 bytes of two sectors
        (one("AGGREGATE", "COMPUTE", bytes=8000, kernels=1), (8000 / 4 + 50) / 0.534),  # of rows of unknown width
        (one("TEMPORAL", "COMPUTE", bytes=400, flops=6000, kernels=2), 6000 / 0.6 + 2 * 50 / 0.89),
        (one("RECONSTRUCT", "COMPUTE", bytes=4000, kernels=1), (4000 / 4 + 50) / 0.605),
    ],
)
def test_each_kind_of_work_reaches_its_own_share_of_a_datasheet(row: Schedule, expected: float) -> None:
    assert DatasheetCosts(CHIP).predict(row, np.array([0]))[0].tolist() == [round(expected)]


def test_half_of_the_bandwidth_is_reached_by_what_is_on_its_way_at_once() -> None:
    """Little's law: bandwidth x latency bytes."""
    full, half = (one("COPY", "COMPUTE", bytes=size, kernels=1) for size in (200_000_000, 200))
    speed = [row.bytes[0] / DatasheetCosts(CHIP).predict(row, np.array([0]))[0][0] for row in (full, half)]
    assert speed[0] == pytest.approx(0.89 * 4, rel=1e-6) and speed[1] == pytest.approx(speed[0] / 2, rel=0.01)


def test_every_operation_of_a_device_has_its_kind_of_work() -> None:
    elsewhere = COLLECTIVES | {Op.SAMPLE, Op.FETCH, Op.H2D, Op.D2H, Op.COMPUTE, Op.GRAPH}  # the last two come with their durations
    assert set(work_kinds()) == set(Op) - elsewhere
    assert all(0 < kind.bandwidth <= 1 and 0 < kind.flops <= 1 for kind in work_kinds().values())


def test_costs_say_what_they_assume() -> None:
    names = [DatasheetCosts(DEVICE).name, DatasheetCosts(DEVICE, 0.6).name, DatasheetCosts(DEVICE, launch="graph").name]
    assert names == ["d datasheet, roofline by operation", "d datasheet, 60% of peak", "d datasheet, roofline by operation, CUDA graphs"]


def taken(costs: CostModel, row: Schedule) -> tuple[Floats, Floats]:
    """Of the one row that there is, while it is alone."""
    return costs.occupies(row, np.array([0]), costs.predict(row, np.array([0]))[0])


@pytest.mark.parametrize(
    ("row", "shares"),
    [
        (one("COPY", "COMPUTE", bytes=1000, rows=10, width=20), (1.0, 200 / 400)),  # 250 ns of bytes in 250 ns
        (one("AGGREGATE", "COMPUTE", bytes=1000, flops=1000, rows=30, width=20), (0.25, 1.0)),
        (one("OPTIMIZE", "COMPUTE", bytes=1000, flops=500, rows=40), (0.5, 40 / 400)),  # a parameter a thread
        (one("H2D", "H2D", bytes=1000, rows=10, width=20), (250 / 1200, 0.0)),  # the copy engine's, which needs no SM
        (one("GATHER", "HOST", bytes=1000, rows=10, width=20), (0.0, 0.0)),
        (one("FETCH", "HOST", bytes=1000, rows=10, width=20), (0.0, 0.0)),
    ],
)
def test_what_a_row_takes_of_a_device_while_it_is_alone(row: Schedule, shares: tuple[float, float]) -> None:
    memory, sms = taken(DatasheetCosts(CHIP, efficiency=1.0), row)
    assert (memory[0], sms[0]) == pytest.approx(shares, abs=1e-9)
    assert taken(DatasheetCosts(DEVICE, efficiency=1.0), row)[1].tolist() == [0.0]  # of SMs that nobody has counted


def test_fitted_costs_know_shares_of_a_gpu_whose_peaks_are_known() -> None:
    row = replace(aggregate(1000), bytes=np.array([5600]), rows=np.array([20]))  # 2,800 ns
    assert [part.tolist() for part in taken(COSTS, row)] == [[0.0], [0.0]]
    gpu = replace(COSTS, launch_ns=5, peaks=CHIP)
    assert np.concatenate(taken(gpu, row)) == pytest.approx([0.5, 160 / 400])
    assert taken(replace(gpu, launch_ns=0), row)[0].tolist() == [0.0]
    guess = CalibratedCosts(COSTS, DatasheetCosts(CHIP, efficiency=1.0), 2.0)
    assert taken(guess, row)[0] == pytest.approx([0.5])  # twice what the guess alone would take


def test_kernels_are_launched_by_the_host_or_take_a_moment_in_a_graph() -> None:
    row = one("AGGREGATE", "COMPUTE", bytes=1000, kernels=6)
    eager, graph = (DatasheetCosts(DEVICE, 0.5, launch=launch) for launch in ("eager", "graph"))  # type: ignore[arg-type]
    assert (eager.launch_ns, graph.launch_ns) == (30, 0)
    assert eager.predict(row, np.array([0]))[0].tolist() == [500] and graph.predict(row, np.array([0]))[0].tolist() == [500 + 6 * 9]


@pytest.mark.parametrize(("kernels", "ns", "hidden"), [(1, 500, 0), (5, 500, 4 * 30), (5, 50, 4 * 10), (0, 500, 0)])
def test_what_a_row_does_beside_its_launches(kernels: int, ns: int, hidden: int) -> None:
    """All kernels but the last run while others are launched, for as long as they last or the launches do."""
    assert launch_overlap_ns(np.array([kernels]), np.array([ns]), 30).tolist() == [hidden]


CURVE = Fit("AGGREGATE", 8, "eq16", (3.0, 2.0, 500.0), {"nodes": 100, "edges": 1000}, {"nodes": 100, "edges": 5000}, 0.01, 20)
COSTS = FittedCosts("this machine", (CURVE,), {})


def aggregate(edges: int, width: int = 8) -> Schedule:
    return one("AGGREGATE", "COMPUTE", nodes=100, edges=edges, width=width)


def test_a_curve_is_what_it_was_fitted_to_be() -> None:
    for edges in (1000, 3000, 5500):  # a tenth outside is still taken
        duration, source = COSTS.predict(aggregate(edges), np.array([0]))
        assert duration.tolist() == [300 + 2 * edges + 500] and source is Source.FITTED


@pytest.mark.parametrize("edges", [800, 5600])
def test_a_curve_is_left_on_demand_alone_and_says_so(edges: int, tmp_path: Path) -> None:
    sentence = (
        rf"costs fitted on this machine: AGGREGATE at width 8 was fitted on edges 1000\.\.5000, asked for {edges}\.\.{edges}; profile that"
    )
    with pytest.raises(UserError, match=sentence):
        COSTS.predict(aggregate(edges), np.array([0]))
    COSTS.save(tmp_path / "costs.json")
    duration, source = FittedCosts.load(tmp_path / "costs.json", extrapolate=True).predict(aggregate(edges), np.array([0]))
    assert duration.tolist() == [300 + 2 * edges + 500] and source is Source.EXTRAPOLATED
    with pytest.raises(UserError, match="asked for"):
        FittedCosts.load(tmp_path / "costs.json").predict(aggregate(edges), np.array([0]))


def test_costs_of_another_device_are_not_taken_for_this_one_unless_they_may_be() -> None:
    """Then they are scaled: aggregation, bound by memory here, takes twice as long where the bandwidth is half."""
    costs, half = replace(COSTS, device="d", launch_ns=30), replace(DEVICE, name="e", memory_bandwidth=2e9, launch_s=60e-9)
    assert costs.for_device("d", DEVICE, half) is costs
    with pytest.raises(UserError, match=r"^fitted on d, not on e; name a profile of that device, .*, or set extrapolate: true \(times are"):
        costs.for_device("e", DEVICE, half)
    scaled = replace(costs, extrapolate=True, pace=(3.0,)).for_device("e", DEVICE, half)
    row = replace(aggregate(3000), bytes=np.array([5600]))
    duration, source = scaled.predict(row, np.array([0]))  # inside what was fitted, and of another device all the same
    assert duration.tolist() == [2 * (300 + 2 * 3000 + 500)] and source is Source.EXTRAPOLATED
    assert (scaled.name, scaled.launch_ns, scaled.predictor) == ("fitted on d, scaled to e by roofline", 60, None)
    assert scaled.occupies(row, np.array([0]), duration)[0].tolist() == pytest.approx([5600 / 2 / duration[0]])  # of the bandwidth there


@pytest.mark.parametrize(
    ("name", "profiled", "target", "without"),
    [
        ("AMD EPYC", None, DEVICE, "AMD EPYC"),
        ("AMD EPYC", replace(DEVICE, on_host=True), DEVICE, "AMD EPYC"),
        ("d", DEVICE, None, "NVIDIA H200"),
        ("", None, None, "a device without a name and NVIDIA H200"),
    ],
)
def test_costs_are_not_scaled_without_two_datasheets(name: str, profiled: Device | None, target: Device | None, without: str) -> None:
    """Nor those of a CPU, whether they may be extrapolated or not."""
    for extrapolate in (False, True):
        with pytest.raises(UserError) as error:
            replace(COSTS, device=name, extrapolate=extrapolate).for_device("NVIDIA H200", profiled, target)
        assert str(error.value) == (
            f"fitted on {name or 'a device without a name'}, not on NVIDIA H200; name a profile of that device, take costs: datasheet, or "
            f"add a device file of {without} (simulator/devices): only datasheets of both scale times of one to the other"
        )


def test_what_was_not_profiled_is_not_guessed() -> None:
    with pytest.raises(UserError, match=r"no fit for AGGREGATE at width 16 \(AGGREGATE was profiled at width 8\)"):
        replace(COSTS, extrapolate=True).predict(aggregate(1000, 16), np.array([0]))


READS = {
    "eq16": "nodes edges", "rows-edges": "rows edges", "u-curve": "rows edges", "bytes": "bytes", "rows-bytes": "rows bytes",
    "traffic": "rows edges bytes", "work": "rows flops", "kernels-bytes": "kernels bytes", "kernels-work": "kernels rows flops",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_form_follows_what_it_reads_and_nothing_else(form: str) -> None:
    names = ("nodes", "edges", "rows", "bytes", "flops", "kernels")
    row = {name: np.array([10.0 + place]) for place, name in enumerate(names)}
    features = FORMS[form].features
    assert [name for name in names if (features({**row, name: 2 * row[name]}) != features(row)).any()] == sorted(
        READS[form].split(), key=names.index
    )
    assert sorted(FORMS[form].reads) == sorted(READS[form].split())


def test_rows_of_the_host_are_the_hosts_beside_rows_of_the_device() -> None:
    """One operation in two lanes: rows gathered by the host and on the device."""
    both = write("a: GATHER@HOST\nb: GATHER@COMPUTE").schedule
    both = replace(both, bytes=np.full(2, 1000), flops=np.zeros(2, np.int64))
    assert DatasheetCosts(DEVICE, efficiency=0.5).predict(both, np.array([0, 1]))[0].tolist() == [700 + 500, 500]


def test_what_no_datasheet_knows_is_refused() -> None:
    with pytest.raises(UserError, match=r"no datasheet says what SAMPLE takes a device \(strategies/costing/roofline.yaml\)"):
        DatasheetCosts(CHIP).predict(one("SAMPLE", "COMPUTE", bytes=1), np.array([0]))
