"""Which processors share what: described machines, a tree of files as the system has it, and malformed descriptions."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import machines
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.cuda_ext.sampling.cpu_topology import Cpu, CpuTopology
from chronoscale.errors import MachineError, UserError


def numbers(topology: CpuTopology, level: str) -> list[list[int]]:
    return [[cpu.number for cpu in group] for group in topology.groups(level)]  # type: ignore[arg-type]


def read(folder: Path, described: str) -> CpuTopology:
    return CpuTopology.load(machines.written(folder, described))


def test_the_papers_server(tmp_path: Path) -> None:
    found = read(tmp_path, machines.server())
    assert len(found) == 80 and found.summary() == "80 CPUs on 40 cores, 40 L2 and 2 L3 caches, 2 NUMA nodes"
    assert numbers(found, "core") == numbers(found, "l2") == [[cpu, cpu + 40] for cpu in range(40)]
    assert numbers(found, "l3") == numbers(found, "node") == [[*range(20), *range(40, 60)], [*range(20, 40), *range(60, 80)]]


def test_a_desktop_with_two_kinds_of_cores(tmp_path: Path) -> None:
    found = read(tmp_path, machines.desktop())
    assert numbers(found, "core")[:2] == [[0, 1], [2, 3]] and len(found.groups("core")) == 16
    assert numbers(found, "l2")[7:] == [[14, 15], [16, 17, 18, 19], [20, 21, 22, 23]] and found.shares("l2")


def test_a_container_sees_the_cpus_that_it_may_use(tmp_path: Path) -> None:
    found = read(tmp_path, machines.server()).restricted_to({3, 43, 60, 99})
    assert numbers(found, "core") == [[3, 43], [60]] and len(found) == 3
    with pytest.raises(UserError, match=r"^topology: CPUs \[\]; expected at least one"):
        found.restricted_to({7})


def test_a_virtual_machine_shares_nothing_but_its_last_cache(tmp_path: Path) -> None:
    found = read(tmp_path, machines.virtual())
    assert [found.shares(level) for level in ("core", "l2", "l3", "node")] == [False, False, True, True]  # type: ignore[arg-type]


def test_ranks_divide_the_processors(tmp_path: Path) -> None:
    """Nobody's core is another's as long as there are enough, and a rank stays on a node where nodes can be divided so."""
    for described, most in ((machines.server(2, 4), 16), (machines.desktop(3, 6), 12), (machines.virtual(), 4)):
        topology = read(tmp_path, described)
        for ranks in range(1, most + 1):
            parts = [topology.share_of(rank, ranks) for rank in range(ranks)]
            assert sorted(cpu.number for part in parts for cpu in part.cpus) == [cpu.number for cpu in topology.cpus]
            cores = [{cpu.core for cpu in part.cpus} for part in parts]
            if ranks <= len(topology.groups("core")):
                assert sum(map(len, cores)) == len(set().union(*cores)) and max(map(len, cores)) - min(map(len, cores)) <= 1
    server = read(tmp_path, machines.server())
    assert [len(server.share_of(rank, 2).groups("node")) for rank in (0, 1)] == [1, 1]
    for rank, ranks in ((2, 2), (-1, 2), (0, 81), (0, 0)):
        with pytest.raises(
            UserError, match=rf"^topology: rank {rank} of {ranks} on 80 CPUs; expected at most a rank a CPU, numbered from 0$"
        ):
            server.share_of(rank, ranks)


def test_other_forms_of_the_same_text(tmp_path: Path) -> None:
    """Caches in one column, as newer versions print them; nodes and caches that the system does not know; processors that are offline."""
    whole = read(tmp_path, machines.server(2, 2))
    joined = machines.server(2, 2).replace(",,L1d,L1i,L2,L3", ",L1d:L1i:L2:L3")
    for cpu in whole.cpus:
        joined = joined.replace(f",,{cpu.core},{cpu.core},{cpu.l2},{cpu.l3}\n", f",{cpu.core}:{cpu.core}:{cpu.l2}:{cpu.l3}\n")
    assert read(tmp_path, joined) == whole
    bare = read(tmp_path, "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,,,,,,\n1,0,0,,,,,,\n2,1,1,,,,,,\n3,,,,,,,,\n")
    assert numbers(bare, "l2") == numbers(bare, "core") == numbers(bare, "l3") == [[0, 1], [2]] and numbers(bare, "node") == [[0, 1, 2]]
    assert numbers(read(tmp_path, "# CPU,Core,Socket\n1,0,0\n0,0,0\n"), "core") == [[0, 1]]


@given(st.dictionaries(st.integers(0, 300), st.tuples(*[st.integers(0, 5)] * 5), min_size=1, max_size=20))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, described: dict[int, tuple[int, ...]]) -> None:
    folder = tmp_path_factory.mktemp("machine")
    found = read(folder, machines.text((number, *of) for number, of in described.items()))  # type: ignore[misc]
    expected = [Cpu(number, core, l2, l3, node, socket) for number, (core, socket, node, l2, l3) in sorted(described.items())]
    assert list(found.cpus) == expected


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (
            "0,0,0,0,,0,0,0,0\n",
            r"line 1: no line above names the columns \('# CPU,Core,Socket,Node,,L1d,L1i,L2,L3'\); expected what `lscpu -p=",
        ),
        (machines.HEADER, r": no CPU; expected what `lscpu -p=CPU,CORE,SOCKET,NODE,CACHE` prints"),
        ("", r": no CPU; expected what"),
        (machines.virtual(2) + "1,1,0,0,,1,1,1,0\n", r"line 7: CPU 1 is there twice"),
        (machines.virtual(2) + "2,2,0,0\n", r"line 7: '2,2,0,0'; expected 9 numbers: cpu,core,socket,node,,l1d,l1i,l2,l3"),
        (machines.virtual(2) + "two,2,0,0,,1,1,1,0\n", r"line 7: 'two,2,0,0,,1,1,1,0'; expected 9 numbers"),
        (machines.virtual(1) + "-1,2,0,0,,1,1,1,0\n", r"line 6: '-1,2,0,0,,1,1,1,0'; expected 9 numbers"),
        (machines.virtual(1) + ",2,0,0,,1,1,1,0\n", r"line 6: ',2,0,0,,1,1,1,0' has no number of a CPU"),
        ("# CPU,Node\n0,0\n", r"line 2: no line above names the columns"),
    ],
)
def test_a_description_that_is_none(tmp_path: Path, spoilt: str, said: str) -> None:
    with pytest.raises(UserError, match=r"^\S*cpus\.txt[:,] ?" + said.removeprefix(": ")):
        read(tmp_path, spoilt)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.txt: no such file or folder$"):
        CpuTopology.load(tmp_path / "nothing.txt")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"bytes: is no text; expected what `lscpu"):
        CpuTopology.load(tmp_path / "bytes")


def tree(folder: Path) -> Path:
    """Two cores of two threads in a socket of their own each, as the system writes it; an L2 for data and one for instructions, an L3."""
    for cpu in range(4):
        at, siblings = folder / "cpu" / f"cpu{cpu}", f"{cpu % 2},{cpu % 2 + 2}\n"
        (at / "topology").mkdir(parents=True)
        (at / "topology" / "thread_siblings_list").write_text(siblings)
        (at / "topology" / "physical_package_id").write_text(f"{cpu % 2}\n")
        for index, (level, kind, shared) in enumerate(
            [(1, "Data", f"{cpu}"), (2, "Unified", siblings), (2, "Instruction", "0-3"), (3, "Unified", "0-3")]
        ):
            cache = at / "cache" / f"index{index}"
            cache.mkdir(parents=True)
            for name, said in (("level", f"{level}\n"), ("type", f"{kind}\n"), ("shared_cpu_list", f"{shared}\n")):
                (cache / name).write_text(said)
    for node, cpus in enumerate(("0,2\n", "1,3\n")):
        (folder / "node" / f"node{node}").mkdir(parents=True)
        (folder / "node" / f"node{node}" / "cpulist").write_text(cpus)
    return folder


def test_the_systems_own_files(tmp_path: Path) -> None:
    found = CpuTopology.detect(tree(tmp_path), range(4))
    assert numbers(found, "core") == numbers(found, "l2") == numbers(found, "node") == numbers(found, "socket") == [[0, 2], [1, 3]]
    assert numbers(found, "l3") == [[0, 1, 2, 3]]
    assert numbers(CpuTopology.detect(tmp_path, [3, 1]), "core") == [[1, 3]] and numbers(CpuTopology.detect(tmp_path, [2, 3]), "core") == [
        [2],
        [3],
    ]
    shutil.rmtree(tmp_path / "cpu" / "cpu2" / "cache")
    shutil.rmtree(tmp_path / "node")
    bare = CpuTopology.detect(tmp_path, [0, 2, 3])
    assert numbers(bare, "l2") == [[0], [2], [3]] and numbers(bare, "node") == [[0, 2, 3]]
    with pytest.raises(
        MachineError, match=r"^the system does not tell how its processors share caches: \S*cpu7\S*: no such file or folder$"
    ):
        CpuTopology.detect(tmp_path, [0, 7])
    (tmp_path / "cpu" / "cpu3" / "topology" / "thread_siblings_list").write_text("one\n")
    with pytest.raises(MachineError, match=r"^the system does not tell how its processors share caches: invalid literal"):
        CpuTopology.detect(tmp_path, [3])


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
def test_this_machine_is_the_one_that_lscpu_describes(tmp_path: Path) -> None:
    mine = CpuTopology.detect()
    assert {cpu.number for cpu in mine.cpus} == os.sched_getaffinity(0)
    if shutil.which("lscpu") is None:
        pytest.skip("no lscpu")
    said = subprocess.run(["lscpu", "-p=CPU,CORE,SOCKET,NODE,CACHE"], capture_output=True, text=True, check=True).stdout
    theirs = read(tmp_path, said).restricted_to(os.sched_getaffinity(0))
    for level in ("core", "l2", "l3", "node", "socket"):
        assert numbers(mine, level) == numbers(theirs, level)
