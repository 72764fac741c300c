"""Keys of an experiment on an event stream."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from chronoscale.cuda_ext.sampling.temporal import MAX_FANOUT
from chronoscale.datasets.streams.negatives import MAX_NEGATIVES
from chronoscale.datasets.streams.protocol import Protocol, PublishedNegatives
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Data, Experiment, Model, Training, named
from chronoscale.harness.keys.types import LISTED, WIDEST, Names, Part, Share, Size, Steps, Width
from chronoscale.strategies.workload import EventHyper, Hyper, SharingHyper


class NegativesKeys(Part):
    """Keys of an experiment file under `dataset.negatives`: files of published negatives, such as TGB's `tgbl-wiki_test_ns_v2.pkl`."""

    test: str = Field(min_length=1, description="TGB's pickle that test events are ranked against, relative to where the command is given")
    validation: str | None = Field(
        None, description="the same of validation events, which are ranked once, after training, with the model that is tested"
    )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that there are."""
        return tuple(filter(None, (self.test, self.validation)))


class StreamData(Data):
    """Keys of an experiment file under `dataset`, for an event stream."""

    negatives: NegativesKeys | None = Field(
        None, description="published ones, of events in TGB's numbers, in place of those that `training.negatives` draws for the MRR"
    )

    @property
    def sources(self) -> tuple[str, ...]:
        return self.files if self.negatives is None else (*self.files, *self.negatives.files)


class StreamModel(Model):
    """Keys of an experiment file under `model`, for a model on event streams."""

    hidden: Width = Field(100, description="width of hidden states")
    heads: Size = Field(2, description="of models that attend")
    time: Width = Field(100, description="width of the encoding of elapsed times")
    clock: Literal["gaps", "linear", "log", "both"] = Field(
        "gaps", description="scale of elapsed times: over the deviation of a node's gaps, as published, in decibels, or the last two"
    )
    mails: Size = Field(10, description="mails that a node keeps, of APAN")
    patch: Size = Field(1, description="places of a sequence, a node's own and its neighbours', that DyGFormer reads as one")
    inputs: Annotated[NonNegativeInt, Field(le=WIDEST)] = Field(
        100, description="width of random features of nodes, of models without memory, where the dataset has none; 0: zeros"
    )
    dropout: Share = Field(0.0, description="share of the attention's weights, or of a perceptron's values, that training leaves out")


class StreamTraining(Training):
    """Keys of an experiment file under `training`, for event streams: batches of events, sampling, caches, and what ranks share."""

    learning_rate: PositiveFloat = Field(0.0001, le=1e30, description="of Adam")
    batch_size: Size = Field(200, description="events a rank and optimiser step")
    fanout: Annotated[tuple[Annotated[Size, Field(le=MAX_FANOUT)], ...], LISTED] = Field(
        (10,), description="neighbours a node of each layer, the roots' first; the last serves the layers beyond"
    )
    sampling: Literal["recent", "uniform"] = Field("recent", description="neighbours of the latest events, or of any earlier ones")
    windows: Size = Field(1, description="spans of time that a root has neighbours in, of DySAT")
    duration: NonNegativeFloat = Field(0.0, description="of a window, in the stream's unit of time")
    task: Literal["link", "node"] = Field("link", description="predict destinations, or the label of an event's source")
    split: Annotated[tuple[Share, Share], LISTED] = Field((0.70, 0.15), description="shares of the events that train and that validate")
    hidden_nodes: Share = Field(0.0, description="share of the nodes that training never sees")
    ranked: Annotated[Size, Field(le=MAX_NEGATIVES)] = Field(20, description="negatives that a test event is ranked against")
    negatives: Literal["mixed", "historical", "random"] = Field("mixed", description="kind of those")
    cache_ratio: Annotated[NonNegativeFloat, Field(le=1)] = Field(
        0.2, description="share of the bytes of all features that a device keeps, of strategies with a cache"
    )
    presample: Size = Field(400, description="batches that are sampled before training to see which features are asked for most")
    partition: Literal["shared-nodes", "metis", "distgl", "random", "restream"] = Field(
        "shared-nodes", description="what cuts the stream, of strategies that spread memory over ranks"
    )
    shared: Share = Field(0.1, description="share of the nodes, those of most events, that all parts have, where hot nodes are shared")
    decay: NonNegativeFloat | None = Field(
        None,
        description="how fast neighbours count for less, a unit of time, in cutting and sampling; default: 1 / span",
    )
    theta: Annotated[NonNegativeFloat, Field(le=1)] = Field(0.1, description="share of remote neighbours that boundary decay samples")
    complete: bool = Field(True, description="whether older local neighbours fill the fan-out that boundary decay leaves")
    weight_cap: NonNegativeFloat = Field(
        4.0, description="largest weight of a remote neighbour that is sampled, times 1 / theta; likelier is what would have more; 0: none"
    )
    at_least_one: bool = Field(True, description="whether boundary decay samples one neighbour at least of a node that has any")
    alpha: Annotated[NonNegativeFloat, Field(le=2)] = Field(
        0.3, description="1 - cosine by which a shared node's memory has turned before it is sent to other ranks"
    )
    adaptive: bool = Field(False, description="let theta and alpha follow the times that are measured in the first epochs")
    sent: Annotated[NonNegativeFloat, Field(le=1)] | None = Field(
        None, description="share of changes that alpha lets through, as plans assume; default: as measured"
    )
    remote_cache: Size = Field(
        65_536, description="rows of other ranks, of nodes and of events each, that a rank caches, of strategies that fetch rows once"
    )
    replicas: Size = Field(
        2, description="groups of ranks, each with all of node memory in parts, that take turns in time, of memshare-replicas; 1: memshare"
    )
    staleness: Size = Field(1, description="iterations that memory may be behind, of mspipe")
    batches: Steps = Field(0, description="optimiser steps an epoch, the first ones, and as many validation batches; 0: all")
    validation: bool = Field(True, description="whether an epoch ends with the events that validate")

    @model_validator(mode="after")
    def _together(self) -> StreamTraining:
        if self.windows > 1 and not self.duration:
            raise UserError(f"training.windows: {self.windows} of them need a length, training.duration")
        if self.duration and self.windows == 1:
            raise UserError(f"training.duration: windows of {self.duration:g} need a number of them above 1, training.windows")
        if not (min(self.split) > 0 and sum(self.split) < 1):
            raise UserError(f"training.split: expected two shares above 0 with a sum below 1, got {list(self.split)}")
        return self


class StreamExperiment(Experiment):
    """Experiment on an event stream, as its YAML file says."""

    family: ClassVar[str] = "streams"
    dataset: Annotated[StreamData, BeforeValidator(named)]
    model: Annotated[StreamModel, BeforeValidator(named)]
    training: StreamTraining = StreamTraining()
    tgl: str | None = Field(None, description="a configuration of TGL (YAML), relative to this file: what it says where this one does not")
    strategies: Names = ("sequential", "tgl", "tgl-unique")

    @model_validator(mode="after")
    def _layers(self) -> StreamExperiment:
        fanout, layers = self.training.fanout, self.model.layers
        if len(fanout) > layers:
            raise UserError(f"training.fanout: {len(fanout)} numbers, and {layers} layer{'s' * (layers > 1)} of the model to sample for")
        return self

    @model_validator(mode="after")
    def _published(self) -> StreamExperiment:
        if self.dataset.negatives is None:
            return self
        if self.training.task == "node":
            raise UserError("dataset.negatives: links are ranked against them, and training.task: node predicts labels")
        for key in ("ranked", "negatives"):
            if getattr(self.training, key) != StreamTraining.model_fields[key].default:
                raise UserError(f"training.{key}: for negatives that are drawn, and dataset.negatives names those that are published")
        return self

    @property
    def protocol(self) -> Protocol:
        """Protocol by which the experiment's events are split, and predictions evaluated."""
        t, published = self.training, self.dataset.negatives
        files = PublishedNegatives() if published is None else PublishedNegatives(published.test, published.validation or "")
        return Protocol(t.task, *t.split, t.hidden_nodes, t.ranked, t.negatives, published=files)

    @property
    def hyper(self) -> Hyper:
        """Hyper-parameters of the experiment that strategies plan with."""
        t = self.training
        sharing = SharingHyper(
            t.partition,
            t.shared,
            t.decay,
            t.theta,
            t.complete,
            t.alpha,
            t.staleness,
            t.adaptive,
            t.sent,
            t.remote_cache,
            self.epochs,
            t.weight_cap,
            t.at_least_one,
            t.replicas,
        )
        return Hyper(
            batch_size=t.batch_size,
            fanout=t.fanout,
            variant=t.variant,
            seed=self.seed,
            batches=t.batches,
            validate=t.validation,
            events=EventHyper(
                self.protocol,
                t.sampling,
                t.windows,
                t.duration,
                cache_ratio=t.cache_ratio,
                presample=t.presample,
                sharing=sharing,
            ),
        )
