"""Costs and traces of one device on a cluster of another: scaled and marked wherever they are shown, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import command, one_line

from chronoscale.reports.numbers import number
from chronoscale.reports.table_formats import MARKED
from chronoscale.strategies.costing.curves import curves
from chronoscale.strategies.costs import Fit, FittedCosts
from chronoscale.strategies.formats.chakra import messages
from chronoscale.strategies.formats.chakra.attribute import attribute
from chronoscale.strategies.formats.chakra.messages import Node, NodeType
from chronoscale.strategies.formats.chakra.wire import varint
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.trace import Trace

WORK = {"strategies": ["psg"], "gpus": [1, 2], "contention": False}
NS_A_BYTE, NS = 0.25, 40_000  # of every curve below
# Bus B/s that copies reach, memory B/s that a pass over arrays reaches, FLOP/s, s before a copy and for a kernel; datasheets' figures.
H200 = (63e9 * 0.883, 4.8e12 * 0.89, 67e12, 1e-5, 273e-9)
A40 = (31.5e9 * 0.835, 696e9 * 0.89, 37.4e12, 1e-5, 268e-9)


def ratio(schedule: Schedule, rows: np.ndarray, op: Op) -> np.ndarray:
    """How many times as long copies to a device, and steps of the optimiser, take on an A40."""
    moved, flops, kernels = (getattr(schedule, name)[rows].astype(float) for name in ("bytes", "flops", "kernels"))
    there, here = (
        copy_s + moved / bus if op is Op.H2D else np.maximum(moved / memory, flops / peak) + kernels * kernel_s / 0.89
        for bus, memory, peak, copy_s, kernel_s in (A40, H200)
    )
    return there / here


@pytest.fixture
def costs(experiment, capsys):
    """A function that writes costs of a device in which every row takes 40 us and a quarter of a ns a byte; returns the file's path."""
    command("simulate", experiment("asked", **WORK))
    schedules = [Schedule.load(path) for path in Path("runs/asked-simulate-1").glob("sim-*/schedule.parquet")]
    needed = {curve for schedule in schedules for curve, _ in curves(schedule, np.arange(len(schedule)))}
    capsys.readouterr()

    def write(device: str) -> str:
        span = {"bytes": 0}, {"bytes": 1 << 40}
        fits = [
            Fit(curve.op, curve.width, "bytes", (NS_A_BYTE, NS), *span, 0.0, 99, lane=curve.lane, variant=curve.variant) for curve in needed
        ]
        FittedCosts(device, tuple(fits), {}).save(path := Path("costs.json"))
        return str(path)

    return write


def test_a_profile_of_one_gpu_is_scaled_to_another_and_marked(experiment, capsys, costs):
    file = costs("NVIDIA H200")
    command("simulate", experiment(costs=file, cluster="a40-ib", **WORK), expect=2)
    assert "was fitted on NVIDIA H200, not on NVIDIA A40; name a profile of that device, take costs: datasheet, or set" in one_line(capsys)
    command("simulate", experiment(costs=file, cluster="a40-ib", extrapolate=True, **WORK), "--json")
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 2 and all("extrapolated" in row["sources"] and "fitted" not in row["sources"] for row in rows)
    point = Path("runs/small-simulate-1/sim-00001-psg")
    trace, schedule = Trace.load(point / "trace.parquet"), Schedule.load(point / "schedule.parquet")
    for op in (Op.H2D, Op.OPTIMIZE):
        of_op = schedule.tasks(op)
        expected = (NS + NS_A_BYTE * schedule.bytes[of_op]) * ratio(schedule, of_op, op)
        assert len(of_op) and np.abs(trace.duration_ns[of_op] - expected).max() <= 0.5001
    name = "fitted on NVIDIA H200, scaled to NVIDIA A40 by roofline"
    assert json.loads((point / "point.json").read_text())["costs"] == name
    command("report", "runs/small-simulate-1", "--out", "page")
    page, epochs = Path("page/report.md").read_text(), pd.read_csv("page/tables/comparison.csv")["epoch_s"]
    assert name in page and MARKED in page and all(f" {number(epoch)}† |" in page for epoch in epochs)


def test_a_profile_of_the_clusters_own_gpu_is_as_it_was_fitted(experiment, capsys, costs):
    command("simulate", experiment(costs=costs("NVIDIA H200"), cluster="h200", extrapolate=True, **WORK), "--json")
    assert {row["sources"] for row in json.loads(capsys.readouterr().out)} == {"fitted", "fitted, specified"}
    point = Path("runs/small-simulate-1/sim-00001-psg")
    trace, schedule = Trace.load(point / "trace.parquet"), Schedule.load(point / "schedule.parquet")
    assert trace.duration_ns.tolist() == np.rint(NS + NS_A_BYTE * schedule.bytes).tolist()
    assert json.loads((point / "point.json").read_text())["costs"] == "fitted on NVIDIA H200"


@pytest.mark.parametrize("device", ["AMD EPYC", "NVIDIA L4"])
def test_a_profile_without_a_datasheet_is_refused(experiment, capsys, costs, device):
    """Of a CPU, or of a GPU that nobody has described: whether it may be extrapolated or not."""
    for extrapolate in (False, True):
        command("simulate", experiment(costs=costs(device), cluster="a40-ib", extrapolate=extrapolate, **WORK), expect=2)
        line = one_line(capsys)
        assert f"was fitted on {device}, not on NVIDIA A40; name a profile of that device, take costs: datasheet, or add a device" in line
        assert f"device file of {device} (simulator/devices)" in line


def test_a_trace_of_one_gpu_is_scaled_to_another_and_marked(experiment, capsys):
    command("simulate", experiment(**WORK, cluster="h200"))
    command("trace", "runs/small-simulate-1", "--format", "chakra", "--out", "chakra")
    files = sorted(Path("chakra/sim-00002-psg").glob("*.et"))
    capsys.readouterr()
    command("replay", *files, "--cluster", "a40-ib", "--json")
    output = json.loads(capsys.readouterr().out)
    by_op = {row["op"]: row for row in output}
    schedule = Schedule.load(Path("replayed/schedule.parquet"))
    copies = schedule.tasks(Op.H2D)
    bus, *_, copy_s, _ = A40
    assert by_op["H2D"]["replayed_ms"] == pytest.approx(1e3 * (copy_s + schedule.bytes[copies] / bus).sum(), rel=1e-4)
    assert by_op["H2D"]["recorded_ms"] == pytest.approx(1e3 * (1e-5 + schedule.bytes[copies] / H200[0]).sum(), rel=1e-4)
    assert {row["op"] for row in output if "extrapolated" not in row["sources"]} == {"ALLREDUCE"}
    assert Trace.load(Path("replayed/trace.parquet")).device.endswith("scaled to NVIDIA A40 by roofline")
    command("replay", *files, "--cluster", "a40-ib")
    output = capsys.readouterr()
    (line,) = [line for line in output.out.splitlines() if "BACKWARD" in line]
    assert line.count("†") == 2 and MARKED in " ".join(output.err.split())
    command("replay", *files, "--cluster", "h200")
    output = capsys.readouterr()
    assert "†" not in output.out + output.err
    command("replay", *files, "--cluster", "h200", "--device", "AMD EPYC", expect=2)
    assert "recorded on AMD EPYC, not on NVIDIA H200; replay it on a cluster of AMD EPYC" in one_line(capsys)


def test_a_trace_of_another_tool_needs_the_name_of_its_device(experiment, capsys):
    """Of the cluster's own it is replayed as traced; of another its kernels, of which nobody knows the kind, are refused."""
    nodes = [Node(i, f"op{i}", NodeType.COMP, (), (), 0, 5, {"is_cpu_op": host}) for i, host in enumerate((True, False))]
    fields = [[attribute(name, "bool", value) for name, value in node.attributes.items()] for node in nodes]
    parts = [messages.encode_metadata([]), *map(messages.encode_node, nodes, fields)]
    Path("model.0.et").write_bytes(b"".join(varint(len(part)) + part for part in parts))
    command("replay", "model.0.et", "--cluster", "a40-ib", expect=2)
    assert "model.0.et: another tool's trace does not say which device it is of; name it: --device 'NVIDIA A40'" in one_line(capsys)
    command("replay", "model.0.et", "--cluster", "a40-ib", "--device", "NVIDIA A40", "--json")
    assert [row["replayed_ms"] for row in json.loads(capsys.readouterr().out)] == [0.01, 0.005]
    command("replay", "model.0.et", "--cluster", "a40-ib", "--device", "NVIDIA H200", expect=2)
    assert "recorded on NVIDIA H200, not on NVIDIA A40: schedule 'model': no datasheet says what COMPUTE takes" in one_line(capsys)
