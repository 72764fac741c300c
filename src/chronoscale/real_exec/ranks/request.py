"""Request: the messages between a launcher and the server of ranks, one JSON value each."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from chronoscale.real_exec.ranks.membership import Membership

STOP = "stop"  # message that ends a job; a launcher that wants nothing more of the job closes the socket


class Started(NamedTuple):
    """Answer of the server of ranks to a request: the ranks' process ids, by rank, and the folder made for them.

    error: why there are none; '' otherwise.
    """

    pids: list[int]
    folder: str
    error: str = ""


class RankEnd(NamedTuple):
    """Message of the server of ranks that a rank has ended.

    status: its exit code, or minus the signal. cpu_s: with the job's last rank, CPU seconds of all; else 0.
    """

    rank: int
    status: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """Order of the launcher to the server of ranks: run `main(argument)` of the module `entry` on every rank, with this environment, in
    this directory.

    argument: path of the job file. temporary: where the server makes a folder that is private to this user and this job. folder: that
    folder, absolute, once it exists. modules: Python's search path (`sys.path`).
    placement: where the request's one rank is of a job on several machines: rank, ranks, local rank, local ranks; store: where these
    meet (`Membership`). None and '': all ranks are here. received: a folder of files that the launcher has made for this job; it goes
    with the job, also where the launcher is killed.
    """

    entry: str
    argument: str
    ranks: int
    temporary: str
    directory: str
    environment: dict[str, str]
    modules: list[str]
    folder: str = ""
    placement: tuple[int, int, int, int] | None = None
    store: str = ""
    received: str = ""

    def membership(self, rank: int) -> Membership:
        """Return the membership of a rank that the server forks."""
        if self.placement:
            return Membership(*self.placement, self.folder, self.store)
        return Membership(rank, self.ranks, rank, self.ranks, self.folder)

    def log(self, rank: int) -> Path:
        """Return the file that a rank's standard error goes to."""
        return Path(self.folder) / f"rank-{rank}.log"

    def pack(self) -> IO[bytes]:
        """Write the request to memory that has no name, for the server of ranks, and return that file: it holds the user's whole
        environment.
        """
        file = os.fdopen(os.memfd_create("request"), "w+b")
        file.write(json.dumps(asdict(self)).encode())
        file.flush()
        return file

    @classmethod
    def unpack(cls, file: IO[bytes]) -> Request:
        """Read, in the server of ranks, a request that `pack` wrote."""
        file.seek(0)
        return cls(**json.loads(file.read()))


def send(channel: socket.socket, message: Any) -> None:
    """Send one message between the launcher and its server of ranks, as JSON; the socket keeps messages apart (SOCK_SEQPACKET).

    Nothing happens where the other end is closed.
    """
    with suppress(BrokenPipeError, ConnectionResetError):
        channel.send(json.dumps(message).encode())


def receive(channel: socket.socket) -> Any:
    """Return the next message between the launcher and its server of ranks, read from JSON; None where the other end is closed."""
    try:
        data = channel.recv(1 << 16)
    except ConnectionResetError:
        return None
    return json.loads(data) if data else None
