"""Attempts: what to fuzz, and trying it many times. Every attempt has a number and a generator of its own, so that one can be repeated."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np


class Target(Protocol):
    """A module of this folder: one attempt writes into an empty folder, None where everything held, else what went wrong."""

    def attempt(self, generator: np.random.Generator, folder: Path) -> str | None: ...


class Fault(NamedTuple):
    """What went wrong, and the number of the attempt: `python tests/fuzz TARGET --seed SEED --first NUMBER --count 1` shows it again."""

    number: int
    problem: str


def targets() -> list[str]:
    """By name: the files of this folder that have an `attempt`."""
    return sorted(file.stem for file in Path(__file__).parent.glob("*.py") if "\ndef attempt(" in file.read_text(encoding="utf-8"))


def faults(name: str, seed: int, numbers: range) -> Iterator[Fault | None]:
    """One attempt after another, None where it held. An error that leaves `attempt` is a fault: targets catch what may be raised."""
    target: Target = import_module(f"fuzz.{name}")  # type: ignore[assignment]
    for number in numbers:
        with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as folder:
            try:
                problem = target.attempt(np.random.default_rng([seed, number]), Path(folder))
            except Exception:
                problem = traceback.format_exc()
        yield None if problem is None else Fault(number, problem)
