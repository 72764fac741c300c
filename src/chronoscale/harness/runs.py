"""Run: a folder with everything that a command found out, complete or known to be incomplete."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.experiment import Experiment, check

STATUS = "status.json"


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

    def readable(self) -> bool:
        """Whether this version can read the run; says so when not, once a command, and goes on without it."""
        try:
            if not {"command", "digest", "state"} <= self.state.keys():
                raise UserError(f"{self.folder}: not a run of this version")
            self.experiment  # noqa: B018 (validated by reading)
            self.read("environment.json")
        except UserError as error:
            warnings.warn(f"left aside: {error}", ChronoscaleWarning, stacklevel=2)
            return False
        return True

    @property
    def complete(self) -> bool:
        return bool(self.state["state"] == "complete")

    @property
    def experiment(self) -> Experiment:
        return check(self.read("resolved.json"), str(self.folder / "resolved.json"))

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

    def finish(self) -> None:
        """Mark as complete."""
        self.write(STATUS, {**self.state, "state": "complete"})


def start(root: Path, command: str, experiment: Experiment, given: str, environment: Mapping[str, str]) -> tuple[Run, bool]:
    """A new run, or the incomplete one of the same command, experiment and environment; and whether it is resumed.

    A run that another process is working on is left to it.
    """
    digest = experiment.digest()
    for run in find(root):
        state = run.state
        same = state["command"] == command and state["digest"] == digest and state["state"] != "complete"
        if same and run.read("environment.json") == dict(environment) and run.lock():
            return run, True
    number = 1 + max(
        (int(p.name.rsplit("-", 1)[1]) for p in root.glob(f"{experiment.name}-{command}-*") if p.name.rsplit("-", 1)[1].isdigit()),
        default=0,
    )
    run = Run(root / f"{experiment.name}-{command}-{number}")
    run.folder.mkdir(parents=True)
    run.lock()
    write_text(run.folder / "experiment.yaml", given)
    run.write("resolved.json", experiment.model_dump(mode="json"))
    run.write("environment.json", dict(environment))
    run.write(STATUS, {"command": command, "digest": digest, "state": "running"})
    return run, False


def find(root: Path) -> list[Run]:
    """All runs in a folder, oldest first. A folder without a status is the rest of a start that was killed, and no run."""
    folders = [path for path in root.glob("*") if (path / STATUS).exists()] if root.exists() else []
    found = [Run(path) for path in sorted(folders, key=lambda path: (path.stat().st_ctime, path.name))]
    return [run for run in found if run.readable()]


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
