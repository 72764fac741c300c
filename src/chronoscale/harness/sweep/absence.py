"""Absence: how long a Dask scheduler has had no workers while a sweep waits for results."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chronoscale.errors import MachineError

if TYPE_CHECKING:
    from distributed import Client

NOBODY_S = 60.0  # without any worker, after which a sweep ends
ASK_S = 1.0  # between questions to the scheduler
GOES_ON = "the same command goes on with what is left"


class Absence:
    """Time for which the scheduler of a client has had no workers, at every look; any result ends it."""

    def __init__(self, client: Client, address: str) -> None:
        """address: of the scheduler, for the error."""
        self._client, self._address = client, address
        self._since: float | None = None
        self._asked = time.monotonic()

    def end(self) -> None:
        """Note that a worker has answered."""
        self._since = None

    def look(self) -> None:
        """Ask the scheduler for its workers, every second at most. Raises MachineError once there have been none for a minute."""
        if (now := time.monotonic()) - self._asked < ASK_S:
            return
        workers = self._client.nthreads()
        self._asked = now = time.monotonic()
        if workers:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= NOBODY_S:
            raise MachineError(
                f"dask: the scheduler at {self._address} has had no workers for {NOBODY_S:.0f} s; start some with "
                f"`dask worker {self._address}`; {GOES_ON}"
            )
