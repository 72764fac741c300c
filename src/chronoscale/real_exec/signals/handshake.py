"""Handshake: connections of the data engine, which only who knows the run's secret can open; Dask executes what it is sent."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable
from typing import Any

from distributed import Security
from distributed.comm.core import FatalCommClosedError
from distributed.comm.registry import backends
from distributed.comm.tcp import TCP, TCPBackend, TCPConnector, TCPListener
from tornado.iostream import IOStream, StreamClosedError

SCHEME = "chronoscale"  # of addresses: Dask's TCP, once both ends have shown that they know the secret
SECRET = 32  # bytes
ANSWER_S = 10.0  # for the other end to show it


class SharedSecret(Security):
    """Security of a Dask cluster whose processes all know one secret of a run, bytes [32]; nothing is encrypted."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(require_encryption=False)  # type: ignore[no-untyped-call]
        self.secret = secret

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """Return what listeners and connectors of Dask are given for a role, "client", "scheduler" or "worker": the same for all."""
        return {"secret": self.secret}

    get_listen_args = get_connection_args


async def _admit(stream: IOStream, secret: bytes, own: bytes, other: bytes) -> bool:
    """Show the other end of a connection that this one knows the secret, which is not sent; return whether it does, too.

    own, other: of the two ends, so that an answer cannot be sent back. Both hash two numbers that are drawn for this connection.
    """
    await stream.write(drawn := secrets.token_bytes(SECRET))
    theirs = await stream.read_bytes(SECRET)
    await stream.write(hmac.digest(secret, own + drawn + theirs, "sha256"))
    answer = await stream.read_bytes(SECRET)
    return hmac.compare_digest(answer, hmac.digest(secret, other + theirs + drawn, "sha256"))


async def _within(seconds: float, admitted: Awaitable[bool]) -> bool:
    try:
        return await asyncio.wait_for(admitted, seconds)
    except (StreamClosedError, TimeoutError):
        return False


class _Connector(TCPConnector):
    prefix = f"{SCHEME}://"

    async def connect(self, address: str, deserialize: bool = True, **arguments: Any) -> TCP:
        comm: TCP = await super().connect(address, deserialize, **arguments)  # type: ignore[no-untyped-call]
        if comm.stream is None or not await _within(ANSWER_S, _admit(comm.stream, arguments["secret"], b"connector", b"listener")):
            comm.abort()
            raise FatalCommClosedError(f"{address} does not know the secret of this run")
        return comm


class _Listener(TCPListener):
    prefix = f"{SCHEME}://"

    def _get_server_args(self, **arguments: Any) -> dict[str, Any]:
        self._secret = arguments["secret"]
        return {}

    async def _prepare_stream(self, stream: IOStream, address: str) -> IOStream | None:
        if await _within(ANSWER_S, _admit(stream, self._secret, b"listener", b"connector")):
            return stream
        stream.close()
        return None


class _Backend(TCPBackend):
    _connector_class = _Connector
    _listener_class = _Listener


backends[SCHEME] = _Backend()
