"""Job: what a group of ranks executes, as files, so that every rank, whoever starts it, runs the same thing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.records import read_json
from chronoscale.strategies.workload import Hyper, ModelChoice


@dataclass(frozen=True, slots=True)
class Item:
    """One schedule (Parquet) on one dataset folder; `label` names its results. `hyper` is what the schedule was planned with.

    `parts` is the file of its vertex partition, int32 [N] as .npy, where it has one; `prepare` the schedule of what happens once before.
    Items with one `prepare` share what it made. `learning_rate`: its own, which nothing scales; 0: the job's. `probes`: its rows are to be
    timed one by one, however the job launches them.
    """

    label: str
    schedule: str
    dataset: str
    hyper: Hyper
    parts: str = ""
    prepare: str = ""
    learning_rate: float = 0.0
    probes: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """How ranks execute. `transfer_thread`: on CPU, host and transfer lanes have a thread of their own. `bus`: on CPU, bytes a second
    that transfers are held to, 0 for none; `network`: that each rank sends and receives at most, 0 for none, and `network_latency`: seconds
    that every operation between ranks takes beside. `topology`: a file that says which processors share caches; '': the system does.
    `scale_learning_rate`: on snapshots, by the groups of a step (REAL §7.4). `hang_after`: seconds without a move of any rank after which
    the job is ended, where ten times the longest row is not more. `share_gpu`: all ranks are on the first GPU, and communicate by gloo.
    `launch`: on CUDA, "eager", row by row, or "graph", as CUDA graphs."""

    threads: int = 1
    learning_rate: float = 0.01
    seed: int = 0
    device: str = "auto"
    transfer_thread: bool = False
    scale_learning_rate: bool = False
    bus: float = 0.0
    network: float = 0.0
    network_latency: float = 0.0
    topology: str = ""
    hang_after: float = 60.0
    share_gpu: bool = False
    launch: str = "eager"


@dataclass(frozen=True, slots=True)
class Job:
    """Items share a model and settings. Passes are interleaved over the items, so that drift of the machine hits all alike.

    A job that is trained (`training`) has one item, its repeats are epochs, and `out` is the folder of its records. An item whose schedule
    is replaced while it is trained names the first one. `modules`: Python files of the user's that ranks run first.
    """

    name: str
    items: tuple[Item, ...]
    out: str
    model: ModelChoice
    repeats: int
    warmup: int = 0
    settings: Settings = Settings()
    modules: tuple[str, ...] = ()

    def save(self, path: Path) -> None:
        """JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Job:
        """Read what `save` wrote. Raises UserError for another file."""
        return read_json(path, cls, "job")
