"""Keys of an experiment on snapshots."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveFloat, model_validator

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.links import LinkProtocol
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.streams.negatives import MAX_NEGATIVES
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Data, Experiment, Model, Training, named, null_is
from chronoscale.harness.keys.types import LISTED, WHOLE, Names, Part, Share, Size, Steps, Width
from chronoscale.strategies.snapshots.tasks import SnapshotTask, task_of
from chronoscale.strategies.workload import Hyper, Recency

Lags = Annotated[tuple[NonNegativeInt, ...], LISTED]


def _share(value: Any) -> Any:
    """Other families validate or do not, by default they do; runs of earlier versions have their keys, too."""
    return 0.0 if value is True else value


class CutKeys(Part):
    """Keys of an experiment file under `dataset.cut`: how an event stream becomes snapshots."""

    width: PositiveFloat | None = Field(None, description="of a snapshot, in the unit of the timestamps; this or `count`")
    count: Size | None = Field(None, description="events a snapshot")
    cumulative: bool = Field(False, description="a snapshot keeps the edges of all before it")
    sliding: Size | None = Field(None, description="a snapshot keeps the edges of so many cuts")

    @model_validator(mode="after")
    def _one(self) -> CutKeys:
        if (self.width is None) == (self.count is None):
            raise ValueError("give exactly one of width, count")
        return self


class SnapshotData(Data):
    """Keys of an experiment file under `dataset`, for snapshots, or for events that are cut into snapshots."""

    cut: CutKeys | None = Field(None, description="of events into snapshots")
    window: Size | None = Field(None, description="join so many snapshots into each (sliding)")
    scale: Size = Field(1, description="multiply all counts, to simulate a larger graph that evolves alike; there is none to execute")

    @property
    def label(self) -> str:
        """Name of the dataset for people, with the factor that its counts are scaled by."""
        return super().label + (f" x {self.scale}" if self.scale > 1 else "")


class SnapshotModel(Model):
    """Keys of an experiment file under `model`, for a model on snapshots."""

    inputs: Width = Field(64, description="width of generated features, where the dataset has none")


class SnapshotTraining(Training):
    """Keys of an experiment file under `training`, for snapshots: groups and windows of them, and how they are trained on."""

    group_size: Size = Field(4, description="snapshots a group")
    stride: Size = Field(1, description="snapshots from one group's start to the next one's")
    groups_per_rank: Annotated[Literal[1, 2], WHOLE] = Field(
        1, description="a rank and iteration, for strategies that do not choose it themselves"
    )
    horizon: Annotated[Size, null_is(1)] = Field(1, description="snapshots ahead that are predicted")
    scale_learning_rate: bool = Field(True, description="multiply the learning rate of a step by its groups, on all ranks (REAL §7.4)")
    task: Literal["in-degree", "degrees", "classes", "links"] = Field(
        "in-degree",
        description="predict log(1 + in-degree) of every node from its features, log(1 + in- and out-degree) from those of the snapshots "
        "that are read, its class from its features, or which edges there are, against as many that are not",
    )
    ranked: Annotated[Size, Field(le=MAX_NEGATIVES)] = Field(20, description="negatives that a held-out edge is ranked against, of `links`")
    negatives: Literal["mixed", "historical", "random"] = Field("mixed", description="kind of those")
    validation: Annotated[Share, BeforeValidator(_share)] = Field(
        0.0, description="share of the snapshots that `chronoscale train` validates on after every epoch"
    )
    full: Size = Field(2, description="snapshots of a sliding window that are kept whole, the newest (FlareDTDG's K)")
    decayed: Steps = Field(6, description="snapshots of a window before those, of each of which less is kept than of the next")
    alpha: Annotated[PositiveFloat, Field(le=1)] = Field(0.1, description="share that is kept of a window's oldest snapshot")
    lags: Lags = Field((), description="ages (0 is the newest) that are kept whole all the same; hidden states end at younger ones")
    chunks: Size = Field(64, description="METIS's parts that windows keep or give up, all ranks together: a power of two is cut best")
    split: Literal["crossed", "whole"] = Field(
        "crossed",
        description="windows where an epoch splits the sequence at random: they read back over the split, so that each snapshot is trained "
        "on, or each part begins with its first whole window, which leaves out full + decayed - 1 steps (FlareDTDG, Algorithm 1)",
    )
    tune: bool = Field(
        False,
        description="`chronoscale train` first looks for `full` and `alpha` by greedy search from 2 and 0.1 (FlareDTDG §3.5); `full` and "
        "`decayed` together stay; other commands take what is given",
    )
    tune_epochs: Size = Field(3, description="that each setting is trained to be validated, if `tune`")
    test: Share = Field(0.0, description="share of the snapshots, the last ones, that are predicted once training has ended")
    held_nodes: bool = Field(
        False,
        description="of `classes`: the same shares of the nodes are held out, too, drawn at random: their classes are not trained on, and "
        "validation and test score these alone; else they score nodes whose class was trained on",
    )
    live: Steps = Field(
        0,
        description="optimiser steps on every test snapshot once it is scored, before the next one is predicted (ROLAND's live update); 0: "
        "the test trains nothing",
    )


class SnapshotExperiment(Experiment):
    """Experiment on snapshots, as its YAML file says."""

    family: ClassVar[str] = "snapshots"
    work: ClassVar[tuple[str, ...]] = (*Experiment.work, "groups")
    dataset: Annotated[SnapshotData, BeforeValidator(named)]
    model: Annotated[SnapshotModel, BeforeValidator(named)] = SnapshotModel()
    training: SnapshotTraining = SnapshotTraining()
    strategies: Names = ("psg", "real-reuse", "real-g+")
    groups: Size | None = Field(None, description="snapshot groups an epoch, the first ones; all without it")

    @model_validator(mode="after")
    def _tunes(self) -> SnapshotExperiment:
        if self.training.tune and not self.training.validation:
            raise UserError("training.tune: true, and training.validation is 0: settings are compared on it; hold out a share, such as 0.2")
        return self

    @model_validator(mode="after")
    def _holds_nodes(self) -> SnapshotExperiment:
        if self.training.held_nodes and not self.task.classifies:
            raise UserError(f"training.held_nodes: holds out classes of nodes, and training.task is '{self.task.name}'; use task: classes")
        return self

    @model_validator(mode="after")
    def _widths(self) -> SnapshotExperiment:
        """A task that makes its features gives their width."""
        width = self.task.inputs(self.model.inputs)
        if width != self.model.inputs:
            if "inputs" in self.model.model_fields_set:
                raise UserError(f"model.inputs: training.task: '{self.task.name}' reads {width} numbers a node, got {self.model.inputs}")
            object.__setattr__(self, "model", self.model.model_copy(update={"inputs": width}))
        return self

    @property
    def hyper(self) -> Hyper:
        """Hyper-parameters of the experiment that strategies plan with."""
        t = self.training
        return Hyper(
            t.group_size,
            t.stride,
            t.groups_per_rank,
            horizon=t.horizon,
            variant=t.variant,
            seed=self.seed,
            recency=Recency(Decay(t.full, t.decayed, t.alpha, t.lags), t.chunks, t.split == "whole"),
            task=t.task,
            held=HeldOut(t.validation, t.test, t.live, t.held_nodes),
            links=LinkProtocol(t.ranked, t.negatives),
        )

    @property
    def task(self) -> SnapshotTask:
        """Prediction task that `training.task` names."""
        return task_of(self.training.task)

    @property
    def validates(self) -> bool:
        return self.training.validation > 0

    @property
    def scales_rate(self) -> bool:
        """Whether the learning rate of an optimiser step grows with the snapshot groups that it averages over (REAL §7.4)."""
        return self.training.scale_learning_rate

    @property
    def length(self) -> int | None:
        """Number of snapshots that the key `groups` needs, with those held out behind them; None: all of the dataset."""
        t = self.training
        return None if self.groups is None else self.hyper.held.required_snapshots((self.groups - 1) * t.stride + t.group_size + t.horizon)
