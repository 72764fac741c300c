"""Binding: sampling threads that each stay on one processor (FAST, section 4.4). The thread that calls the sampler is not among them."""

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
    """A thread for each of these processors (numbers of the system's logical CPUs), in place of those that were bound before.

    From then on `temporal.sample` with threads=0 gives thread i of T the i-th of T parts of the roots, rounded up, one after another, and
    waits; results are the same. A forked child is not bound. Raises UserError for none, more than 1,024, one that is named twice and one
    that this process may not use; MachineError where threads cannot be bound.
    """
    library, wanted, allowed = _library(), [int(cpu) for cpu in cpus], os.sched_getaffinity(0)
    if not 0 < len(wanted) <= MAX_THREADS or len(set(wanted)) < len(wanted):
        raise UserError(f"bind: {len(wanted)} CPUs, {len(set(wanted))} of them different; expected 1 to {MAX_THREADS}, each once")
    if strange := sorted(set(wanted) - allowed):
        raise UserError(f"bind: this process may not use CPU {strange[0]}; it may use {format_cpu_list(allowed)}")
    numbers = np.array(wanted, np.int32)
    if (status := library.cs_bind(len(numbers), numbers.ctypes.data)) == _UNAVAILABLE:
        raise MachineError(f"the system did not bind threads to the CPUs {format_cpu_list(set(wanted))}; is one of them offline?")
    require_success("bind", status)


def unbind() -> None:
    """Ends the threads that are bound, if there are any, once what they are at is done."""
    if (library := cpu_library()) is not None:
        require_success("unbind", library.cs_unbind())


def thread_count() -> int:
    """How many threads are bound; 0: none are, and sampling takes its threads from the pool."""
    library = cpu_library()
    return 0 if library is None else int(library.cs_bound())


@contextmanager
def threads_bound_to(cpus: Sequence[int]) -> Iterator[None]:
    """As `bind`, until the block ends; nothing is bound where there are no CPUs. Raises UserError, too, where threads are bound already."""
    if not cpus:
        yield
        return
    if there := thread_count():
        raise UserError(f"bind: {there} threads are bound already; one binding at a time")
    bind(cpus)
    try:
        yield
    finally:
        unbind()


def format_cpu_list(cpus: set[int]) -> str:
    """As the system writes them: '0-3,8'."""
    found: list[list[int]] = []
    for cpu in sorted(cpus):
        if found and found[-1][-1] == cpu - 1:
            found[-1][1:] = [cpu]
        else:
            found.append([cpu])
    return ",".join("-".join(map(str, ends)) for ends in found)


def _library() -> CDLL:
    library = cpu_library()
    if library is None or not hasattr(os, "sched_getaffinity"):
        raise MachineError(f"threads cannot be bound: {'no native library' if library is None else 'the system has no means for it'}")
    return library
