"""Sampling threads that each stay on one processor (FAST, section 4.4). The thread that calls the sampler is not among them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import CDLL

import numpy as np

from chronoscale.cuda_ext.native.loader import cpu_library, require_success
from chronoscale.errors import MachineError, UserError

MAX_THREADS = 1024
_UNAVAILABLE = 3


def bind(cpus: Sequence[int]) -> None:
    """Start a thread of the native sampler on each of these processors (logical CPUs of the system), in place of those bound before.

    From then on `temporal.sample` with threads=0 gives thread i of T the i-th of T parts of the roots, rounded up, one after another, and
    waits; results are the same. A forked child is not bound.

    Raises UserError for no processor, more than 1,024, one that is named twice and one that this process may not use; MachineError where
    threads cannot be bound.
    """
    library, allowed = _library(), os.sched_getaffinity(0)
    numbers = [int(cpu) for cpu in cpus]
    if not 0 < len(numbers) <= MAX_THREADS or len(set(numbers)) < len(numbers):
        raise UserError(f"bind: {len(numbers)} CPUs, {len(set(numbers))} of them different; expected 1 to {MAX_THREADS}, each once")
    if forbidden := sorted(set(numbers) - allowed):
        raise UserError(f"bind: this process may not use CPU {forbidden[0]}; it may use {format_cpu_list(allowed)}")
    array = np.array(numbers, np.int32)
    if (status := library.cs_bind(len(array), array.ctypes.data)) == _UNAVAILABLE:
        raise MachineError(f"the system did not bind threads to the CPUs {format_cpu_list(set(numbers))}; is one of them offline?")
    require_success("bind", status)


def unbind() -> None:
    """End the native sampler's bound threads, if there are any, once their work is done."""
    if (library := cpu_library()) is not None:
        require_success("unbind", library.cs_unbind())


def thread_count() -> int:
    """Return how many threads of the native sampler are bound to processors; with 0, it takes its threads from the pool."""
    library = cpu_library()
    return 0 if library is None else int(library.cs_bound())


@contextmanager
def threads_bound_to(cpus: Sequence[int]) -> Iterator[None]:
    """Bind the native sampler's threads to these processors until the block ends; without processors nothing is bound.

    Raises UserError and MachineError as `bind` does, and UserError where threads are bound already.
    """
    if not cpus:
        yield
        return
    if already := thread_count():
        raise UserError(f"bind: {already} threads are bound already; one binding at a time")
    bind(cpus)
    try:
        yield
    finally:
        unbind()


def format_cpu_list(cpus: set[int]) -> str:
    """Return numbers of processors as Linux writes them, such as '0-3,8', for messages about bound sampling threads."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1][1:] = [cpu]
        else:
            runs.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in runs)


def _library() -> CDLL:
    """Return the native library. Raises MachineError where there is none, and where the system cannot bind threads."""
    library = cpu_library()
    if library is None or not hasattr(os, "sched_getaffinity"):
        raise MachineError(f"threads cannot be bound: {'no native library' if library is None else 'the system has no means for it'}")
    return library
