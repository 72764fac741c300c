"""Planners that do not plan, for processes of their own to import quickly."""

import os
import time
import warnings
from dataclasses import replace

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy


class Slow(SnapshotStrategy):
    """Never done within the time it gets."""

    name, title, source, kind, solves = "slow", "Slow", "a test", "groups", True

    def plan(self, workload, ranks, costs):
        time.sleep(60)


class Wrong(Slow):
    name, solves = "wrong", False

    def plan(self, workload, ranks, costs):
        raise UserError("no such thing")


class Dead(Slow):
    name = "dead"

    def plan(self, workload, ranks, costs):
        os._exit(3)


class Noting(Slow):
    """PSG's schedule under its own name, with a note."""

    name = "noting"

    def plan(self, workload, ranks, costs):
        return replace(PSG.plan(workload, ranks, costs), name=self.name, note="as planned")


class Uneasy(Noting):
    name = "uneasy"

    def plan(self, workload, ranks, costs):
        warnings.warn("worse than it might be", ChronoscaleWarning, stacklevel=2)
        return super().plan(workload, ranks, costs)
