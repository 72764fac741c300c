"""Dask cluster: tasks of a sweep on the workers of a scheduler that the user has started."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from chronoscale.errors import MachineError, UserError
from chronoscale.harness.sweep.address import knock
from chronoscale.harness.sweep.parcel import PACKAGE, Packer, carry, python_version, work_off

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")
CONNECT_S = 10.0  # until a scheduler has answered
WORKERS_S = 10.0  # until it has a worker
GOES_ON = "the same command goes on with what is left"


def on_cluster(judge: Callable[[T], R], tasks: Mapping[int, T], take: Callable[[int, R], None], address: str) -> None:
    """Compute the tasks of a sweep on the workers of a Dask scheduler, and call `take(number, result)` here as results come.

    Workers need this package in the same version, the packages that it needs, and no file: workloads and the user's Python files are sent.
    What is not done when this ends, by an error or by Ctrl-C, is cancelled. address: of the scheduler, as Dask has it; `tls://` takes its
    certificates from Dask's own configuration. Raises UserError for an address that is none and for workers of other versions, MachineError
    for a scheduler that does not answer, has no workers, or loses them, and what `judge` raises.
    """
    from distributed import KilledWorker  # noqa: PLC0415 (heavy, and for those who have a cluster)
    from distributed import as_completed as as_gathered  # noqa: PLC0415

    packer = Packer()
    with _connected(address) as client:
        _check_alike(client)
        parcels = {number: packer.pack(judge, task) for number, task in tasks.items()}
        shared = {digest: client.submit(carry, each, key=f"{PACKAGE}-{digest}") for digest, each in packer.shared.items()}
        futures = {
            client.submit(work_off, parcel, *(shared[digest] for digest in parcel.workloads), pure=False): number
            for number, parcel in parcels.items()
        }
        try:
            for future in as_gathered(list(futures), loop=client.loop):
                received = future.result().received()
                take(futures.pop(future), received)
                future.release()
        except (KilledWorker, CancelledError, OSError) as error:
            raise MachineError(f"dask: {' '.join(str(error).split())}; {GOES_ON}") from error
        finally:
            with suppress(Exception):  # of a scheduler that is gone
                client.cancel([*futures, *shared.values()])


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    """Connect to a scheduler that has workers; meanwhile Dask's own log is silent: what is wrong is told by one error."""
    from distributed import Client  # noqa: PLC0415

    knock(address)
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        try:
            client = Client(address, set_as_default=False, timeout=CONNECT_S)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise MachineError(f"dask: no scheduler answers at {address} ({' '.join(str(error).split())})") from error
        with client:
            try:
                client.wait_for_workers(1, timeout=WORKERS_S)
            except TimeoutError as error:
                raise MachineError(f"dask: the scheduler at {address} has no workers; start some with `dask worker {address}`") from error
            yield client
    finally:
        log.setLevel(level)


def _check_alike(client: Client) -> None:
    """Raises UserError for a worker with another version of Python or of this package, or none: its results would be other ones."""
    pythons = client.run(platform.python_version_tuple, on_error="return")
    packages = client.run(metadata.version, PACKAGE, on_error="return")
    for worker, there in packages.items():
        python = ".".join(pythons[worker][:2])
        package = there if isinstance(there, str) else "none"
        if python != python_version():
            raise UserError(f"dask: worker {worker} has Python {python}, and this is {python_version()}; install the same there")
        if package != version(PACKAGE):
            raise UserError(f"dask: worker {worker} has {PACKAGE} {package}, and this is {version(PACKAGE)}; install the same there")
