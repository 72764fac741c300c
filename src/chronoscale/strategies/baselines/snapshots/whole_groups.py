"""PSG and BLAD: baselines that train every snapshot group whole on one rank, dealt in time order.

Every snapshot is loaded and convolved in full, also where two groups share it. PSG (partition by snapshot group, REAL §7.3) is the base
of REAL's ablation. BLAD (Fu et al., SC 2023; REAL §7.1) holds two consecutive groups on a GPU and overlaps aggregation of one with
transformation and recurrence of the other; its stages are processes that exchange hidden states on the device, a copy a snapshot and
layer. Gradients are those of the iteration's own parameters: nothing is stale.
"""

from __future__ import annotations

from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import RoundRobinStrategy

PSG = RoundRobinStrategy(
    "psg", "PSG", "REAL §7.3", Reuse(), summary="Each GPU trains whole snapshot groups, one after another; gradients are summed after each."
)
BLAD = RoundRobinStrategy(
    "blad",
    "BLAD",
    "REAL §7.1",
    Reuse(pipeline=True),
    each=2,
    summary="Each GPU trains two snapshot groups at once: aggregation of one overlaps the recurrence of the other.",
)
