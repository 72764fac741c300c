from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, gpus, write

from chronoscale.simulator.engine import replay
from chronoscale.strategies.evaluation.fidelity import Coverage, coverage, fidelity
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.trace import Source, Trace


def traced(text: str, ranks: int = 1) -> Trace:
    return replay(write(text, ranks).schedule, gpus(ranks), NsCosts())


UNEVEN = traced("b: BACKWARD@COMPUTE ns=10,30\nr: ALLREDUCE@COMM all bytes=40 <- b\no: OPTIMIZE@COMPUTE ns=10 <- r", ranks=2)
LONGER = replace(UNEVEN, end_ns=UNEVEN.start_ns + 2 * UNEVEN.duration_ns)


def of(ops: list[Op], ns: list[int], at: list[int] | None = None, source: Source = Source.MEASURED) -> Trace:
    """Rows of one rank, one after the other, or beginning `at`."""
    length = np.array(ns, np.int64)
    start = np.cumsum(length) - length if at is None else np.array(at, np.int64)
    none = np.zeros(len(ns), np.int32)
    lane = none.astype(np.uint8)
    codes = np.array(ops, np.uint8)
    return Trace("t", 1, "d", np.arange(len(ns)), none, lane, codes, start, start + length, start * 0, lane + np.uint8(source))


def test_operations_are_sums_and_the_total_is_the_span():
    table = fidelity(UNEVEN, [LONGER, LONGER]).set_index("op")
    assert table.error_pct.drop("TOTAL").tolist() == pytest.approx([-50.0] * 3)
    assert table.predicted_ms["TOTAL"] == pytest.approx(80e-6)
    assert table.error_pct["TOTAL"] == pytest.approx(100 * (80 / 110 - 1))  # the slower all-reduce ends at 30 + 2 * 40
    assert table.spread_pct.tolist() == [0.0] * 4
    assert table.tasks.to_dict() == {"BACKWARD": 2, "OPTIMIZE": 2, "ALLREDUCE": 2, "TOTAL": 6}


def test_an_operation_has_its_share_of_the_measured_epoch_mean_of_the_ranks():
    """Of 110 ns on two ranks: 20 and 60, 20 and 20, and twice 40 in the all-reduce."""
    table = fidelity(UNEVEN, [LONGER, LONGER], UNEVEN.task.astype(np.int32) // 6).set_index("op")
    shares = {"BACKWARD": 80 / 220, "OPTIMIZE": 40 / 220, "ALLREDUCE": 160 / 220}
    assert table.epoch_share.dropna().to_dict() == pytest.approx(shares) and np.isnan(table.epoch_share[["ITERATION", "TOTAL"]]).all()
    empty = UNEVEN.take(np.zeros(0, np.int64))
    assert np.isnan(fidelity(empty, [empty]).epoch_share).all()


def test_errors_that_cancel_in_a_sum_show_in_its_tasks():
    table = fidelity(of([Op.BACKWARD] * 3, [10, 10, 40]), [of([Op.BACKWARD] * 3, [20, 20, 20])]).set_index("op")
    assert table.error_pct["BACKWARD"] == 0.0 and table.task_error_pct["BACKWARD"] == pytest.approx(-50.0)
    assert np.isnan(table.task_error_pct["TOTAL"]) and np.isnan(table.spread_pct["TOTAL"])


def test_the_spread_is_that_of_what_was_measured():
    """20 and 30 ns lie 5 ns, a fifth, from their middle, whatever was predicted."""
    measured = [of([Op.BACKWARD], [20]), of([Op.BACKWARD], [30])]
    for predicted in (10, 1000):
        table = fidelity(of([Op.BACKWARD], [predicted]), measured).set_index("op")
        assert table.spread_pct.to_dict() == pytest.approx({"BACKWARD": 20.0, "TOTAL": 20.0})


def test_a_task_that_took_no_time_has_no_error_of_its_own():
    table = fidelity(of([Op.COPY] * 2, [5, 30]), [of([Op.COPY] * 2, [0, 20])]).set_index("op")
    assert table.task_error_pct["COPY"] == pytest.approx(50.0) and table.error_pct["COPY"] == pytest.approx(75.0)
    assert np.isnan(fidelity(of([Op.COPY], [5]), [of([Op.COPY], [0])]).error_pct).all()


def test_an_iteration_is_as_long_as_it_moves_the_end():
    """Of three, the second overlaps the first: 10 ns, 5, 15 measured, 10 each predicted."""
    measured = of([Op.FORWARD] * 3, [10, 10, 15], at=[0, 5, 15])
    table = fidelity(of([Op.FORWARD] * 3, [10, 10, 10]), [measured], np.arange(3, dtype=np.int32)).set_index("op")
    row = table.loc["ITERATION"]
    assert (row.predicted_ms, row.measured_ms, row.tasks) == (10e-6, 10e-6, 3) and row.error_pct == 0
    assert row.task_error_pct == 0  # the middle of 0 %, 100 % and -33 %


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30), st.integers(0, 99)), min_size=1, max_size=20))
def test_lengths_of_iterations_add_up_to_the_epoch(rows):
    iteration, ns, at = (list(column) for column in zip(*sorted(rows), strict=True))
    trace = of([Op.FORWARD] * len(rows), ns, at)
    table = fidelity(trace, [trace], np.array(iteration, np.int32)).set_index("op")
    ends = [max(a + n for i, n, a in zip(iteration, ns, at, strict=True) if i <= number) for number in sorted(set(iteration))]
    lengths = np.diff([min(at), *ends])
    assert sum(lengths) == trace.span_ns and table.predicted_ms["ITERATION"] == pytest.approx(np.median(lengths) / 1e6)


def test_traces_of_different_schedules_are_refused():
    for other in (traced("b: BACKWARD@COMPUTE"), replace(UNEVEN, op=np.roll(UNEVEN.op, 2)), replace(UNEVEN, rank=UNEVEN.rank[::-1].copy())):
        for join in (fidelity, coverage):
            with pytest.raises(ValueError, match="fidelity joins traces of one schedule"):
                join(UNEVEN, [other])


def test_rows_without_a_partner_are_told_and_left_out():
    predicted, measured = UNEVEN.take(np.arange(4)), LONGER.take(np.array([5, 3, 2, 1, 0]))
    covered = coverage(predicted, [measured, LONGER])
    assert covered == Coverage(6, 4, covered.share, (), ("OPTIMIZE",), ("ALLREDUCE",)) and not covered.whole
    assert covered.share == pytest.approx(np.median([240 / 260, 240 / 280]))
    assert (
        str(covered) == "4 of 6 rows compared (89.0% of the measured time); measured only: OPTIMIZE; predicted without samples: ALLREDUCE"
    )
    table = fidelity(predicted, [measured, LONGER]).set_index("op")
    assert table.error_pct.drop("TOTAL").tolist() == pytest.approx([-50.0] * 2) and table.tasks["TOTAL"] == 4
    assert coverage(UNEVEN, [measured]).unmeasured == ("OPTIMIZE",)


def test_all_rows_with_samples_are_whole():
    sampled = replace(UNEVEN, source=np.full(6, Source.FITTED, np.uint8))
    covered = coverage(sampled, [LONGER])
    assert covered.whole and (covered.rows, covered.compared, covered.share, str(covered)) == (6, 6, 1.0, "6 of 6 rows compared")
    empty = UNEVEN.take(np.zeros(0, np.int64))
    assert np.isnan(coverage(empty, [empty]).share) and len(fidelity(empty, [empty], np.zeros(0, np.int32))) == 1
