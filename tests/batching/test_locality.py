"""What the sampler is modelled to read, against its loop written down for one root, and the caches that it meets."""

from __future__ import annotations

from math import isnan

import machines
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_search import NODES, sources

from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.locality import GROUP, LINE, XEON, CacheLevel, MemoryAccesses, hit_rates, sampler_reads
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError


def read(tcsr: TCSR, node: int, before: int, fanout: int) -> tuple[list[int], list[int], list[int]]:
    """Lines of a root: of its row's ends, what temporal.cpp's `earlier` touches, and its copies. Asserts what is found."""
    sizes = [array.itemsize for array in (tcsr.indptr, tcsr.event, tcsr.neighbor)]
    lengths = [-(-array.nbytes // LINE) for array in (tcsr.indptr, tcsr.event, tcsr.neighbor)]

    def line(array: int, at: int) -> int:
        return sum(lengths[:array]) + at * sizes[array] // LINE

    if node < 0:
        return [], [], []
    begin, length = int(tcsr.indptr[node]), int(tcsr.indptr[node + 1] - tcsr.indptr[node])
    ends, touched, first, left = [line(0, node), line(0, node + 1)], [], begin, length
    while left > 1:
        half = left // 2
        touched.append(line(1, first + half - 1))
        first += half if tcsr.event[first + half - 1] < before else 0
        left -= half
    if length:
        touched.append(line(1, first))
        first += int(tcsr.event[first] < before)
    found = tcsr.sample(np.array([node], np.int32), np.array([before], np.int32), fanout)
    taken = min(first - begin, fanout)
    assert taken == found.counts[0] and (tcsr.event[first - taken : first] == found.event[0, :taken]).all()
    copied: list[int] = []
    for array in (2, 1):
        copied += [line(array, at) for at in range(first - taken, first, LINE // 4)] + [line(array, first - 1)] * (taken > 0)
    return ends, touched, copied


@given(sources, st.lists(st.tuples(st.integers(-1, NODES - 1), st.integers(0, 40)), max_size=12), st.integers(1, 4), st.integers(0, 20))
def test_reads_are_those_of_the_samplers_loop(source: IndexedStream, roots: list[tuple[int, int]], threads: int, fanout: int) -> None:
    node, before = (np.array([root[k] for root in roots], np.int32) for k in (0, 1))
    found = sampler_reads(source.tcsr, (node, before), fanout, threads)
    each = max(1, -(-len(roots) // threads))
    for thread in range(threads):
        each_root = [read(source.tcsr, v, bound, fanout) for v, bound in roots[thread * each : (thread + 1) * each]]
        expected = [line for step in range(3) for of_root in each_root for line in of_root[step]]  # of all roots, then the next
        assert found.line[found.thread == thread].tolist() == expected


def test_a_group_is_read_step_by_step_and_threads_go_on_together() -> None:
    count = 2 * (GROUP + 3)
    tcsr = TCSR(np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
    found = sampler_reads(tcsr, (np.arange(count, dtype=np.int32), np.zeros(count, np.int32)), 5, 2)
    assert len(found.line) == 2 * count and found.thread[:4].tolist() == [0, 1, 0, 1]
    assert (found.thread == np.tile([0, 1], count)).all() and found.line[:4].tolist() == [0, (GROUP + 3) * 8 // LINE] * 2


def machine(described: str, tmp_path_factory: pytest.TempPathFactory) -> CpuTopology:
    return CpuTopology.load(machines.written(tmp_path_factory.mktemp("machine"), described))


def accesses(*pairs: tuple[int, int]) -> MemoryAccesses:
    return MemoryAccesses(*np.array(pairs, np.int64).T)


def test_siblings_find_what_each_other_has_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two threads read the same eight lines one after the other."""
    topology = machine(machines.server(2, 2), tmp_path_factory)
    batch = accesses(*((thread, line) for thread in (0, 1) for line in range(8)))
    levels = (CacheLevel("core", 1, 16), CacheLevel("l3", 4, 16))
    assert hit_rates([batch], [(0, 4)], topology, levels)[0] == 0.5
    apart = hit_rates([batch], [(0, 1)], topology, levels)
    assert apart == [0.0, 0.5], "no core shared, but a socket"
    assert hit_rates([batch], [(0, 2)], topology, levels) == [0.0, 0.0]
    moved = hit_rates([batch, batch], [(0, 4), (2, 6)], topology, levels)
    assert moved == [0.5, 0.0], "moved to the other socket, where nothing is"


def test_nothing_is_read_and_no_such_cpu(tmp_path_factory: pytest.TempPathFactory) -> None:
    topology = machine(machines.virtual(), tmp_path_factory)
    assert all(isnan(rate) for rate in hit_rates([], [], topology, XEON))
    with pytest.raises(UserError, match=r"^locality: CPU 4 is none of this machine's$"):
        hit_rates([accesses((0, 1))], [(4,)], topology)
