"""Engine: a Dask cluster that holds materialised windows, one worker a rank (PGT-I §5, the `ddp` baseline)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import ExitStack
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
from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.real_exec.signals.feeds import BaseFeed
from chronoscale.real_exec.signals.worker_tasks import materialise_windows, signal_moments, take_windows

HOST = "127.0.0.1"
START_S = 300
ADDRESS = 256  # bytes of a scheduler's
SCHEDULER = {"cls": Scheduler, "options": {"host": HOST, "port": 0, "dashboard": False, "dashboard_address": f"{HOST}:0"}}


def _worker(port: int) -> dict[str, Any]:
    """Return the specification of a worker. A lost one comes back under its address, which tasks are bound to."""
    return {"cls": Nanny, "options": {"host": HOST, "worker_port": port, "nthreads": 1, "memory_limit": None, "dashboard": False}}


def _free(count: int) -> list[int]:
    """Return ports that are free."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind((HOST, 0))
        return [listener.getsockname()[1] for listener in listeners]


def _broadcast(text: str, collective: Collective) -> str:
    """Return the first rank's text on all ranks, where the others have none; sent as bytes, so that nobody has to unpickle any."""
    own = np.frombuffer(text.encode().ljust(ADDRESS, b"\0"), np.uint8)
    return bytes(collective.sum_array(own)).rstrip(b"\0").decode()


class Engine:
    """Dask cluster that holds a signal's windows during training (PGT-I §5, the `ddp` baseline).

    A scheduler in rank 0's process, and one worker process for each rank; they end with it.
    """

    def __init__(self, collective: Collective) -> None:
        """Start the cluster, or join it; called on every rank together."""
        if Membership.here().store:
            raise UserError("ddp keeps its windows in Dask workers of one machine, and cannot run on several yet; choose another strategy")
        rank, ranks = collective.rank, collective.ranks
        self._cluster = None
        address = ""
        if rank == 0:
            self._cluster = SpecCluster(workers={i: _worker(port) for i, port in enumerate(_free(ranks))}, scheduler=SCHEDULER)
            address = self._cluster.scheduler_address
        self.client = Client(_broadcast(address, collective), set_as_default=False)
        try:
            self.client.wait_for_workers(ranks, timeout=START_S)
        except TimeoutError as error:
            raise MachineError(f"the data engine has not started its {ranks} workers within {START_S} s") from error
        self.workers: list[str] = sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def close(self) -> None:
        """End the Dask workers that hold a signal's windows.

        Ranks do not wait for each other here: one may close because it failed, while others still train.
        """
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()


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
        ranks = len(engine.workers)
        deals = [WindowAssignment(part, ranks, local=True) for part in (windows.train, windows.validation, windows.test)]
        self._parts = [(deal.part(owner), owner) for deal in deals for owner in range(ranks)]
        self._first = np.array([part.start for part, _ in self._parts], np.int64)
        self._futures: list[Future[Any]] = []

    def measure(self, rank: int, ranks: int) -> Moments:
        last = len(self.signal) if self.period == "series" else self.windows.training_steps
        bounds = (-(-last * rank // ranks), -(-last * (rank + 1) // ranks))
        moments: Moments = _gather(
            self._engine.client, self._on(self._rank, signal_moments, self._folder, self.windows, self.period, *bounds)
        )
        return moments

    def materialise(self) -> None:
        super().materialise()
        own = [(number, part) for number, (part, owner) in enumerate(self._parts) if owner == self._rank]
        client, home = self._engine.client, [self._engine.workers[self._rank]]
        source = (self._folder, self.windows, self.scale)
        self._own = [
            client.submit(materialise_windows, *source, part.start, part.stop, workers=home, key=f"windows-{number}")
            for number, part in own
        ]
        for future in self._own:
            _gather(client, client.submit(len, future, workers=home))  # it is there

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
        return self._on(self._parts[number][1], take_windows, self._futures[number], at)

    def _on(self, owner: int, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        workers = [self._engine.workers[owner]]
        return self._engine.client.submit(function, *arguments, workers=workers, pure=False)
