"""Threads matched by affinity and placed on described machines, against all matchings and all that a place must be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import machines
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.streams.sampling.thread_binding import ThreadBinding, bind_by_affinity, match_threads, place_pairs
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.errors import UserError


def drawn(threads: int, seed: int, whole: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.triu(rng.integers(0, 4, (threads, threads)).astype(float) if whole else rng.random((threads, threads)), 1)
    values += values.T
    np.fill_diagonal(values, -1.0)
    return values


def matchings(threads: list[int]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to put threads in pairs, one alone if their number is odd."""
    if len(threads) < 2:
        yield [tuple(threads)] if threads else []
        return
    first, rest = threads[0], threads[1:]
    for at, other in enumerate(rest):
        yield from ([(first, other), *more] for more in matchings(rest[:at] + rest[at + 1 :]))
    if len(threads) % 2:
        yield from ([*more, (first,)] for more in matchings(rest))


def weight(pairs: list[tuple[int, ...]], affinity: np.ndarray) -> float:
    return sum(affinity[pair[0], pair[1]] for pair in pairs if len(pair) == 2)


@given(st.integers(1, 8), st.integers(0, 10**6), st.booleans())
def test_no_matching_has_more_affinity(threads: int, seed: int, whole: bool) -> None:
    affinity = drawn(threads, seed, whole)
    mine = match_threads(affinity)
    assert sorted(thread for pair in mine for thread in pair) == list(range(threads))
    assert [len(pair) for pair in mine] == [2] * (threads // 2) + [1] * (threads % 2)
    assert weight(list(mine), affinity) == pytest.approx(max(weight(one, affinity) for one in matchings(list(range(threads)))))


def test_threads_without_affinity_are_paired_all_the_same() -> None:
    assert len(match_threads(np.zeros((6, 6)))) == 3


def machine(folder: Path, described: str) -> CpuTopology:
    return CpuTopology.load(machines.written(folder, described))


def shared(found: ThreadBinding, topology: CpuTopology, level: str) -> list[bool]:
    """Whether the CPUs of each pair of threads share one of that level."""
    of = {cpu.number: getattr(cpu, level) for cpu in topology.cpus}
    return [of[found.cpus[pair[0]]] == of[found.cpus[pair[1]]] for pair in found.pairs if len(pair) == 2]


@pytest.mark.parametrize("threads", [1, 2, 7, 8, 39, 40, 41, 80])
def test_pairs_are_siblings_on_the_papers_server(tmp_path: Path, threads: int) -> None:
    """Up to 40 threads stay on one node."""
    topology = machine(tmp_path, machines.server())
    found = bind_by_affinity(drawn(threads, threads), topology)
    assert len(set(found.cpus)) == threads == len(found.cpus) and not found.note
    assert all(shared(found, topology, "core"))
    nodes = {cpu.number: cpu.node for cpu in topology.cpus}
    assert len({nodes[cpu] for cpu in found.cpus}) == (1 if threads <= 40 else 2)


@given(st.sampled_from([machines.server(2, 4), machines.desktop(3, 6), machines.chiplets(), machines.desktop(1, 2)]), st.data())
def test_every_cpu_is_used_once_whatever_may_be_used(tmp_path_factory: pytest.TempPathFactory, described: str, data: st.DataObject) -> None:
    whole = machine(tmp_path_factory.mktemp("machine"), described)
    numbers = [cpu.number for cpu in whole.cpus]
    topology = whole.restricted_to(data.draw(st.sets(st.sampled_from(numbers), min_size=1)))
    threads = data.draw(st.integers(1, len(topology)))
    found = bind_by_affinity(drawn(threads, data.draw(st.integers(0, 99))), topology)
    if found.note:
        assert not found.cpus and not topology.shares("core") and not topology.shares("l2")
        return
    assert len(found.cpus) == threads == len(set(found.cpus)) and set(found.cpus) <= {cpu.number for cpu in topology.cpus}
    for level in ("core", "l2"):  # as many pairs share one as there are pairs of CPUs that do
        there = sum(len(group) // 2 for group in topology.groups(level))  # type: ignore[arg-type]
        assert sum(shared(found, topology, level)) >= min(there, threads // 2)


def test_a_desktops_siblings_come_before_its_small_cores(tmp_path: Path) -> None:
    topology = machine(tmp_path, machines.desktop(2, 4))
    affinity = drawn(8, 3)
    found = bind_by_affinity(affinity, topology)
    assert sum(shared(found, topology, "core")) == 2 and all(shared(found, topology, "l2"))
    assert set(bind_by_affinity(drawn(4, 3), topology).cpus) == {0, 1, 2, 3}


def test_pairs_that_sample_alike_share_an_l3(tmp_path: Path) -> None:
    """Two groups of four threads that have much in common, and little with each other, on two chiplets of four cores."""
    topology = machine(tmp_path, machines.chiplets(2, 4))
    affinity = np.full((8, 8), 0.1)
    for group in ([0, 2, 4, 6], [1, 3, 5, 7]):
        affinity[np.ix_(group, group)] = 1.0
    affinity[0, 2] = affinity[2, 0] = affinity[3, 5] = affinity[5, 3] = 2.0
    np.fill_diagonal(affinity, -1.0)
    found = bind_by_affinity(affinity, topology)
    assert len({cpu // 4 for cpu in found.cpus[::2]}) == len({cpu // 4 for cpu in found.cpus[1::2]}) == 1


def test_pairs_that_sample_alike_share_a_node(tmp_path: Path) -> None:
    """Two L3 caches a node: pairs that do not fit into one L3 go to the other of the same node."""
    rows = [(cpu, cpu // 2, cpu // 8, cpu // 8, cpu // 2, cpu // 4) for cpu in range(16)]
    affinity = np.full((16, 16), 0.1)
    for group in (range(0, 16, 2), range(1, 16, 2)):
        affinity[np.ix_(group, group)] = 1.0
    np.fill_diagonal(affinity, -1.0)
    cpus = bind_by_affinity(affinity, machine(tmp_path, machines.text(rows))).cpus
    assert len({cpu // 8 for cpu in cpus[::2]}) == len({cpu // 8 for cpu in cpus[1::2]}) == 1


def test_pairs_may_be_given(tmp_path: Path) -> None:
    topology = machine(tmp_path, machines.server(1, 2))
    found = place_pairs([(0, 3), (1, 2)], np.zeros((4, 4)), topology)
    assert all(shared(found, topology, "core")) and found.pairs == ((0, 3), (1, 2))


def test_a_machine_where_it_makes_no_difference_is_left_alone(tmp_path: Path) -> None:
    found = bind_by_affinity(drawn(4, 1), machine(tmp_path, machines.virtual()))
    assert not found.cpus and len(found.pairs) == 2
    assert found.note == (
        "sampling threads are not bound: no two of 4 CPUs share a core or an L2 cache, and all share one L3, so that it makes no "
        "difference where a thread runs"
    )
    assert not bind_by_affinity(drawn(4, 1), machine(tmp_path, machines.server()).restricted_to([0, 1, 2, 3])).cpus


def test_what_is_refused(tmp_path: Path) -> None:
    topology = machine(tmp_path, machines.virtual())
    with pytest.raises(UserError, match=r"^5 sampling threads for 4 CPUs; one CPU a thread, so at most 4 can be bound$"):
        bind_by_affinity(drawn(5, 0), topology)
    for wrong in (np.zeros((2, 3)), np.zeros(4), np.array([[0, 1.0], [2.0, 0]]), np.array([[0, np.nan], [np.nan, 0]])):
        with pytest.raises(UserError, match=r"^affinity \[.*\]; expected a symmetric matrix of finite numbers$"):
            match_threads(wrong)
