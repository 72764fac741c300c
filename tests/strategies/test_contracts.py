"""One iteration of every strategy as rows: the contracts carry all three families.

Each strategy is written out in the notation of `notation.py`, replayed on two machines of two GPUs, and asked for what makes it itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from notation import CASES, NsCosts, Written, case, count, each, gpus, write
from replay_oracle import assert_exact

from chronoscale.simulator import memory
from chronoscale.simulator.engine import replay
from chronoscale.strategies.schedule import COLLECTIVES, COLUMNS, Lane, Op, Schedule
from chronoscale.strategies.trace import Trace

RANKS = 4
LOADED = (
    "g{b}: GATHER@HOST unit={b}",
    "h{b}: H2D@H2D <- g{b}",
    "f{b}: FORWARD@COMPUTE <- h{b}",
    "b{b}: BACKWARD@COMPUTE",
    "o{b}: OPTIMIZE@COMPUTE",
)
STEP = ("r: ALLREDUCE@COMM all <- b", "o: OPTIMIZE@COMPUTE <- r")
EACH_STEP = ("r{b}: ALLREDUCE@COMM all <- b{b}", "o{b}: OPTIMIZE@COMPUTE <- r{b}")

# --- snapshots ---


@case(
    "psg",
    each(2, "h{b}: H2D@H2D step={b} <- t{p}?", "a{b}: AGGREGATE@COMPUTE <- h{b}", "x{b}: TRANSFORM@COMPUTE", "t{b}: TEMPORAL@COMPUTE"),
    "b: BACKWARD@COMPUTE ns=10,20,30,40",
    *STEP,
)
def psg(w: Written, t: Trace) -> list[bool]:
    mine = np.flatnonzero(w.schedule.rank == 3)
    serial = (t.start_ns[mine[1:]] >= t.end_ns[mine[:-1]]).all()
    return [bool(serial), w.span(t, "r/0")[0] == w.span(t, "b/3")[1], t.span_ns == 80 + 40 + 30 + 10]


@case(
    "real-type1",
    "h0: H2D@H2D ns=20\na0: AGGREGATE@COMPUTE <- h0\nx0: TRANSFORM@COMPUTE2 <- a0\nt0: TEMPORAL@COMPUTE2",
    each(2, "d{b}: H2D@H2D ns=3", "i{b}: INCREMENT@COMPUTE ns=4 <- d{b}", "y{b}: TRANSFORM@COMPUTE2 <- i{b}", "u{b}: TEMPORAL@COMPUTE2"),
    each(2, "e{b}: RECONSTRUCT@COMPUTE <- d{b}", "g{b}: AGGREGATE@COMPUTE layer=1 <- u{b}", "z{b}: TRANSFORM@COMPUTE2 <- g{b}"),
    "b: BACKWARD@COMPUTE <- z1",
    *STEP,
)
def real_type1(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "d0", "a0"), w.overlap(t, "i0", "x0"), w.overlap(t, "e0", "t0"), w.after(t, "g0", "u0")]


@case(
    "real-reuse",
    each(
        3, "h{b}: H2D@H2D unit=0 step={b}", "a{b}: AGGREGATE@COMPUTE <- h{b}", "x{b}: TRANSFORM@COMPUTE2 <- a{b}", "t{b}: TEMPORAL@COMPUTE2"
    ),
    "b0: BACKWARD@COMPUTE unit=0 <- t2",
    "u0: TEMPORAL@COMPUTE2 unit=1 step=0\nu1: TEMPORAL@COMPUTE2 unit=1 step=1",
    "h3: H2D@H2D unit=1 step=2 <- t2\na3: AGGREGATE@COMPUTE <- h3\nx3: TRANSFORM@COMPUTE2 <- a3\nu2: TEMPORAL@COMPUTE2 unit=1 step=2",
    "b: BACKWARD@COMPUTE unit=1 <- u2",
    *STEP,
)
def real_reuse(w: Written, t: Trace) -> list[bool]:
    return [count(w, Op.H2D) == 4, count(w, Op.TEMPORAL) == 6, count(w, Op.ALLREDUCE) == 1, w.overlap(t, "h3", "b0", "u0")]


@case(
    "esdg",
    *(f"h{s}: H2D@H2D rank={s}\na{s}: AGGREGATE@COMPUTE rank={s} <- h{s}\nx{s}: TRANSFORM@COMPUTE rank={s}" for s in range(RANKS)),
    "t0: TEMPORAL@COMPUTE rank=0",
    *(
        f"s{s}: SEND@COMM rank={s} group={s} <- t{s}\n"
        f"v{s}: RECV@COMM rank={s + 1} group={s}\n"
        f"t{s + 1}: TEMPORAL@COMPUTE rank={s + 1} <- v{s}"
        for s in range(RANKS - 1)
    ),
    "b3: BACKWARD@COMPUTE rank=3",
    *(
        f"q{s}: SEND@COMM rank={s} group=1{s} <- b{s}\n"
        f"p{s}: RECV@COMM rank={s - 1} group=1{s}\n"
        f"b{s - 1}: BACKWARD@COMPUTE rank={s - 1} <- p{s}"
        for s in (3, 2, 1)
    ),
    "r: ALLREDUCE@COMM all <- b0? b1? b2? b3?",
    "o: OPTIMIZE@COMPUTE <- r",
)
def esdg(w: Written, t: Trace) -> list[bool]:
    chain = [w.after(t, f"t{s + 1}/{s + 1}", f"t{s}/{s}") and w.after(t, f"b{s}/{s}", f"b{s + 1}/{s + 1}") for s in range(RANKS - 1)]
    return [*chain, w.overlap(t, "a0/0", "a1/1", "a2/2", "a3/3"), w.after(t, "r/3", "b0/0")]


@case(
    "distdgl",
    "h: H2D@H2D ns=10,10,50,10",
    each(2, "c{b}: ALLTOALL@COMM all layer={b} <- h x{p}?", "a{b}: AGGREGATE@COMPUTE <- c{b}", "x{b}: TRANSFORM@COMPUTE"),
    "t: TEMPORAL@COMPUTE\nb1: BACKWARD@COMPUTE\ng: ALLTOALL@COMM all <- b1\nb: BACKWARD@COMPUTE <- g",
    *STEP,
)
def distdgl(w: Written, t: Trace) -> list[bool]:
    return [w.span(t, "c0/0") == w.span(t, "c0/2"), w.after(t, "a0/0", "h/2"), w.after(t, "c1", "x0"), count(w, Op.ALLTOALL) == 3]


@case(
    "blad",
    each(
        2,
        "h{b}: H2D@H2D unit={b} alloc=100",
        "a{b}: AGGREGATE@COMPUTE alloc=100 <- h{b}",
        "x{b}: TRANSFORM@COMPUTE2 <- a{b}",
        "t{b}: TEMPORAL@COMPUTE2 free=100",
    ),
    "b: BACKWARD@COMPUTE free=200 <- t1",
    *STEP,
)
def blad(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "a1", "x0"), memory.peaks(w.schedule, t).tolist() == [400] * RANKS]


@case(
    "dynagraph",
    "e: ALLTOALL@COMM all bytes=50",
    each(2, "h{b}: H2D@H2D unit=0 step={b}", "a{b}: AGGREGATE@COMPUTE <- h{b} e", "t{b}: TEMPORAL@COMPUTE"),
    "k1: TEMPORAL@COMPUTE unit=1 step=0",
    "h2: H2D@H2D unit=1 step=1\na2: AGGREGATE@COMPUTE <- h2\nt2: TEMPORAL@COMPUTE\nb: BACKWARD@COMPUTE",
    *STEP,
)
def dynagraph(w: Written, t: Trace) -> list[bool]:
    return [count(w, Op.AGGREGATE) == 3, count(w, Op.TEMPORAL) == 4, w.after(t, "a0", "e"), w.overlap(t, "h0", "e")]


@case(
    "dynahb",
    each(
        2,
        "g{b}: GATHER@HOST",
        "h{b}: H2D@H2D <- g{b}",
        "a{b}: AGGREGATE@COMPUTE <- h{b}",
        "b{b}: BACKWARD@COMPUTE ns=10,10,10,200",
        "r{b}: ALLREDUCE@COMM all iteration={b} <- b{b}",
        "o{b}: OPTIMIZE@COMPUTE iteration={b}",
    ),
)
def dynahb(w: Written, t: Trace) -> list[bool]:
    return [w.span(t, "o1/0")[1] < w.span(t, "r0/0")[0], w.overlap(t, "g1", "h0"), w.span(t, "r0/0") == w.span(t, "r0/3")]


@case(
    "flaredtdg",
    "h0: H2D@H2D step=0\nh1: H2D@H2D step=1 <- h0",
    "a0: AGGREGATE@COMPUTE layer=0 <- h0\nx0: TRANSFORM@COMPUTE\nc0: ALLTOALL@COMM all bytes=40 layer=1 <- x0",
    "m: REMAP@COMPUTE ns=1\nd0: AGGREGATE@COMPUTE nodes=5\nd1: TRANSFORM@COMPUTE nodes=5",
    "a1: AGGREGATE@COMPUTE layer=1 <- c0\nx1: TRANSFORM@COMPUTE\nt: TEMPORAL@COMPUTE\nb: BACKWARD@COMPUTE",
    *STEP,
)
def flaredtdg(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "h1", "a0"), w.overlap(t, "c0", "d0"), w.overlap(t, "c0", "d1"), w.after(t, "a1", "c0")]


# --- event streams ---


@case(
    "tgl",
    each(
        3,
        "s{b}: SAMPLE@HOST unit={b}",
        "g{b}: GATHER@HOST",
        "h{b}: H2D@H2D <- g{b}",
        "m{b}: MEMORY_READ@COMPUTE <- h{b} w{p}?",
        "u{b}: MEMORY_UPDATE@COMPUTE",
        "a{b}: AGGREGATE@COMPUTE",
        "b{b}: BACKWARD@COMPUTE",
        "o{b}: OPTIMIZE@COMPUTE",
        "w{b}: MEMORY_WRITE@D2H ns=25 <- u{b}",
    ),
)
def tgl(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "s2", "u0"), w.after(t, "m1", "w0"), w.after(t, "m2", "w1"), w.span(t, "h1")[1] < w.span(t, "m1")[0]]


@case(
    "etc",
    each(3, "g{b}: GATHER@HOST unit={b}", "h{b}: H2D@H2D <- g{b}", "a{b}: FORWARD@COMPUTE ns=5 <- h{b}", "b{b}: BACKWARD@COMPUTE ns=5"),
)
def etc(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "g2", "h1", "a0"), t.span_ns == 50]


@case(
    "index-cache",  # taser, simple: rows on the device need no transfer; simple moves some when its placement changes
    "s0: SAMPLE@HOST\ng0: GATHER@HOST rows=3\nh0: H2D@H2D rows=3 <- g0\nd0: GATHER@COMPUTE rows=7 <- h0\nf0: FORWARD@COMPUTE",
    "move: H2D@H2D rows=20\ns1: SAMPLE@HOST\nd1: GATHER@COMPUTE rows=10 <- move s1\nf1: FORWARD@COMPUTE",
)
def index_cache(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "move", "d0"), w.after(t, "d1", "move"), count(w, Op.H2D) == 2]


@case(
    "fast",
    each(
        2,
        "s{b}: SAMPLE@HOST unit={b} rows=90",
        "g{b}: GATHER@HOST rows=10",
        "h{b}: H2D@H2D rows=10 bytes=400 <- g{b}",
        "e{b}: GATHER@COMPUTE rows=90 <- h{b}\na{b}: AGGREGATE@COMPUTE edges=90\nb{b}: BACKWARD@COMPUTE\no{b}: OPTIMIZE@COMPUTE",
    ),
)
def fast(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "g1", "e0"), w.after(t, "e1", "h1"), w.after(t, "a0", "e0")]


@case(
    "tgl-dist",
    each(
        2,
        "s{b}: SAMPLE@HOST ns=10,10,10,30 unit={b}",
        "i{b}: ALLTOALL@COMM all <- s{b}",
        "c{b}: ALLTOALL@COMM all bytes=20 <- w{p}?",
        "u{b}: MEMORY_UPDATE@COMPUTE <- c{b}\na{b}: AGGREGATE@COMPUTE\nb{b}: BACKWARD@COMPUTE",
        *EACH_STEP,
        "w{b}: ALLTOALL@COMM all",
    ),
)
def tgl_dist(w: Written, t: Trace) -> list[bool]:
    return [w.after(t, "i0/0", "s0/3"), w.after(t, "c1", "w0"), w.overlap(t, "s1/3", "c0/3"), count(w, Op.ALLTOALL) == 6]


@case(
    "mspipe",
    each(
        3,
        "s{b}: SAMPLE@HOST unit={b}\nm{b}: MEMORY_READ@COMPUTE <- s{b} w{pp}?",  # memory up to two batches old
        "u{b}: MEMORY_UPDATE@COMPUTE\nw{b}: MEMORY_WRITE@D2H ns=60 <- u{b}\nn{b}: ALLGATHER@COMM all <- u{b}",
    ),
)
def mspipe(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "m1", "w0"), w.after(t, "m2", "w0"), w.overlap(t, "n0", "m1")]


@case(
    "disttgl",
    each(
        2,
        "s{b}: SAMPLE@HOST unit={b}\nm{b}: ALLGATHER@COMM group=1{b},1{b},2{b},2{b} bytes=8 <- s{b}",
        "u{b}: MEMORY_UPDATE@COMPUTE ns=10,20,30,40 <- m{b}\nb{b}: BACKWARD@COMPUTE",
        *EACH_STEP,
    ),
)
def disttgl(w: Written, t: Trace) -> list[bool]:
    near, far = (np.diff(w.span(t, label))[0] for label in ("m0", "r0"))
    return [near == 8, far == 30, w.span(t, "m0/0") == w.span(t, "m0/1"), w.after(t, "r0/0", "b0/3")]


@case(
    "memshare",
    each(
        2,
        "s{b}: SAMPLE@HOST unit={b}\nu{b}: MEMORY_UPDATE@COMPUTE <- s{b}",
        "c{b}: ALLTOALL@COMM all <- u{b}\na{b}: AGGREGATE@COMPUTE <- c{b}\nb{b}: BACKWARD@COMPUTE",
        *EACH_STEP,
        "n{b}: ALLGATHER@COMM all",
    ),
)
def memshare(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "n0", "u1"), w.after(t, "c0", "u0"), w.after(t, "c1", "n0"), w.overlap(t, "s1", "u0")]


# --- signals ---


@case("pgt", "m: MATERIALISE@HOST ns=500", each(2, *LOADED))
def pgt(w: Written, t: Trace) -> list[bool]:
    return [w.after(t, "g0", "m"), count(w, Op.MATERIALISE) == 1, w.overlap(t, "g1", "h0")]


@case("index", each(3, *LOADED))
def index(w: Written, t: Trace) -> list[bool]:
    return [w.span(t, "g0")[0] == 0, w.overlap(t, "g2", "h1", "f0"), count(w, Op.MATERIALISE) == 0]


@case(
    "gpu-index",
    "h: H2D@H2D ns=100 alloc=1000",
    each(
        2,
        "g{b}: GATHER@COMPUTE unit={b} alloc=10 <- h",
        "f{b}: FORWARD@COMPUTE",
        "b{b}: BACKWARD@COMPUTE free=10",
        "o{b}: OPTIMIZE@COMPUTE",
    ),
)
def gpu_index(w: Written, t: Trace) -> list[bool]:
    return [count(w, Op.H2D) == 1, not (w.schedule.lane == Lane.HOST).any(), w.after(t, "g0", "h"), memory.peaks(w.schedule, t)[0] == 1010]


@case(
    "ddp",
    "q0: FETCH@COMM",
    "h0: H2D@H2D <- q0\nf0: FORWARD@COMPUTE <- h0\nq1: FETCH@COMM unit=1\nb: BACKWARD@COMPUTE",
    *STEP,
    "h1: H2D@H2D <- q1\nf1: FORWARD@COMPUTE <- h1",
)
def ddp(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "q1", "h0"), w.after(t, "h1", "q1"), w.after(t, "f1", "o"), np.diff(w.span(t, "q0"))[0] == 10]


@case(
    "dist-index",
    "h: H2D@H2D ns=100",
    each(
        2,
        "g{b}: GATHER@COMPUTE unit={b} <- h",
        "b{b}: BACKWARD@COMPUTE ns=10,20,10,10",
        *EACH_STEP,
    ),
)
def dist_index(w: Written, t: Trace) -> list[bool]:
    together = np.isin(w.schedule.op, [int(op) for op in COLLECTIVES])
    return [set(w.schedule.op[together]) == {Op.ALLREDUCE}, w.after(t, "r0/0", "b0/1"), w.after(t, "g1", "o0")]


@case(
    "gen-dist-index",
    "q0: FETCH@COMM rows=30",
    "h0: H2D@H2D <- q0\nq1: FETCH@COMM rows=30 ns=15\ng0: GATHER@COMPUTE <- h0\nb: BACKWARD@COMPUTE",
    *STEP,
    "h1: H2D@H2D <- q1\ng1: GATHER@COMPUTE <- h1",
)
def gen_dist_index(w: Written, t: Trace) -> list[bool]:
    return [w.overlap(t, "q1", "g0"), w.after(t, "g0", "h0"), w.overlap(t, "h1", "b")]


@pytest.mark.parametrize("name", CASES)
def test_a_strategy_in_rows(name, tmp_path):
    written = write(CASES[name].text, RANKS, name)
    written.schedule.save(tmp_path / "schedule.parquet")
    loaded = Schedule.load(tmp_path / "schedule.parquet")
    for column in ("name", "ranks", "resident", *COLUMNS, "dep", "dep_ptr"):
        assert np.array_equal(getattr(loaded, column), getattr(written.schedule, column)), column
    trace = assert_exact(loaded, gpus(RANKS, per_node=2, origin="fitted for a test"))
    assert trace is not None and trace.span_ns > 0
    assert assert_exact(loaded, gpus(RANKS, per_node=2, origin="fitted for a test"), launch_ns=4) is not None
    facts = CASES[name].facts(written, trace)
    assert all(facts), facts


def test_all_strategies_of_the_mission_are_here():
    mission = (
        "psg real-type1 real-reuse esdg distdgl blad dynagraph dynahb flaredtdg tgl etc fast tgl-dist mspipe disttgl memshare pgt index"
    )
    assert {*mission.split(), "gpu-index", "ddp", "dist-index", "gen-dist-index"} <= set(CASES)


def test_a_trace_survives_a_round_trip(tmp_path):
    written = write(CASES["tgl"].text, RANKS, "tgl")
    trace = replay(written.schedule, gpus(RANKS), NsCosts())
    trace.save(tmp_path / "trace.parquet")
    loaded = Trace.load(tmp_path / "trace.parquet")
    assert (loaded.strategy, loaded.device) == ("tgl", trace.device) and np.array_equal(loaded.end_ns, trace.end_ns)
