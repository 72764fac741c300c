"""What a replay takes, against formulas: rows that share resources, three streams, stragglers. Collectives: test_nccl.py, test_network.py.

Durations are seconds, so that whole nanoseconds and shares of 2^-36 keep 1e-9.
"""

from __future__ import annotations

from itertools import accumulate, combinations_with_replacement

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from notation import NsCosts, gpus, write
from profiles import examples
from replay_oracle import replay
from sharing_case import ended, shares

SECOND = 1_000_000_000
LONG = st.integers(SECOND, 9 * SECOND)  # ns
SHARE = st.integers(1, 100).map(lambda percent: percent / 100)
JOB = "h{i}: H2D@H2D ns={a}\na{i}: AGGREGATE@COMPUTE ns={b} <- h{i}\nx{i}: TRANSFORM@COMPUTE2 ns={c} <- a{i}"


@given(LONG, LONG, SHARE, SHARE, st.integers(0, 3 * SECOND))
@example(9 * SECOND, 9 * SECOND, 0.48, 0.53, 0)
def test_two_flows_on_a_link(ns, other, share, rest, late):
    """The second comes `late`. Each has a half of the link, or what it needs if that is less, and then the other has what is left."""
    mine, its = 1.0, 1.0  # speeds side by side
    if share + rest > 1:
        mine = min(share, max(0.5, 1 - rest)) / share
        its = min(rest, max(0.5, 1 - share)) / rest
    if late >= ns:
        ends = float(ns), float(late + other)
    else:
        left = ns - late
        together = min(left / mine, other / its)
        ends = late + together + (left - mine * together), late + together + (other - its * together)
    schedule = write(f"w: COPY@COMPUTE2 ns={late}\na: H2D@H2D ns={ns}\nb: AGGREGATE@COMPUTE ns={other} <- w").schedule
    found = ended(schedule, shares(schedule, [(1, 0, share), (2, 0, rest)]))
    assert found[1:] == pytest.approx(ends, rel=1e-9)


def test_flows_of_different_speeds_get_equal_parts_in_bytes():
    """10 GB/s by a card of its own and 50 into one link of 50 GB/s: the slow one has its 10, the fast one 40, whatever else they take."""
    schedule = write(f"a: H2D@H2D ns={4 * SECOND}\nb: AGGREGATE@COMPUTE ns={4 * SECOND}").schedule
    for more in ([], [(0, 1, 1.0), (1, 2, 1.0)]):
        flows = shares(schedule, [(0, 0, 0.2), (1, 0, 1.0), *more], demand={0: 10e9, 1: 50e9})
        assert ended(schedule, flows) == pytest.approx([4 * SECOND, (4 + 0.2 * 4) * SECOND], rel=1e-9)


@examples(40)
@given(st.lists(LONG, min_size=2, max_size=8))
def test_a_fan_in(takes):
    """All enter one machine by one card: of those that are left each has an equal part. One that leaves by another card is alone there."""
    count = len(takes)
    text = "\n".join(
        f"s{i}: SEND@COMM rank={i} group={i} bytes={ns}\nr{i}: RECV@COMM rank={count + i} group={i}" for i, ns in enumerate(takes)
    )
    schedule = write(text + f"\nx: D2H@D2H rank=0 ns={SECOND}", 2 * count).schedule
    own = [(2 * i, 1 + i, 1.0) for i in range(count)]
    found = ended(schedule, shares(schedule, [*((2 * i, 0, 1.0) for i in range(count)), *own, (2 * count, count + 1, 1.0)]))
    order = sorted(takes)
    ends = {ns: done + (count - k) * ns for k, (ns, done) in enumerate(zip(order, accumulate([0, *order[:-1]]), strict=True))}
    assert found[: 2 * count : 2] == pytest.approx([ends[ns] for ns in takes], rel=1e-9)
    assert found[1 : 2 * count : 2] == found[: 2 * count : 2] and found[-1] == SECOND


def test_pcie_sharing():
    """Copies of 63 GB/s: two devices a switch of 63 GB/s, four a socket of 100 GB/s."""
    socket = 63 / 100

    def copies(count: int) -> list[int]:
        schedule = write(f"h: H2D@H2D ns={4 * SECOND} rank={','.join(map(str, range(count)))}", 8).schedule
        entries = [(i, resource, share) for i in range(count) for resource, share in ((i // 2, 1.0), (4 + i // 4, socket))]
        return ended(schedule, shares(schedule, entries))

    assert copies(8) == pytest.approx([4 * 4 * socket * SECOND] * 8, rel=1e-9)  # four on a socket are more than it gives, two a switch less
    # of three on a socket two share a switch, and the third has what they leave of the socket; the others stay at their switch's half
    assert copies(3) == pytest.approx([8 * SECOND, 8 * SECOND, 4 * SECOND / ((1 - socket) / socket)], rel=1e-9)
    assert copies(1) == [4 * SECOND]


@given(st.lists(st.tuples(*[st.integers(0, SECOND)] * 3), min_size=1, max_size=12))
def test_three_streams(jobs):
    """Copied, aggregated and transformed one after another in a stream each: the longest way through a flow shop (Johnson 1954)."""
    lines = [
        f"h{i}: H2D@H2D ns={a}\na{i}: AGGREGATE@COMPUTE ns={b} <- h{i}\nx{i}: TRANSFORM@COMPUTE2 ns={c} <- a{i}"
        for i, (a, b, c) in enumerate(jobs)
    ]
    copied, summed, prefix_sums = ([0, *accumulate(column)] for column in zip(*jobs, strict=True))
    turns = combinations_with_replacement(range(len(jobs)), 2)
    longest = max(copied[i + 1] + summed[j + 1] - summed[i] + prefix_sums[-1] - prefix_sums[j] for i, j in turns)
    assert replay(write("\n".join(lines)).schedule, gpus(1), NsCosts()).span_ns == longest


def test_three_streams_of_equal_jobs():
    text = "\n".join(
        f"h{i}: H2D@H2D ns=300\na{i}: AGGREGATE@COMPUTE ns=700 <- h{i}\nx{i}: TRANSFORM@COMPUTE2 ns=200 <- a{i}" for i in range(50)
    )
    assert replay(write(text).schedule, gpus(1), NsCosts()).span_ns == 300 + 700 + 200 + 49 * 700


@pytest.mark.parametrize("ranks", [2, 7, 64])
def test_a_straggler_costs_all_ranks_its_delay_where_all_meet(ranks):
    """Iterations of 1 s, one rank 1.5 times as slow, and an all-reduce of 2 (P - 1) / P bytes a ns behind each."""
    work = ",".join(str(SECOND * (3 if rank == 1 else 2) // 2) for rank in range(ranks))
    size = ranks * 1_000_000
    iterations = 5
    text = "\n".join(
        f"b{i}: BACKWARD@COMPUTE ns={work} <- r{i - 1}?\nr{i}: ALLREDUCE@COMM all bytes={size} <- b{i}" for i in range(iterations)
    )
    span = replay(write(text, ranks).schedule, gpus(ranks, origin="fitted by hand"), NsCosts()).span_ns
    assert span == pytest.approx(iterations * (1.5 * SECOND + 2 * (ranks - 1) / ranks * size), rel=1e-9)


@pytest.mark.parametrize(("delay", "ranks"), [(50, 5), (700, 5), (2300, 7), (2300, 3)])
def test_a_delay_travels_from_neighbour_to_neighbour(delay, ranks):
    """Ranks in a circle send to the next one after every step; one is late once. The delay moves on by a rank an iteration, and behind its
    front every step waits for a message less and less: the slack of a message's time absorbs it (idle waves)."""
    step, message, late, iterations = 1000, 400, 1, 12
    lines = []
    for k in range(iterations):
        takes = ",".join(str(step + delay * (k == 0 and rank == late)) for rank in range(ranks))
        lines.append(f"f{k}: FORWARD@COMPUTE ns={takes}" + " ".join(["", "<-", f"v{k - 1}"] * (k > 0)))
        for rank in range(ranks):
            after = (rank + 1) % ranks
            lines.append(f"s{k}: SEND@COMM rank={rank} group={k * ranks + rank} bytes={message} <- f{k}")
            lines.append(f"v{k}: RECV@D2H rank={after} group={k * ranks + rank} bytes={message}")
    written = write("\n".join(lines), ranks)
    trace = replay(written.schedule, gpus(ranks), NsCosts())
    for k in range(iterations):
        for rank in range(ranks):
            hops = (rank - late) % ranks
            delays = [delay - (k - way) * message for way in range(hops, k + 1, ranks)]
            assert written.span(trace, f"f{k}/{rank}")[1] == (k + 1) * step + k * message + max([0, *delays])
