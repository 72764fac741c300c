"""Processes that another launcher has started: how the first has the others execute its jobs, and who is told what goes wrong."""

import errno
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import psutil
import pytest
from attached_cases import free_port, job_of, meet

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks import attached, attached_job, attached_rank
from chronoscale.real_exec.ranks.attached import Attachment
from chronoscale.real_exec.ranks.attached_job import RunRank
from chronoscale.real_exec.ranks.bundle import Cache, hash_file
from chronoscale.real_exec.ranks.rank_end import AttachedEnd
from chronoscale.real_exec.ranks.route import address_of, interface_to
from chronoscale.real_exec.ranks.starter import Starter


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Attachment, Attachment]:
    """Two processes of a launcher on one machine."""
    return meet(tmp_path, monkeypatch)


@contextmanager
def attending(first: Attachment, second: Attachment, run: RunRank) -> Iterator[None]:
    """Have the second process attend until the first's command is over, whatever comes of it; the exit code gets there."""
    with ThreadPoolExecutor() as threads:
        code = threads.submit(second.attend, run, pytest.fail)
        try:
            yield
        finally:
            first.close(7)
        assert code.result() == 7


def test_nobody_is_told_of_a_cut_once_attending_has_failed(pair: tuple[Attachment, Attachment], monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for signs of the first process ends with it; else it would speak up half a minute later."""
    first, second = pair
    monkeypatch.setattr(second, "lost", lambda rank: f"rank {rank} is gone")
    with pytest.raises(MachineError, match="rank 0 is gone"):
        second.attend(lambda *_: AttachedEnd(), pytest.fail)
    assert second._over.is_set() and not first._over.is_set()
    first._over.set()


def test_others_execute_the_jobs_of_the_first_until_it_is_over(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    (first, second), job, ran = pair, job_of(tmp_path), list[tuple[str, int, bytes, str]]()

    def run(
        entry: str, path: Path, job: Job, store: str, ranks: int, is_stopped: Callable[[str], bool], who: str = "second"
    ) -> AttachedEnd:
        assert entry == "its.entry"
        ran.append((who, ranks, Path(job.items[0].schedule).read_bytes(), store.rpartition("/job/")[2]))
        read = (job.items[0].parts, job.items[0].prepare, job.settings.topology, *job.modules)
        assert [Path(path).read_text() for path in read] == ["parts.npy", "prepare.parquet", "topology.xml", "mine.py"]
        assert (Path(job.items[0].dataset) / "src.npy").read_bytes() == b"src" and Path(job.out).is_dir() == (who == "second")
        return AttachedEnd.of(MachineError("odd")) if len(ran) > 3 and who == "second" else AttachedEnd()

    own = partial(run, who="first")
    with attending(first, second, run):
        first.launch("its.entry", job, 2, tmp_path / "job.json", own)
        assert sorted(ran) == [(who, 2, b"schedule", "0/group") for who in ("first", "second")]
        first.launch("its.entry", job, 1, tmp_path / "job.json", own)  # nobody else takes part
        assert ran[2:] == [("first", 1, b"schedule", "1/group")]
        with pytest.raises(UserError, match="ranks: 3, and torchrun started 2 processes"):
            first.launch("its.entry", job, 3, tmp_path / "job.json", own)
        (tmp_path / "psg.parquet").write_bytes(b"another")  # only this has to be sent
        ran.append(("", 0, b"", ""))
        with pytest.raises(MachineError, match=rf"odd \(on {socket.gethostname()}\)"):
            first.launch("its.entry", job, 2, tmp_path / "job.json", own)
        assert ("second", 2, b"another", "2/group") in ran
        assert not any(who == "second" and ranks == 1 for who, ranks, _, _ in ran)
        sent = [f"job/2/content/{hash_file(tmp_path / 'psg.parquet')}{end}" for end in ("", "/0")]
        assert not any(first.store.check([key]) for key in sent)  # the store keeps no contents


def test_the_store_listens_where_ranks_meet_alone(pair: tuple[Attachment, Attachment]) -> None:
    port = pair[0].starter.port
    there = {each.laddr.ip for each in psutil.Process().net_connections("tcp") if each.laddr.port == port and each.status == "LISTEN"}
    assert there == {"127.0.0.1"}


def test_ranks_that_are_dealt_out_in_turns_are_refused(tmp_path: Path) -> None:
    """They would take another machine's clock for theirs."""
    port = free_port()
    starters = [Starter("mpirun", rank, 4, rank // 2, 2, "127.0.0.1", port, rank == 0, "run") for rank in range(4)]
    with ThreadPoolExecutor() as threads:
        meeting = [threads.submit(Attachment, starter, {}) for starter in starters]
        for each in meeting:
            with pytest.raises(UserError, match="mpirun: ranks have to be numbered machine by machine"):
                each.result()


def test_a_first_machine_that_others_cannot_reach_is_one_line() -> None:
    """As where Debian's /etc/hosts gives a machine's own name a loopback address."""
    starter = Starter("srun", 0, 2, 0, 1, "localhost", 1, True, "run")
    with pytest.raises(MachineError, match=r"MASTER_ADDR localhost is (127.0.0.1|::1) on the first machine, which others cannot reach"):
        Attachment(starter, {})


def test_the_first_cause_is_told(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    """Not what came of it on the others."""

    def run(*given: object, order: int) -> AttachedEnd:
        return AttachedEnd.of(MachineError(f"cause {order}"), order)

    first, second = pair
    with attending(first, second, partial(run, order=0)), pytest.raises(MachineError, match="cause 0"):
        first.launch("", job_of(tmp_path), 2, tmp_path / "job.json", lambda *given: _later(given[-1], run(order=1)))


def test_a_defect_in_another_process_is_told_at_once(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    first, second = pair

    def fail(*given: object) -> AttachedEnd:
        raise ValueError("odd")

    with (
        pytest.raises(ValueError, match="odd"),
        attending(first, second, fail),
        pytest.raises(MachineError, match="rank 1 failed: ValueError"),
    ):
        first.launch("", job_of(tmp_path), 2, tmp_path / "job.json", lambda *given: AttachedEnd())


def test_ranks_that_wait_for_each_other_are_found_out(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    """No machine sees more of it than that its own rank waits."""
    first, second = pair

    def wait(*given: object, who: str) -> AttachedEnd:
        is_stopped = cast(Callable[[str], bool], given[-1])
        assert not is_stopped("")
        while not is_stopped(f"{who} waits"):
            pass
        return AttachedEnd()

    with (
        attending(first, second, partial(wait, who="second")),
        pytest.raises(MachineError, match="ranks wait for each other: first waits; second waits"),
    ):
        first.launch("", job_of(tmp_path), 2, tmp_path / "job.json", partial(wait, who="first"))


def test_a_rank_that_others_wait_for_is_no_deadlock(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    (first, second), done = pair, threading.Event()

    def compute(*given: object) -> AttachedEnd:
        is_stopped = cast(Callable[[str], bool], given[-1])
        while not done.is_set():
            assert not is_stopped("")
        return AttachedEnd()

    def wait(*given: object) -> AttachedEnd:
        is_stopped = cast(Callable[[str], bool], given[-1])
        for _ in range(9):
            assert not is_stopped("first waits")
        done.set()
        return AttachedEnd()

    with attending(first, second, compute):
        first.launch("", job_of(tmp_path), 2, tmp_path / "job.json", wait)


def test_a_content_that_nobody_could_take_does_not_stay_in_the_store(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    (first, second), job = pair, job_of(tmp_path)
    damaged = f"job/0/content/{hash_file(tmp_path / 'psg.parquet')}"

    def refuse(cache: Cache, sha256: str, chunks: Iterator[bytes]) -> None:
        raise MachineError("damaged")

    with pytest.MonkeyPatch.context() as patch, attending(first, second, lambda *given: AttachedEnd()):
        patch.setattr(Cache, "add", refuse)
        with pytest.raises(MachineError, match="damaged"):
            first.launch("", job, 2, tmp_path / "job.json", lambda *given: AttachedEnd())
    assert not any(first.store.check([key]) for key in (damaged, f"{damaged}/0"))


def test_a_full_disk_is_one_line(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    first, second = pair

    def fill(*given: object) -> AttachedEnd:
        raise OSError(errno.ENOSPC, "", str(tmp_path / "x"))

    with attending(first, second, fill), pytest.raises(MachineError, match=r"x: the disk is full; .* \(on "):
        first.launch("", job_of(tmp_path), 2, tmp_path / "job.json", lambda *given: AttachedEnd())


def test_who_is_cut_off_hears_of_it(pair: tuple[Attachment, Attachment], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread of its own, since all others wait for an answer."""
    _, second = pair
    monkeypatch.setattr(attached, "BEAT_S", 0.01)
    long_ago = time.monotonic() - attached.LOST_S - 1
    monkeypatch.setattr(Attachment, "_answered", property(lambda _: long_ago, lambda *_: None), raising=False)  # whatever its pulse notes
    monkeypatch.setattr(second, "_over", threading.Event())  # its pulse has stopped
    said: queue.Queue[str] = queue.Queue()
    threading.Thread(target=second._notice_cut, args=(said.put,), daemon=True).start()
    assert said.get(timeout=10) == f"rank 0 at 127.0.0.1:{second.starter.port} has not been heard of for 31 s"


def _later(is_stopped: Callable[[str], bool], end: AttachedEnd) -> AttachedEnd:
    """The end of a rank that fails once another has."""
    while not is_stopped(""):
        pass
    return end


def test_ranks_talk_on_the_way_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the user names an interface."""
    starter = Starter("torchrun", 1, 2, 0, 1, "127.0.0.1", 29500, False, "run")
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    chosen = attached_rank._environment(starter, 3)
    assert (chosen["GLOO_SOCKET_IFNAME"], chosen["NCCL_SOCKET_IFNAME"], chosen["OMP_NUM_THREADS"]) == ("lo", "=lo", "3")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "mine")
    assert attached_rank._environment(starter, 3)["GLOO_SOCKET_IFNAME"] == "mine"


def test_a_process_that_is_not_heard_of_is_lost(pair: tuple[Attachment, Attachment], monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock decides, from the last sign of life on."""
    first, second = pair
    now = [time.monotonic()]
    monkeypatch.setattr(attached.time, "monotonic", lambda: now[0])
    second._over.set()
    first.lost(1)
    now[0] += attached.LOST_S - 0.1
    assert first.lost(1) == ""
    now[0] += 1
    assert first.lost(1) == f"rank 1 on {socket.gethostname()} has not been heard of for 31 s"
    with pytest.raises(MachineError, match=r"rank 1 on .* has not been heard of"):
        attached_job.AttachedJob(first, 0)._await_of(1, "never")
    second.store.set("beat/1", "again")
    assert first.lost(1) == ""
    first._over.set()


def test_the_interface_is_that_of_the_route() -> None:
    assert interface_to("127.0.0.1", 29500) == "lo" and address_of("lo") == "127.0.0.1"
    with pytest.raises(MachineError, match="network interface 'none' has no IPv4 address here; set GLOO_SOCKET_IFNAME"):
        address_of("none")


def test_an_end_names_its_host() -> None:
    end = AttachedEnd.from_json(AttachedEnd.of(MachineError("rank 1 of 'x' was lost (SIGKILL)")).to_json())
    assert str(end.error("b")) == "rank 1 of 'x' was lost (SIGKILL) (on b)"
    assert isinstance(AttachedEnd.of(UserError("no")).error("b"), UserError) and not AttachedEnd().failed
