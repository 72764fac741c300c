"""Who can reach ranks from outside: nobody. What listens is on loopback, and speaks no protocol that runs what it is sent."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch.distributed as dist

from chronoscale.real_exec.ranks.launch import start
from chronoscale.real_exec.ranks.rank_group import RankGroup

ELSEWHERE = "127.0.0.2"  # where a socket answers that is bound to all addresses, and none that is bound to 127.0.0.1


def listening(processes: list[psutil.Process]) -> list[tuple[str, int]]:
    """Address and port of every TCP socket of theirs that takes connections, as `ss -ltnp` shows them."""
    results = []
    for process in processes:
        for each in process.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN:
                results.append((each.laddr.ip, each.laddr.port))
    return results


def answers(ports: list[int]) -> list[int]:
    """Those that somebody from elsewhere can connect to."""
    results = []
    for port in ports:
        with socket.socket() as client:
            if client.connect_ex((ELSEWHERE, port)) == 0:
                results.append(port)
    return results


@contextmanager
def talking(folder: Path) -> Iterator[RankGroup]:
    """Two ranks that exchange rows, and have done so."""
    (path := folder / "job").write_text(json.dumps({"operation": "all_to_all", "loses": 1, "how": "never"}))
    ranks = start("lost_rank", path, 2, 1)
    try:
        while not all(page.read().done for page in ranks.pages):
            ranks.wait_for_end(0.01)
            assert not ranks.ended
        yield ranks
    finally:
        ranks.close()


def test_ranks_listen_only_on_loopback_and_meet_where_others_cannot_look(tmp_path: Path) -> None:
    before = listening([psutil.Process()])  # stores of earlier tests
    with talking(tmp_path) as ranks, socket.create_server(("0.0.0.0", 0)) as seen:
        family = [psutil.Process(pid) for pid in (os.getpid(), ranks.server.pid, *ranks.pids)]
        result = [each for each in listening(family) if each not in before]
        port = seen.getsockname()[1]
        assert ("0.0.0.0", port) in result and answers([port]) == [port]  # what would be noticed
        result.remove(("0.0.0.0", port))
        assert {address for address, _ in result} <= {"127.0.0.1", "::1"}
        assert answers([port for _, port in result]) == []
        assert ranks.folder.stat().st_mode & 0o777 == 0o700 and ranks.folder.stat().st_uid == os.getuid()


def test_what_the_environment_says_of_interfaces_is_for_other_launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such-interface")
    with talking(tmp_path) as ranks:
        assert len(ranks.pids) == 2


def test_the_attack_on_a_rendezvous_finds_nothing_to_talk_to(tmp_path: Path) -> None:
    """What ran a command as root in torchrun's agent: connect to the store that ranks meet at, overwrite the state of their rendezvous, and
    have it unpickled. Tried on every port of theirs, from elsewhere."""
    with talking(tmp_path) as ranks:
        family = [psutil.Process(pid) for pid in (ranks.server.pid, *ranks.pids)]
        ports = {port for _, port in listening(family)}
        assert ports  # gloo's own, on loopback
        for port in ports:
            with pytest.raises(dist.DistError):
                dist.TCPStore(ELSEWHERE, port, is_master=False, timeout=timedelta(seconds=0.2), wait_for_workers=False)
        assert all(page.read().rows or page.read().done for page in ranks.pages) and not ranks.ended


def test_the_attack_reaches_a_store() -> None:
    """The attack is one: a store such as torchrun's takes it."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    assert answers([store.port]) == [store.port]
    client = dist.TCPStore(ELSEWHERE, store.port, is_master=False, timeout=timedelta(seconds=5), wait_for_workers=False)
    client.set("rendezvous", b"taken")
    assert store.get("rendezvous") == b"taken"
