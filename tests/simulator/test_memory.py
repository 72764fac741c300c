from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from notation import NsCosts, Written, gpus, write

from chronoscale.errors import UserError
from chronoscale.simulator import memory, presets
from chronoscale.simulator.engine import replay


def peaks(written: Written) -> list[int]:
    return memory.peaks(written.schedule, replay(written.schedule, gpus(written.schedule.ranks), NsCosts())).tolist()


def test_memory_is_held_from_start_to_the_end_of_the_row_that_frees_it():
    assert peaks(write("a: H2D@H2D alloc=100\nb: AGGREGATE@COMPUTE alloc=10 free=110 <- a\nc: H2D@H2D alloc=50 <- b", resident=7)) == [117]


def test_lanes_that_overlap_hold_their_memory_at_once():
    assert peaks(write("a: AGGREGATE@COMPUTE alloc=100 free=100\nb: TRANSFORM@COMPUTE2 alloc=70 free=70")) == [170]
    assert peaks(write("a: AGGREGATE@COMPUTE alloc=100 free=100\nb: TRANSFORM@COMPUTE2 alloc=70 free=70 <- a")) == [100]


def test_a_row_without_duration_still_needs_its_memory():
    assert peaks(write("a: AGGREGATE@COMPUTE ns=0 alloc=100 free=100\nb: AGGREGATE@COMPUTE ns=0 alloc=60 free=60")) == [100]


def test_every_rank_has_its_own_peak():
    assert peaks(write("a: H2D@H2D alloc=5,0,30\nb: AGGREGATE@COMPUTE alloc=1,0,1", ranks=3, resident=2)) == [8, 2, 33]


def test_peaks_equal_a_walk_through_time():
    rng = np.random.default_rng(0)
    lanes = rng.choice(["HOST", "H2D", "COMPUTE", "COMPUTE2"], 200)
    rows = [f"t{i}: FORWARD@{lane} ns={rng.integers(1, 9)} alloc={rng.integers(0, 99)}" for i, lane in enumerate(lanes)]
    written = write("\n".join(rows))
    schedule = replace(written.schedule, free=rng.permutation(written.schedule.alloc))
    trace = replay(schedule, gpus(1), NsCosts())
    bytes_at = [
        int(schedule.alloc[trace.start_ns <= time].sum() - schedule.free[trace.end_ns <= time].sum())
        for time in np.unique(np.concatenate([trace.start_ns, trace.end_ns]))
    ]
    assert memory.peaks(schedule, trace).tolist() == [max(bytes_at)]


def test_out_of_memory_says_where_and_by_how_much():
    cluster = presets.cluster("h200")
    written = write("a: AGGREGATE@COMPUTE\nh: H2D@H2D iteration=2 unit=7 alloc=1,1,1,152000000000", ranks=4, resident=100_000_000)
    trace = replay(written.schedule, cluster, NsCosts())
    with pytest.raises(UserError) as error:
        memory.check(written.schedule, trace, cluster)
    assert str(error.value) == (
        "out of memory: rank 3 needs 152.1 GB at task 7 (H2D, unit 7, iteration 2), 11.1 GB more than the 141.0 GB of NVIDIA H200"
    )


def test_resident_memory_alone_can_be_too_much():
    written = write("a: AGGREGATE@COMPUTE", resident=3_000_000_000)
    with pytest.raises(UserError, match=r"rank 0 needs 3\.0 GB for resident data, 2\.0 GB more than the 1\.0 GB of Test GPU"):
        memory.check(written.schedule, replay(written.schedule, gpus(1), NsCosts()), gpus(1))


def test_what_fits_passes():
    written = write("a: AGGREGATE@COMPUTE alloc=1000000000")
    memory.check(written.schedule, replay(written.schedule, gpus(1), NsCosts()), gpus(1))
