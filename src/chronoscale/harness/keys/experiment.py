"""Experiment: the file that a user writes, validated. Its keys are those that all families read; each family adds its own."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, model_validator

from chronoscale.datasets.unpacking import name_unpacked
from chronoscale.errors import UserError
from chronoscale.harness.keys.advise import AdviceKeys
from chronoscale.harness.keys.assumptions import AssumptionKeys
from chronoscale.harness.keys.compare import CompareKeys
from chronoscale.harness.keys.failures import FailureKeys
from chronoscale.harness.keys.sizes import Bytes
from chronoscale.harness.keys.types import LISTED, Counts, Epochs, Finite, Names, Part, Size, Steps, Width
from chronoscale.harness.keys.uncertainty import UncertaintyKeys
from chronoscale.strategies.plugins import title_of
from chronoscale.strategies.workload import Hyper, ModelChoice

COSTS = (
    "datasheet, fitted (to a profile, which is measured where there is none), or the path of a costs.json; auto: to simulate, datasheet; "
    "to run, an earlier profile of this experiment, else this device's datasheet, or rates measured here in a second"
)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def named(value: Any) -> Any:
    """Turn a name in an experiment file into the mapping that it is short for: `dataset: x` means `dataset: {name: x}`."""
    return {"name": value} if isinstance(value, str) else value


def null_is(default: int) -> BeforeValidator:
    """Return a validator for a key of an experiment file: a key that is there without a value has its default."""
    return BeforeValidator(lambda value: default if value is None else value)


class Data(Part):
    """Keys of an experiment file under `dataset`: a dataset by catalogue name or by path."""

    name: str | None = Field(None, description="in the catalogue (`chronoscale data list`); this or `path`")
    path: Annotated[str | Names | None, LISTED] = Field(
        None, description="a file or folder, or files of one stream, relative to where the command is given"
    )
    format: str | None = Field(None, description="reader of the path, where the file does not tell, as for `chronoscale data convert`")
    options: dict[str, Annotated[bool | int | float | str | Names, LISTED]] = Field(
        {},
        description="of the path's reader, as `--option` of `chronoscale data convert`: `{columns: [src, dst, weight, time], sort: true}`",
    )

    @model_validator(mode="after")
    def _one(self) -> Data:
        if (self.name is None) == (self.path is None):
            raise ValueError("give exactly one of name, path")
        if self.path == ():
            raise ValueError("path: expected at least one file")
        if self.name is not None and (self.format is not None or self.options):
            key = "options" if self.options else "format"
            raise UserError(f"dataset: {key}: for a path; the catalogue says how '{self.name}' is read")
        return self

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the dataset; none for one by name."""
        return (self.path,) if isinstance(self.path, str) else self.path or ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Files that the dataset is made of, by whose content runs are told apart: its paths, and others that its keys name."""
        return self.files

    @property
    def label(self) -> str:
        """Name of the dataset for people: its catalogue name, or its file's."""
        return self.name or Path(name_unpacked(Path(self.files[0]))).stem


class Model(Part):
    """Keys of an experiment file under `model`: a model by name, which decides the family, and its widths."""

    name: str = Field("wd-gcn", description="of the model; on event streams also of a file, relative to this one: `my_model.py:Mine`")
    hidden: Width = Field(64, description="width of hidden states")
    layers: Size = Field(1, description="layers, or tokens' encoders")

    @property
    def choice(self) -> ModelChoice:
        """The model as planners and ranks take it."""
        return ModelChoice(**self.model_dump())


class Training(Part):
    """Keys of an experiment file under `training`: hyper-parameters that all families read."""

    variant: Literal["exact", "as-published"] = Field("exact", description="mathematically right, or the papers' form where it differs")
    learning_rate: PositiveFloat = Field(0.01, le=1e30, description="of Adam")
    weight_decay: Finite = Field(0.0, description="what Adam adds to a gradient, times the parameter (L2)")
    clip: Finite = Field(
        0.0,
        description="largest norm of a step's gradients, all parameters together, over all ranks, under dynahb of each rank's; larger ones "
        "are scaled down to it; 0: no limit",
    )
    milestones: Epochs = Field(
        (),
        description="epochs, from 0, from which on the learning rate is multiplied by `training.milestone_factor`; those beyond the last "
        "come with `--epochs`",
    )
    milestone_factor: Annotated[PositiveFloat, Field(le=1)] = Field(0.1, description="of the learning rate, once more at each milestone")
    patience: Steps = Field(
        0, description="epochs without a better score of the validation after which training ends, which needs one; 0: never"
    )


class Experiment(Part):
    """Experiment: what a user's YAML file says, validated. Every key but `dataset` has a default.

    Each family of dynamic graphs (snapshots, signals, event streams) has a subclass with keys of its own.
    """

    family: ClassVar[str]
    work: ClassVar[tuple[str, ...]] = ("dataset", "model", "training", "seed", "modules")  # keys that say what is trained
    name: str = Field("experiment", description="of its runs; by default the file's")
    dataset: Annotated[Data, BeforeValidator(named)] = Field(description="what is trained on: a name, or a mapping with `name` or `path`")
    model: Annotated[Model, BeforeValidator(named)] = Field(
        Model(), description="what is trained: a name, or a mapping; it decides the family"
    )
    training: Training = Field(Training(), description="hyper-parameters")
    strategies: Names = Field((), description="by name, or of a file, relative to this one: `my_lab.py:Mine`")
    modules: Names = Field((), description="Python files, relative to this one, that add models and readers; run first")
    ranks: Counts = Field((1, 2), description="executed on so many ranks; on GPUs that `device: auto` found, on no more than those")
    epochs: Size = Field(20, description="trained by `chronoscale train`")
    repeats: Size = Field(7, description="passes that are timed; a mean of seven or more leaves out the fastest and the slowest")
    warmup: Steps = Field(1, description="passes before them")
    attempts: Size = Field(3, description="of `validate`, where passes are too noisy to be believed; the quietest is kept")
    profile_epochs: PositiveFloat = Field(
        8.0, description="so many epochs a profile may take, all of its passes together, unless what it has to know takes more"
    )
    threads: Size = Field(1, description="of every rank, on CPU")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="that executes; auto: a GPU where there is one")
    share_gpu: bool = Field(
        False,
        description="on a GPU, have all ranks on the first one; they communicate by way of the host's memory (gloo)",
    )
    virtual: bool = Field(
        False,
        description="`train` executes all ranks in one process on the CPU, in turn, as many as `ranks` says: losses, scores and model are "
        "those of so many ranks; times mean nothing, and none are recorded. `compare` does so on as many as `gpus` says, in simulated time",
    )
    transfer_thread: bool = Field(False, description="on CPU, run transfers on a second thread")
    bus: Bytes | None = Field(
        None,
        description="on CPU, hold transfers to a rate, as over a bus",
        json_schema_extra={"shown": "bytes a second, or text such as 16GB"},
    )
    network: Bytes | None = Field(
        None,
        description="on CPU, hold communication between ranks to a rate, as over a network",
        json_schema_extra={"shown": "bytes a second, or text such as 1.25GB"},
    )
    network_latency: float = Field(
        0.0, ge=0, le=60, description="on CPU, seconds that every operation between ranks takes beside its bytes"
    )
    hang_after: float = Field(
        60.0,
        gt=0,
        allow_inf_nan=False,
        description="seconds without a move of any rank after which a job is ended, or ten times its longest row, whichever is more",
    )
    topology: str | None = Field(
        None,
        description="which processors share caches, for strategies that bind sampling threads: what `lscpu -p=CPU,CORE,SOCKET,NODE,CACHE` "
        "prints, in a file; by default the system says",
    )
    memory: Bytes | None = Field(
        None, description="limit a rank, if below what the machine has", json_schema_extra={"shown": "bytes, or text such as 2GB or 1.5GiB"}
    )
    cluster: str = Field("h200", description="simulated: a name, or a YAML file relative to where the command is given")
    gpus: Counts = Field((1, 4, 8, 16, 32, 64, 128, 256, 512, 1024), description="simulated on so many")
    costs: str = Field("auto", description=COSTS)
    extrapolate: bool = Field(
        False,
        description="let fitted costs leave the range that they were fitted on, and scale those of another GPU; such figures are marked",
    )
    launch: Literal["eager", "graph"] = Field(
        "eager",
        description="kernels launched one by one, or as CUDA graphs, captured once and replayed: executed on a GPU, simulated with a "
        "datasheet; a run says what it did not capture, and why",
    )
    contention: bool = Field(True, description="simulated: rows that run side by side share memory bandwidth, SMs and links")
    engine: Literal["native", "simpy"] = Field(
        "native",
        description="simulated: what replays schedules, the native library or SimPy in Python; both give the same times to the nanosecond, "
        "and SimPy takes some 20 times as long",
    )
    uncertainty: UncertaintyKeys = Field(UncertaintyKeys(), description="simulated: what is not known of the time that things take")
    assumptions: AssumptionKeys = Field(AssumptionKeys(), description="simulated: all that is assumed of the cluster, drawn together")
    failures: FailureKeys | None = Field(None, description="simulated: a training of `epochs` epochs whose GPUs fail")
    advise: AdviceKeys = Field(AdviceKeys(), description="what `chronoscale advise` compares, and by what")
    compare: CompareKeys = Field(CompareKeys(), description="what `chronoscale compare` trains to, and how often")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="of generated data, parameters and orders")

    @property
    def warming(self) -> int:
        """Passes (repetitions of an epoch) before those that are timed; CUDA graphs take one to run row by row, and one to be captured."""
        return max(self.warmup, 2) if self.launch == "graph" else self.warmup

    @model_validator(mode="after")
    def _counts(self) -> Experiment:
        self.hyper  # noqa: B018 (validated by reading)
        milestones = self.training.milestones
        if list(milestones) != sorted(set(milestones)) or 0 in milestones:
            raise UserError(f"training.milestones: expected epochs in order, each once, above 0, got {list(milestones)}")
        if "milestone_factor" in self.training.model_fields_set and not milestones and self.training.milestone_factor != 0.1:
            raise UserError("training.milestone_factor: it multiplies the learning rate at training.milestones, and there are none")
        if self.training.patience and not self.validates:
            raise UserError("training.patience: it waits for a better score of the validation, and training.validation leaves that out")
        if not NAME.fullmatch(self.name):
            raise UserError(f"name: it becomes that of folders: letters, digits and ._- alone, a letter or digit first; got {self.name!r}")
        for key, counts in (("ranks", self.ranks), ("gpus", self.gpus)):
            if not counts or min(counts) < 1:
                raise UserError(f"{key}: expected one or more counts of at least 1, got {list(counts)}")
            if len(set(counts)) < len(counts):
                raise UserError(f"{key}: each count once, got {list(counts)}")
        if (slow := self.uncertainty.stragglers) is not None and slow.count > max(self.gpus):
            raise UserError(
                f"uncertainty.stragglers.count: {slow.count} slow {slow.of}s, and no more than {max(self.gpus)} GPUs are simulated (gpus)"
            )
        if self.virtual and (self.device == "cuda" or self.launch == "graph"):
            raise UserError("virtual: true executes on the CPU; leave out device: cuda and launch: graph")
        if not self.strategies or len(set(self.strategies)) < len(self.strategies):
            raise UserError(f"strategies: expected at least one name, each once, got {list(self.strategies)}")
        return self

    @property
    @abstractmethod
    def hyper(self) -> Hyper:
        """Hyper-parameters of the experiment that strategies plan with."""

    @property
    def unit(self) -> str:
        """Unit of what the experiment predicts; "" where it has none, or none is known."""
        return ""

    @property
    def validates(self) -> bool:
        """Whether a training of the experiment has scores on validation."""
        return self.hyper.validate

    @property
    def subject(self) -> str:
        """What is trained on what, for titles, such as "cdgcn on growth_small"."""
        return f"{title_of(self.model.name)} on {self.dataset.label}"

    @property
    def scales_rate(self) -> bool:
        """Whether the learning rate of an optimiser step grows with the samples that it averages over."""
        return False

    def digest(self, *keys: str) -> str:
        """Return a digest of the values of some keys (of all, where none is named), to find an earlier run of the same experiment."""
        data = self.model_dump(mode="json", include=set(keys) or None)
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]
