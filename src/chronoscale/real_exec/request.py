"""Request: what a launcher asks the server of ranks for, and what that answers, a JSON value a message."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chronoscale.real_exec.membership import Membership


class RankEnd(NamedTuple):
    """A rank that ended. status: its exit code, or minus the signal's number. cpu_s: with the job's last rank, of all."""

    rank: int
    status: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Request:
    """Run `main(argument)` of the module `entry` on every rank, with this environment, in this directory.

    folder: private to this user and this job, absolute. modules: where Python looks for them (`sys.path`).
    """

    entry: str
    argument: str
    ranks: int
    folder: str
    directory: str
    environment: dict[str, str]
    modules: list[str]

    def membership(self, rank: int) -> Membership:
        """All ranks of a job are on this machine."""
        return Membership(rank, self.ranks, rank, self.ranks, self.folder)

    def log(self, rank: int) -> Path:
        """The file of what a rank writes to its standard error."""
        return Path(self.folder) / f"rank-{rank}.log"

    def save(self) -> Path:
        """Write it into its folder, and return where."""
        path = Path(self.folder) / "request.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def load(cls, path: Path) -> Request:
        """Read what `save` wrote."""
        return cls(**json.loads(path.read_text()))


def send(channel: socket.socket, message: Any) -> None:
    """Send one message; the socket keeps messages apart (SOCK_SEQPACKET). Where the other end is closed nobody wants it."""
    with suppress(BrokenPipeError, ConnectionResetError):
        channel.send(json.dumps(message).encode())


def receive(channel: socket.socket) -> Any:
    """Return the next message; None where the other end is closed."""
    try:
        data = channel.recv(1 << 16)
    except ConnectionResetError:
        return None
    return json.loads(data) if data else None
