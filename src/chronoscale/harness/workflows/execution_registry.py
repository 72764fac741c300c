"""Registry of executions: how experiments of every family are executed. It imports torch, `workflows.registry` does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronoscale.harness.workflows.execution import Execution
from chronoscale.harness.workflows.signals.execution import SignalExecution
from chronoscale.harness.workflows.signals.workflow import SignalWorkflow
from chronoscale.harness.workflows.snapshots.execution import SnapshotExecution
from chronoscale.harness.workflows.snapshots.workflow import SnapshotWorkflow
from chronoscale.harness.workflows.streams.execution import StreamExecution
from chronoscale.harness.workflows.streams.workflow import StreamWorkflow

EXECUTIONS: Mapping[str, Execution[Any]] = {
    "snapshots": SnapshotExecution(SnapshotWorkflow()),
    "signals": SignalExecution(SignalWorkflow()),
    "streams": StreamExecution(StreamWorkflow()),
}


def execution_of(family: str) -> Execution[Any]:
    """Return what probes and trains experiments of a family: "snapshots", "signals" or "streams".

    `chronoscale profile`, `train` and `compare` call it and need not know the family.
    """
    return EXECUTIONS[family]
