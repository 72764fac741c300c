from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import NsCosts, gpus, write

from chronoscale.errors import UserError
from chronoscale.simulator.engine import replay
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.trace import Trace

PLAIN = write("a: H2D@H2D\nb: AGGREGATE@COMPUTE <- a\nr: ALLREDUCE@COMM all <- b", ranks=2).schedule


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bytes": PLAIN.bytes.astype(np.float64)}, r"column bytes must be int64 \[6\], is float64"),
        ({"rank": PLAIN.rank[:-1]}, r"column rank must be int32 \[6\]"),
        ({"rank": PLAIN.rank + np.int32(1)}, "rank outside 0..1"),
        ({"op": np.full(6, 99, np.uint8)}, "unknown op or lane"),
        ({"alloc": PLAIN.alloc - 1}, "negative alloc"),
        ({"dep": PLAIN.dep + 6}, "depends on a later row"),
        ({"dep_ptr": PLAIN.dep_ptr[:-1]}, "dependency pointers do not fit"),
        ({"collective": np.where(PLAIN.op == Op.ALLREDUCE, 0, PLAIN.collective) * 0}, "takes part twice"),
        ({"op": np.where(np.arange(6) == 5, Op.ALLTOALL, PLAIN.op).astype(np.uint8)}, "mixes operations"),
    ],
)
def test_a_wrong_column_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **changes)


def test_what_a_host_does_itself():
    """All of its lane, what a data engine fetches, and what ranks exchange of memory that lies in parts."""
    text = "a: SAMPLE@HOST\nb: FETCH@COMM <- a\nc: ALLTOALL@COMM all\nd: ALLGATHER@COMM all\ne: ALLREDUCE@COMM all\nf: H2D@H2D"
    schedule = write(text).schedule
    assert schedule.hosted.tolist() == [True, True, False, False, False, False]
    assert replace(schedule, kind="spread").hosted.tolist() == [True, True, True, True, False, False]


def test_no_ranks():
    with pytest.raises(UserError, match="at least one rank, got 0"):
        Builder("none", 0).finish()


def test_a_message_joins_send_and_receive():
    written = write("s: SEND@COMM rank=0 group=0\nr: RECV@COMM rank=1 group=0", ranks=2)
    assert written.schedule.collective.tolist() == [0, 0]


def test_the_builder_orders_rows_and_keeps_ties_as_added():
    builder = Builder("order", 2)
    late = builder.add(Op.TRANSFORM, Lane.COMPUTE, {"rank": [0, 1], "order": [1, 0]})
    early = builder.add(Op.AGGREGATE, Lane.COMPUTE, {"rank": 0, "order": [1, 0]}, where=np.array([False, True]))
    assert (late.tolist(), early.tolist()) == ([0, 1], [-1, 2])
    schedule = builder.finish()
    assert [(Op(op).name, int(rank)) for op, rank in zip(schedule.op, schedule.rank, strict=True)] == [
        ("TRANSFORM", 1),
        ("AGGREGATE", 0),
        ("TRANSFORM", 0),
    ]
    assert schedule.unit.tolist() == [-1, -1, -1]


def test_the_builder_refuses_unknown_columns_and_later_dependencies():
    builder = Builder("wrong", 1)
    with pytest.raises(TypeError, match="no such schedule column: byte"):
        builder.add(Op.H2D, Lane.H2D, {"rank": 0, "order": 0, "byte": 3})
    first = builder.add(Op.H2D, Lane.H2D, {"rank": 0, "order": 0})
    builder.link(first, builder.add(Op.AGGREGATE, Lane.COMPUTE, {"rank": 0, "order": 1}))
    with pytest.raises(ValueError, match="depends on a later row"):
        builder.finish()


def test_head_and_take_keep_dependencies():
    text = "\n".join(f"h{i}: H2D@H2D iteration={i} <- a{i - 1}?\na{i}: AGGREGATE@COMPUTE iteration={i} <- h{i}" for i in range(3))
    schedule = write(text).schedule
    head = schedule.head(2)
    assert (len(head), head.iterations, head.dep.tolist()) == (4, 2, [0, 1, 2])
    assert schedule.take(np.arange(len(schedule))).dep.tolist() == schedule.dep.tolist()
    with pytest.raises(ValueError, match="depends on one that is left out"):
        schedule.take(np.array([1, 2]))
    assert schedule.dependencies(3).tolist() == [2]


@pytest.mark.parametrize("kind", ["truncated", "foreign", "missing", "columns"])
@pytest.mark.parametrize("reader", [Schedule, Trace])
def test_an_unreadable_file(tmp_path, kind, reader):
    path = tmp_path / "file.parquet"
    if kind == "truncated":
        PLAIN.save(path)
        path.write_bytes(path.read_bytes()[:200])
    elif kind == "foreign":
        path.write_text("not parquet")
    elif kind == "columns":
        (PLAIN if reader is Trace else replay(PLAIN, gpus(2), NsCosts())).save(path)
    with pytest.raises(UserError, match=r"file\.parquet: (not a readable|no such file, a) (schedule|trace)"):
        reader.load(path)


def test_a_trace_refuses_wrong_columns_and_negative_durations():
    trace = replay(PLAIN, gpus(2), NsCosts())
    with pytest.raises(ValueError, match="ends before it starts"):
        replace(trace, end_ns=trace.start_ns - 1)
    with pytest.raises(ValueError, match="start_ns must be int64"):
        replace(trace, start_ns=trace.start_ns.astype(np.int32))
