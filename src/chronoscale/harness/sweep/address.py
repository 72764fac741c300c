"""Address of a Dask scheduler, as users give it: read, and knocked at, before anything is simulated."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from chronoscale.errors import MachineError, UserError

SCHEMES = ("tcp", "tls")
ANSWER_S = 10.0  # until a machine has taken a connection


def knock(address: str | None) -> None:
    """Check that something listens at the address of a Dask scheduler; None: there is nothing to check.

    Raises UserError for an address that is none, and MachineError where nobody answers.
    """
    if address is None:
        return
    host, port = _parts(address)
    try:
        socket.create_connection((host, port), ANSWER_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise MachineError(f"dask: no scheduler answers at {address} ({reason}); start one with `dask scheduler`") from None


def _parts(address: str) -> tuple[str, int]:
    """Return host and port."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, brackets that do not close
        host, port = None, None
    if not host or not port or parts.scheme not in SCHEMES or parts.path.strip("/"):
        raise UserError(f"dask: {address} is no address of a scheduler; expected one such as tcp://10.0.0.1:8786 or tls://10.0.0.1:8786")
    return host, port
