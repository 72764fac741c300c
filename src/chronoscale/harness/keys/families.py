"""Families: the kinds of dynamic graph that experiments train on, and the keys that an experiment file on each may have.

A new family is an entry here, one in `data.counts`, one in `workflows.registry`, and a folder of its name in every room that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import unknown
from chronoscale.harness.keys import tgl
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.signals import SignalExperiment
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.strategies.baselines.streams import TGL_UNIQUE
from chronoscale.strategies.pgt_index.index_batching import DIST_INDEX
from chronoscale.strategies.plugins import names_file
from chronoscale.strategies.real.ilp import REAL_L
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import MODELS
from chronoscale.strategies.streams.models import STREAM_MODELS, stream_kind

ConfigurationReader = Callable[[Path], tuple[Mapping[str, Any], Sequence[str]]]  # keys of an experiment, and sentences to say


@dataclass(frozen=True, slots=True)
class Family:
    """Kind of dynamic graph (snapshots, signals or event streams), as experiment files know it.

    container: class of its datasets. keys: class of its experiments, whose fields are what a file may say. models: by name. preferred: the
    strategy of `chronoscale train` where the file names none. configurations: key of an experiment file that names another software's file
    -> reader of that, whose content stands in for keys that are not there. load_model: loads a model that is named by a user's file, and
    refuses what is none; None for a family whose models are all ours.
    """

    name: str
    container: type[Dataset]
    keys: type[Experiment]
    models: Collection[str]
    preferred: str
    configurations: Mapping[str, ConfigurationReader] = field(default_factory=dict)
    load_model: Callable[[str], object] | None = None

    def trains(self, model: str) -> bool:
        """Return whether a model of that name, or of a user's file, trains on this family."""
        return self.load_model is not None if names_file(model) else model in self.models


SNAPSHOTS = Family("snapshots", SnapshotSequence, SnapshotExperiment, MODELS.keys(), REAL_L.name)
SIGNALS = Family("signals", Signal, SignalExperiment, FORECASTERS.keys(), DIST_INDEX.name)
STREAMS = Family("streams", EventStream, StreamExperiment, STREAM_MODELS.keys(), TGL_UNIQUE.name, {"tgl": tgl.read}, stream_kind)
FAMILIES: Mapping[str, Family] = {family.name: family for family in (SNAPSHOTS, SIGNALS, STREAMS)}


def family_of(experiment: Experiment) -> Family:
    """Return the family (snapshots, signals or event streams) of an experiment."""
    return FAMILIES[experiment.family]


def family_of_dataset(dataset: Dataset) -> Family:
    """Return the family (snapshots, signals or event streams) that an opened dataset is of, for `chronoscale data info`."""
    return next(family for family in FAMILIES.values() if isinstance(dataset, family.container))


def family_of_model(model: str) -> Family:
    """Return the family (snapshots, signals or event streams) that an experiment file's model trains on.

    Raises UserError for an unknown model, with the nearest one.
    """
    for family in FAMILIES.values():
        if family.trains(model):
            return family
    raise unknown("model", model, [name for family in FAMILIES.values() for name in family.models])
