"""Rank: what a process of a job does around its work: join the process group, choose a device, report how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore  # torch.distributed's, which does not export their types

from chronoscale import modules
from chronoscale.errors import UserError
from chronoscale.real_exec.ranks import clock, positions
from chronoscale.real_exec.ranks.failure import Failure
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.real_exec.ranks.positions import Phase
from chronoscale.real_exec.ranks.process_setup import pin_to_cores

JOIN = timedelta(minutes=5)  # for ranks on several machines to meet
WATCHED = timedelta(days=30)  # of gloo's collectives: our launcher knows better who hangs, and that it is not just slow


def serve(device: str, work: Callable[[], None], files: Iterable[str] = (), shares: bool = False) -> int:
    """Run a rank's work in this process from start to end: join the process group where there is one, run `files`, then `work`; return the
    exit code.

    device: 'cpu', 'cuda' or 'auto', as `pick_device`. files: Python files of the user's. shares: all ranks use one GPU. A failure is left
    as a record for our own launcher (`Failure`), or printed as one line under another launcher.
    """
    member = Membership.here()
    own = positions.own_page
    failures = list[Failure]()

    def report(error: BaseException) -> Failure:
        if not failures:  # what comes after it, comes of it
            failures.append(Failure.of(error, member.rank, str(own().read())))
            if member.folder:
                failures[0].save(Path(member.folder))
        return failures[0]

    positions.join(member)
    if member.folder:
        own().report, own().give_up = report, lambda error: leave(report(error).code)
    try:
        if member.ranks > 1:
            _meet(member, device, shares)
        own().enter(Phase.PREPARING)
        for file in files:
            modules.load(file)
        work()
    except BaseException as error:
        failure = report(error)
        if not member.folder:
            print(f"{failure.trace}error: {failure.error(Path(sys.argv[0]).name)}", file=sys.stderr)
        return failure.code
    return 0


def _meet(member: Membership, device: str, shares: bool) -> None:
    """Join the process group: nccl where every rank has a GPU, gloo where they share one, gloo on cores of its own otherwise."""
    positions.own_page().enter(Phase.JOINING)
    there = torch.cuda.device_count() if device != "cpu" and torch.cuda.is_available() else 0
    store = _open_store(member.store) if member.store else None
    cuda = _agree(store, member, there >= member.local_ranks and not shares)
    if not cuda and not (shares and there):
        pin_to_cores(member.local_rank, member.local_ranks, int(os.environ.get("OMP_NUM_THREADS", "1")))
    group = dist.init_process_group
    timeout = WATCHED if member.folder and not cuda else None  # a rank that waits for a GPU looks as if it computed
    backend, size = "nccl" if cuda else "gloo", member.ranks
    if store:
        group(backend, None, timeout, rank=member.rank, world_size=size, store=store)
        clock.join(clock.RankClock.of(member.rank, size, member.local_rank, dist.new_group(backend="gloo") if cuda else None))
    else:
        group(backend, member.meeting, timeout, rank=member.rank, world_size=size)


def _open_store(address: str) -> Store:
    """Open the store in which ranks on several machines meet. address: tcp://HOST:PORT/PREFIX."""
    place, _, prefix = address.removeprefix("tcp://").partition("/")
    host, _, port = place.rpartition(":")
    return PrefixStore(prefix, TCPStore(host, int(port), None, False, JOIN, wait_for_workers=False))


def _agree(store: Store | None, member: Membership, cuda: bool) -> bool:
    """Return whether every rank of the job has a GPU of its own; this one has if `cuda`."""
    if store is None:
        return cuda
    store.set(f"gpu/{member.rank}", str(int(cuda)))
    return all(store.get(f"gpu/{rank}") == b"1" for rank in range(member.ranks))


def leave(code: int) -> NoReturn:
    """End this rank's process without finalising the interpreter: gloo's threads outlive their group and now and then abort it there."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def pick_device(name: str, local_rank: int, shares: bool = False) -> torch.device:
    """Return the device of a rank; a GPU becomes the current one. name: 'cpu', 'cuda', or 'auto' (a GPU where there is one).

    local_rank: among the ranks of its machine, each of which has a GPU of its own; `shares`: all use the first one. Raises UserError for
    'cuda' without a GPU, or with too few.
    """
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError(f"device '{name}' asked for, no CUDA device is available")
    place = 0 if shares else local_rank
    if place >= torch.cuda.device_count():
        raise UserError(f"rank {place} has no GPU: there are {torch.cuda.device_count()}; run fewer ranks, or set device: cpu")
    device = torch.device("cuda", place)
    torch.cuda.set_device(device)
    return device
