"""BLAD: two groups a GPU in a two-stage pipeline (Fu et al., SC 2023; REAL §7.1).

Two consecutive groups a GPU and iteration, both in memory: aggregation of one overlaps transformation and recurrence of the other. Every
snapshot is loaded and convolved in full. BLAD's stages are processes that exchange hidden states on the device: a copy a snapshot and
layer. Gradients are those of the iteration's own parameters: nothing is stale.
"""

from __future__ import annotations

from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import Dealt

BLAD = Dealt("blad", "BLAD", "REAL §7.1", Reuse(pipeline=True), each=2)
