"""Kernels of schedules on events."""

from __future__ import annotations

from chronoscale.strategies.kernels import SINGLE, Kernels
from chronoscale.strategies.workload import Workload


def kernels_of(workload: Workload, ranks: int) -> Kernels:
    """Of epochs. Raises UserError for a model that was not counted."""
    return SINGLE
