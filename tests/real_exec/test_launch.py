"""How a job of several ranks ends when one of them does, fails or hangs: with one line that names it, and with nothing left."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from chronoscale.errors import MachineError, NotFiniteError, UserError
from chronoscale.real_exec.ranks import launch, positions
from chronoscale.real_exec.ranks import rank_group as module
from chronoscale.real_exec.ranks.failure import Failure, FailureKind
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.rank_group import RankGroup
from chronoscale.real_exec.ranks.request import Request
from chronoscale.real_exec.ranks.supervision import Patience

SHORT = Patience(seconds=2.0, rows=0.0)
LOST = [
    ("all_reduce", "SIGKILL", r"rank 1 of 'train' was lost \(SIGKILL\) at row 10 \(COMPUTE\)"),
    ("all_to_all", "SIGSEGV", r"rank 1 of 'train' was lost \(SIGSEGV\) at row 10 \(COMPUTE\)"),
    (
        "all_to_all",
        "SIGSTOP",
        r"'train' was ended: rank 1 has not moved for \d s, it is stopped, at row 10 \(COMPUTE\); "
        r"rank 0 waits at row 11 \(ALLREDUCE\)",
    ),
    ("all_reduce", "memory", r"rank 1 of 'train' is out of memory: .* \(at row 10 \(COMPUTE\)\)"),
    (
        "all_reduce",
        "raise",
        r"rank 1 of 'train' failed: ValueError: odd \(at row 10 \(COMPUTE\)\); its traceback: (/.*\.txt)",
    ),
    (
        "all_reduce",
        "raise beside",
        r"rank 1 of 'train' failed: ValueError: odd \(at row 7 \(COMPUTE\) and row 8 \(RECV\)\); its traceback: (/.*\.txt)",
    ),
    (
        "all_reduce",
        "leave out",
        r"'train' was ended: ranks have waited for each other for \d s; rank 0 waits at row 11 \(ALLREDUCE\); "
        r"rank 1 waits at row 12 \(RECV\)",
    ),
]


def talking(folder: Path, operation: str, how: str, ranks: int = 2) -> RankGroup:
    path = folder / "job"
    path.write_text(json.dumps({"operation": operation, "loses": 1, "how": how}))
    return start("lost_rank", path, ranks, 1)


def left(ranks: RankGroup) -> list[psutil.Process]:
    """Processes of the job that run 5 s later: its ranks, and what is of their group. What is dead and not buried yet does not."""
    results = []
    for process in psutil.process_iter():
        try:
            ours = process.pid in ranks.pids or os.getpgid(process.pid) == ranks.pids[0]
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                results.append(process)
        except (psutil.Error, ProcessLookupError):
            continue  # it has ended
    return alive(results, 5)


def alive(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that run so many seconds later."""
    results = []
    for process in psutil.wait_procs(processes, timeout=seconds)[1]:
        with suppress(psutil.NoSuchProcess):
            results += [process] * (process.status() != psutil.STATUS_ZOMBIE)
    return results


@pytest.mark.parametrize(("operation", "how", "line"), LOST, ids=[how.replace(" ", "-") for _, how, _ in LOST])
def test_each_way_to_lose_a_rank_is_one_line_and_leaves_nothing(tmp_path: Path, operation: str, how: str, line: str) -> None:
    ranks = talking(tmp_path, operation, how)
    with pytest.raises(MachineError) as raised:
        wait(ranks, "train", SHORT)
    result = re.fullmatch(line, str(raised.value))
    assert result, raised.value
    assert not left(ranks) and not ranks.folder.exists()
    if result.groups():
        assert Path(result[1]).read_text().endswith("ValueError: odd\n")
        Path(result[1]).unlink()


def test_a_job_that_is_stopped_or_dropped_leaves_nothing(tmp_path: Path) -> None:
    ranks = talking(tmp_path, "all_reduce", "never")
    assert all(file.stat().st_size for file in (ranks.folder / ".failure-0", ranks.folder / ".failure-1"))  # space, should the disk be full
    ranks.stop()
    assert not left(ranks)
    with pytest.raises(MachineError, match=r"rank \d of 'train' was lost \(SIGKILL\)"):
        wait(ranks, "train")
    ranks = talking(tmp_path, "all_reduce", "never")
    ranks.close()
    assert not left(ranks) and not ranks.folder.exists()


def test_what_ranks_leave_behind_ends_with_them(tmp_path: Path) -> None:
    ranks = talking(tmp_path, "all_reduce", "leave a child")
    wait(ranks, "train")
    assert not left(ranks) and not ranks.folder.exists()


def test_an_interruption_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = talking(tmp_path, "all_reduce", "never")

    def interrupted(ended: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(launch.Watch, "look", lambda self, ended: interrupted(ended))
    with pytest.raises(KeyboardInterrupt):
        wait(ranks, "train")
    assert not left(ranks)


@pytest.mark.slow  # what the server has spent on its imports is counted when it ends
@pytest.mark.parametrize(
    ("how", "number", "line"),
    [
        ("keep a child", signal.SIGKILL, "the server of ranks was lost, and all ranks with it; .*"),
        ("leave out", signal.SIGSTOP, "'train' was ended: the server of its ranks is stopped"),
    ],
)
def test_ranks_end_with_their_server(tmp_path: Path, how: str, number: signal.Signals, line: str) -> None:
    """And what they have started."""
    ranks = talking(tmp_path, "all_reduce", how)
    while how == "keep a child" and not any(child.name() == "sleep" for pid in ranks.pids for child in psutil.Process(pid).children()):
        time.sleep(0.01)
    processes = [psutil.Process(pid) for pid in ranks.pids]
    os.kill(ranks.server.pid, number)
    if number == signal.SIGKILL:  # by themselves, whatever the launcher does
        assert not alive(processes, 10)
    with pytest.raises(MachineError, match=f"^{line}$"):
        wait(ranks, "train", SHORT)
    assert not left(ranks) and not ranks.folder.exists()
    again = talking(tmp_path, "all_reduce", "SIGKILL")  # from another server
    with pytest.raises(MachineError, match="was lost"):
        wait(again, "train")


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ranks_end_with_their_launcher(tmp_path: Path, how: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it ends; here a fork of this process, which starts a server of its own. So do files that it has made for the job."""
    reader, writer = os.pipe()
    (received := tmp_path / "received").mkdir()
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            monkeypatch.setattr(launch, "Request", partial(Request, received=str(received)))
            ranks = talking(tmp_path, "all_reduce", "never")
            os.write(writer, json.dumps([*ranks.pids, ranks.server.pid, str(ranks.folder)]).encode())
            wait(ranks, "train")
        finally:
            os._exit(1)
    *pids, folder = json.loads(os.read(reader, 4096))
    processes = [psutil.Process(pid) for pid in pids]
    os.kill(child, how)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -how
    assert not alive(processes, 10)
    assert not Path(folder).exists() and not received.exists()


def test_a_launcher_that_ends_while_its_server_imports_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    (tmp_path / "tmp").mkdir()
    child = os.fork()
    if not child:
        try:
            tempfile.tempdir = str(tmp_path / "tmp")

            def ended(channel: object) -> None:
                (server,) = module._servers.values()
                os.write(writer, str(server.pid).encode())
                os.kill(os.getpid(), signal.SIGKILL)

            monkeypatch.setattr(module, "receive", ended)
            talking(tmp_path, "all_reduce", "never")
        finally:
            os._exit(1)
    server = psutil.Process(int(os.read(reader, 99)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not alive([server], 60)  # it may still import
    assert not list((tmp_path / "tmp").iterdir())


def test_an_interruption_while_ranks_begin_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, which goes on, removes what it has made."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    received = module.receive

    def interrupted(channel: socket.socket) -> None:
        received(channel)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        talking(tmp_path, "all_reduce", "never")
    monkeypatch.setattr(module, "receive", received)
    wait(talking(tmp_path, "all_reduce", "leave a child"), "train")  # of the same server, which takes jobs in turn
    ends = time.monotonic() + 5
    while list((tmp_path / "tmp").iterdir()) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not list((tmp_path / "tmp").iterdir())


def test_a_job_that_cannot_start_ends_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = talking(tmp_path, "all_reduce", "never")
    assert len(os.listdir(f"/proc/{other.server.pid}/task")) == 1  # a process that forks
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(MachineError, match=r"ranks cannot start: .*gone"):
        talking(tmp_path, "all_reduce", "never")
    other.wait_for_end(0.01)
    assert not other.ended
    other.close()


def test_a_server_that_cannot_import_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MachineError, match="ranks cannot start: ImportError: no torch today"):
        talking(tmp_path, "all_reduce", "never")


def test_ranks_do_not_meet_where_another_cluster_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL takes an empty address for a wrong one."""
    for name in ("NCCL_COMM_ID", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "10.0.0.1:5000")
    arguments = launch._environment(1)
    assert "NCCL_COMM_ID" not in arguments and (arguments["NCCL_SOCKET_IFNAME"], arguments["GLOO_SOCKET_IFNAME"]) == ("=lo", "lo")


def test_an_entry_that_is_no_module_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"rank 0 of 'train' ended with code 1: ModuleNotFoundError: No module named 'no_such_entry'"):
        wait(start("no_such_entry", tmp_path / "job", 1, 1), "train")


@pytest.mark.parametrize(
    ("ends", "kind", "line"),
    [
        # a rank that was killed, although another ended first, and says that it lost it
        (
            [(0, 1, FailureKind.PEER, "gloo: closed"), (1, -9, None, "")],
            MachineError,
            "rank 1 of 'train' was lost (SIGKILL) while starting",
        ),
        # gloo's threads may abort a rank that another, which says why, has left
        ([(1, -6, None, ""), (0, 2, FailureKind.USER, "no such key")], UserError, "no such key"),
        ([(1, 1, FailureKind.PEER, "gloo: closed"), (0, 3, FailureKind.NOT_FINITE, "loss is NaN")], NotFiniteError, "loss is NaN"),
        ([(0, 1, FailureKind.MACHINE, "disk full"), (1, 0, None, "")], MachineError, "disk full"),
        # rank 1 failed first, and ended last: what it had open took its time
        (
            [(0, 1, FailureKind.MACHINE, "the engine lost it"), (1, 1, FailureKind.UNEXPECTED, "odd")],
            MachineError,
            "rank 1 of 'train' failed: RuntimeError: odd (while starting)",
        ),
        # it had said why before it was aborted
        ([(0, -6, FailureKind.USER, "no such key"), (1, -6, None, "")], UserError, "no such key"),
        ([(0, -6, None, ""), (1, -11, None, "")], MachineError, "rank 1 of 'train' was lost (SIGSEGV) while starting"),
        ([(0, 1, None, "")], MachineError, "rank 0 of 'train' ended with code 1: without a word"),
        ([(0, 7, None, "said\n\nlast words \n\n")], MachineError, "rank 0 of 'train' ended with code 7: last words"),
        ([(0, -6, None, "terminate called\n")], MachineError, "rank 0 of 'train' was lost (SIGABRT) while starting: terminate called"),
        (
            [(0, 1, FailureKind.PEER, "gloo: closed")],
            MachineError,
            "rank 0 of 'train' failed: RuntimeError: gloo: closed (while starting)",
        ),
    ],
)
def test_the_cause_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends, kind, line) -> None:
    """Of ranks that fail together, in the order in which they end."""
    for rank, _, failed, message in ends:
        if failed is not None:
            Failure(rank, failed, "RuntimeError", message, "while starting", at_s=100.0 - rank).save(tmp_path)
        else:
            (tmp_path / f"rank-{rank}.log").write_text(message)
    left = [(rank, status) for rank, status, *_ in ends]

    positions.make_file(tmp_path, 2)

    class Played:
        """Ranks that have ended, one a look."""

        folder = tmp_path
        pages = positions.pages(tmp_path, 2)

        def __init__(self) -> None:
            self.ended = dict([left.pop(0)])

        @property
        def over(self) -> bool:
            return not left

        def wait_for_end(self, seconds: float) -> None:
            self.ended.update([left.pop(0)])

    result = launch._cause(Played(), "train")  # type: ignore[arg-type]
    assert (type(result), str(result)) == (kind, line)
