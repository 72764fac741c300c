"""Keys of an experiment on a signal."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Data, Experiment, Model, Training, named, null_is
from chronoscale.harness.keys.graphs import GraphKeys
from chronoscale.harness.keys.types import Finite, Names, Share, Size, Steps, Width
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.workload import Hyper


class SignalData(Data):
    """Keys of an experiment file under `dataset`, for a signal: sensor readings on a static graph."""

    missing: float | None = Field(None, description="the reading that means there is none")
    time_of_day: Size | None = Field(None, description="add a channel: the share of the day that is over, at so many steps a day")
    day_of_week: Size | None = Field(
        None, description="add a channel: the day of the week, at so many steps a day; without dates the first step is a Monday's midnight"
    )
    calendar: Steps | None = Field(
        None,
        description="how many of its last channels tell the time, where the file does not say, before these two add one each",
    )
    unit: str = Field(
        "", description="of the readings that are predicted, such as `mph`, for `chronoscale predict` and what `train` prints"
    )
    graph: GraphKeys | None = Field(None, description="of the sensors, built from what is at hand; without it, the file's own")

    @property
    def changed(self) -> bool:
        """Whether a key changes the readings from what they are in the file, so that they have to be stored anew."""
        return any(given is not None for given in (self.missing, self.time_of_day, self.day_of_week, self.calendar, self.graph))

    @property
    def sources(self) -> tuple[str, ...]:
        return self.files if self.graph is None or self.graph.path is None else (*self.files, self.graph.path)


def _published(key: str) -> str:
    """Return, for the description of a key under `model`, which forecasters have another default: that of their papers."""
    return "".join(f"; {kind.published[key]:g} of {name}" for name, kind in FORECASTERS.items() if key in kind.published)


class SignalModel(Model):
    """Keys of an experiment file under `model`, for a forecaster of signals. What the file does not say is as the model's paper has it,
    where that gives sizes."""

    hidden: Width = Field(64, description="width of hidden states" + _published("hidden"))
    layers: Size = Field(1, description="layers, or tokens' encoders" + _published("layers"))
    hops: Size = Field(2, description="steps of diffusion, of models that diffuse")
    heads: Size = Field(4, description="of models that attend")
    times: Size = Field(288, description="of stid: rows of the table of each channel of the calendar, at most as many are told apart")
    dropout: Share = Field(0.0, description="share of hidden values that training leaves out, of models that do" + _published("dropout"))

    @model_validator(mode="before")
    @classmethod
    def _as_published(cls, given: Any) -> Any:
        kind = FORECASTERS.get(str(given.get("name"))) if isinstance(given, dict) else None
        return given if kind is None else {**kind.published, **given}


class SignalTraining(Training):
    """Keys of an experiment file under `training`, for signals: windows of time steps, and how they are trained on."""

    batch_size: Size = Field(64, description="windows a rank and optimiser step")
    window: Size = Field(12, description="steps read")
    horizon: Annotated[Size, null_is(12)] = Field(12, description="steps predicted")
    batches: Steps = Field(0, description="optimiser steps an epoch, the first ones, and as many validation batches; 0: all")
    validation: bool = Field(True, description="whether an epoch ends with the validation windows")
    loss: Literal["mae", "mse"] = Field("mae", description="mean absolute or squared error, which training minimises")
    curriculum: Steps = Field(
        0, description="epochs after which one step more of the horizon counts in training, the nearest first; 0: all"
    )
    teacher_decay: Finite = Field(
        0.0,
        description="scheduled sampling, of models that decode: in iteration i a step reads what was true of the step before, not its "
        "prediction, with probability t / (t + exp(i / t)), t this number; DCRNN has 2000; 0: never",
    )
    standardise: Literal["training", "windows", "series"] = Field("training", description="period of mean and deviation")


class SignalExperiment(Experiment):
    """Experiment on a signal (sensor readings on a static graph), as its YAML file says."""

    family: ClassVar[str] = "signals"
    dataset: Annotated[SignalData, BeforeValidator(named)]
    model: Annotated[SignalModel, BeforeValidator(named)]
    training: SignalTraining = SignalTraining()
    strategies: Names = ("pgt", "index", "dist-index")
    cluster: str = "polaris"  # PGT-I's testbed

    @model_validator(mode="after")
    def _teaches(self) -> SignalExperiment:
        name, decay = self.model.name, self.training.teacher_decay
        if decay and name in FORECASTERS and not FORECASTERS[name].decodes:
            decoders = ", ".join(kind.name for kind in FORECASTERS.values() if kind.decodes)
            raise UserError(
                f"training.teacher_decay: {decay:g}, and forecaster '{name}' has no decoder to teach; leave the key out, or take one that "
                f"has: {decoders}"
            )
        return self

    @property
    def hyper(self) -> Hyper:
        """Hyper-parameters of the experiment that strategies plan with."""
        t = self.training
        return Hyper(
            batch_size=t.batch_size,
            window=t.window,
            horizon=t.horizon,
            variant=t.variant,
            seed=self.seed,
            batches=t.batches,
            validate=t.validation,
            standardise=t.standardise,
            loss=t.loss,
            curriculum=t.curriculum,
            teacher_decay=t.teacher_decay,
        )

    @property
    def unit(self) -> str:
        return self.dataset.unit
