"""Cases: what a subject measures, with which parameters, and who takes turns in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from chronoscale.errors import UserError, unknown
from core.listing import names
from core.turns import Call, time_calls

Figures = Mapping[str, float]  # of one pass: "seconds", and whatever else is measured
Passes = Mapping[str, Sequence[Figures]]  # by contestant; the others are compared with the first


class Setting(NamedTuple):
    """How a case is measured.

    Attributes:
        repeats: Passes after those that warm up.
        threads: Threads of torch and of the native kernels, which are set before the case is; threads a rank for jobs.
        scratch: A folder of the case's own, empty.
        device: "cpu" or "cuda".
    """

    repeats: int
    threads: int
    scratch: Path
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Case:
    """One row of parameters. `measure` sets up the contestants, asserts that they do equal work, and returns their passes."""

    parameters: Mapping[str, object]
    measure: Callable[[Setting], Passes]

    @property
    def name(self) -> str:
        """The parameters as a filter takes them: `graph=sparse width=16`."""
        return " ".join(f"{key}={value}" for key, value in self.parameters.items())

    def matches(self, words: Iterable[str]) -> bool:
        """Whether the case passes a filter: every word is `KEY=VALUE`, `KEY=VALUE,VALUE`, or a part of the name."""
        for word in words:
            key, equals, values = word.partition("=")
            if equals and key in self.parameters:
                if str(self.parameters[key]) not in values.split(","):
                    return False
            elif equals or word not in self.name:
                return False
        return True

    @classmethod
    def timed(cls, parameters: Mapping[str, object], setup: Callable[[], Mapping[str, Call]]) -> Case:
        """A case whose contestants are calls that the core times."""
        return cls(parameters, lambda setting: seconds(time_calls(setup(), setting.repeats, setting.threads, setting.device)))


@dataclass(frozen=True, slots=True)
class Subject:
    """A claim that is measured.

    Attributes:
        cases: Its cases; with True, smallest ones of the same code, that take about a second on generated data.
        repeats: Passes, where the command line does not say.
        packages: Distributions of rivals, whose versions a result holds.
        cuda: Cases for a GPU; None for a subject of the CPU alone.
    """

    cases: Callable[[bool], Iterable[Case]]
    repeats: int = 9
    packages: tuple[str, ...] = ()
    cuda: Callable[[bool], Iterable[Case]] | None = None

    def cases_on(self, device: str, quick: bool) -> list[Case]:
        """Return the cases for "cpu" or "cuda". Raises UserError for a subject that has none there."""
        cases = self.cuda if device == "cuda" else self.cases
        if cases is None:
            raise UserError("this subject has no cases for a GPU")
        return list(cases(quick))


def seconds(times: Mapping[str, Sequence[float]]) -> Passes:
    """Return passes that hold nothing but seconds."""
    return {who: [{"seconds": one} for one in samples] for who, samples in times.items()}


def load(name: str) -> Subject:
    """Return a subject by its name. Raises UserError for one that is not there."""
    if name not in names():
        raise unknown("subject", name, names())
    subject: Subject = import_module(f"subjects.{name}").SUBJECT
    return subject
