"""Sweeps: one after another, in processes, on a Dask cluster; what is lost on the way."""

import tempfile
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from sweep_cases import die, litter, refuse, square

from chronoscale.errors import MachineError, UserError
from chronoscale.harness.advice import sweep as module
from chronoscale.harness.sweep.sweep import sweep


def taken(judge, tasks, **where) -> dict[int, int]:
    results: dict[int, int] = {}
    sweep(judge, tasks, results.__setitem__, **where)
    return results


WORKERS = 2


@pytest.fixture(scope="module")
def dask():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=2, processes=True, dashboard_address="127.0.0.1:0")
    with cluster:
        yield cluster.scheduler_address
        with Client(cluster) as client:  # a cluster that is closed while it replaces lost workers fails (distributed's nanny)
            client.wait_for_workers(WORKERS)


TASKS = {number: number + 1 for number in range(7)}


@pytest.mark.slow
def test_wherever_it_runs_the_results_are_the_same(dask):
    expected = {number: value**2 for number, value in TASKS.items()}
    for where in ({}, {"workers": 2}, {"workers": 16}, {"dask": dask}):
        assert taken(square, TASKS, **where) == expected
    assert taken(square, {}, workers=4) == {}


def test_results_are_taken_as_they_come():
    """In this process one by one: what was taken before a failure is kept."""
    results: dict[int, int] = {}
    with pytest.raises(UserError, match="three is wrong"):
        sweep(refuse, TASKS, results.__setitem__)
    assert results == {0: 1, 1: 2}


def test_a_failure_is_raised_once(dask):
    for where in ({"workers": 2}, {"dask": dask}):
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
def test_a_lost_dask_worker_is_reported(dask):
    with pytest.raises(MachineError, match=r"dask: .*the same command goes on with what is left"):
        taken(die, {0: 1}, dask=dask)


def test_a_scheduler_that_is_not_there(monkeypatch):
    monkeypatch.setattr(module, "CONNECT_S", 0.5)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(MachineError, match=f"dask: no scheduler answers at {address}"):
            taken(square, TASKS, dask=address)


def test_a_scheduler_without_workers(monkeypatch):
    monkeypatch.setattr(module, "CONNECT_S", 0.5)
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster, pytest.raises(MachineError, match="has no workers"):
        taken(square, TASKS, dask=cluster.scheduler_address)


def test_workers_of_another_version_are_refused(dask, monkeypatch):
    monkeypatch.setattr(module, "version", lambda _: "9.9")
    with pytest.raises(UserError, match=r"dask: worker tcp://.* has chronoscale \d.*, and this is 9.9; install the same there"):
        taken(square, TASKS, dask=dask)
    monkeypatch.setattr(module, "PACKAGE", "no-such-package")
    with pytest.raises(UserError, match="has no-such-package none"):
        taken(square, TASKS, dask=dask)
