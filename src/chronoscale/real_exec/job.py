"""Job: what a group of ranks executes, as files, so that one process and torchrun run the same thing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.strategies.workload import Hyper

LAUNCHER = "CHRONOSCALE_LAUNCHER"  # environment: the process that ranks must not outlive


@dataclass(frozen=True, slots=True)
class Item:
    """One schedule (Parquet) on one dataset folder; `label` names its results. `hyper` is what the schedule was planned with.

    `parts` is the file of its vertex partition, int32 [N] as .npy, where it has one.
    """

    label: str
    schedule: str
    dataset: str
    hyper: Hyper
    parts: str = ""
    prepare: str = ""  # schedule (Parquet) of what happens once before, for signals


@dataclass(frozen=True, slots=True)
class Job:
    """Items share a model and settings. Passes are interleaved over the items, so that drift of the machine hits all alike."""

    name: str
    items: tuple[Item, ...]
    out: str
    model: str
    hidden: int
    layers: int
    inputs: int
    repeats: int
    warmup: int
    threads: int
    learning_rate: float
    seed: int = 0
    device: str = "auto"
    transfer_thread: bool = False
    hops: int = 2
    heads: int = 4

    def save(self, path: Path) -> None:
        """JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Job:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        items = [
            Item(**{**item, "hyper": Hyper(**{**item["hyper"], "fanout": tuple(item["hyper"]["fanout"])})}) for item in data.pop("items")
        ]
        return cls(**data, items=tuple(items))
