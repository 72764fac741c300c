from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, Written, gpus, log, write
from random_schedules import ONE_STREAM, schedules
from replay_oracle import assert_exact, replay

from chronoscale.errors import UserError
from chronoscale.strategies.cluster import CPU_STREAMS, Cluster
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.trace import Source


def run(written: Written, cluster: Cluster) -> list[tuple[str, int, int, int]]:
    return log(written.schedule, replay(written.schedule, cluster, NsCosts()))


def test_lanes_run_beside_each_other_until_one_waits():
    written = write("""
        h0: H2D@H2D ns=5
        a0: AGGREGATE@COMPUTE ns=20 <- h0
        h1: H2D@H2D ns=7
        a1: AGGREGATE@COMPUTE ns=1 <- h1""")
    assert run(written, gpus(1)) == [("H2D", 0, 0, 5), ("AGGREGATE", 0, 5, 25), ("H2D", 0, 5, 12), ("AGGREGATE", 0, 25, 26)]


def test_lanes_of_one_stream_run_in_row_order():
    written = write("""
        s0: SAMPLE@HOST ns=3
        h0: H2D@H2D ns=5
        a0: AGGREGATE@COMPUTE ns=20 <- h0
        x0: TRANSFORM@COMPUTE2 ns=2
        h1: H2D@H2D ns=1""")
    assert run(written, gpus(1, streams=CPU_STREAMS)) == [
        *[("SAMPLE", 0, 0, 3), ("H2D", 0, 3, 8), ("AGGREGATE", 0, 8, 28)],
        *[("TRANSFORM", 0, 28, 30), ("H2D", 0, 8, 9)],
    ]


def test_a_collective_starts_when_its_last_rank_arrives():
    written = write(
        """
        b: BACKWARD@COMPUTE ns=10,30,20
        r: ALLREDUCE@COMM all bytes=30 <- b
        o: OPTIMIZE@COMPUTE ns=1 <- r""",
        ranks=3,
    )
    assert run(written, gpus(3)) == [
        *[("BACKWARD", 0, 0, 10), ("BACKWARD", 1, 0, 30), ("BACKWARD", 2, 0, 20)],
        *[("ALLREDUCE", rank, 30, 70) for rank in range(3)],  # 2 * 2/3 * 30 bytes
        *[("OPTIMIZE", rank, 70, 71) for rank in range(3)],
    ]


def test_a_chain_of_messages():
    written = write(
        """
        x0: TEMPORAL@COMPUTE rank=0
        s0: SEND@COMM rank=0 group=0 bytes=4 <- x0
        r1: RECV@COMM rank=1 group=0 bytes=4
        x1: TEMPORAL@COMPUTE rank=1 <- r1
        s1: SEND@COMM rank=1 group=1 bytes=6 <- x1
        r2: RECV@COMM rank=2 group=1 bytes=6
        x2: TEMPORAL@COMPUTE rank=2 <- r2""",
        ranks=3,
    )
    assert run(written, gpus(3)) == [
        *[("TEMPORAL", 0, 0, 10), ("SEND", 0, 10, 14), ("RECV", 1, 10, 14)],
        *[("TEMPORAL", 1, 14, 24), ("SEND", 1, 24, 30), ("RECV", 2, 24, 30)],
        ("TEMPORAL", 2, 30, 40),
    ]


def test_a_pipeline_prefetches():
    written = write("\n".join(f"g{b}: GATHER@HOST ns=10\nh{b}: H2D@H2D ns=4 <- g{b}\nf{b}: FORWARD@COMPUTE ns=8 <- h{b}" for b in range(3)))
    assert run(written, gpus(1)) == [
        *[("GATHER", 0, 0, 10), ("H2D", 0, 10, 14), ("FORWARD", 0, 14, 22)],
        *[("GATHER", 0, 10, 20), ("H2D", 0, 20, 24), ("FORWARD", 0, 24, 32)],
        *[("GATHER", 0, 20, 30), ("H2D", 0, 30, 34), ("FORWARD", 0, 34, 42)],
    ]


def test_every_duration_keeps_its_source():
    written = write("b: BACKWARD@COMPUTE\nr: ALLREDUCE@COMM all <- b", ranks=2)
    trace = replay(written.schedule, gpus(2), NsCosts())
    assert trace.sources == ("measured", "specified")
    assert trace.source.tolist() == [Source.MEASURED] * 2 + [Source.SPECIFIED] * 2
    assert trace.device == "Test GPU (test), costs: ns"


def test_an_empty_schedule_gives_an_empty_trace():
    assert len(replay(Builder("empty", 2).finish(), gpus(2), NsCosts())) == 0


def test_more_ranks_than_devices():
    with pytest.raises(UserError, match="cluster 'test' has 2 GPUs, 3 asked for"):
        replay(write("a: FORWARD@COMPUTE", ranks=3).schedule, gpus(2), NsCosts())


def test_a_deadlock_names_who_waits_for_whom():
    written = write(
        """
        p0: ALLREDUCE@COMM rank=0 group=1
        q1: ALLREDUCE@COMM rank=1 group=2
        q0: ALLREDUCE@COMM rank=0 group=2
        p1: ALLREDUCE@COMM rank=1 group=1
        z: OPTIMIZE@COMPUTE <- q0/0 p1/1""",
        ranks=2,
        name="crossed",
    )
    with pytest.raises(UserError) as error:
        replay(written.schedule, gpus(2), NsCosts())
    first, second = "task 0 (ALLREDUCE@COMM of rank 0, collective 1)", "task 1 (ALLREDUCE@COMM of rank 1, collective 2)"
    assert str(error.value) == f"schedule 'crossed' deadlocks: {first} waits for {second} waits for {first}"


def test_a_collective_that_waits_for_itself():
    written = write("s: SEND@COMM rank=0 group=0\nr: RECV@COMM rank=1 group=0 <- s/0", ranks=2)
    with pytest.raises(UserError, match=r"deadlocks: .*task 1 \(RECV@COMM of rank 1, collective 0\)"):
        replay(written.schedule, gpus(2), NsCosts())


def test_a_long_cycle_is_cut_short():
    ranks = 9  # each sends to the next before it receives from the one before
    sends = [f"s{r}: SEND@COMM rank={r} group={r}" for r in range(ranks)]
    receives = [f"r{r}: RECV@COMM rank={(r + 1) % ranks} group={r}" for r in range(ranks)]
    with pytest.raises(UserError) as error:
        replay(write("\n".join(sends + receives), ranks, "ring").schedule, gpus(ranks), NsCosts())
    assert str(error.value).startswith("schedule 'ring' deadlocks: task 0 (SEND@COMM of rank 0, collective 0) waits for task 1 (")
    assert str(error.value).endswith("task 5 (SEND@COMM of rank 5, collective 5) waits for 3 more")


@given(schedules(), st.sampled_from([None, CPU_STREAMS, ONE_STREAM]), st.sampled_from([1, 2, 4]), st.sampled_from([0, 1, 4]))
def test_the_engine_equals_the_oracle(schedule, streams, per_node, launch_ns):
    assert_exact(schedule, gpus(4, per_node, streams), launch_ns)


def launched(text: str, launch_ns: int, ranks: int = 1) -> list[tuple[int, int]]:
    written = write(text, ranks)
    trace = replay(written.schedule, gpus(ranks), NsCosts(launch_ns))
    return list(zip(trace.start_ns.tolist(), trace.end_ns.tolist(), strict=True))


def test_one_host_thread_launches_the_kernels_of_all_lanes():
    text = "a: AGGREGATE@COMPUTE ns=9 kernels=3\nt: TEMPORAL@COMPUTE2 ns=4 kernels=2\ng: GATHER@HOST ns=5 kernels=0"
    assert launched(text, 0) == [(0, 9), (0, 4), (0, 5)]
    # launches at 10, 20, 30 and 40, 50: a kernel of 3 ns (2 ns) ends after each; time before the last launch is a row's own
    assert launched(text, 10) == [(30 - 2 * 3, 33), (50 - 2, 52), (0, 5)]
    assert launched(text, 1) == [(3 - 2 * 1, 10), (5 - 1, 8), (0, 5)]  # the device is behind: the first launch alone is waited for


def test_the_host_is_one_iteration_ahead_of_the_device():
    lines = "\n".join(f"a{i}: AGGREGATE@COMPUTE ns=100 iteration={i}\no{i}: OPTIMIZE@COMPUTE ns=1 iteration={i}" for i in range(4))
    ends = [end for _, end in launched(lines + "\nc: COPY@COMPUTE2 ns=1 iteration=3", 1)]
    assert ends[-1] == ends[3] + 3 + 1  # behind the second optimiser's step, three launches and its own time


def test_what_waits_for_the_host_is_launched_when_it_has_returned_and_nothing_else_before():
    """Two launches at 1 and 2; the third waits for a read that takes until 50, and so do the fourth, of another lane, and its own wait."""
    text = """
        a: AGGREGATE@COMPUTE ns=5
        w: D2H@D2H ns=10 <- a
        r: MEMORY_READ@HOST ns=34 kernels=0 <- w
        h: H2D@H2D ns=4 kernels=3 <- r
        c: COPY@COMPUTE2 ns=2
        f: FETCH@COMM ns=20 kernels=0
        s: ALLREDUCE@COMM all bytes=0"""
    starts = launched(text, 1)
    assert starts[:3] == [(1, 6), (6, 16), (16, 50)]
    assert starts[3] == (53 - 2, 55) and starts[4] == (54, 56)  # three launches, all but the last beside the row; then its own
    assert starts[5] == (0, 20) and starts[6][0] == 55  # a row behind a fetch in its lane waits for it, too: it was over


def test_launches_wait_once_for_what_the_host_has_returned():
    text = "r: SAMPLE@HOST ns=30 kernels=0\na: AGGREGATE@COMPUTE ns=1 <- r\nb: AGGREGATE@COMPUTE2 ns=1 <- r\ns: SAMPLE@HOST ns=9 kernels=0"
    assert launched(text, 2) == [(0, 30), (32, 33), (34, 35), (30, 39)]


@pytest.mark.parametrize(("ns", "count", "launch"), [(12, 3, 5), (12, 3, 4), (12, 3, 1), (40, 4, 2), (6, 1, 9), (8, 8, 3)])
def test_a_row_of_kernels_ends_as_if_each_were_launched_by_itself(ns, count, launch):
    for ready in (0, 7, 50):
        free = ready
        for kernel in range(count):
            free = max(free, (kernel + 1) * launch) + ns // count
        text = f"x: COPY@COMPUTE2 ns={ready} kernels=0\na: AGGREGATE@COMPUTE ns={ns} kernels={count} <- x"
        assert launched(text, launch)[-1][1] == free


def test_launches_do_not_hide_a_deadlock():
    rows = ["s0: SEND@COMM rank=0 group=0", "r1: RECV@COMM rank=0 group=1", "s1: SEND@COMM rank=1 group=1", "r0: RECV@COMM rank=1 group=0"]
    text = "\n".join([*rows, "a: AGGREGATE@COMPUTE rank=0 <- r1/0", *(f"o{i}: OPTIMIZE@COMPUTE rank=0 iteration={i}" for i in range(4))])
    with pytest.raises(UserError, match=r"deadlocks: task 0 .* waits for task 2 .* waits for task 0"):
        replay(write(text, 2).schedule, gpus(2), NsCosts(1))


@pytest.mark.parametrize("ranks", [1, 2, 7, 64, 1024])
def test_any_number_of_ranks(ranks):
    written = write("h: H2D@H2D\nf: FORWARD@COMPUTE <- h\nr: ALLREDUCE@COMM all bytes=0 <- f\no: OPTIMIZE@COMPUTE <- r", ranks=ranks)
    trace = replay(written.schedule, gpus(ranks), NsCosts())
    assert len(trace) == 4 * ranks and trace.span_ns == 30


def test_times_that_no_clock_holds_are_refused():
    """Units mistaken by a factor of a billion, not a clock that goes round."""
    schedule = write(f"a: AGGREGATE@COMPUTE ns={2**62}\nb: AGGREGATE@COMPUTE ns={2**62}").schedule
    with pytest.raises(UserError, match=r"^schedule 'test': its rows take more than 146 years; see the units of the cluster's figures$"):
        replay(schedule, gpus(1), NsCosts())
