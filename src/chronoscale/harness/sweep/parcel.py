"""Parcels: tasks of a sweep as bytes, with all that a process on another machine needs and has not on its disk."""

from __future__ import annotations

import io
import pickle
import platform
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from threading import Lock
from typing import Any

from chronoscale import modules
from chronoscale.errors import UserError
from chronoscale.harness.sweep.answer import Answer, answer
from chronoscale.strategies.workload import Workload

PACKAGE = "chronoscale"
KEPT = 8  # workloads that a process keeps opened
_ONE = Lock()  # at a time in a process: Dask's workers run tasks in threads, and warnings and the user's modules are of all threads


def python_version() -> str:
    """Return the version of Python as far as pickles depend on it, such as "3.11"."""
    return ".".join(platform.python_version_tuple()[:2])


@dataclass(frozen=True, slots=True)
class SharedWorkload:
    """Workload that many tasks of a sweep plan with: its pickle, sent once to each process that needs it. digest: SHA-256 of that."""

    digest: str
    content: bytes = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parcel:
    """Task of a sweep and the function to call with it, for another machine.

    content: pickle of both, in which workloads are digests. workloads: these digests. sources: the user's Python files that were run here.
    versions: of Python and this package here, which the other side has to have, too.
    """

    content: bytes
    workloads: tuple[str, ...]
    sources: tuple[modules.Source, ...]
    versions: tuple[str, str]


class Packer:
    """Maker of the parcels of one sweep; `shared` are the workloads that they refer to, by digest."""

    def __init__(self) -> None:
        self.shared = dict[str, SharedWorkload]()
        self._digests = dict[int, tuple[Workload, str]]()

    def pack(self, judge: Callable[[Any], Any], task: Any) -> Parcel:
        """Return the parcel of a task, and take up its workloads among those that are shared. Raises UserError where the task cannot be
        sent, as with a strategy that keeps a lambda."""
        stream = io.BytesIO()
        pickler = _Pickler(stream, self._digest)
        try:
            pickler.dump((judge, task))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UserError(
                f"dask: a task cannot be sent ({error}); leave --dask out, or have your strategy keep only what pickles"
            ) from error
        return Parcel(stream.getvalue(), tuple(pickler.found), modules.sources(), (python_version(), version(PACKAGE)))

    def _digest(self, workload: Workload) -> str:
        """Return the digest of a workload, which is pickled once."""
        if id(workload) not in self._digests:
            content = pickle.dumps(workload)
            shared = SharedWorkload(sha256(content).hexdigest(), content)
            self.shared[shared.digest] = shared
            self._digests[id(workload)] = workload, shared.digest  # the workload, too: its id stays its own
        return self._digests[id(workload)][1]


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, digest: Callable[[Workload], str]) -> None:
        super().__init__(stream)
        self.found = dict[str, None]()
        self._digest = digest

    def persistent_id(self, value: object) -> str | None:
        if not isinstance(value, Workload):
            return None
        digest = self._digest(value)
        self.found[digest] = None
        return digest


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, shared: tuple[SharedWorkload, ...]) -> None:
        super().__init__(io.BytesIO(content))
        self._shared = {each.digest: each for each in shared}

    def persistent_load(self, digest: Any) -> Workload:
        return _opened(self._shared[digest])


@lru_cache(maxsize=KEPT)
def _opened(shared: SharedWorkload) -> Workload:
    workload: Workload = pickle.loads(shared.content)  # what it has counted once serves the next task
    return workload


def as_task(shared: SharedWorkload) -> SharedWorkload:
    """Return a shared workload as it is: as a task of its own it goes to each machine once, and is made anew where it is lost."""
    return shared


def compute(parcel: Parcel, *shared: SharedWorkload) -> Answer[Any]:
    """Compute what is in a parcel, in this process. Raises what its function raises, and UserError in a process of other versions."""
    here = (python_version(), version(PACKAGE))
    if here != parcel.versions:
        (python, package), where = parcel.versions, socket.gethostname()
        raise UserError(f"dask: a worker on {where} has Python {here[0]} and {PACKAGE} {here[1]}, and this is {python} and {package}")
    with _ONE:
        for source in parcel.sources:
            modules.run(source)
        return answer(*_Unpickler(parcel.content, shared).load())
