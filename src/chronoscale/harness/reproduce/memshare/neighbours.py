"""Neighbours: how many a root has by each way to sample across parts, and what that asks of other ranks (Figure 4)."""

from __future__ import annotations

import pandas as pd

from chronoscale.batching.streams.partitioning.divide import default_decay
from chronoscale.batching.streams.ranks.distributed_stream import Spreading
from chronoscale.batching.streams.ranks.placement import Spread
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.harness.reproduce.memshare.cuts import PARTS
from chronoscale.harness.reproduce.memshare.points import prepared
from chronoscale.harness.reproduce.memshare.stand_ins import CUT, QUICK, batch, fanout, notes
from chronoscale.harness.study.findings import NOT_PRINTED, Findings, Told, row

DATASETS, SHARED, THETA, STEPS = ("stackof", "wikitalk"), 0.1, 0.1, 4


def ways(decay: float) -> dict[str, Boundary | None]:
    """By name; without completion, what is left of the most recent neighbours."""
    return {
        "recent": None,
        "decay": Boundary(THETA, decay, True),
        "decay, not completed": Boundary(THETA, decay, False),
        "local": Boundary(0.0, decay, True),
    }


def run(told: Told, quick: bool) -> Findings:
    """Means of a root, over batches of eight parts."""
    divisors, rows = QUICK if quick else CUT, []
    names = DATASETS[: 1 if quick else None]
    for name in names:
        told(name)
        data = prepared(name, divisors[name])
        size = max(batch(name) // divisors[name], 50)
        every = max(data.trained // (PARTS * size * STEPS), 1)
        for way, boundary in ways(default_decay(data.whole.stream)).items():
            sampling = Sampling((fanout(name),), boundary=boundary)
            work = Spreading(data, Spread(shared=SHARED), PARTS).work(False, size, sampling, 0, every, True)
            roots = float(work.roots.sum())
            figures = {"neighbours": work.sampled, "events asked of other ranks": work.asked_edges, "nodes asked of them": work.asked_nodes}
            rows += [row(f"{name}, {way}, {what}, of a root", None, [float(found.sum()) / roots], NOT_PRINTED)
                     for what, found in figures.items()]  # fmt: skip
    said = (
        *((f"Quick: {names[0]} alone, a smaller stand-in.",) if quick else ()),
        f"TGN's one hop of up to {fanout(DATASETS[0])} neighbours around both ends and a negative of each event, {SHARED:.0%} of the nodes "
        f"shared, theta {THETA:g}. A neighbour is local where its event is in the root's part and its node, too, or shared. A row is "
        "asked for once a batch.",
        *notes({name: divisors[name] for name in names}),
    )
    return Findings(pd.DataFrame(rows), (), {}, said)
