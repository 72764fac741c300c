"""Families: all of them. A new one is a line here and in `practices`, and a folder of its name in every room that it needs."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.datasets.store import Dataset
from chronoscale.errors import unknown
from chronoscale.harness.family import Family
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.signals.family import Signals
from chronoscale.harness.snapshots.family import Snapshots
from chronoscale.harness.streams.family import Streams

FAMILIES: Mapping[str, Family] = {family.name: family for family in (Snapshots(), Signals(), Streams())}


def family_of(experiment: Experiment) -> Family:
    """The family whose keys the experiment has."""
    return FAMILIES[experiment.family]


def holding(dataset: Dataset) -> Family:
    """The family of a dataset."""
    return next(family for family in FAMILIES.values() if isinstance(dataset, family.container))


def training(model: str) -> Family:
    """The family that a model trains on. Raises UserError for an unknown one, with the nearest."""
    for family in FAMILIES.values():
        if model in family.models:
            return family
    raise unknown("model", model, [name for family in FAMILIES.values() for name in family.models])
