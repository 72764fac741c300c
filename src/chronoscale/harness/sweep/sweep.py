"""Sweep: a function called on many tasks, one after another, in processes of this machine, or on a Dask cluster, with the same results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import TypeVar

from chronoscale.errors import MachineError
from chronoscale.harness.sweep.answer import answer
from chronoscale.harness.sweep.dask_cluster import on_cluster
from chronoscale.interruption import masked
from chronoscale.parent import die_with_parent

T = TypeVar("T")
R = TypeVar("R")
Judge = Callable[[T], R]
Take = Callable[[int, R], None]


def sweep(judge: Judge[T, R], tasks: Mapping[int, T], take: Take[R], workers: int = 1, dask: str | None = None) -> None:
    """Compute many independent tasks, such as the points that `chronoscale simulate`, `advise`, `compare` and `study` replay.

    Calls `take(number, judge(task))` in this process as results come, in any order. judge: a function that, like the tasks, can be pickled.
    tasks: by number. workers: processes of this machine; 1: none but this one. dask: address of a Dask scheduler to use instead, whose
    workers need this package; a task should name no file. Warnings are given here, wherever they come from. Raises what `judge` raises,
    once; MachineError for lost workers; and as `on_cluster`.
    """
    if dask is not None:
        on_cluster(judge, tasks, take, dask)
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
                futures = {pool.submit(answer, judge, task): number for number, task in tasks.items()}
            for future in as_completed(futures):
                take(futures[future], future.result().received())
        except BrokenProcessPool:
            raise MachineError(
                "a process that simulates was lost, perhaps to the system's memory; the same command goes on with what is left, "
                "--workers 1 takes least"
            ) from None
        except BaseException:
            for process in (begun := list(pool._processes.values())):  # there is no public way before Python 3.14
                process.kill()
            for process in begun:
                process.join()  # what it kept is removed once it writes no more
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(parent: int, scratch: str) -> None:
    """Prepare a worker process: it ends with its parent, which removes what it leaves in its temporary folder."""
    die_with_parent(parent)
    tempfile.tempdir = scratch
