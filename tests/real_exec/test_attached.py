"""Commands that torchrun, srun or mpirun has started on several machines."""

import errno
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import pytest
import yaml
from namespaces import machines, permitted

from chronoscale.batching.streams.prepared import META, PreparedMetadata
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.errors import ChronoscaleWarning, MachineError, UserError
from chronoscale.harness.execute.machine import fit_ranks_to_processes
from chronoscale.harness.keys.experiment_files import check
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks import attached, attached_job, attached_rank
from chronoscale.real_exec.ranks.attached import Attachment
from chronoscale.real_exec.ranks.attached_job import RunRank
from chronoscale.real_exec.ranks.bundle import Bundle, Cache, hash_file
from chronoscale.real_exec.ranks.rank_end import AttachedEnd
from chronoscale.real_exec.ranks.route import address_of, interface_to
from chronoscale.real_exec.ranks.starter import Starter
from chronoscale.records import read_json
from chronoscale.strategies.workload import Hyper, ModelChoice

DATA = {"name": "growth_small"}
EXPERIMENT = {
    "dataset": DATA,
    "model": {"name": "wd-gcn", "hidden": 4},
    "strategies": ["psg", "real-g+"],
    "costs": "datasheet",  # the same plan of real-g+ in both runs, whatever is measured
    "ranks": [2],
    "repeats": 1,
    "device": "cpu",
}
WINDOWS = {
    "dataset": {"name": "traffic_small"},
    "model": {"name": "pgt-dcrnn", "hidden": 4},
    "training": {"window": 4, "horizon": 3, "batches": 8},
    "strategies": ["ddp"],
    "ranks": [2],
    "repeats": 2,
    "device": "cpu",
}
MPIRUN = {f"OMPI_COMM_WORLD_{name}": value for name, value in (("RANK", "1"), ("SIZE", "2"), ("LOCAL_RANK", "0"), ("LOCAL_SIZE", "2"))}
MEETING = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SRUN = {"SLURM_STEP_NUM_TASKS": "7", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1,2", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "3", **MEETING}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", **MEETING}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", **MEETING}


def _losses(folder: Path) -> dict[str, np.ndarray]:
    return {file.name: np.load(file) for file in folder.rglob("*-losses.npy")}


@pytest.mark.slow
@pytest.mark.skipif(not permitted(), reason="network namespaces need root, and `ip netns`")
@pytest.mark.parametrize("experiment", [EXPERIMENT, WINDOWS], ids=["snapshots", "ddp"])
def test_two_machines_learn_what_two_ranks_of_one_do(tmp_path: Path, experiment: dict[str, Any]) -> None:
    text = yaml.safe_dump(experiment)
    (tmp_path / "exp.yaml").write_text(text)
    single = subprocess.run(
        [sys.executable, "-m", "chronoscale", "bench", "exp.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert not single.returncode, single.stderr
    with machines(2, tmp_path) as made:
        for node in (0, 1):
            (tmp_path / f"node{node}").mkdir()
        (tmp_path / "node0" / "exp.yaml").write_text(text)  # the other has no experiment, and no data
        started = [made.torchrun(node, 1, "bench", "exp.yaml") for node in (0, 1)]
        with ThreadPoolExecutor() as threads:
            ends = [threads.submit(process.communicate, timeout=120) for process in started]
            heard = set[str]()
            while not all(end.done() for end in ends):
                heard |= {address for node in (0, 1) for address in made.listening(node, besides=started[node].pid)}
                time.sleep(0.2)
            outputs = [end.result()[0] for end in ends]
    assert [process.returncode for process in started] == [0, 0], outputs
    assert heard == {"10.97.0.1", "10.97.0.2"}
    assert "clocks of the machines may differ by" in " ".join(outputs[0].split())
    expected, losses = _losses(tmp_path / "runs"), _losses(tmp_path / "node0")
    assert sorted(expected) == sorted(losses) and {f"{name}-losses.npy" for name in experiment["strategies"]} <= {*losses}
    assert {name: values.tolist() for name, values in losses.items()} == {name: values.tolist() for name, values in expected.items()}
    assert not _losses(tmp_path / "node1")


def _task(rank: int, local: int, node: int) -> dict[str, str]:
    """What srun tells a task."""
    return {**SRUN, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_NODEID": str(node)}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (TORCHRUN, ("torchrun", 3, 4, 1, 2)),
        (_task(6, 1, 3), ("srun", 6, 7, 1, 2)),
        (HYDRA, ("mpiexec", 3, 4, 1, 2)),
        ({**_task(1, 0, 1), **TORCHRUN}, ("torchrun", 3, 4, 1, 2)),  # one torchrun a machine, started by srun
        ({**_task(1, 0, 1), **MPIRUN}, ("mpirun", 1, 2, 0, 2)),  # as mpirun does under Slurm
        ({**_task(1, 1, 0), "PMI_RANK": "1", "PMI_SIZE": "7"}, ("srun", 1, 7, 1, 2)),  # as srun --mpi=pmi2 does
        (MPIRUN, None),
        ({**MPIRUN, **MEETING}, ("mpirun", 1, 2, 0, 2)),
    ],
)
def test_a_launcher_is_known_by_its_environment(variables: dict[str, str], expected: tuple[str, int, int, int, int] | None) -> None:
    if expected is None:
        with pytest.raises(UserError):
            Starter.of(variables)
        return
    starter = Starter.of(variables)
    assert starter is not None
    assert (starter.name, starter.rank, starter.ranks, starter.local_rank, starter.local_ranks) == expected


@pytest.mark.parametrize("spoilt", [{"RANK": "x"}, {"RANK": "4"}, {"LOCAL_RANK": ""}, {"MASTER_PORT": "http"}, {"MASTER_ADDR": ""}])
def test_malformed_variables_are_one_line(spoilt: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"^torchrun: ") as error:
        Starter.of({**TORCHRUN, **spoilt})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tasks", "counts"),
    [("2(x2),1,2", [2, 2, 1, 2]), ("1", [1]), ("3", [3]), ("1,2(x3),1", [1, 2, 2, 2, 1]), ("8(x1000000000)", [8, 8]), ("4,4", [4, 4])],
)
def test_a_task_of_srun_knows_the_tasks_of_its_own_machine(tasks: str, counts: list[int]) -> None:
    """Slurm lists those of all machines, and shortens what repeats."""
    every, rank = {"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_STEP_NUM_TASKS": "8000000000"}, 0
    for node, count in enumerate(counts):
        for local in range(count):
            starter = Starter.of({**_task(rank, local, node), **every})
            assert starter is not None and starter.run == "4711/3/0"
            assert (starter.rank, starter.local_rank, starter.local_ranks) == (rank, local, count)
            rank += 1


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"SLURM_NODEID": "4"}, "SLURM_NODEID is 4, and SLURM_STEP_TASKS_PER_NODE lists fewer machines: '2(x2),1,2'"),
        ({"SLURM_NODEID": ""}, "SLURM_NODEID is '', expected a number"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2"}, "SLURM_STEP_TASKS_PER_NODE is '2(x2', expected numbers such as 2(x3),1"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2),"}, "SLURM_STEP_TASKS_PER_NODE is '2(x2),', expected numbers"),
        ({"SLURM_LOCALID": "2"}, "rank 6 of 7, on this machine 2 of 2, cannot be"),
        ({"SLURM_PROCID": "3"}, "ranks have to be numbered machine by machine; start them with --distribution=block"),
    ],
)
def test_malformed_tasks_of_srun_are_one_line(spoilt: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as error:
        Starter.of({**_task(6, 1, 3), **spoilt})
    assert str(error.value).startswith(f"srun: {said}")


def test_a_batch_script_and_its_only_task_are_no_several() -> None:
    """What sbatch sets in its script, and srun in one task."""
    batch = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "2(x2)"}
    assert Starter.of(batch) is None
    assert Starter.of({**batch, "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}) is None


@pytest.mark.parametrize("ranks", ["2", "x", ""])
def test_a_stray_variable_is_no_launcher(ranks: str) -> None:
    """Containers and schedulers set some of them for whatever runs there."""
    assert Starter.of({"WORLD_SIZE": ranks, **MEETING}) is None


def test_ranks_are_those_for_which_processes_were_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(ChronoscaleWarning) as warned:
        assert fit_ranks_to_processes(check({**EXPERIMENT, "ranks": [1, 4, 8]}, "bench")).ranks == (1, 4)
    assert [str(each.message).partition(":")[0] for each in warned] == ["ranks"]
    with pytest.raises(UserError, match="ranks: 8, and torchrun started 4 processes; start more"):
        fit_ranks_to_processes(check({**EXPERIMENT, "ranks": [8]}, "bench"))


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Attachment, Attachment]:
    """Two processes of a launcher, as two threads of this one."""
    for each in (attached, attached_job):
        monkeypatch.setattr(each, "LOOK_S", 0.01)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    starters = [Starter("torchrun", rank, 2, rank, 2, "127.0.0.1", port, rank == 0, "run") for rank in (0, 1)]
    with ThreadPoolExecutor() as threads:
        first, second = threads.map(partial(Attachment, facts={}), starters)
    return first, second


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


def test_others_execute_the_jobs_of_the_first_until_it_is_over(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    (first, second), job, ran = pair, _job(tmp_path), list[tuple[str, int, bytes, str]]()

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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
        first.launch("", _job(tmp_path), 2, tmp_path / "job.json", lambda *given: _later(given[-1], run(order=1)))


def test_a_defect_in_another_process_is_told_at_once(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    first, second = pair

    def fail(*given: object) -> AttachedEnd:
        raise ValueError("odd")

    with (
        pytest.raises(ValueError, match="odd"),
        attending(first, second, fail),
        pytest.raises(MachineError, match="rank 1 failed: ValueError"),
    ):
        first.launch("", _job(tmp_path), 2, tmp_path / "job.json", lambda *given: AttachedEnd())


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
        first.launch("", _job(tmp_path), 2, tmp_path / "job.json", partial(wait, who="first"))


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
        first.launch("", _job(tmp_path), 2, tmp_path / "job.json", wait)


def test_a_full_disk_is_one_line(pair: tuple[Attachment, Attachment], tmp_path: Path) -> None:
    first, second = pair

    def fill(*given: object) -> AttachedEnd:
        raise OSError(errno.ENOSPC, "", str(tmp_path / "x"))

    with attending(first, second, fill), pytest.raises(MachineError, match=r"x: the disk is full; .* \(on "):
        first.launch("", _job(tmp_path), 2, tmp_path / "job.json", lambda *given: AttachedEnd())


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
        attached_job.AttachedJob(first, 0)._await_key("never", 1, "end")
    second.store.set("beat/1", "again")
    assert first.lost(1) == ""
    first._over.set()


def test_no_launcher_is_none_and_so_is_our_own() -> None:
    assert Starter.of({}) is None and Starter.of({**TORCHRUN, "CHRONOSCALE_RANKS": "/tmp/x"}) is None


@pytest.mark.parametrize(("ranks", "here"), [(4, 2), (3, 1), (2, 0)])
def test_a_smaller_job_takes_the_first_ranks(ranks: int, here: int) -> None:
    starter = Starter.of(TORCHRUN)
    assert starter is not None and starter.local_of(ranks) == here


def _job(folder: Path) -> Job:
    (folder / "data").mkdir()
    (folder / "data" / "src.npy").write_bytes(b"src")
    (folder / "psg.parquet").write_bytes(b"schedule")
    for name in ("parts.npy", "prepare.parquet", "topology.xml", "mine.py"):
        (folder / name).write_text(name)
    item = Item(
        "psg", str(folder / "psg.parquet"), str(folder / "data"), Hyper(), str(folder / "parts.npy"), str(folder / "prepare.parquet")
    )
    settings = Settings(topology=str(folder / "topology.xml"))
    return Job("ranks-2", (item,), str(folder / "out"), ModelChoice("wd-gcn"), 1, settings=settings, modules=(str(folder / "mine.py"),))


def test_a_bundle_has_what_ranks_read_and_no_absolute_path(tmp_path: Path) -> None:
    bundle, sources = Bundle.pack(_job(tmp_path))
    assert str(tmp_path) not in bundle.to_json()
    received, cache = Bundle.from_json(bundle.to_json()), Cache(tmp_path / "cache")
    assert sorted(cache.lacks(received)) == sorted(sources)
    for sha256, source in sources.items():
        cache.add(sha256, iter([source.read_bytes()]))
    assert not cache.lacks(received)
    (folder := tmp_path / "other").mkdir()
    item = Job.load(received.unpack(folder, cache)).items[0]
    assert (folder / item.schedule).read_bytes() == b"schedule" and (folder / item.dataset / "src.npy").read_bytes() == b"src"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_prepared_stream_takes_its_events_along(tmp_path: Path, in_place: bool) -> None:
    """They lie beside it, or where the user has them: other machines read a copy, and find it from the prepared stream's own folder."""
    prepared = PreparedMetadata(str(tmp_path / "stream") if in_place else "../stream", Protocol())
    job = _job(tmp_path)
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "time.npy").write_bytes(b"time")
    (tmp_path / "data" / META).write_text(json.dumps(asdict(prepared)))
    bundle, sources = Bundle.pack(job)
    assert str(tmp_path) not in bundle.to_json()
    cache = Cache(tmp_path / "cache")
    for sha256, source in sources.items():
        cache.add(sha256, iter([source.read_bytes()]))
    (tmp_path / "stream" / "time.npy").unlink()
    (folder := tmp_path / "other").mkdir()
    data = folder / Job.load(Bundle.from_json(bundle.to_json()).unpack(folder, cache)).items[0].dataset
    received = read_json(data / META, PreparedMetadata, "record")
    assert received.protocol == prepared.protocol and (data / received.stream / "time.npy").read_bytes() == b"time"


def test_ranks_of_one_machine_fetch_a_content_once(tmp_path: Path) -> None:
    """Whoever comes first; the others wait until it is whole."""
    (tmp_path / "content").write_bytes(b"0123456789")
    sha256, read = hash_file(tmp_path / "content"), Counter[int]()

    def chunks(rank: int) -> Iterator[bytes]:
        for digit in b"0123456789":
            read[rank] += 1
            yield bytes([digit])

    def fetch(rank: int) -> bytes:
        cache = Cache(tmp_path / "cache")
        cache.add(sha256, chunks(rank))
        return (cache.folder / sha256).read_bytes()

    with ThreadPoolExecutor() as threads:
        contents = [threads.submit(fetch, rank) for rank in range(4)]
        assert [content.result() for content in contents] == [b"0123456789"] * 4
    assert list(read.values()) == [10]


def test_damaged_content_is_refused_and_dropped(tmp_path: Path) -> None:
    bundle, sources = Bundle.pack(_job(tmp_path))
    cache, sha256 = Cache(tmp_path / "cache"), hash_file(tmp_path / "psg.parquet")
    with pytest.raises(MachineError, match="damaged on its way"):
        cache.add(sha256, iter([b"something else"]))
    assert sorted(cache.lacks(bundle)) == sorted(sources)
    cache.add(sha256, iter([b"sche", b"dule"]))
    (cache.folder / sha256).write_bytes(b"SCHEDULE")
    assert sha256 in cache.lacks(bundle)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    job = _job(tmp_path)
    (tmp_path / "psg.parquet").unlink()
    with pytest.raises(UserError, match=r"psg\.parquet: no such file"):
        Bundle.pack(job)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", ""])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    bundle, _ = Bundle.pack(_job(tmp_path))
    file, text = json.loads(bundle.to_json()), json.loads(bundle.to_json())
    file["files"][0]["path"], text["texts"][path] = path, "{}"
    for changed in (file, text):
        with pytest.raises(MachineError, match="leaves its folder"):
            Bundle.from_json(json.dumps(changed))


def test_a_cache_that_others_can_open_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "cache").mkdir(mode=0o755)
    with pytest.raises(MachineError, match="only you can open"):
        Cache(folder)


def test_the_interface_is_that_of_the_route() -> None:
    assert interface_to("127.0.0.1", 29500) == "lo" and address_of("lo") == "127.0.0.1"
    with pytest.raises(MachineError, match="network interface 'none' has no IPv4 address here; set GLOO_SOCKET_IFNAME"):
        address_of("none")


def test_an_end_names_its_host() -> None:
    end = AttachedEnd.from_json(AttachedEnd.of(MachineError("rank 1 of 'x' was lost (SIGKILL)")).to_json())
    assert str(end.error("b")) == "rank 1 of 'x' was lost (SIGKILL) (on b)"
    assert isinstance(AttachedEnd.of(UserError("no")).error("b"), UserError) and not AttachedEnd().failed


@pytest.mark.slow
@pytest.mark.skipif(not permitted(), reason="network namespaces need root, and `ip netns`")
def test_a_rank_that_is_killed_is_named_with_its_host(tmp_path: Path) -> None:
    long = {**EXPERIMENT, "strategies": ["psg"], "repeats": 5000}
    with machines(2, tmp_path) as made:
        (tmp_path / "node0").mkdir()
        (tmp_path / "node0" / "exp.yaml").write_text(yaml.safe_dump(long))
        started = [made.torchrun(node, 1, "bench", "exp.yaml") for node in (0, 1)]
        victim = made.rank_process(1, timeout=60)
        begun = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        outputs = [process.communicate(timeout=60)[0] for process in started]
        assert time.monotonic() - begun < 60
        assert not any(made.pids(node) for node in (0, 1))
    assert [process.returncode for process in started] == [1, 0]  # who only attends leaves the failure to the first
    lines = [line for line in outputs[0].splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "rank 1 of 'ranks-2' was lost (SIGKILL)" in lines[0] and "(on node1)" in lines[0], outputs
