"""Run: a folder with the results of one command, complete or known to be incomplete."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from chronoscale.errors import NotFiniteError, UserError
from chronoscale.records import Shape, read_json

STATUS, MACHINES = "status.json", "machines.json"


@dataclass(frozen=True, slots=True)
class Status:
    """State of a run, its `status.json`: the command, the digest of its experiment, and whether all results are there."""

    command: str
    digest: str
    state: Literal["running", "complete"] = "running"
    not_finite: str = ""  # where training came to a number that is not finite, and stopped


@dataclass(frozen=True, slots=True)
class Run:
    """Run folder: `runs/<id>` with the results of one command. It holds experiment.yaml as given, resolved.json (all keys),
    environment.json, status.json, and a folder for each finished piece of the results.

    A piece is written under a hidden name and renamed when whole, so a piece that is there is complete. `status.json` says `running` until
    everything is; a run that was killed stays so and is taken up again by the same command on the same experiment.
    """

    folder: Path

    @property
    def status(self) -> Status:
        """Command, experiment's digest and state. Raises UserError for a folder that is no run, and for a damaged file."""
        if not (self.folder / STATUS).is_file():
            raise UserError(f"{self.folder}: not a run (no {STATUS})")
        return self.read(STATUS, Status)

    @property
    def complete(self) -> bool:
        """Whether all results of the run's command are there."""
        return self.status.state == "complete"

    def read(self, name: str, shape: type[Shape]) -> Shape:
        """Read a JSON file of the run as a value of the type `shape`. Raises UserError when it is missing or damaged."""
        return read_json(self.folder / name, shape, f"{Path(name).stem} of a run")

    @property
    def environment(self) -> dict[str, str]:
        """Machine and versions that the run was made with, and digests of the Python files and data that it read, by name. Raises UserError
        as `read`.
        """
        return self.read("environment.json", dict[str, str])

    @property
    def machines(self) -> dict[str, str]:
        """Machines on which the run was begun or last went on, and in what they differ, by name; {} for one. Raises as `read`."""
        return self.read(MACHINES, dict[str, str]) if (self.folder / MACHINES).exists() else {}

    def write(self, name: str, data: Any) -> None:
        """Write a JSON file of the run, whole or not at all."""
        write_text(self.folder / name, json.dumps(data, indent=1))

    def piece(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the folder of a piece (part of the results that is there whole or not at all), which `make` fills unless it is there
        already.
        """
        target = self.folder / name
        if not target.exists():
            part = self.folder / f".{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            make(part)
            for file in part.iterdir():
                _sync(file)
            os.replace(part, target)
        return target

    def pieces(self, prefix: str) -> Iterator[Path]:
        """Yield the folders of finished pieces whose name starts with `prefix`, in order of their names."""
        yield from sorted(path for path in self.folder.glob(f"{prefix}*") if path.is_dir())

    def numbered(self, prefix: str) -> Iterator[tuple[int, Path]]:
        """Yield number and folder of the finished pieces `<prefix><number>`, such as `ranks-2`, in order of their names."""
        for folder in self.pieces(prefix):
            if (number := folder.name.removeprefix(prefix)).isdecimal():
                yield int(number), folder

    def lock(self) -> bool:
        """Claim the run for this process, until it ends; False when another process has it."""
        handle = os.open(self.folder / ".lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        return True

    @contextmanager
    def recording_not_finite(self) -> Iterator[None]:
        """Record in `status.json`, until the run is complete, a loss that is not finite and ends the training in this context."""
        try:
            yield
        except NotFiniteError as error:
            self.write(STATUS, asdict(replace(self.status, not_finite=str(error))))
            raise

    @property
    def not_finite(self) -> str:
        """The number that was not finite where training had to stop, in words; '' for none."""
        return self.status.not_finite

    def finish(self) -> None:
        """Mark the run as complete."""
        self.write(STATUS, asdict(replace(self.status, state="complete", not_finite="")))


def write_text(path: Path, text: str) -> None:
    """Write a text file, such as a record of a run, so that it is there whole or not at all, also after a crash."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    _sync(part)
    os.replace(part, path)


def _sync(path: Path) -> None:
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())
