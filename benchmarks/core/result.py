"""Results: what a subject's cases came to, as one JSON file in the format of pytest-benchmark, with a version of our own beside its.

Each case is a group of pytest-benchmark's, each contestant one of its benchmarks, so that `pytest-benchmark compare FILE` and its
histograms read them. Passes in full, and figures other than seconds, are in `extra_info`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import get_commit_info

from chronoscale.cuda_ext.native.loader import versions
from chronoscale.errors import UserError
from chronoscale.real_exec.measurement.environment import fingerprint
from core import json_file
from core.case import Case, Passes, Setting
from core.nvidia import smi

VERSION = 1
KEY = "chronoscale"  # of what pytest-benchmark does not have


def environment(threads: int, packages: Sequence[str] = (), device: str = "cpu") -> dict[str, str]:
    """Return the device, kernels and versions that figures depend on; `packages`: distributions of rivals."""
    environment = {**fingerprint(torch.device(device)), "native": str(versions()["cpu"]), "threads": str(threads)}
    if device == "cuda":
        environment |= smi()
    for package in packages:
        try:
            environment[package] = version(package)
        except PackageNotFoundError:
            environment[package] = "not installed"
    return environment


@dataclass(frozen=True, slots=True)
class Entry:
    """Passes of one contestant of one case; `figures`: by name, a number a pass."""

    case: str
    parameters: Mapping[str, object]
    contestant: str
    figures: Mapping[str, Sequence[float]]

    def stats(self, figure: str = "seconds") -> Stats:
        """Return the statistics of a figure over the passes."""
        stats = Stats()
        for value in self.figures[figure]:
            stats.update(value)
        return stats

    def as_json(self, subject: str) -> dict[str, Any]:
        """Return the entry as a benchmark of pytest-benchmark's."""
        name = f"{self.case}, {self.contestant}"
        times = {**self.stats().as_dict(), "iterations": 1}
        extra = {"contestant": self.contestant, "figures": self.figures}
        head = {"group": self.case, "name": name, "fullname": f"{subject}: {name}", "param": self.case, "params": self.parameters}
        return {**head, "extra_info": extra, "options": {}, "stats": times}


@dataclass(slots=True)
class Result:
    """All that one run of a subject measured, and on what."""

    subject: str
    environment: Mapping[str, str]
    commit: Mapping[str, Any]
    entries: list[Entry] = field(default_factory=list)
    made: str = ""

    @classmethod
    def begin(cls, subject: str, threads: int, packages: Sequence[str] = (), device: str = "cpu") -> Result:
        """Return a result of this machine and commit without entries."""
        return cls(subject, environment(threads, packages, device), get_commit_info("chronoscale"), made=datetime.now(UTC).isoformat())

    def add(self, case: Case, passes: Passes) -> list[Entry]:
        """Add a case, and return its entries."""
        entries = [
            Entry(case.name, dict(case.parameters), who, {key: [float(one[key]) for one in several] for key in several[0]})
            for who, several in passes.items()
        ]
        self.entries += entries
        return entries

    def save(self, path: Path) -> None:
        """Write the file whole."""
        head = {"machine_info": dict(self.environment), "commit_info": dict(self.commit), "datetime": self.made}
        entries = [entry.as_json(self.subject) for entry in self.entries]
        own = {"version": VERSION, "subject": self.subject}
        json_file.write(path, {**head, "version": version("pytest-benchmark"), KEY: own, "benchmarks": entries})

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a file that `save` wrote. Raises UserError for any other, and for one of another version."""
        try:
            data = json.loads(path.read_text())
            if (version := data[KEY]["version"]) != VERSION:
                raise UserError(f"{path}: a result of version {version}, this is version {VERSION}; measure again")
            entries = [
                Entry(one["group"], one["params"], one["extra_info"]["contestant"], one["extra_info"]["figures"])
                for one in data["benchmarks"]
            ]
            if not all(entry.figures["seconds"] for entry in entries):
                raise ValueError("an entry without seconds")
            return cls(data[KEY]["subject"], data["machine_info"], data["commit_info"], entries, data["datetime"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise UserError(f"{path}: no result of a benchmark ({type(error).__name__}: {error}); measure again") from error


def measure(subject: str, case: Case, setting: Setting) -> Passes:
    """Measure a case. Raises ValueError for contestants without passes or without seconds."""
    passes = case.measure(setting)
    if not passes or not all(several and "seconds" in several[0] for several in passes.values()):
        raise ValueError(f"{subject}, {case.name}: every contestant needs a pass with seconds, got {passes}")
    return passes
