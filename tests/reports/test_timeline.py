import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from report_samples import COSTS, SCHEDULES, TRACES, WORKLOAD, replay

from chronoscale.errors import UserError
from chronoscale.reports.timeline import iteration_timeline
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.schedule import Op


def test_a_slice_holds_one_iteration_from_zero() -> None:
    schedule, trace = SCHEDULES["psg", 2], TRACES["psg", 2]
    timeline = iteration_timeline(trace, schedule, 3)
    rows = schedule.iteration == 3
    assert timeline.own.sum() == rows.sum() == len(timeline)  # nothing overlaps in psg
    assert timeline.start_ns.min() == 0
    assert timeline.span_ns == trace.end_ns[rows].max() - trace.start_ns[rows].min()
    assert sorted(timeline.op) == sorted(schedule.op[rows])


def test_neighbours_that_overlap_are_kept_and_cut() -> None:
    schedule, trace = SCHEDULES["real-reuse", 2], TRACES["real-reuse", 2]
    timeline = iteration_timeline(trace, schedule, 2)
    assert timeline.own.sum() == (schedule.iteration == 2).sum()
    assert Op.BACKWARD in timeline.op[~timeline.own]  # the iteration before still runs while the first transfer starts
    assert timeline.start_ns.min() == 0 and (timeline.end_ns <= timeline.end_ns[timeline.own].max()).all()
    assert (timeline.end_ns >= timeline.start_ns).all()


def test_the_middle_iteration_is_the_default() -> None:
    schedule = SCHEDULES["psg", 2]
    assert iteration_timeline(TRACES["psg", 2], schedule).iteration == (schedule.iterations - 1) // 2


def test_wrong_iterations_and_traces_are_refused() -> None:
    schedule, trace = SCHEDULES["psg", 2], TRACES["psg", 2]
    with pytest.raises(UserError, match=rf"no iteration 99 in the trace; expected 0..{schedule.iterations - 1}"):
        iteration_timeline(trace, schedule, 99)
    with pytest.raises(ValueError, match="not of schedule"):
        iteration_timeline(trace, schedule.head(1))


def test_many_ranks_show_the_most_and_the_least_loaded() -> None:
    schedule = PSG.plan(WORKLOAD, 10, COSTS)
    trace = replay(schedule)
    slow = np.isin(trace.rank, (2, 7))
    trace = replace(trace, end_ns=np.where(slow & (trace.op == Op.BACKWARD), trace.end_ns + 10**6, trace.end_ns))
    timeline = iteration_timeline(trace, schedule, 0)
    ranks_shown = timeline.extremes(4)
    assert len(ranks_shown) == 4 and {2, 7} <= set(ranks_shown.tolist()) and (np.diff(ranks_shown) > 0).all()
    assert timeline.extremes(10).tolist() == list(range(10))


@pytest.mark.parametrize("key", SCHEDULES)
def test_chrome_traces_open_in_perfetto(key: tuple[str, int]) -> None:
    trace = TRACES[key]
    data = json.loads(trace.chrome(SCHEDULES[key]))
    tasks = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert len(tasks) == len(trace)
    assert all({"ph", "ts", "dur", "pid", "tid", "name"} <= set(event) for event in tasks)
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in tasks:
        lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    named = {(event["pid"], event["tid"]) for event in data["traceEvents"] if event["name"] == "thread_name"}
    assert named == set(lanes)
    for spans in lanes.values():
        for (start, length), (following, _) in itertools.pairwise(spans):
            assert start + length <= following + 1e-6
