"""Job: what a group of ranks executes, as files, so that every rank, whoever starts it, runs the same thing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chronoscale.records import read_json
from chronoscale.strategies.plugins import change_file
from chronoscale.strategies.workload import Hyper, ModelChoice


@dataclass(frozen=True, slots=True)
class Item:
    """A schedule (Parquet file) that a job's ranks execute on a dataset (folder); `label` names its results.

    hyper: the hyper-parameters that the schedule was planned with. parts: file of its vertex partition, int32 [N] as .npy; '' for none.
    prepare: file of the schedule that prepares its data, once; items with the same `prepare` share what it makes. learning_rate: the item's
    own, which nothing scales; 0: the job's. probes: its rows are timed one by one for a fit of costs, however the job launches kernels.
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
    """Settings of the ranks that execute a job.

    threads: of each rank's computation. transfer_thread: on a CPU, host and transfer lanes have a thread of their own. bus: on a CPU, bytes
    a second at most of host-to-device and device-to-host rows, slept where the copy is faster; 0: no limit. network: bytes a second that
    each rank sends and receives at most; 0: no limit. network_latency: seconds that every communication takes besides. topology: a file
    that says which processors share caches, as `lscpu -p` prints it; '': as the system reports them. scale_learning_rate: for snapshots,
    multiply it by the groups of an optimiser step (REAL §7.4). hang_after: seconds without progress of any rank after which the job is
    ended, or ten times the longest row, whichever is more. share_gpu: all ranks are on the first GPU and communicate by gloo. launch: on a
    GPU, "eager" (row by row) or "graph" (as CUDA graphs). virtual: ranks that one process executes in turn, in place of a process each; 0:
    none is virtual. adapts: in training, programs that can choose what their rows do may choose (DynaHB's batch sizes); else they do what
    was planned. weight_decay: what Adam adds to a gradient, times the parameter. clip: largest norm of an optimiser step's gradients, all
    parameters together, to which larger ones are scaled; 0: no limit. milestones: epochs from which on the learning rate is multiplied by
    `factor`, once more each. patience: epochs without a better score of the validation after which training ends; 0: never.
    writes_predictions: whether those of a test are written to files.
    """

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
    virtual: int = 0
    adapts: bool = True
    weight_decay: float = 0.0
    clip: float = 0.0
    milestones: tuple[int, ...] = ()
    factor: float = 0.1
    patience: int = 0
    writes_predictions: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """A set of schedules that a group of ranks executes and times, or trains: items that share a model and settings, written to a file for
    the ranks.

    Passes (repetitions of a schedule) are interleaved over the items, so that drift of the machine affects all alike. repeats, warmup:
    passes that are kept, and passes before them that are not. out: folder of the results. modules: Python files of the user's (plug-ins)
    that every rank runs first.

    A training job has one item, its repeats are epochs, and `out` is the training's folder. Where the schedule is replaced while it trains,
    the item names the first one.
    """

    name: str
    items: tuple[Item, ...]
    out: str
    model: ModelChoice
    repeats: int
    warmup: int = 0
    settings: Settings = Settings()
    modules: tuple[str, ...] = ()

    def map_paths(self, change: Callable[[str], str]) -> Job:
        """Return the job with each path that it names changed: those that its ranks read, items first, and `out`, last. '' stays ''."""

        def changed(path: str) -> str:
            return change(path) if path else ""

        items = (
            replace(
                each,
                schedule=changed(each.schedule),
                dataset=changed(each.dataset),
                parts=changed(each.parts),
                prepare=changed(each.prepare),
            )
            for each in self.items
        )
        return replace(
            self,
            items=tuple(items),
            settings=replace(self.settings, topology=changed(self.settings.topology)),
            model=replace(self.model, name=change_file(self.model.name, changed)),
            modules=tuple(changed(file) for file in self.modules),
            out=changed(self.out),
        )

    def save(self, path: Path) -> None:
        """Write the job as JSON, for the ranks that will execute it."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Job:
        """Read a job file on a rank. Raises UserError for any other file."""
        return read_json(path, cls, "job")
