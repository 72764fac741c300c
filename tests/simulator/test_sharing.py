"""Rows that share resources: cases by hand, and both engines alike to the nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from notation import write
from random_schedules import ONE_STREAM, schedules
from sharing_case import Entries, run, shares

from chronoscale.errors import UserError
from chronoscale.strategies.cluster import CPU_STREAMS
from chronoscale.strategies.schedule import Lane, Op, Schedule

TWO = "a: H2D@H2D ns=100\nb: AGGREGATE@COMPUTE ns=60"


def test_what_fits_is_not_slowed_down():
    schedule = write(TWO).schedule
    assert shares(schedule, [(0, 0, 0.5), (1, 0, 0.5)]) is None
    assert shares(write("a: H2D@H2D\nb: H2D@H2D").schedule, [(0, 0, 1.0), (1, 0, 1.0)]) is None, "one FIFO does them in turn"
    assert shares(schedule, []) is None


def test_equal_parts_of_what_is_asked_for_twice():
    schedule = write(TWO).schedule
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (1, 0, 1.0)])) == [(0, 160), (0, 120)]
    # b needs a fifth, and has it; a runs at 0.8 for 60 ns, then alone
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (1, 0, 0.2)])) == [(0, 112), (0, 60)]
    # both are held to a half: a at 0.5, b at 0.5 / 0.8 for 96 ns, then a alone
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (1, 0, 0.8)])) == [(0, 148), (0, 96)]


def test_a_full_resource_joins_those_on_others():
    text = "a: H2D@H2D ns=100\nc: D2H@D2H ns=100\nx: COPY@COMPUTE2 ns=30\nb: AGGREGATE@COMPUTE ns=40 <- x"
    schedule = write(text).schedule
    # a and c at 2/3 until b comes to a's other resource: then a and b at 1/2, which leaves c 3/4; b gone, a and c at 2/3 again
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (0, 1, 0.5), (1, 1, 1.0), (3, 0, 1.0)])) == [(0, 160), (0, 140), (0, 30), (30, 110)]


def test_a_delay_takes_nothing():
    schedule = write(TWO).schedule
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (1, 0, 1.0)], {0: 60})) == [(0, 100), (0, 60)]
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (1, 0, 1.0)], {0: 30})) == [(0, 130), (0, 90)]
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (1, 0, 1.0)], {0: 100})) == [(0, 100), (0, 60)], "all of it is delay"


def test_many_on_one_link():
    ranks = 8
    schedule = write("h: H2D@H2D ns=1000", ranks).schedule
    assert run(schedule, shares(schedule, [(i, 0, 0.5) for i in range(ranks)])) == [(0, 4000)] * ranks


def test_rows_behind_wait_for_the_end():
    schedule = write("a: H2D@H2D ns=100\nb: AGGREGATE@COMPUTE ns=100\nc: TRANSFORM@COMPUTE ns=5 <- a\nd: COPY@HOST ns=1 <- b").schedule
    assert run(schedule, shares(schedule, [(0, 0, 1.0), (1, 0, 1.0)])) == [(0, 200), (0, 200), (200, 205), (200, 201)]


ALONE = "\n".join(f"z{i}: COPY@D2H ns=1 <- {f'z{i - 1}' if i else 'w'}" for i in range(20))  # that nobody is in the way of


def test_what_is_slowed_down_comes_into_the_way_of_others():
    """Of c, which begins when a would have ended if it had not met b."""
    text = "w: COPY@HOST ns=999\na: H2D@H2D ns=100\nb: AGGREGATE@COMPUTE ns=60\nx: COPY@COMPUTE2 ns=130\nc: COPY@COMPUTE2 ns=50\n" + ALONE
    schedule = write(text).schedule
    times = run(schedule, shares(schedule, [(row, 0, 1.0) for row in (1, 2, *range(4, 25))]))
    assert times[1:6] == [(0, 190), (0, 120), (0, 130), (130, 210), (999, 1000)]


def test_what_would_end_as_another_begins_still_meets_it():
    """At 7 ns a has half a ns left, which without b would be rounded to none; b takes half of what there is until a ends."""
    text = "w: COPY@HOST ns=999\na: H2D@H2D ns=4\nc: COPY@D2H ns=5\nx: COPY@COMPUTE ns=7\nb: AGGREGATE@COMPUTE ns=50\n" + ALONE
    schedule = write(text).schedule
    times = run(schedule, shares(schedule, [(1, 0, 1.0), (2, 0, 0.7), *((row, 0, 1.0) for row in range(4, 25))]))
    assert times[1:5] == [(0, 8), (0, 7), (0, 7), (7, 58)]


def test_rows_may_be_listed_in_another_order_than_they_run():
    """a before c, which meets b long before a begins; also by the last digits of when they begin, a stands before c."""
    text = "w: COPY@HOST ns=8192\nb: AGGREGATE@COMPUTE ns=60\na: H2D@H2D ns=100 <- w\nx: COPY@COMPUTE2 ns=5\nc: TEMPORAL@COMPUTE2 ns=60\n"
    schedule = write(text + "v: COPY@D2H ns=9000\n" + ALONE).schedule
    times = run(schedule, shares(schedule, [(row, 0, 1.0) for row in (1, 2, 4, *range(6, 26))]))
    assert times[1:5] == [(0, 115), (8192, 8292), (0, 5), (5, 120)] and times[-1] == (9019, 9020)


@pytest.mark.parametrize("longest", [7, 9000])
@pytest.mark.parametrize("seed", range(4))
def test_few_of_many_in_one_anothers_way(seed, longest):
    """Long FIFOs whose rows seldom meet, so that most of them are replayed without a clock."""
    rng, ranks, count = np.random.default_rng(seed), 3, 240
    lanes = [Lane.H2D.name, Lane.COMPUTE.name, Lane.COMPUTE2.name, Lane.D2H.name]
    lines = []
    for i in range(count):
        after = f" <- r{rng.integers(max(0, i - 9), i)}?" if i and rng.random() < 0.4 else ""
        lines.append(f"r{i}: COPY@{rng.choice(lanes)} ns={rng.integers(1, longest)} rank={rng.integers(ranks)}{after}")
    schedule = write("\n".join(lines), ranks).schedule
    taking = np.flatnonzero(rng.random(count) < 0.9).tolist()
    entries = {(row, int(rng.integers(3))): rng.choice([0.1, 0.2, 1 / 3, 0.7]) for row in taking for _ in range(2)}
    run(schedule, shares(schedule, [(row, resource, share) for (row, resource), share in entries.items()], {3: 2, 50: 1}))


@pytest.mark.parametrize("here", [0, 1])
def test_an_instant_is_settled_as_one(here):
    """At 3 ns a ends, and b begins, by an all-reduce that the other rank comes to: x and k go on as slowly as before."""
    text = "x: COPY@COMPUTE ns=5 rank=H\na: COPY@COMPUTE2 ns=2 rank=H\nk: COPY@HOST ns=5 rank=H\nw: COPY@D2H ns=2 rank=H\n"
    text += "p: COPY@COMPUTE ns=1 rank=T\nq: COPY@COMPUTE2 ns=1 rank=T\n"
    text += "r: ALLREDUCE@COMM group=3 bytes=1 <- w? p? q?\nb: COPY@COMPUTE2 ns=5 rank=H <- r\n"
    text = text.replace("rank=H", f"rank={here}").replace("rank=T", f"rank={1 - here}")
    written = write(text, 2)
    sharing = [(written.row[f"{name}/{here}"], 0, 0.5) for name in "xakb"]
    times = run(written.schedule, shares(written.schedule, sharing + [(written.row[f"{name}/{1 - here}"], 1, 1.0) for name in "pq"]))
    assert [times[written.row[f"{name}/{here}"]] for name in "xakb"] == [(0, 8), (0, 3), (0, 8), (3, 10)]


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 3), st.sampled_from([4, 30]), st.sampled_from([0, 3]))
@example(2979342681, 6, 3, 30, 3)  # a host that waits for another region
@example(1847342526, 6, 3, 4, 0)  # a row with half a ns left as another begins
def test_ranks_that_meet_in_collectives_alone(seed, ranks, together, longest, launch_ns):
    """Two or three ranks a resource, each region on a clock of its own between collectives of some of them, which may share, too."""
    rng, lines, taking = np.random.default_rng(seed), list[str](), list[tuple[str, int, float]]()
    often = rng.choice([0.02, 0.2])
    for i in range(int(rng.integers(1, 60))):
        joint = rng.random() < 0.15
        members = np.flatnonzero(rng.random(ranks) < rng.choice([0.4, 1.0])) if joint else rng.integers(ranks, size=1)
        members = members if len(members) else np.arange(ranks)
        copies = [f"{op}@{lane} ns" for op, lane in (("COPY", "COMPUTE"), ("COPY", "COMPUTE2"), ("H2D", "H2D"), ("OPTIMIZE", "COMPUTE"))]
        operation = f"ALLREDUCE@COMM group={i} bytes" if joint else rng.choice(copies)
        after = " ".join(f"r{k}?" for k in range(max(0, i - 8), i) if rng.random() < often)  # of the same rank
        columns = f"rank={','.join(map(str, members))} kernels={rng.integers(4)} iteration={i // 12}"
        lines.append(f"r{i}: {operation}={rng.integers(longest)} {columns}{' <- ' * bool(after)}{after}")
        if rng.random() < (0.2 if joint else 0.7):
            taking.append(
                (
                    f"r{i}/{members[0]}",
                    int(members[0]) // together * 2 + operation.startswith("H2D"),
                    float(rng.choice([1 / 3, 0.5, 0.7, 1.0])),
                )
            )
    written = write("\n".join(lines), ranks)
    row_shares = shares(written.schedule, [(written.row[name], resource, share) for name, resource, share in taking])
    run(written.schedule, row_shares, launch_ns=launch_ns)


def test_a_collective_is_slowed_down_for_all_its_ranks():
    written = write("r: ALLREDUCE@COMM all bytes=100\nh: H2D@H2D ns=50 rank=1\no: OPTIMIZE@COMPUTE ns=1 <- r", ranks=2)
    row_shares = shares(written.schedule, [(0, 0, 1.0), (written.row["h/1"], 0, 1.0)])
    assert run(written.schedule, row_shares) == [(0, 150), (0, 150), (0, 100), (150, 151), (150, 151)]


@st.composite
def shared(draw: st.DrawFn) -> tuple[Schedule, Entries, dict[int, int], dict[int, float]]:
    schedule = draw(schedules())
    first = {group: int(np.flatnonzero(schedule.collective == group)[0]) for group in np.unique(schedule.collective).tolist() if group >= 0}
    rows = st.integers(0, len(schedule) - 1).map(lambda row: first.get(int(schedule.collective[row]), row))
    entries = draw(st.dictionaries(st.tuples(rows, st.integers(0, 3)), st.integers(1, 12).map(lambda n: n / 12), max_size=16))
    triples = [(row, resource, share) for (row, resource), share in entries.items()]
    return schedule, triples, draw(st.dictionaries(rows, st.integers(0, 4))), draw(st.dictionaries(rows, st.sampled_from([0.3, 1.0, 7e9])))


@given(shared(), st.sampled_from([None, CPU_STREAMS, ONE_STREAM]), st.sampled_from([0, 1, 4]))
def test_engines_mean_the_same(case, streams, launch_ns):
    schedule, entries, delay, demand = case
    try:
        spans = run(schedule, shares(schedule, entries, delay, streams, demand), streams, launch_ns)
    except UserError as error:
        assert "deadlocks" in str(error)
        return
    uncontended = run(schedule, None, streams, launch_ns)
    for (start, end), (_, first) in zip(spans, uncontended, strict=True):
        assert end >= start and end - start >= 0 and (entries or (start, end) == (_, first))


def test_work_is_neither_lost_nor_made():
    """On one resource that is asked for too much all the time, the last ends when all of the work is done, whatever the order."""
    rng = np.random.default_rng(0)
    lines = [f"{lane}{i}: H2D@{lane} ns={rng.integers(1_000, 9_000)}" for lane in Lane.__members__ for i in range(20)]
    schedule = write("\n".join(lines)).schedule
    spans = run(schedule, shares(schedule, [(i, 0, 1.0) for i in range(len(schedule))]))
    total = int(schedule.flops.sum())
    assert max(end for _, end in spans) == pytest.approx(total, abs=len(schedule)), "within a ns a row, by rounding"
    assert Op.H2D in schedule.op
