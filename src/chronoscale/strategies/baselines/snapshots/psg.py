"""PSG: partition by snapshot group (REAL §7.3), the base of its ablation.

Each GPU trains one whole group an iteration; every snapshot is loaded and convolved in full; nothing overlaps.
"""

from __future__ import annotations

from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import Dealt

PSG = Dealt("psg", "PSG", "REAL §7.3", Reuse())
