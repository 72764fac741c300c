"""Run: a folder with everything that a command found out, complete or known to be incomplete."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chronoscale.errors import NotFiniteError, UserError
from chronoscale.harness.experiment import Experiment

STATUS, NOT_FINITE = "status.json", "not_finite"


@dataclass(frozen=True, slots=True)
class Run:
    """`runs/<id>`: experiment.yaml as given, resolved.json, environment.json, status.json, and one folder a finished piece.

    A piece is written under a hidden name and renamed when whole, so a piece that is there is complete. `status.json` says `running`
    until everything is; a run that was killed stays so and is taken up again by the same command on the same experiment.
    """

    folder: Path

    @property
    def state(self) -> dict[str, Any]:
        """Command, digest and state ('running' or 'complete'). Raises UserError for a folder that is no run."""
        try:
            data = json.loads((self.folder / STATUS).read_text())
        except (OSError, ValueError):
            raise UserError(f"{self.folder}: not a run (no readable {STATUS})") from None
        return dict(data)

    @property
    def complete(self) -> bool:
        return bool(self.state["state"] == "complete")

    def read(self, name: str) -> Any:
        """A JSON file of the run. Raises UserError when it is missing or broken."""
        try:
            return json.loads((self.folder / name).read_text())
        except (OSError, ValueError) as error:
            raise UserError(f"{self.folder / name}: not readable ({error})") from error

    def write(self, name: str, data: Any) -> None:
        """A JSON file of the run, whole or not at all."""
        write_text(self.folder / name, json.dumps(data, indent=1))

    def piece(self, name: str, make: Callable[[Path], None]) -> Path:
        """The folder of a piece; `make` fills it unless it is there already."""
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
        """Finished pieces whose name starts with `prefix`, in order of their names."""
        yield from sorted(path for path in self.folder.glob(f"{prefix}*") if path.is_dir())

    def lock(self) -> bool:
        """Claim the run for this process, until it ends; False when another has it."""
        handle = os.open(self.folder / ".lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        return True

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Where training comes to a number that is not finite, `status.json` says so under NOT_FINITE, until the run is complete."""
        try:
            yield
        except NotFiniteError as error:
            self.write(STATUS, {**self.state, NOT_FINITE: str(error)})
            raise

    @property
    def spoilt(self) -> str:
        """What was not finite where training had to stop; '' for nothing."""
        return str(self.state.get(NOT_FINITE, ""))

    def finish(self) -> None:
        """Mark as complete."""
        self.write(STATUS, {key: value for key, value in self.state.items() if key != NOT_FINITE} | {"state": "complete"})


def as_given(experiment: Experiment) -> str:
    """YAML of an experiment that no file stands behind."""
    return yaml.safe_dump(experiment.model_dump(mode="json", exclude_defaults=True), sort_keys=False)


def write_text(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    _sync(part)
    os.replace(part, path)


def _sync(path: Path) -> None:
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())
