"""Engine: a Dask cluster that holds materialised windows, one worker a rank (PGT-I §5, the `ddp` baseline)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from distributed import Client, Future, KilledWorker, LocalCluster
from numpy.typing import NDArray
from torch import Tensor

from chronoscale.datasets import store
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.materialise import materialise
from chronoscale.datasets.signal import Signal
from chronoscale.datasets.standard import Moments, Period, Scaler, moments
from chronoscale.datasets.windows import Deal, Windows
from chronoscale.errors import MachineError
from chronoscale.real_exec.feeds import LocalFeed


class Engine:
    """Workers are processes of their own; the scheduler runs in rank 0's process, and they end with it."""

    def __init__(self, rank: int, ranks: int) -> None:
        """Called on every rank together."""
        self._cluster = None
        address: list[str | None] = [None]
        if rank == 0:
            self._cluster = LocalCluster(n_workers=ranks, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", memory_limit=None)
            address[0] = self._cluster.scheduler_address
        if ranks > 1:
            dist.broadcast_object_list(address, src=0)
        self.client = Client(address[0], set_as_default=False)
        self.client.wait_for_workers(ranks)
        self.workers: list[str] = sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def close(self) -> None:
        """End the workers; rank 0 last."""
        self.client.close()
        if dist.is_initialized():
            dist.barrier()
        if self._cluster is not None:
            self._cluster.close()


def _part(folder: str, windows: Windows, scale: Scaler, begin: int, end: int) -> NDArray[np.floating]:
    """On a worker: windows copied out of the stored signal."""
    return materialise(_signal(folder), windows, scale, begin, end)


def _moments(folder: str, windows: Windows, period: Period, begin: int, end: int) -> Moments:
    """On a worker: moments of steps begin .. end - 1."""
    return moments(_signal(folder), windows, period, begin, end)


def _take(part: NDArray[np.floating], at: Int64) -> NDArray[np.floating]:
    """On a worker: some of its windows."""
    return part[at]


def _signal(folder: str) -> Signal:
    found = store.load(folder)
    assert isinstance(found, Signal)
    return found


def _brought(client: Client, asked: Any) -> Any:
    """Results of futures. Raises MachineError when the engine cannot bring them any more."""
    try:
        return client.gather(asked)
    except (KilledWorker, OSError, CancelledError) as error:
        raise MachineError(f"the data engine lost its windows: {' '.join(str(error).split())}") from error


class Spread(LocalFeed):
    """Windows materialised by the engine's workers, where they stay; a batch is fetched with one request a worker that holds some of it.
    What a lost worker held is made again, on another one or on its successor.

    Training, validation and test windows are each spread evenly, in order of time, one part a worker.
    """

    def __init__(
        self, engine: Engine, folder: Path, signal: Signal, windows: Windows, period: Period, device: torch.device, rank: int
    ) -> None:
        super().__init__(signal, windows, period, device)
        self._engine, self._folder, self._rank = engine, str(folder), rank
        ranks = len(engine.workers)
        deals = [Deal(part, ranks, local=True) for part in (windows.train, windows.validation, windows.test)]
        self._parts = [(deal.part(owner), owner) for deal in deals for owner in range(ranks)]
        self._first = np.array([part.start for part, _ in self._parts], np.int64)
        self._futures: list[Future[Any]] = []

    def measure(self, rank: int, ranks: int) -> Moments:
        last = len(self.signal) if self.period == "series" else self.windows.training_steps
        bounds = (-(-last * rank // ranks), -(-last * (rank + 1) // ranks))
        found: Moments = _brought(self._engine.client, self._on(self._rank, _moments, self._folder, self.windows, self.period, *bounds))
        return found

    def materialise(self) -> None:
        if not hasattr(self, "scale"):
            self.agree(self.measure(0, 1))
        own = [(number, part) for number, (part, owner) in enumerate(self._parts) if owner == self._rank]
        client, home = self._engine.client, [self._engine.workers[self._rank]]
        source = (self._folder, self.windows, self.scale)
        self._own = [
            client.submit(_part, *source, part.start, part.stop, workers=home, allow_other_workers=True, key=f"windows-{number}")
            for number, part in own
        ]
        for future in self._own:
            _brought(client, client.submit(len, future, workers=home, allow_other_workers=True))  # it is there

    def read(self, starts: Int64) -> Tensor:
        if not self._futures:  # ranks have met since all parts were made
            self._futures = [Future(f"windows-{number}", self._engine.client) for number in range(len(self._parts))]
        part = np.searchsorted(self._first, starts, side="right") - 1
        chosen = {int(number): np.flatnonzero(part == number) for number in np.unique(part)}
        asked = [self._ask(number, starts[at] - self._first[number]) for number, at in chosen.items()]
        out = self.empty(len(starts), self.windows.reach)
        into = out.numpy()
        for at, windows in zip(chosen.values(), _brought(self._engine.client, asked), strict=True):
            into[at] = windows
        return out

    def _ask(self, number: int, at: Int64) -> Future[Any]:
        return self._on(self._parts[number][1], _take, self._futures[number], at)

    def _on(self, owner: int, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        workers = [self._engine.workers[owner]]
        return self._engine.client.submit(function, *arguments, workers=workers, allow_other_workers=True, pure=False)
