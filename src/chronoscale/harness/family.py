"""Family: a kind of dynamic graph, as experiment files and descriptions of datasets know it; `Practice` is what is done with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from chronoscale.datasets.entries import Published
from chronoscale.datasets.store import Dataset
from chronoscale.harness.fact import Facts
from chronoscale.harness.keys.experiment import Experiment

Configuration = Callable[[Path], tuple[Mapping[str, Any], Sequence[str]]]  # of a file: keys of an experiment, and what has to be said


class Family(ABC):
    """Callers hold the object and never ask which it is. It imports what reads files and counts, and nothing that plans or trains.

    name: in all rooms. container: of its data. keys: what an experiment file may say. models: by name. preferred: the strategy of
    `chronoscale train` where the file names none. configurations: keys of an experiment file that name a file of other software, whose
    content stands in for keys that are not there.
    """

    name: str
    container: type[Dataset]
    keys: type[Experiment]
    models: Collection[str]
    preferred: str
    configurations: Mapping[str, Configuration] = {}

    @abstractmethod
    def describe(self, found: Any, horizon: int) -> Facts:
        """Count what is in a dataset of this kind; `horizon`: of windows, where a paper names one."""

    def printed(self, counts: Published, horizon: int) -> Facts:
        """Say what follows from counts that a paper prints."""
        return []
