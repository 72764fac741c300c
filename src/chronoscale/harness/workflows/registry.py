"""Registry: the workflow of every family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronoscale.harness.workflows.signals.workflow import SignalWorkflow
from chronoscale.harness.workflows.snapshots.workflow import SnapshotWorkflow
from chronoscale.harness.workflows.streams.workflow import StreamWorkflow
from chronoscale.harness.workflows.workflow import Workflow

WORKFLOWS: Mapping[str, Workflow[Any]] = {"snapshots": SnapshotWorkflow(), "signals": SignalWorkflow(), "streams": StreamWorkflow()}


def workflow_of(family: str) -> Workflow[Any]:
    """Return the workflow that stores, counts and cuts the data of a family's experiments: "snapshots", "signals" or "streams".

    `chronoscale bench`, `train`, `simulate` and the others call it and need not know the family.
    """
    return WORKFLOWS[family]
