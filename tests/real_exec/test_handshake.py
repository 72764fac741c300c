"""Connections of the data engine: who does not know the run's secret is turned away before Dask reads what it sends."""

import asyncio
import hmac
import pickle
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from distributed.comm import Comm, connect, listen

from chronoscale.real_exec.signals import handshake
from chronoscale.real_exec.signals.handshake import SCHEME, SECRET, SharedSecret

KNOWN = SharedSecret(b"k" * SECRET)


async def _echo(comm: Comm) -> None:
    await comm.write(await comm.read())


def _with_listener(ask: Callable[[str], Awaitable[object]]) -> object:
    """What `ask` returns, given the address of a listener that answers those who know the secret."""

    async def run() -> object:
        async with listen(f"{SCHEME}://127.0.0.1", _echo, **KNOWN.get_listen_args("scheduler")) as listener:
            return await ask(listener.contact_address)

    return asyncio.run(run())


async def _ask(address: str, security: SharedSecret, message: object = "hello") -> object:
    comm = await connect(address, timeout=1, **security.get_connection_args("client"))
    await comm.write(message)
    answer = await comm.read()
    await comm.close()
    return answer


def test_who_knows_the_secret_is_answered() -> None:
    assert _with_listener(lambda address: _ask(address, KNOWN)) == "hello"


def test_who_does_not_is_turned_away() -> None:
    with pytest.raises(OSError, match="does not know the secret of this run"):
        _with_listener(lambda address: _ask(address, SharedSecret(b"x" * SECRET)))


def test_a_listener_that_does_not_know_it_is_not_talked_to() -> None:
    """For instance somebody else's, on the port of one that has ended."""

    async def run() -> None:
        async with listen(f"{SCHEME}://127.0.0.1", _echo, **SharedSecret(b"x" * SECRET).get_listen_args("scheduler")) as other:
            with pytest.raises(OSError, match="does not know the secret of this run"):
                await _ask(other.contact_address, KNOWN)

    asyncio.run(run())


class Bomb:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("attack", ["echo", "guess", "plain", "silence"])
def test_strangers_get_nothing_executed(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends a listener's own bytes back, or guesses, or talks as plain Dask does, with a pickle that would leave a file."""
    monkeypatch.setattr(handshake, "ANSWER_S", 0.2 if attack == "silence" else 10.0)
    bomb = pickle.dumps(Bomb(tmp_path / "executed"))
    pickle.loads(bomb)
    (tmp_path / "executed").unlink()  # it would

    def stranger(address: str) -> bytes:
        host, port = address.removeprefix(f"{SCHEME}://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as client:
            drawn = client.recv(SECRET, socket.MSG_WAITALL)
            if attack == "echo":
                client.sendall(drawn)
                client.sendall(client.recv(SECRET, socket.MSG_WAITALL))
            elif attack == "guess":
                client.sendall(bytes(SECRET) + hmac.digest(b"", b"connector" + bytes(SECRET) + drawn, "sha256"))
            elif attack == "plain":
                client.sendall(len(bomb).to_bytes(8, "little") + bomb + bytes(SECRET))
            rest = b""
            while more := client.recv(1 << 16):  # until it hangs up
                rest += more
            return rest

    assert len(_with_listener(lambda address: asyncio.to_thread(stranger, address))) in (0, SECRET)
    assert not (tmp_path / "executed").exists()
