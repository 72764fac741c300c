"""Ranks: the same steps on two ranks on the CPU, and on two that share the GPU: a strategy of each kind that communicates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from gpu.cases import REHEARSED, SEED, Sizes, jobs
from gpu.device import present
from gpu.families import emptied
from gpu.losses import compare
from gpu.place import Place
from gpu.record import Record

RANKS = 2
CASES = {
    "t-gcn": ("psg", "real-g+", "esdg", "flaredtdg", "flaredtdg-remap", "dynagraph"),
    "evolvegcn-h": ("distdgl",),
    "dcrnn": ("dist-index",),
    "tgn": ("tgl", "fast", "memshare", "disttgl"),
    "apan": ("memshare-shared",),
}


def run(place: Place, record: Record) -> None:
    """Raises as `losses.compare`."""
    present(place)
    folder = emptied(place.work / "ranks")
    compare(record, _chosen(folder, REHEARSED if place.rehearsal else Sizes()), place.device, _losses)


def _chosen(folder: Path, sizes: Sizes) -> Iterator[Job]:
    """The jobs of CASES, each strategy an item."""
    for job in jobs(folder, sizes, RANKS):
        if job.model.name in CASES:
            items = {item.label: item for item in job.items}
            yield replace(job, items=tuple(items[label] for label in CASES[job.model.name]))


def _losses(job: Job, device: str) -> np.ndarray:
    """Of the first pass of its only item, on ranks of their own: float64 [iterations]."""
    out = Path(job.out)
    launch(replace(job, settings=Settings(seed=SEED, device=device, share_gpu=True)), RANKS, out)
    losses: np.ndarray = np.load(out / f"{job.items[0].label}-losses.npy")[0]
    return losses
