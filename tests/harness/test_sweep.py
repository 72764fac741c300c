"""Sweeps: one after another, in processes, on a Dask cluster; what is lost on the way."""

import asyncio
import logging
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import dask.config
import pytest
import sweep_cases
from distributed import Client, LocalCluster, Scheduler, Security
from distributed.utils import sync
from self_signed import certificates
from sweep_cases import die, litter, refuse, square, wait_at_gate, warn

from chronoscale import modules
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.errors import ChronoscaleWarning, MachineError, UserError
from chronoscale.harness.sweep import absence, dask_cluster, parcel
from chronoscale.harness.sweep.address import knock
from chronoscale.harness.sweep.sweep import sweep
from chronoscale.strategies.workload import ModelShape, Workload


def taken(judge, tasks, **where) -> dict[int, int]:
    results: dict[int, int] = {}
    sweep(judge, tasks, results.__setitem__, **where)
    return results


WORKERS = 2
THREADS = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def threads():
    """A cluster whose workers are threads of this process, reached over TCP."""
    with LocalCluster(**THREADS, protocol="tcp") as cluster:
        yield cluster


@pytest.fixture
def dask_address(threads):
    return threads.scheduler_address


@pytest.fixture(scope="module")
def processes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=2, processes=True, dashboard_address="127.0.0.1:0")
    with cluster:
        yield cluster.scheduler_address
        with Client(cluster) as client:  # a cluster that is closed while it replaces lost workers fails (distributed's nanny)
            client.wait_for_workers(WORKERS)


TASKS = {number: number + 1 for number in range(7)}


@pytest.mark.slow
def test_wherever_it_runs_the_results_are_the_same(processes):
    expected = {number: value**2 for number, value in TASKS.items()}
    for where in ({}, {"workers": 2}, {"workers": 16}, {"dask": processes}):
        assert taken(square, TASKS, **where) == expected
    assert taken(square, {}, workers=4) == {}


def test_on_dask_the_results_are_the_same(dask_address):
    assert taken(square, TASKS, dask=dask_address) == taken(square, TASKS)


@pytest.mark.parametrize("where", ["here", pytest.param("processes", marks=pytest.mark.slow), "dask"])
def test_warnings_are_given_here(where, request):
    how = {"dask": request.getfixturevalue("dask_address")} if where == "dask" else {"workers": 2 if where == "processes" else 1}
    with pytest.warns(ChronoscaleWarning) as caught:
        taken(warn, {0: 2, 1: 3}, **how)
    assert sorted(str(each.message) for each in caught) == ["3 is odd", "even"]


def test_results_are_taken_as_they_come():
    """In this process one by one: what was taken before a failure is kept."""
    results: dict[int, int] = {}
    with pytest.raises(UserError, match="three is wrong"):
        sweep(refuse, TASKS, results.__setitem__)
    assert results == {0: 1, 1: 2}


def test_a_failure_is_raised_once(dask_address):
    for where in ({"workers": 2}, {"dask": dask_address}):
        with pytest.raises(UserError, match="three is wrong"):
            taken(refuse, TASKS, **where)


def test_an_interruption_leaves_none_of_what_processes_keep(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupted(number: int, value: int) -> None:
        assert list(tmp_path.glob("*/*"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(litter, TASKS, interrupted, workers=2)
    assert not list(tmp_path.iterdir())


def test_a_lost_process_is_reported():
    with pytest.raises(MachineError, match="a process that simulates was lost, perhaps to the system's memory; the same command goes on"):
        taken(die, {0: 1, 1: 2}, workers=2)


@pytest.mark.slow
def test_a_lost_dask_worker_is_reported(processes):
    with pytest.raises(MachineError, match=r"^dask: \d workers were lost with one task, the last at tcp://.*the same command goes on"):
        taken(die, {0: 1}, dask=processes)


async def cancelled(scheduler: Scheduler) -> None:
    """Return once a scheduler, which is told when its client has gone on, has no task that is to begin."""
    async with asyncio.timeout(60):
        while any(task.state in ("queued", "no-worker", "waiting") for task in scheduler.tasks.values()):
            await asyncio.sleep(0.01)


def test_an_interruption_cancels_what_was_submitted(threads):
    """Of forty tasks on two workers, those run that had been begun; the scheduler knows none of the others any more."""
    tasks, cases = dict.fromkeys(range(40), 0), sweep_cases
    cases.CALLS.clear()
    cases.GATE.clear()

    def interrupted(number: int, value: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(wait_at_gate, tasks, interrupted, dask=threads.scheduler_address)
    try:
        sync(threads.loop, cancelled, threads.scheduler)
    finally:
        cases.GATE.set()
    assert taken(square, {0: 3}, dask=threads.scheduler_address) == {0: 9}
    assert len(cases.CALLS) <= 1 + 2 * WORKERS


@pytest.mark.parametrize(
    "address", ["nonsense://x:1", "tcp://127.0.0.1", "tcp://127.0.0.1:port", "tcp://:8786", "tcp://[::1:8786", "", "a:1/b"]
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UserError, match=r"dask: .* is no address of a scheduler; expected one such as tcp://10.0.0.1:8786"):
        knock(address)


def test_a_scheduler_that_is_not_there():
    with socket.socket() as taken_port:  # bound, and nobody listens
        taken_port.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken_port.getsockname()[1]}"
        with pytest.raises(MachineError, match=f"dask: no scheduler answers at {address} .Connection refused"):
            taken(square, TASKS, dask=address)


@pytest.mark.parametrize("says", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9, b""], ids=["something else", "nothing"])
def test_what_answers_as_no_scheduler_is_one_line(monkeypatch, says):
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                    connections[-1].sendall(says)
                except OSError:  # the server, or whoever called, is gone
                    if server.fileno() < 0:
                        return

        connections: list[socket.socket] = []
        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(MachineError, match=f"^dask: no scheduler answers at {address} "):
            taken(square, TASKS, dask=address)
        server.shutdown(socket.SHUT_RDWR)
    for connection in connections:
        connection.close()


def test_a_workers_address_is_told_from_a_schedulers(threads):
    with pytest.raises(UserError, match=r"dask: tcp://.* is a Worker's address; expected the scheduler's"):
        taken(square, TASKS, dask=threads.workers[0].address)


def test_a_scheduler_without_workers(monkeypatch):
    monkeypatch.setattr(dask_cluster, "WORKERS_S", 0.2)
    with (
        LocalCluster(**{**THREADS, "n_workers": 0}, protocol="tcp") as cluster,
        pytest.raises(MachineError, match=r"has no workers; start some with `dask worker tcp://"),
    ):
        taken(square, TASKS, dask=cluster.scheduler_address)


def losing(cluster: LocalCluster, comes_back: bool, results: dict[int, int]) -> None:
    """Sweep three tasks on one worker, which is lost after the first; perhaps another one comes half a second later."""

    def lose(number: int, value: int) -> None:
        results[number] = value
        if len(results) == 1:
            sync(cluster.loop, cluster.scheduler.remove_worker, cluster.workers[0].address, stimulus_id="test")
            cases.GATE.set()  # a worker closes once its task has ended
            sync(cluster.loop, cluster.workers[0].close)
            if comes_back:
                threading.Timer(0.5, cluster.scale, (2,)).start()

    (cases := sweep_cases).CALLS.clear()
    cases.GATE.clear()
    sweep(wait_at_gate, {0: 1, 1: 2, 2: 3}, lose, dask=cluster.scheduler_address)


def test_a_cluster_that_stays_without_workers_ends_the_sweep(monkeypatch):
    """What was done by then is kept."""
    monkeypatch.setattr(absence, "NOBODY_S", 0.3)
    monkeypatch.setattr(absence, "ASK_S", 0.1)
    results: dict[int, int] = {}
    with LocalCluster(**{**THREADS, "n_workers": 1}, protocol="tcp") as cluster:
        expected = rf"^dask: the scheduler at {cluster.scheduler_address} has had no workers for 0 s; start some with .*goes on with what"
        with pytest.raises(MachineError, match=expected):
            losing(cluster, False, results)
        assert len(results) == 1 and not cluster.scheduler.tasks


def test_a_worker_that_comes_in_time_goes_on(monkeypatch):
    monkeypatch.setattr(absence, "NOBODY_S", 20.0)
    monkeypatch.setattr(absence, "ASK_S", 0.1)
    results: dict[int, int] = {}
    with LocalCluster(**{**THREADS, "n_workers": 1}, protocol="tcp") as cluster:
        losing(cluster, True, results)
    assert results == {0: 1, 1: 2, 2: 3}


def test_an_absence_is_of_one_piece(monkeypatch):
    """Workers that are seen, and results, end it; the scheduler is asked once a second."""
    now, workers, asked = [0.0], dict[str, int](), list[float]()
    monkeypatch.setattr(absence.time, "monotonic", lambda: now[0])
    client = SimpleNamespace(nthreads=lambda: asked.append(now[0]) or workers)
    nobody = absence.Absence(client, "tcp://a:1")
    for now[0] in (0.5, 1, 1.5, 2, 60.9):
        nobody.look()
    assert asked == [1, 2, 60.9]
    workers["w"] = 1
    now[0] = 62.0
    nobody.look()
    workers.clear()
    for now[0] in (63, 122.9):
        nobody.look()
    nobody.end()
    now[0] = 124
    nobody.look()
    now[0] = 184
    with pytest.raises(MachineError, match="tcp://a:1 has had no workers for 60 s"):
        nobody.look()


class Gathered:
    """Two results, as Dask's `as_completed` has them; the second is not ready at the first look."""

    def __init__(self) -> None:
        self.left, self.ready, self.thread_condition = [2, 1], [True, False, False, True], threading.Condition()

    def is_empty(self) -> bool:
        return not self.left

    def has_ready(self) -> bool:
        return self.ready.pop(0)

    def __next__(self) -> int:
        return self.left.pop()


def test_a_result_ends_an_absence():
    """Whatever the scheduler said last; it is asked where nothing is ready."""
    said = list[str]()
    nobody = SimpleNamespace(end=lambda: said.append("end"), look=lambda: said.append("look"))
    assert list(dask_cluster._as_done(Gathered(), nobody)) == [1, 2] and said == ["end", "look", "end"]


def test_workers_of_another_version_are_refused(dask_address, monkeypatch):
    who = "(scheduler|worker) tcp://.*"
    with monkeypatch.context() as patch:
        patch.setattr(dask_cluster, "version", lambda _: "9.9")
        with pytest.raises(UserError, match=rf"dask: {who} has chronoscale \d.*, and this is 9.9; install the same there"):
            taken(square, TASKS, dask=dask_address)
        patch.setattr(dask_cluster, "PACKAGE", "no-such-package")
        with pytest.raises(UserError, match=rf"{who} has no-such-package none"):
            taken(square, TASKS, dask=dask_address)
    monkeypatch.setattr(dask_cluster, "python_version", lambda: "3.99")
    with pytest.raises(UserError, match=rf"dask: {who} has Python 3.\d+, and this is 3.99; install the same there"):
        taken(square, TASKS, dask=dask_address)


def test_a_worker_of_another_version_that_comes_later_refuses_its_tasks(monkeypatch):
    sent = parcel.Packer().pack(square, 3)
    assert parcel.compute(sent).result == 9
    monkeypatch.setattr(parcel, "version", lambda _: "9.9")
    with pytest.raises(UserError, match=r"dask: a worker on .* has Python 3.\d+ and chronoscale 9.9, and this is 3.\d+ and \d"):
        parcel.compute(sent)


def test_a_workload_is_sent_once():
    """However many tasks plan with it; a process opens it once, so that what it has counted stays."""
    works = [Workload(name, SignalStatistics(100, 5, 1, 4), ModelShape("m", "gcn", "gru", 1, 1, 1, 1, 1)) for name in ("a", "b")]
    packer = parcel.Packer()
    parcels = [packer.pack(pickle.dumps, [work, work]) for work in (*works, works[0])]
    assert len(packer.shared) == 2 and parcels[0].workloads == parcels[2].workloads != parcels[1].workloads
    shared = packer.shared[parcels[0].workloads[0]]
    assert b"SignalStatistics" in shared.content and b"SignalStatistics" not in parcels[0].content
    first, second = (pickle.loads(parcel.compute(packer.pack(pickle.dumps, [works[0]]), shared).result)[0] for _ in range(2))
    assert first.name == second.name == "a" and parcel._opened(shared) is parcel._opened(shared)


def test_a_task_that_cannot_be_sent_is_one_line():
    with pytest.raises(UserError, match="dask: a task cannot be sent"):
        parcel.Packer().pack(square, lambda: 1)


def test_the_users_python_file_is_run_where_it_is_not(tmp_path):
    """Under the same name, so that what is pickled by it is found; another content under that name is refused."""
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    value = 7\n")
    module = modules.load(file)
    source = modules.sources()[-1]
    assert source.file == str(file) and source in parcel.Packer().pack(square, 1).sources
    content = pickle.dumps(module.Mine())
    file.unlink()
    code = "import pickle, sys; from chronoscale import modules; s, c = pickle.load(sys.stdin.buffer); modules.run(s); modules.run(s); "
    read = subprocess.run(
        [sys.executable, "-c", code + "print(pickle.loads(c).value)"],
        input=pickle.dumps((source, content)),
        capture_output=True,
        check=True,
    )
    assert read.stdout == b"7\n"
    with pytest.raises(UserError, match=r"mine.py: a process that goes on from before has run what this file was then"):
        modules.run(modules.Source(source.file, source.name, b"value = 8"))


def configured(files: dict[str, str]):
    names = {"ca-file": files["tls_ca_file"], "client.cert": files["tls_client_cert"], "client.key": files["tls_client_key"]}
    return dask.config.set({f"distributed.comm.tls.{name}": file for name, file in names.items()})


def test_tls_takes_the_certificates_of_dasks_configuration(tmp_path):
    for name in ("ours", "others"):
        (tmp_path / name).mkdir()
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    every = {f"tls_{role}_{kind}": ours[f"tls_client_{kind}"] for role in ("scheduler", "worker") for kind in ("cert", "key")}
    security = Security(**ours, **every, require_encryption=True)
    with LocalCluster(**THREADS, protocol="tls", security=security) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with configured(ours):
            assert taken(square, TASKS, dask=address) == taken(square, TASKS)
        with pytest.raises(UserError, match=f"dask: {address} needs certificates: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "):
            taken(square, TASKS, dask=address)
        with configured(others), pytest.raises(MachineError, match=f"dask: no scheduler answers at {address} .*certificate"):
            taken(square, TASKS, dask=address)
        with pytest.raises(MachineError, match=f"dask: no scheduler answers at {address.replace('tls', 'tcp')} "):
            taken(square, TASKS, dask=address.replace("tls", "tcp"))
        with (
            configured({**ours, "tls_ca_file": "absent.pem"}),
            pytest.raises(UserError, match=r"certificates of distributed\.comm\.tls cannot be"),
        ):
            taken(square, TASKS, dask=address)


def test_dasks_log_is_as_it_was(dask_address):
    levels = [logging.getLogger(name).level for name in ("distributed", "distributed.client")]
    taken(square, TASKS, dask=dask_address)
    assert [logging.getLogger(name).level for name in ("distributed", "distributed.client")] == levels
