"""Locality: how often sampling threads find what they read in the caches of a described machine. A model, not a measurement.

It has what the sampler reads of the T-CSR, in the order of its loop (csrc/cpu/temporal.cpp: groups of 32 roots, each step for the whole
group), threads going on at one pace. It has neither prefetches, nor arguments and results, nor anything else that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.sampling.affinity import Roots
from chronoscale.cuda_ext.sampling import processor_caches
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology, Level
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError

LINE = 64  # bytes
GROUP = 32  # roots that a thread has under way


class CacheLevel(NamedTuple):
    """Caches of one level of a CPU, for the model of sampling threads' hit rates: one cache for each group of processors that share it."""

    level: Level
    kilobytes: int
    ways: int


# Of a Xeon Gold 6133 (Skylake-SP), on which FAST was measured: L1 and L2 of a core, L3 of a socket (Intel's datasheet: 27.5 MB).
XEON = (CacheLevel("core", 32, 8), CacheLevel("l2", 1024, 16), CacheLevel("l3", 28160, 11))


class MemoryAccesses(NamedTuple):
    """Memory accesses of sampling one batch, in their order: the thread that reads, and the line of memory (64 bytes) that it reads, int64
    [n] each."""

    thread: Int64
    line: Int64


def sampler_reads(tcsr: TCSR, roots: Roots, fanout: int, threads: int) -> MemoryAccesses:
    """List the memory accesses of `threads` bound threads that sample the latest `fanout` neighbours of a batch's roots, each thread its
    part: a model of the CPU sampler's loop, not a measurement. roots: nodes int32 [R] and the first event that each does not see, int32
    [R]."""
    root = []
    steps = []
    lines = []
    node, before = (np.asarray(ids, np.int64) for ids in roots)
    there = np.flatnonzero(node >= 0)

    def read(of: Int64, phase: int, array: int, at: Int64, step: int = 0) -> None:
        root.append(of)
        steps.append(np.full(len(of), phase << 8 | step))
        lines.append(starts[array] + at * sizes[array] // LINE)

    arrays = (tcsr.indptr, tcsr.event, tcsr.neighbor)
    sizes = [array.itemsize for array in arrays]
    starts = np.cumsum([0, *(-(-array.nbytes // LINE) for array in arrays)])
    for step in (0, 1):
        read(there, 0, 0, node[there] + step, step)
    begin, end = tcsr.indptr[node[there]], tcsr.indptr[node[there] + 1]
    searched = there[end > begin]
    left = (end - begin)[end > begin]
    first = begin[end > begin]
    step = 0
    while (more := left > 1).any():  # as `earlier` halves a row
        half = left // 2
        read(searched[more], 1, 1, (first + half - 1)[more], step)
        first = np.where(more & (tcsr.event[first + np.maximum(half, 1) - 1] < before[searched]), first + half, first)
        left, step = np.where(more, left - half, left), step + 1
    read(searched, 1, 1, first, step)
    last = first + (tcsr.event[first] < before[searched])
    least = np.maximum(last - fanout, tcsr.indptr[node[searched]])
    last, least, searched = last[last > least], least[last > least], searched[last > least]
    for step, array in enumerate((2, 1), 2):
        for k in range(0, fanout, LINE // 4):  # what is taken, a line at a time, and its last entry
            taken_here = least + k < last
            read(searched[taken_here], 2, array, (least + k)[taken_here], step)
        read(searched, 2, array, last - 1, step)
    of = np.concatenate(root)
    step_of = np.concatenate(steps)
    line = np.concatenate(lines)
    thread, position = np.divmod(of, max(1, -(-len(node) // threads)))
    order = np.lexsort((thread, step_of & 255, position % GROUP, step_of >> 8, position // GROUP))
    return MemoryAccesses(thread[order], line[order])


def hit_rates(
    batches: Iterable[MemoryAccesses], cpus: Iterable[Sequence[int]], topology: CpuTopology, levels: Sequence[CacheLevel] = XEON
) -> list[float]:
    """Compute how often sampling threads would find what they read in the caches of a CPU, level by level, the nearest first: of the
    accesses that reach a level, the share that hit. A model, not a measurement (FAST §4.4).

    batches: accesses of each batch (`sampler_reads`); cpus: for each batch the CPU that each thread runs on. Only misses of one level reach
    the next; nan where nothing reaches it. Raises UserError for a CPU that the machine does not have.
    """
    numbers = {cpu.number: at for at, cpu in enumerate(topology.cpus)}
    line, place = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch, where in zip(batches, cpus, strict=True):
        if strange := [cpu for cpu in where if cpu not in numbers]:
            raise UserError(f"locality: CPU {strange[0]} is none of this machine's")
        line.append(batch.line)
        place.append(np.array([numbers[cpu] for cpu in where])[batch.thread])
    lines = np.concatenate(line)
    places = np.concatenate(place)
    rates = []
    for level in levels:
        shared = [getattr(cpu, level.level) for cpu in topology.cpus]
        kinds, of = np.unique(shared, return_inverse=True)
        sets = max(1, level.kilobytes * 1024 // (LINE * level.ways))
        hit = processor_caches.hits(lines, of[places].astype(np.int32), len(kinds), sets, level.ways)
        rates.append(float(hit.mean()) if len(hit) else float("nan"))
        lines, places = lines[~hit], places[~hit]
    return rates
