"""Predictions seen as CUDA graphs, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import NsCosts, gpus, log, write

from chronoscale.simulator.engine import replay
from chronoscale.strategies.evaluation.fidelity import coverage, fidelity
from chronoscale.strategies.planning.cuda_graphs import fold_graphs, serialise_graphs
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.trace import Trace

TWO = write(
    """
    h: H2D@H2D ns=10 iteration=0
    f: FORWARD@COMPUTE ns=20 iteration=0 <- h
    o: OPTIMIZE@COMPUTE ns=5 iteration=0 <- f
    i: H2D@H2D ns=10 iteration=1
    g: FORWARD@COMPUTE ns=20 iteration=1 <- i
    p: OPTIMIZE@COMPUTE ns=5 iteration=1 <- g
    """
)
STANDS = np.array([1, 1, -1, 4, 4, -1])  # a graph an iteration, beside the optimiser's step


def measured() -> Trace:
    """Graphs in turn, of 40 ns each, and steps of 10."""
    whole = replay(TWO.schedule, gpus(1), NsCosts())
    starts = np.array([0, 0, 40, 50, 50, 90])
    ends = np.array([40, 40, 50, 90, 90, 100])
    return replace(whole, start_ns=starts, end_ns=ends).fold(STANDS)


def test_a_graph_stands_from_its_first_start_to_its_last_end() -> None:
    whole = replay(TWO.schedule, gpus(1), NsCosts())
    assert log(TWO.schedule, whole)[3] == ("H2D", 0, 10, 20)  # beside the first iteration
    folded = whole.fold(STANDS)
    assert log(TWO.schedule, folded) == [("GRAPH", 0, 0, 30), ("OPTIMIZE", 0, 30, 35), ("GRAPH", 0, 10, 55), ("OPTIMIZE", 0, 55, 60)]
    assert folded.task.tolist() == [1, 2, 4, 5] and folded.lane.tolist() == 4 * [Lane.COMPUTE]


def test_nothing_that_is_not_in_a_graph_is_changed() -> None:
    whole = replay(TWO.schedule, gpus(1), NsCosts())
    same = whole.fold(np.full(6, -1))
    assert all(np.array_equal(getattr(whole, name), getattr(same, name)) for name in ("task", "op", "lane", "start_ns", "end_ns"))
    assert serialise_graphs(TWO.schedule, whole) is TWO.schedule and np.array_equal(fold_graphs(whole, whole).op, whole.op)


def test_rows_of_a_graph_wait_for_the_step_before() -> None:
    turned = serialise_graphs(TWO.schedule, measured())
    assert [turned.dependencies(row).tolist() for row in range(6)] == [[], [0], [1], [2], [3, 2], [4]]
    predicted = fold_graphs(replay(turned, gpus(1), NsCosts()), measured())
    assert log(turned, predicted) == [("GRAPH", 0, 0, 30), ("OPTIMIZE", 0, 30, 35), ("GRAPH", 0, 35, 65), ("OPTIMIZE", 0, 65, 70)]


def test_graphs_are_compared_as_one_row_each() -> None:
    predicted = replay(serialise_graphs(TWO.schedule, measured()), gpus(1), NsCosts())
    table = fidelity(predicted, [measured(), measured()], TWO.schedule.iteration).set_index("op")
    assert (1e6 * table.predicted_ms).to_dict() == pytest.approx({"GRAPH": 60, "OPTIMIZE": 10, "ITERATION": 35, "TOTAL": 70})
    assert (1e6 * table.measured_ms).to_dict() == pytest.approx({"GRAPH": 80, "OPTIMIZE": 20, "ITERATION": 50, "TOTAL": 100})
    said = coverage(predicted, [measured()])
    assert (said.rows, said.compared, said.share) == (4, 4, 1.0) and not said.unmeasured


def test_each_rank_has_graphs_of_its_own() -> None:
    both = write("a: FORWARD@COMPUTE ns=10,20\nb: BACKWARD@COMPUTE ns=30,40 <- a\no: OPTIMIZE@COMPUTE ns=1 <- b", ranks=2)
    whole = replay(both.schedule, gpus(2), NsCosts())
    last = {rank: both.row[f"b/{rank}"] for rank in (0, 1)}
    inside = whole.op != Op.OPTIMIZE
    folded = whole.fold(np.where(inside, np.where(whole.rank == 0, last[0], last[1]), -1))
    assert sorted(log(both.schedule, folded)) == [
        ("GRAPH", 0, 0, 40),
        ("GRAPH", 1, 0, 60),
        ("OPTIMIZE", 0, 40, 41),
        ("OPTIMIZE", 1, 60, 61),
    ]
    assert sorted(log(both.schedule, fold_graphs(whole, folded))) == sorted(log(both.schedule, folded))
