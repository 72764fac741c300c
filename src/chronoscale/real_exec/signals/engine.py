"""Engine: a Dask cluster that holds materialised windows, one worker a rank (PGT-I §5, the `ddp` baseline)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import torch
from distributed import Client, Future, KilledWorker, Nanny, Scheduler, SpecCluster
from torch import Tensor

from chronoscale.batching.signals.standardisation import Moments, Period
from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import MachineError
from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.real_exec.ranks.route import address_of, interface_to
from chronoscale.real_exec.signals.feeds import BaseFeed
from chronoscale.real_exec.signals.handshake import SCHEME, SECRET, SharedSecret
from chronoscale.real_exec.signals.worker_tasks import materialise_windows, signal_moments, take_windows

LOOPBACK = "127.0.0.1"
START_S = 300
ADDRESS = 256  # bytes of a scheduler's


def _own_address() -> str:
    """Return the one address that processes of the engine listen on here: loopback, where all ranks are on this machine; else that of the
    interface by which gloo communicates. Raises MachineError where it has none.
    """
    member = Membership.here()
    if member.local_ranks == member.ranks:
        return LOOPBACK
    named = os.environ.get("GLOO_SOCKET_IFNAME")
    return address_of(named or interface_to(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))


def _broadcast(message: bytes, collective: Collective) -> bytes:
    """Return the first rank's message on all ranks, where the others have none; sent as numbers, so that nobody has to unpickle any."""
    return bytes(collective.sum_array(np.frombuffer(message.ljust(SECRET + ADDRESS, b"\0"), np.uint8)))


class Engine:
    """Dask cluster that holds a signal's windows during training (PGT-I §5, the `ddp` baseline).

    A scheduler in rank 0's process, and one worker process for each rank, on its machine; they end with it. Whoever knows no secret of the
    run cannot connect.
    """

    def __init__(self, collective: Collective) -> None:
        """Start this rank's part of the cluster; called on every rank together. Raises MachineError where the cluster does not start."""
        self.ranks = collective.ranks
        self._cluster = None
        host = _own_address()
        options = {"host": host, "protocol": SCHEME, "dashboard": False}
        message = b""
        if collective.rank == 0:
            security = SharedSecret(secrets.token_bytes(SECRET))
            scheduler = {"cls": Scheduler, "options": {**options, "port": 0, "security": security, "dashboard_address": f"{host}:0"}}
            self._cluster = SpecCluster(scheduler=scheduler, security=security)
            message = security.secret + self._cluster.scheduler_address.encode()
        message = _broadcast(message, collective)
        security, address = SharedSecret(message[:SECRET]), message[SECRET:].rstrip(b"\0").decode()
        self.client = Client(address, security=security, set_as_default=False)
        self._nanny: Nanny = self.client.sync(self._start_worker, address, security=security, resources=_seat(collective.rank), **options)
        try:
            self.client.wait_for_workers(self.ranks, timeout=START_S)
        except TimeoutError as error:
            raise MachineError(f"the data engine has not started its {self.ranks} workers within {START_S} s") from error

    @staticmethod
    async def _start_worker(address: str, **options: Any) -> Nanny:
        """Start this rank's worker, on a port that is free, and the process that replaces it where it is lost."""
        nanny: Nanny = await Nanny(address, nthreads=1, memory_limit=None, **options)
        return nanny

    def submit(self, owner: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Have the worker of rank `owner` call a function, also where that worker has been replaced meanwhile; return its future result."""
        return self.client.submit(function, *arguments, resources=_seat(owner), **options)

    def close(self) -> None:
        """End this rank's Dask worker, which holds windows, and rank 0's scheduler.

        Ranks do not wait for each other here: one may close because it failed, while others still train.
        """
        self.client.sync(self._nanny.close)
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()


def _seat(rank: int) -> dict[str, float]:
    """Return the resource that the worker of a rank has, whatever its address, and that what it has to do asks for."""
    return {f"rank-{rank}": 1.0}


def _gather(client: Client, asked: Any) -> Any:
    """Return the results of futures. Raises MachineError when the engine has lost them."""
    try:
        return client.gather(asked)
    except (KilledWorker, OSError, CancelledError) as error:
        raise MachineError(f"the data engine lost its windows: {' '.join(str(error).split())}") from error


class EngineFeed(BaseFeed):
    """Feed of a rank whose windows Dask's workers materialise and have in memory; a batch takes one request for each worker that has some
    of it.

    A lost worker's windows are made again when it is back. Training, validation and test windows are each spread evenly, in order of time,
    one part a worker.
    """

    def __init__(
        self, engine: Engine, folder: Path, signal: Signal, windows: Windows, period: Period, device: torch.device, rank: int
    ) -> None:
        super().__init__(signal, windows, period, device)
        self._engine = engine
        self._folder = str(folder)
        self._rank = rank
        ranks = engine.ranks
        deals = [WindowAssignment(part, ranks, local=True) for part in (windows.train, windows.validation, windows.test)]
        self._parts = [(deal.part(owner), owner) for deal in deals for owner in range(ranks)]
        self._first = np.array([part.start for part, _ in self._parts], np.int64)
        self._futures: list[Future[Any]] = []

    def measure(self, rank: int, ranks: int) -> Moments:
        last = len(self.signal) if self.period == "series" else self.windows.training_steps
        bounds = (-(-last * rank // ranks), -(-last * (rank + 1) // ranks))
        future = self._engine.submit(self._rank, signal_moments, self._folder, self.windows, self.period, *bounds, pure=False)
        moments: Moments = _gather(self._engine.client, future)
        return moments

    def materialise(self) -> None:
        super().materialise()
        own = [(number, part) for number, (part, owner) in enumerate(self._parts) if owner == self._rank]
        source = (self._folder, self.windows, self.scale)
        self._own = [
            self._engine.submit(self._rank, materialise_windows, *source, part.start, part.stop, key=f"windows-{number}")
            for number, part in own
        ]
        for future in self._own:
            _gather(self._engine.client, self._engine.submit(self._rank, len, future))  # it is there

    def read(self, starts: Int64) -> Tensor:
        if not self._futures:  # ranks have met since all parts were made
            self._futures = [Future(f"windows-{number}", self._engine.client) for number in range(len(self._parts))]
        part = np.searchsorted(self._first, starts, side="right") - 1
        chosen = {int(number): np.flatnonzero(part == number) for number in np.unique(part)}
        requests = [self._request(number, starts[at] - self._first[number]) for number, at in chosen.items()]
        out = self.empty(len(starts), self.windows.reach)
        into = out.numpy()
        for at, windows in zip(chosen.values(), _gather(self._engine.client, requests), strict=True):
            into[at] = windows
        return out

    def _request(self, number: int, at: Int64) -> Future[Any]:
        return self._engine.submit(self._parts[number][1], take_windows, self._futures[number], at, pure=False)
