"""Families: all of them. A new one is a line here, and a folder of its name in every room that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronoscale.datasets.store import Dataset
from chronoscale.errors import unknown
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.family import Family, Trained
from chronoscale.harness.signals.family import Signals
from chronoscale.harness.snapshots.family import Snapshots
from chronoscale.harness.streams.family import Streams

FAMILIES: Mapping[str, Family] = {family.name: family for family in (Snapshots(), Signals(), Streams())}
TRAINED: Mapping[str, Trained[Any]] = {name: family for name, family in FAMILIES.items() if isinstance(family, Trained)}


def family_of(experiment: Experiment) -> Trained[Any]:
    """The family whose keys the experiment has."""
    return TRAINED[experiment.family]


def holding(dataset: Dataset) -> Family:
    """The family of a dataset."""
    return next(family for family in FAMILIES.values() if isinstance(dataset, family.container))


def training(model: str) -> Trained[Any]:
    """The family that a model trains on. Raises UserError for an unknown one, with the nearest."""
    for family in TRAINED.values():
        if model in family.models:
            return family
    raise unknown("model", model, [name for family in TRAINED.values() for name in family.models])
