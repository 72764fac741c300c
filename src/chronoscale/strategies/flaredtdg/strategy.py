"""Strategies that train on sliding windows of snapshots whose vertices all ranks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.errors import UserError
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.flaredtdg.keeping import Keeping
from chronoscale.strategies.flaredtdg.plan import Plan
from chronoscale.strategies.flaredtdg.turns import Policy, early_ready, in_turn, one_by_one
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.workload import Recency, Workload

MOST = 30_000_000  # rows: some 12 GB while they are built


@dataclass(frozen=True, slots=True)
class Windowed(SnapshotStrategy):
    """keeps: what a window keeps, of the experiment's settings. policy: who of a window's snapshots goes on (`turns`). shrinks: as `Plan`.
    inherits: as `Keeping`."""

    name: str
    title: str
    source: str
    keeps: Callable[[Recency], Decay]
    policy: Policy = early_ready
    shrinks: bool = True
    inherits: bool = True
    kind: ClassVar[str] = "blocks"
    chunked: ClassVar[bool] = True

    def rows(self, workload: Workload, ranks: int) -> int:
        """Every rank has a part in every snapshot of every window. Raises UserError for a window that is longer than the sequence."""
        return self._plan(workload, ranks).rows

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """The first epoch; of later ones chunks, and so counts, differ a little. Raises UserError for a window that is longer than the
        sequence, fewer chunks than ranks, attention, and more rows than memory holds."""
        workload.snapshots  # noqa: B018 (refuses other families)
        if workload.model.transforms_first:
            raise UserError(f"{self.name}: model '{workload.model.name}' attends; windows take graph convolutions")
        if workload.chunking is None:
            raise UserError(f"{self.name}: '{workload.name}' needs chunks, has none")
        if (rows := self.rows(workload, ranks)) > MOST:
            fit = max(MOST * workload.groups // rows, 1)
            raise UserError(f"{self.name}: its windows on {ranks} ranks take {rows:,} rows; set `groups: {fit}` or fewer")
        return self._plan(workload, ranks).schedule(costs)

    def _plan(self, workload: Workload, ranks: int) -> Plan:
        keeping = Keeping(self.keeps(workload.hyper.recency), workload.hyper.variant == "as-published", self.inherits)
        return Plan(self.name, workload, ranks, keeping, self.policy, self.shrinks)


def _decayed(recency: Recency) -> Decay:
    return recency.decay


def _whole(recency: Recency) -> Decay:
    return Decay(recency.decay.window, 0, 1.0)


def _recent(recency: Recency) -> Decay:
    return Decay(recency.full, 0, 1.0)


FLAREDTDG = Windowed("flaredtdg", "FlareDTDG", "FlareDTDG §3", _decayed)
ROUND_ROBIN = Windowed("flaredtdg-turns", "FlareDTDG, snapshots in turn", "FlareDTDG §3.4", _decayed, in_turn)
IN_ORDER = Windowed("flaredtdg-no-overlap", "FlareDTDG, nothing overlaps", "FlareDTDG §4.3, Table 11", _decayed, one_by_one)
REMAPPED = Windowed("flaredtdg-remap", "FlareDTDG, built anew in every step", "FlareDTDG §4.3, Table 9", _decayed, shrinks=False)
FULL_HISTORY = Windowed("full-history", "Full history", "FlareDTDG §4.3, Table 6", _whole)
RECENT_ONLY = Windowed("recent-only", "Recent only", "FlareDTDG §4.3, Table 6", _recent, inherits=False)
RECENT_STATES = Windowed("recent-states", "Recent only, with inherited states", "FlareDTDG §3.5", _recent)
