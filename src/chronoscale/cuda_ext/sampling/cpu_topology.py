"""Topology of processors: which logical processors share a core, a cache, a NUMA node. It is read from the system, or from a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from chronoscale.errors import MachineError, UserError, in_words

SYSTEM = Path("/sys/devices/system")
COMMAND = "lscpu -p=CPU,CORE,SOCKET,NODE,CACHE"
Level = Literal["core", "l2", "l3", "node", "socket"]
LEVELS: tuple[Level, ...] = get_args(Level)  # from the nearest


@dataclass(frozen=True, slots=True)
class Cpu:
    """Logical processor of this machine, with the numbers of what it shares, for binding the native sampler's threads.

    Processors share what has the same number. core: its SMT siblings share it. l2, l3: caches; where the system knows of none, the core and
    the socket stand for them. Numbers mean nothing else.
    """

    number: int
    core: int
    l2: int
    l3: int
    node: int
    socket: int


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """Processors that the native sampler's threads may use, ascending, and which caches they share.

    Raises UserError for none, and for one that is there twice.
    """

    cpus: tuple[Cpu, ...]

    def __post_init__(self) -> None:
        numbers = [cpu.number for cpu in self.cpus]
        if not numbers or any(b <= a for a, b in pairwise(numbers)):
            raise UserError(f"topology: CPUs {numbers}; expected at least one, ascending, each once")

    def __len__(self) -> int:
        return len(self.cpus)

    def groups(self, level: Level) -> list[list[Cpu]]:
        """Return the processors that share one thing of that level ('core', 'l2', 'l3', 'node', 'socket'), group by group.

        In the order of their first ones.
        """
        by_number: dict[int, list[Cpu]] = {}
        for cpu in self.cpus:
            by_number.setdefault(getattr(cpu, level), []).append(cpu)
        return list(by_number.values())

    def shares(self, level: Level) -> bool:
        """Return whether any two processors share one thing of that level, such as a core or an L2 cache."""
        return any(len(group) > 1 for group in self.groups(level))

    def restricted_to(self, numbers: Iterable[int]) -> CpuTopology:
        """Return the topology of only the processors with those numbers, such as those that one rank may use.

        Raises UserError where none of them is there.
        """
        chosen = set(numbers)
        return CpuTopology(tuple(cpu for cpu in self.cpus if cpu.number in chosen))

    def share_of(self, rank: int, ranks: int) -> CpuTopology:
        """Return the processors for one rank of several on this machine: neighbouring cores, as evenly divided as possible.

        Cores stay whole as long as there is one for each process. Raises UserError for a rank outside [0, ranks), and for more ranks than
        processors.
        """
        if not 0 <= rank < ranks <= len(self):
            raise UserError(f"topology: rank {rank} of {ranks} on {len(self)} CPUs; expected at most a rank a CPU, numbered from 0")
        neighbours = sorted(self.cpus, key=lambda cpu: (cpu.node, cpu.l3, cpu.l2, cpu.core, cpu.number))
        cores = {cpu.core: [other.number for other in neighbours if other.core == cpu.core] for cpu in neighbours}
        units = list(cores.values()) if len(cores) >= ranks else [[cpu.number] for cpu in neighbours]
        begin, end = (len(units) * bound // ranks for bound in (rank, rank + 1))
        return self.restricted_to(number for unit in units[begin:end] for number in unit)

    def summary(self) -> str:
        """Describe the topology in words: '80 CPUs on 40 cores, 40 L2 and 2 L3 caches, 2 NUMA nodes'."""
        core, l2, l3, node = (len(self.groups(level)) for level in ("core", "l2", "l3", "node"))
        return f"{len(self)} CPUs on {core} cores, {l2} L2 and {l3} L3 caches, {node} NUMA nodes"

    @classmethod
    def detect(cls, system: Path = SYSTEM, allowed: Iterable[int] | None = None) -> CpuTopology:
        """Return this machine's topology, as far as this process may use it. `allowed`: numbers of processors; None: its affinity mask.

        Raises MachineError where the system does not tell.
        """
        mask = sorted(allowed if allowed is not None else os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ())
        try:
            nodes = {cpu: int(path.parent.name[4:]) for path in system.glob("node/node[0-9]*/cpulist") for cpu in read_cpu_list(path)}
            return cls(tuple(_read(system / "cpu" / f"cpu{number}", number, nodes.get(number, 0)) for number in mask))
        except (OSError, ValueError, UserError) as error:
            reason = in_words(error) if isinstance(error, OSError) else str(error)
            raise MachineError(f"the system does not tell how its processors share caches: {reason}") from None

    @classmethod
    def load(cls, path: Path) -> CpuTopology:
        """Return the processors of any machine from a file with what COMMAND (lscpu) prints there.

        Raises UserError naming file and line.
        """
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(in_words(error) if isinstance(error, OSError) else f"{path}: is no text; {_EXPECTED}") from None
        cpus: dict[int, Cpu] = {}
        columns: list[str] = []
        for number, line in enumerate(lines, 1):
            where = f"{path}, line {number}"
            if line.startswith("#"):
                columns = _columns(line) or columns
            elif line.strip():
                cpu = _cpu(line, columns, where)
                if cpu is not None and cpu.number in cpus:
                    raise UserError(f"{where}: CPU {cpu.number} is there twice")
                cpus |= {} if cpu is None else {cpu.number: cpu}
        if not cpus:
            raise UserError(f"{path}: no CPU; {_EXPECTED}")
        return cls(tuple(cpus[number] for number in sorted(cpus)))


_EXPECTED = f"expected what `{COMMAND}` prints"


def read_cpu_list(path: Path) -> list[int]:
    """Return the numbers of processors in a file of Linux's /sys, such as '0-3,8'. Raises ValueError for anything else."""
    parts = [part.split("-") for part in path.read_text().strip().split(",") if part]
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


def _read(folder: Path, number: int, node: int) -> Cpu:
    """Read a processor from its folder under /sys. A group's number is that of its first processor, whether that may be used or not."""
    core = read_cpu_list(folder / "topology" / "thread_siblings_list")[0]
    socket = int((folder / "topology" / "physical_package_id").read_text())
    caches = {}
    for index in folder.glob("cache/index[0-9]*"):
        if (index / "type").read_text().strip() != "Instruction":
            caches[int((index / "level").read_text())] = read_cpu_list(index / "shared_cpu_list")[0]
    return Cpu(number, core, caches.get(2, -1 - core), caches.get(3, -1 - socket), node, socket)


def _columns(line: str) -> list[str]:
    """Return the columns that a header line names, [] where it names none. Caches have a column each, or one together: 'L1d:L1i:L2:L3'."""
    names = line.lstrip("# ").lower().strip().split(",")
    return ",".join(names).replace(":", ",").split(",") if names[0] == "cpu" else []


def _cpu(line: str, columns: list[str], where: str) -> Cpu | None:
    """Read a processor from a line; None for one that is offline, which has a number and nothing else."""
    if not {"cpu", "core", "socket"} <= set(columns):
        raise UserError(f"{where}: no line above names the columns ('# CPU,Core,Socket,Node,,L1d,L1i,L2,L3'); {_EXPECTED}")
    values = line.strip().replace(":", ",").split(",")
    if len(values) != len(columns) or not all(value.isdecimal() for value in values if value not in ("", "-")):
        raise UserError(f"{where}: '{line.strip()[:60]}'; expected {len(columns)} numbers: {','.join(columns)}")
    fields = {name: int(value) for name, value in zip(columns, values, strict=True) if name and value not in ("", "-")}
    if "cpu" not in fields:
        raise UserError(f"{where}: '{line.strip()[:60]}' has no number of a CPU")
    if "core" not in fields:
        return None
    socket = fields.get("socket", 0)
    return Cpu(
        fields["cpu"], fields["core"], fields.get("l2", -1 - fields["core"]), fields.get("l3", -1 - socket), fields.get("node", 0), socket
    )
