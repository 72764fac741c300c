"""Times of one device scaled to another: by hand from two datasheets, as costs and as a recorded trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import gpus, write

from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costing.device_scale import DeviceScale
from chronoscale.strategies.costing.recorded import Recording
from chronoscale.strategies.evaluation.fifos import previous_in_fifo
from chronoscale.strategies.schedule import Lane
from chronoscale.strategies.trace import Trace

# 1 FLOP/ns, 4 B/ns; copies at 1.6 B/ns after 700 ns; a kernel's latency 50 ns, its launch 30 ns
OLD = Device("old", 1e9, 1e9, 4e9, Link(2e9, 700e-9, 0.8), 30e-9, memory_latency_s=50e-9)
# 10 FLOP/ns, 8 B/ns; copies at 4 B/ns after 100 ns; 20 ns and 10 ns
NEW = Device("new", 1e9, 10e9, 8e9, Link(4e9, 100e-9), 10e-9, memory_latency_s=20e-9)

ROWS = {
    "copies have the two buses": ("H2D@H2D bytes=1600", (100 + 400) / (700 + 1000)),
    "and back": ("D2H@D2H bytes=1600", (100 + 400) / (700 + 1000)),
    "bound by memory": ("COPY@COMPUTE ns=0 bytes=8000 kernels=0", 4 / 8),
    "bound by memory, scattered": ("AGGREGATE@COMPUTE ns=10 bytes=8000 width=10 kernels=0", 4 / 8),
    "bound by arithmetic": ("TRANSFORM@COMPUTE ns=6000 bytes=89 kernels=0", 1 / 10),
    "bound by another thing there": ("TEMPORAL@COMPUTE2 ns=3000 bytes=8900 kernels=0", (8900 / 0.89 / 8) / (3000 / 0.6)),
    "bound by latency": ("OPTIMIZE@COMPUTE ns=0 kernels=3", 20 / 50),
    "without work": ("AGGREGATE@COMPUTE ns=0 kernels=0", 1.0),
    "of the host": ("GATHER@HOST bytes=8000", 1.0),
    "sampled by the host": ("SAMPLE@HOST bytes=8000", 1.0),
    "through an engine": ("FETCH@H2D bytes=8000 edges=3", 1.0),
}


@pytest.mark.parametrize(("row", "factor"), ROWS.values(), ids=list(ROWS))
def test_a_row_is_scaled_by_what_bounds_it(row: str, factor: float) -> None:
    schedule = write(f"x: {row}").schedule
    scale = DeviceScale.between(OLD, NEW)
    assert scale is not None and scale.row_factors(schedule, np.array([0])) == pytest.approx([factor], rel=1e-12)
    same = DeviceScale.between(OLD, OLD)
    assert same is not None and same.row_factors(schedule, np.array([0])).tolist() == [1.0]


def test_rows_of_many_operations_are_scaled_at_once_each_by_its_own() -> None:
    schedule = write("\n".join(f"r{i}: {row}" for i, (row, _) in enumerate(ROWS.values()))).schedule
    scale = DeviceScale.between(OLD, NEW)
    assert scale is not None
    order = np.arange(len(schedule))[::-1]
    assert scale.row_factors(schedule, order) == pytest.approx([factor for _, factor in ROWS.values()][::-1], rel=1e-12)


def test_the_operations_of_two_real_datasheets() -> None:
    """An H200 and an A40: 4.8 and 0.696 TB/s, 67 and 37.4 TFLOP/s."""
    h200, a40 = (presets.cluster(name).device for name in ("h200", "a40-ib"))
    schedule = write(
        "m: COPY@COMPUTE ns=0 bytes=4_800_000_000 kernels=0\nc: TRANSFORM@COMPUTE ns=67_000_000_000_000 bytes=8 kernels=0"
    ).schedule
    scale = DeviceScale.between(h200, a40)
    assert scale is not None and scale.launch_factor == 1.0
    assert scale.row_factors(schedule, np.arange(2)) == pytest.approx([4.8 / 0.696, 67 / 37.4], rel=1e-6)


def test_what_one_device_file_leaves_out_is_compared_with_nothing() -> None:
    schedule = write("x: COPY@COMPUTE ns=0 bytes=8000 kernels=3").schedule
    for origin, target in (
        (OLD, replace(NEW, memory_latency_s=0.0, launch_s=0.0)),
        (replace(OLD, memory_latency_s=0.0, launch_s=0.0), NEW),
    ):
        scale = DeviceScale.between(origin, target)
        assert scale is not None and scale.launch_factor == 1.0 and scale.row_factors(schedule, np.array([0])).tolist() == [0.5]


def recorded(text: str, device: str = "old") -> Recording:
    """Rows of 1,000 ns that each start 90 ns after the one before in the text has ended."""
    schedule = write(text).schedule
    start = np.arange(len(schedule)) * 1090 + 90
    trace = Trace.of(schedule, start, start + 1000, np.zeros(len(schedule), np.uint8), device)
    return Recording(schedule, trace, previous_in_fifo(schedule, [(lane,) for lane in Lane]))


CHAIN = """
g: GATHER@HOST
h: H2D@H2D bytes=1600 <- g
m: COPY@COMPUTE ns=0 bytes=8000 kernels=0 <- h
c: TRANSFORM@COMPUTE ns=6000 bytes=89 kernels=0 <- m
"""


def test_a_trace_of_one_device_replayed_on_another() -> None:
    """Gaps before rows of the device are launches, a third of the time there; those before rows of the host stay."""
    recording = recorded(CHAIN)
    cluster = replace(gpus(1), device=NEW)
    costs = recording.costs_on(NEW, OLD)
    trace = costs.without_gaps(recording.schedule, replay(recording.schedule, cluster, costs))
    assert trace.duration_ns.tolist() == [1000, round(1000 * 500 / 1700), 500, 100]
    assert (trace.start_ns[1:] - trace.end_ns[:-1]).tolist() == [30, 30, 30]
    assert trace.start_ns[0] == recording.costs.gap_ns[0] and trace.sources == ("extrapolated",)
    assert trace.device == "new (test), costs: recorded on old, scaled to new by roofline"


@pytest.mark.parametrize("device", ["GPU 1", "GPU 1 (cluster), costs: GPU 1 datasheet, roofline by operation"])
def test_a_trace_replayed_on_its_own_device_is_as_it_was(device: str) -> None:
    recording = recorded(CHAIN, device)
    own = replace(NEW, name="GPU 1")
    costs = recording.costs_on(own, None)
    trace = costs.without_gaps(recording.schedule, replay(recording.schedule, replace(gpus(1), device=own), costs))
    assert trace.duration_ns.tolist() == [1000] * 4 and trace.sources == ("measured",) and "scaled" not in trace.device


def test_a_trace_that_no_datasheet_scales_is_refused() -> None:
    with pytest.raises(UserError) as error:
        recorded(CHAIN, "AMD EPYC").costs_on(NEW, None)
    assert str(error.value) == (
        "recorded on AMD EPYC, not on new; replay it on a cluster of AMD EPYC, simulate the experiment with costs: datasheet, or add a "
        "device file of AMD EPYC (simulator/devices): only datasheets of both scale times of one to the other"
    )
    message = r"^recorded on old, not on new: schedule 'test': no datasheet says what COMPUTE takes .*; replay it on a cluster of old$"
    with pytest.raises(UserError, match=message):
        recorded("x: COMPUTE@COMPUTE").costs_on(NEW, OLD)
