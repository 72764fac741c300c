"""Sweep: a function called on many tasks, one after another, in processes of this machine, or on a Dask cluster, with the same results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import metadata
from importlib.metadata import version
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from chronoscale.errors import MachineError, UserError
from chronoscale.interruption import masked
from chronoscale.parent import die_with_parent

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")
Judge = Callable[[T], R]
Take = Callable[[int, R], None]
CONNECT_S = 30  # until a scheduler and its first worker have answered
PACKAGE = "chronoscale"


def sweep(judge: Judge[T, R], tasks: Mapping[int, T], take: Take[R], workers: int = 1, dask: str | None = None) -> None:
    """Compute many independent tasks in worker processes, for the candidates of `chronoscale advise` and the points of `chronoscale study`.

    Calls `take(number, judge(task))` in this process as results come, in any order. judge: a function that, like the tasks, can be pickled.
    tasks: by number. workers: processes of this machine; 1: none but this one. dask: address of a Dask scheduler to use instead, whose
    workers need this package and the files that tasks name. Raises what `judge` raises, once; MachineError for lost workers and a scheduler
    that does not answer; UserError for workers of another version.
    """
    if dask is not None:
        _on_cluster(judge, tasks, take, dask)
    elif workers > 1 and len(tasks) > 1:
        _in_processes(judge, tasks, take, min(workers, len(tasks)))
    else:
        for number, task in tasks.items():
            take(number, judge(task))


def _in_processes(judge: Judge[T, R], tasks: Mapping[int, T], take: Take[R], workers: int) -> None:
    with (
        TemporaryDirectory(prefix="chronoscale-sweep-", ignore_cleanup_errors=True) as scratch,
        ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin, initargs=(os.getpid(), scratch)) as pool,
    ):
        try:
            with masked():  # processes begin with the first task; Ctrl-C is for whoever started them
                futures = {pool.submit(judge, task): number for number, task in tasks.items()}
            for future in as_completed(futures):
                take(futures[future], future.result())
        except BrokenProcessPool:
            raise MachineError(
                "a process that simulates was lost, perhaps to the system's memory; the same command goes on with what is left, "
                "--workers 1 takes least"
            ) from None
        except BaseException:
            for process in list(pool._processes.values()):  # there is no public way before Python 3.14
                process.kill()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(parent: int, scratch: str) -> None:
    """Prepare a worker process: it ends with its parent, which removes what it leaves in its temporary folder."""
    die_with_parent(parent)
    tempfile.tempdir = scratch


def _on_cluster(judge: Judge[T, R], tasks: Mapping[int, T], take: Take[R], address: str) -> None:
    from distributed import Client, KilledWorker  # noqa: PLC0415 (heavy, and for those who have a cluster)
    from distributed import as_completed as as_gathered  # noqa: PLC0415

    try:
        client = Client(address, set_as_default=False, timeout=CONNECT_S)
    except (OSError, TimeoutError, ValueError) as error:
        raise MachineError(f"dask: no scheduler answers at {address} ({' '.join(str(error).split())})") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError as error:
            raise MachineError(f"dask: the scheduler at {address} has no workers") from error
        _alike(client)
        futures = {client.submit(judge, task, pure=False): number for number, task in tasks.items()}
        try:
            for future in as_gathered(futures, loop=client.loop):
                take(futures[future], future.result())
        except (KilledWorker, OSError) as error:
            raise MachineError(f"dask: {' '.join(str(error).split())}; the same command goes on with what is left") from error


def _alike(client: Client) -> None:
    """Raises UserError for a worker with another version of this package, or none: its results would be other ones."""
    here = version(PACKAGE)
    for worker, there in client.run(metadata.version, PACKAGE, on_error="return").items():
        if there != here:
            version_there = there if isinstance(there, str) else "none"
            raise UserError(f"dask: worker {worker} has {PACKAGE} {version_there}, and this is {here}; install the same there")
