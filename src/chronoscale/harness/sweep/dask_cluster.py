"""Dask cluster: tasks of a sweep on the workers of a scheduler that the user has started."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from chronoscale.errors import MachineError, UserError
from chronoscale.harness.sweep.absence import GOES_ON, Absence
from chronoscale.harness.sweep.address import knock
from chronoscale.harness.sweep.parcel import PACKAGE, Packer, as_task, compute, python_version

if TYPE_CHECKING:
    from distributed import Client, Future, Security, as_completed

T = TypeVar("T")
R = TypeVar("R")
CONNECT_S = 10.0  # until a scheduler has answered
WORKERS_S = 10.0  # until it has a worker
TLS = tuple(f"DASK_DISTRIBUTED__COMM__TLS__{key}" for key in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY"))  # Dask's own variables
LOOK_S = 0.1  # between looks at what is done


def on_cluster(judge: Callable[[T], R], tasks: Mapping[int, T], take: Callable[[int, R], None], address: str) -> None:
    """Compute the tasks of a sweep on the workers of a Dask scheduler, and call `take(number, result)` here as results come.

    Workers need this package in the same version, the packages that it needs, and no file: workloads and the user's Python files are sent.
    What is not done when this ends, by an error or by Ctrl-C, is cancelled. address: of the scheduler, as Dask has it; `tls://` takes its
    certificates from Dask's own configuration. Raises UserError for an address that is none and for workers of other versions, MachineError
    for a scheduler that does not answer, has no workers, or loses all for a minute, and what `judge` raises.
    """
    from distributed import KilledWorker  # noqa: PLC0415 (heavy, and for those who have a cluster)
    from distributed import as_completed as as_gathered  # noqa: PLC0415

    packer = Packer()
    with _connected(address) as client:
        _check_alike(client)
        parcels = {number: packer.pack(judge, task) for number, task in tasks.items()}
        shared = {digest: client.submit(as_task, each, key=f"{PACKAGE}-{digest}") for digest, each in packer.shared.items()}
        futures = {
            client.submit(compute, parcel, *(shared[digest] for digest in parcel.workloads), pure=False): number
            for number, parcel in parcels.items()
        }
        try:
            for future in _as_done(as_gathered(list(futures), loop=client.loop), Absence(client, address)):
                received = future.result().received()
                take(futures.pop(future), received)
                future.release()
        except KilledWorker as error:
            count, last = error.allowed_failures + 1, error.last_worker.address
            raise MachineError(
                f"dask: {count} workers were lost with one task, the last at {last}; their logs say why; {GOES_ON}"
            ) from error
        except (CancelledError, OSError) as error:
            raise MachineError(f"dask: {' '.join(str(error).split())}; {GOES_ON}") from error
        finally:
            with suppress(Exception):  # of a scheduler that is gone
                client.cancel([*futures, *shared.values()])


def _as_done(gathered: as_completed, absence: Absence) -> Iterator[Future[Any]]:
    """Yield futures as they are done. Raises as `Absence.look`."""
    while not gathered.is_empty():
        if gathered.has_ready():
            absence.end()
            yield next(gathered)
            continue
        absence.look()
        with gathered.thread_condition:  # that Dask's own iteration waits for, as long
            if not gathered.has_ready():
                gathered.thread_condition.wait(LOOK_S)


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    """Connect to a scheduler that has workers. Raises as `on_cluster`."""
    from distributed import Client, Security  # noqa: PLC0415

    knock(address)
    with _silent():
        _check_scheduler(address, Security())
        try:
            client = Client(address, set_as_default=False, timeout=CONNECT_S)
        except (OSError, TimeoutError, ValueError) as error:
            raise _no_answer(address, error) from error
        with client:
            try:
                client.wait_for_workers(1, timeout=WORKERS_S)
            except TimeoutError as error:
                raise MachineError(f"dask: the scheduler at {address} has no workers; start some with `dask worker {address}`") from error
            yield client


@contextmanager
def _silent() -> Iterator[None]:
    """Have Dask write no log within the block: what is wrong is told by one error."""
    logs = [logging.getLogger(name) for name in ("distributed", "distributed.client")]  # those that Dask's configuration gives a level
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _check_scheduler(address: str, security: Security) -> None:
    """Raises MachineError where something else than a Dask scheduler answers, and UserError for `tls://` without certificates."""
    from distributed import rpc  # noqa: PLC0415

    async def identity() -> Mapping[str, object]:
        async with rpc(address, timeout=CONNECT_S, connection_args=connection) as other:
            return await asyncio.wait_for(other.identity(), CONNECT_S)

    try:
        connection = security.get_connection_args("client")
    except OSError as error:  # ssl.SSLError is one
        raise UserError(f"dask: the certificates of distributed.comm.tls cannot be read ({error})") from error
    if address.startswith("tls:") and connection["ssl_context"] is None:
        raise UserError(f"dask: {address} needs certificates: set {', '.join(TLS)} (docs/machines.md)")
    try:
        kind = asyncio.run(identity())["type"]
    except Exception as error:  # whatever comes of bytes that are no scheduler's
        raise _no_answer(address, error) from error
    if kind != "Scheduler":
        raise UserError(f"dask: {address} is a {kind}'s address; expected the scheduler's")


def _no_answer(address: str, error: Exception) -> MachineError:
    cause = error.__cause__ or error  # what Dask says of it itself is which call was under way
    reason = " ".join(str(cause).split()) or type(cause).__name__
    return MachineError(f"dask: no scheduler answers at {address} ({reason})")


def _check_alike(client: Client) -> None:
    """Raises UserError for a scheduler or a worker with another version of Python or of this package, or none: what is sent is not read
    there, or results would be other ones."""
    scheduler = client.scheduler.address if client.scheduler is not None else ""
    pythons = client.run(platform.python_version_tuple) | {scheduler: client.run_on_scheduler(platform.python_version_tuple)}
    packages = client.run(metadata.version, PACKAGE, on_error="return")
    with suppress(metadata.PackageNotFoundError):
        packages[scheduler] = client.run_on_scheduler(metadata.version, PACKAGE)
    for address, parts in pythons.items():
        who, python = f"{'scheduler' if address == scheduler else 'worker'} {address}", ".".join(parts[:2])
        package = there if isinstance(there := packages.get(address), str) else "none"
        if python != python_version():
            raise UserError(f"dask: {who} has Python {python}, and this is {python_version()}; install the same there")
        if package != version(PACKAGE):
            raise UserError(f"dask: {who} has {PACKAGE} {package}, and this is {version(PACKAGE)}; install the same there")
