"""Machines as `lscpu -p` describes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

HEADER = """# The following is the parsable format, which can be fed to other
# programs. Each different item in every column has an unique ID
# starting usually from zero.
# CPU,Core,Socket,Node,,L1d,L1i,L2,L3
"""


def text(rows: Iterable[tuple[int, int, int, int, int, int]]) -> str:
    """Of (cpu, core, socket, node, l2, l3)."""
    return HEADER + "".join(f"{cpu},{core},{socket},{node},,{core},{core},{l2},{l3}\n" for cpu, core, socket, node, l2, l3 in rows)


def server(sockets: int = 2, cores: int = 20) -> str:
    """The paper's: SMT siblings are `sockets * cores` apart, an L2 a core, an L3 and a NUMA node a socket."""
    count = sockets * cores
    return text(
        (cpu, cpu % count, cpu % count // cores, cpu % count // cores, cpu % count, cpu % count // cores) for cpu in range(2 * count)
    )


def desktop(fast: int = 8, small: int = 8) -> str:
    """P-cores with two threads, then E-cores, of which four share an L2; one L3."""
    rows = [(cpu, cpu // 2, 0, 0, cpu // 2, 0) for cpu in range(2 * fast)]
    return text([*rows, *((2 * fast + e, fast + e, 0, 0, fast + e // 4, 0) for e in range(small))])


def virtual(cpus: int = 4) -> str:
    """Without siblings; the L2 private, one L3."""
    return text((cpu, cpu, 0, 0, cpu, 0) for cpu in range(cpus))


def chiplets(count: int = 4, cores: int = 4) -> str:
    """Single threads, private L2s, an L3 a chiplet, one node."""
    return text((cpu, cpu, 0, 0, cpu, cpu // cores) for cpu in range(count * cores))


def written(folder: Path, described: str) -> Path:
    path = folder / "cpus.txt"
    path.write_text(described)
    return path
