"""Measured table: what a benchmark of collectives printed, as numbers, and on what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Op

Line = tuple[int, str]  # its number in the file, from 1, and its text
NOTE = re.compile(r"#\s*(\w+)\s*:\s*(.+)")
SETUP = re.compile(r"nodes:\s*(\d+)\s+gpus_per_node:\s*(\d+)")
RANK = re.compile(r"#\s+Rank\s+\d+\b.*?\bon\s+(\S+)\s+device\b")
ALGORITHM = re.compile(r"NCCL_ALGO[= ]+\"?(\w+)", re.IGNORECASE)
UNSWITCHED = re.compile(r"NCCL_NVLS_ENABLE[= ]+0")


class Setup(NamedTuple):
    """Machines that a benchmark of a network ran on: how many, and GPUs of each.

    algorithm: the one that NCCL was told to take, '' for none. switched: NVSwitch may add up (NVLS).
    """

    nodes: int
    gpus: int
    algorithm: str = ""
    switched: bool = True

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.nodes * self.gpus


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """Times of a collective by size that a benchmark of a network printed.

    path, lines: where each is in which file; op: the operation; bytes: what a rank brings, as schedules state it, int64 [n]; seconds:
    float64 [n]. source, date: what the file's first lines say of itself, '' where nothing.
    """

    path: Path
    op: Op
    setup: Setup
    lines: Ints
    bytes: Ints
    seconds: Floats
    source: str = ""
    date: str = ""

    def __len__(self) -> int:
        return len(self.bytes)

    def every_other(self, first: int) -> MeasuredTable:
        """Return half of the table: every other size, in ascending order, from number `first` (0 or 1) on."""
        rows = np.argsort(self.bytes, kind="stable")[first::2]
        return MeasuredTable(self.path, self.op, self.setup, self.lines[rows], self.bytes[rows], self.seconds[rows], self.source, self.date)


def mistake(path: Path, line: int, reason: str) -> UserError:
    """Return an error of one line of a benchmark's output."""
    return UserError(f"{path}:{line}: {reason}")


def notes(lines: list[Line]) -> dict[str, str]:
    """Return what comments such as `# source: ...` at the head of a benchmark's output say, by their key."""
    by_key: dict[str, str] = {}
    for _, text in lines:
        if match := NOTE.match(text):
            by_key.setdefault(match[1], match[2].strip())
    return by_key


def setup_of(path: Path, lines: list[Line]) -> Setup:
    """Return what machines a benchmark ran on: as its list of ranks says, or a comment `# nodes: N gpus_per_node: M`.

    Raises UserError where neither is there, or machines had other numbers of ranks.
    """
    text = "\n".join(line for _, line in lines)
    requested = ALGORITHM.search(text)
    algorithm, switched = requested[1].lower() if requested else "", not UNSWITCHED.search(text)
    if stated := SETUP.search(text):
        return _checked(path, Setup(int(stated[1]), int(stated[2]), algorithm, switched))
    hosts = [match[1] for _, line in lines if (match := RANK.match(line))]
    if not hosts:
        raise UserError(f"{path}: it does not say what it ran on; add a line '# nodes: 2 gpus_per_node: 8'")
    each = {hosts.count(host) for host in set(hosts)}
    if len(each) > 1:
        raise UserError(f"{path}: machines with {' and '.join(map(str, sorted(each)))} ranks; links are fitted to machines with as many")
    return _checked(path, Setup(len(set(hosts)), each.pop(), algorithm, switched))


def _checked(path: Path, setup: Setup) -> Setup:
    if setup.ranks < 2:
        raise UserError(f"{path}: {setup.nodes} machines of {setup.gpus} GPUs: two ranks are needed for a link to be measured")
    return setup
