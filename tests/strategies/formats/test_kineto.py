"""Traces of torch.profiler: what is read of them, what is refused, by hand and from torch itself."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kineto_trace import copy, event, kernel, launch, save
from torch.profiler import ProfilerActivity, profile

from chronoscale.errors import UserError
from chronoscale.strategies.evaluation.metrics import time_by_op
from chronoscale.strategies.formats import kineto
from chronoscale.strategies.schedule import Lane, Op

STEP = (
    event("cpu_op", "aten::linear", 1000, 30),
    event("cpu_op", "aten::addmm", 1005, 20),
    event("cpu_op", "aten::relu", 1030, 5),
    event("cpu_op", "autograd::engine", 1010, 50, tid=2),
    launch(1008, 1),
    kernel("gemm", 1050.5, 40.25, 1),
    kernel("relu", 1100, 10, 2, stream=9),
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1110, 6, 3, stream=20),
    kernel("ncclDevKernel_SendRecv(x)", 1120, 4, 4, stream=20),
    copy("HtoD (Pinned -> Device)", 1001, 8, 4096),
    copy("DtoH (Device -> Pinned)", 1140, 4, 64),
    copy("DtoD (Device -> Device)", 1150, 2, 128),
    event("gpu_memset", "Memset (Device)", 1160, 1, 0, 7),
    event("gpu_user_annotation", "row 1 H2D", 1001, 8, 0, 7),
    event("python_function", "main.py(3): step", 900, 500),
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
)


def test_a_step_on_a_gpu_by_hand(tmp_path):
    profile = kineto.read(save(tmp_path / "step.json", *STEP, rank=1, ranks=4, gpu="NVIDIA H200"))
    assert (profile.rank, profile.ranks, profile.device, profile.on_device) == (1, 4, "NVIDIA H200", True)
    trace = kineto.as_trace(profile)
    columns = (trace.op, trace.lane, trace.start_ns.tolist(), trace.end_ns.tolist(), trace.bytes.tolist())
    rows = [(Op(op).name, Lane(lane).name, *rest) for op, lane, *rest in zip(*columns, strict=True)]
    assert rows == [
        ("COMPUTE", "HOST", 0, 30_000, 0),
        ("H2D", "H2D", 1000, 9000, 4096),
        ("COMPUTE", "HOST", 10_000, 60_000, 0),  # of another thread: it lies in no call of its own
        ("COMPUTE", "HOST", 30_000, 35_000, 0),
        ("COMPUTE", "COMPUTE", 50_500, 90_750, 0),
        ("COMPUTE", "COMPUTE2", 100_000, 110_000, 0),
        ("ALLREDUCE", "COMM", 110_000, 116_000, 0),
        ("ALLTOALL", "COMM", 120_000, 124_000, 0),
        ("D2H", "D2H", 140_000, 144_000, 64),
        ("COPY", "COMPUTE", 150_000, 152_000, 128),
        ("COMPUTE", "COMPUTE", 160_000, 161_000, 0),
    ]
    assert trace.device == "NVIDIA H200, as profiled in step.json" and trace.ranks == 4 and set(trace.rank) == {1}
    assert time_by_op(trace)["H2D"] == pytest.approx(8e-6)
    names = kineto.time_by_name(profile).set_index("name")
    assert names.loc["gemm"].tolist() == ["kernel", 1, 0.04025, 40.25, 0.0] and "main.py(3): step" not in names.index
    assert names.loc["aten::addmm", "total_ms"] == 0.02


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, 2)), min_size=1, max_size=12))
def test_outermost_calls_lie_in_no_other(calls):
    """Against every pair: a call that begins while an earlier one of its thread lasts, or at once with a longer one, is inside."""
    calls = sorted(calls, key=lambda call: (call[0], -call[1]))  # as a profile has them
    table = pd.DataFrame(calls, columns=["start_ns", "ns", "track"]).assign(category=kineto.HOST)
    for i, inside in enumerate(~kineto.is_outermost(table)):
        start, _, thread = calls[i]
        earlier = [call for call in calls[:i] if call[2] == thread and call[0] <= start < call[0] + call[1]]
        assert inside == bool(earlier)


def test_the_longer_of_two_calls_that_begin_at_once_is_read_first(tmp_path):
    calls = [event("cpu_op", name, at, long) for name, at, long in (("short", 1, 2), ("long", 1, 5), ("first", 0, 1))]
    events = kineto.read(save(tmp_path / "x.json", *calls)).events
    assert events["name"].tolist() == ["first", "long", "short"] and kineto.is_outermost(events).tolist() == [True, True, False]


def test_what_torch_records_is_read(tmp_path):
    size = torch.randn(64, 64)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        (size @ size).relu()
        size.sum()
    seen.export_chrome_trace(str(tmp_path / "torch.json"))
    whole = kineto.read(tmp_path / "torch.json")
    (tmp_path / "torch.json.gz").write_bytes(gzip.compress((tmp_path / "torch.json").read_bytes()))
    packed = kineto.read(tmp_path / "torch.json.gz")
    assert packed.events.equals(whole.events) and not whole.on_device and whole.device == ""
    ours, theirs = kineto.time_by_name(whole).set_index("name"), {one.key: one for one in seen.key_averages()}
    assert {"aten::matmul", "aten::mm", "aten::relu", "aten::sum"} <= set(ours.index) <= set(theirs)
    for name in ("aten::matmul", "aten::mm", "aten::relu"):  # torch leaves out what lies in another of its name, such as a sum's sum
        row = ours.loc[name]
        assert row["count"] == theirs[name].count and row["total_ms"] == pytest.approx(theirs[name].cpu_time_total / 1e3, abs=0.01)
    trace = kineto.as_trace(whole)
    outer = whole.events[kineto.is_outermost(whole.events)]
    assert outer["name"].tolist() == ["aten::matmul", "aten::relu", "aten::sum"] and (trace.lane == Lane.COMPUTE).all()
    assert (np.diff(trace.start_ns) >= 0).all() and (trace.start_ns[1:] >= trace.end_ns[:-1]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not readable: Expecting value: line 1 column 1 (char 0)"),
        ('{"traceEvents": [', "not readable: Expecting value: line 1 column 18 (char 17)"),
        ("{}", "no traceEvents in it, a trace of torch.profiler is expected"),
        ("3", "no traceEvents in it, a trace of torch.profiler is expected"),
        ('{"traceEvents": []}', "no operation in it; a profiler that saw any exports events of cpu_op, user_annotation, cuda_runtime, "),
        ("[7]", ", event 0: expected an object, got 7"),
        (json.dumps([event("cpu_op", "a", 1, -2)]), ", event 0 ('a'): dur is -2, expected a length in µs"),
        (json.dumps([STEP[0], event("kernel", "k", None, 1)]), ", event 1 ('k'): ts is None, expected a time in µs"),  # type: ignore[arg-type]
        (json.dumps([event("cpu_op", "a", float("nan"), 1)]), ", event 0 ('a'): ts is nan, expected a time in µs"),
        (json.dumps({"traceEvents": [STEP[0]], "distributedInfo": {"rank": -1}}), "distributedInfo: rank is -1, expected a number"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        kineto.read(path)
    assert str(error.value).startswith(f"{path}{message if message[0] == ',' else f': {message}'}")


def test_a_file_that_is_not_there_or_cut_off(tmp_path):
    with pytest.raises(UserError, match="no such file, a trace of torch"):
        kineto.read(tmp_path / "none.json")
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(json.dumps(STEP).encode())[:-9])
    with pytest.raises(UserError, match="not readable: Compressed file ended"):
        kineto.read(tmp_path / "x.json.gz")
