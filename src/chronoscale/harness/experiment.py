"""Experiment: the file that a user writes, validated."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from chronoscale.documents import mapping
from chronoscale.errors import UserError, unknown
from chronoscale.simulator import presets
from chronoscale.strategies.registry import STRATEGIES, of
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import MODELS
from chronoscale.strategies.workload import Family, Hyper


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cut(_Part):
    """How events become snapshots: by fixed width (in the unit of the timestamps) or by fixed count."""

    width: PositiveFloat | None = None
    count: PositiveInt | None = None
    cumulative: bool = False
    sliding: PositiveInt | None = None

    @model_validator(mode="after")
    def _one(self) -> Cut:
        if (self.width is None) == (self.count is None):
            raise ValueError("give exactly one of width, count")
        return self


class Data(_Part):
    """A dataset by catalogue `name` or by `path`; `window` joins that many snapshots into each (sliding).

    `format` and `options` go to the reader of a path, as for `chronoscale data convert`. `scale` multiplies all counts, to simulate a
    larger graph that evolves alike; there is none to execute. `missing` is the reading of a signal that means there is none; `time_of_day`
    adds a channel to a signal: the share of the day that is over, at so many steps a day.
    """

    name: str | None = None
    path: str | None = None
    cut: Cut | None = None
    window: PositiveInt | None = None
    format: str | None = None
    options: dict[str, bool | str] = {}
    scale: PositiveInt = 1
    missing: float | None = None
    time_of_day: PositiveInt | None = None

    @model_validator(mode="after")
    def _one(self) -> Data:
        if (self.name is None) == (self.path is None):
            raise ValueError("give exactly one of name, path")
        return self

    @property
    def label(self) -> str:
        """Name for people."""
        return (self.name or Path(str(self.path)).stem) + (f" x {self.scale}" if self.scale > 1 else "")


class Model(_Part):
    """A model by name and its widths; `inputs` is the width of generated features where a dataset of snapshots has none.

    hops, heads: of models on signals that diffuse or attend.
    """

    name: str = "wd-gcn"
    hidden: PositiveInt = 64
    layers: PositiveInt = 1
    inputs: PositiveInt = 64
    hops: PositiveInt = 2
    heads: PositiveInt = 4


class Training(_Part):
    """Hyper-parameters of training. Groups are of snapshots, windows of signals."""

    group_size: PositiveInt = 4
    stride: PositiveInt = 1
    groups_per_rank: Literal[1, 2] = 1
    batch_size: PositiveInt = 64  # windows a rank and optimiser step
    window: PositiveInt = 12  # steps read
    horizon: PositiveInt | None = None  # snapshots or steps predicted; without it 1 of snapshots, 12 of signals
    batches: NonNegativeInt = 0  # optimiser steps an epoch, the first ones, and as many validation batches; 0: all
    validation: bool = True  # whether an epoch ends with the validation windows
    standardise: Literal["training", "windows", "series"] = "training"
    variant: Literal["exact", "as-published"] = "exact"
    learning_rate: PositiveFloat = 0.01


# Keys that one family alone reads: what is not read is not taken either.
OWN: Mapping[Family, Mapping[str, tuple[str, ...]]] = {
    Family.DTDG: {
        "": ("groups",),
        "dataset": ("cut", "window", "scale"),
        "model": ("inputs",),
        "training": ("group_size", "stride", "groups_per_rank"),
    },
    Family.ST: {
        "dataset": ("missing", "time_of_day"),
        "model": ("hops", "heads"),
        "training": ("batch_size", "window", "batches", "validation", "standardise"),
    },
}
KIND = {Family.DTDG: "snapshots", Family.ST: "signals"}
USUAL: Mapping[Family, tuple[str, ...]] = {Family.DTDG: ("psg", "real-reuse", "real-g+"), Family.ST: ("pgt", "index", "dist-index")}
TESTBED = {Family.DTDG: "h200", Family.ST: "polaris"}  # REAL's, PGT-I's
HORIZON = {Family.DTDG: 1, Family.ST: 12}


def _family(model: str) -> Family:
    return Family.ST if model in FORECASTERS else Family.DTDG


def _of(data: Mapping[str, Any]) -> Family:
    model = data.get("model")
    return _family(model.name if isinstance(model, Model) else "")


PARTS: dict[str, type[BaseModel]] = {"dataset": Data, "cut": Cut, "model": Model, "training": Training}


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(|k|M|G|T)(i?)B?\s*", re.ASCII)


def _bytes(value: Any) -> Any:
    """Bytes of 2000000000, "2GB" or "1.5 GiB"."""
    found = SIZE.fullmatch(str(value)) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
    size = int(float(found[1]) * (1024 if found[3] else 1000) ** " kMGT".index(found[2] or " ")) if found else 0
    if size < 1:
        raise UserError(f"memory: expected bytes or a size such as 2GB, 512MB or 1.5GiB, got {value!r}")
    return size


class Experiment(_Part):
    """What to run. Every field but `dataset` has a default."""

    name: str = Field("experiment", pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")
    dataset: Annotated[Data, BeforeValidator(_named)]
    model: Annotated[Model, BeforeValidator(_named)] = Model()
    training: Training = Training()
    strategies: tuple[str, ...] = Field(default_factory=lambda data: USUAL[_of(data)])
    ranks: tuple[int, ...] = (1, 2)  # executed for real
    groups: PositiveInt | None = Field(None, description="snapshot groups an epoch, the first ones; all without it")
    epochs: PositiveInt = Field(20, description="trained by `chronoscale train`")
    repeats: PositiveInt = 5
    warmup: int = Field(1, ge=0)
    threads: PositiveInt = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    transfer_thread: bool = Field(False, description="on CPU, run transfers on a second thread")
    memory: Annotated[int, BeforeValidator(_bytes)] | None = Field(None, description="limit a rank, if below what the machine has: 2GB")
    cluster: str = Field(default_factory=lambda data: TESTBED[_of(data)])
    gpus: tuple[int, ...] = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # simulated
    costs: str = Field("auto", description="datasheet, fitted, or the path of a costs.json; auto: fitted to run, datasheet to simulate")
    extrapolate: bool = False
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _names(self) -> Experiment:
        if self.model.name not in {**MODELS, **FORECASTERS}:
            raise unknown("model", self.model.name, [*MODELS, *FORECASTERS])
        for strategy in self.strategies:
            if strategy not in STRATEGIES:
                raise unknown("strategy", strategy, of(self.family))
            if (meant := STRATEGIES[strategy].family) is not self.family:
                raise UserError(f"strategies: '{strategy}' is for {KIND[meant]}, {self._on}; valid: {', '.join(of(self.family))}")
        self._reads()
        self.hyper  # noqa: B018 (validated by reading)
        if self.cluster not in presets.names():
            raise unknown("cluster", self.cluster, presets.names())
        for key, counts in (("ranks", self.ranks), ("gpus", self.gpus)):
            if not counts or min(counts) < 1:
                raise UserError(f"{key}: expected one or more counts of at least 1, got {list(counts)}")
            if len(set(counts)) < len(counts):
                raise UserError(f"{key}: each count once, got {list(counts)}")
        if not self.strategies or len(set(self.strategies)) < len(self.strategies):
            raise UserError(f"strategies: expected at least one name, each once, got {list(self.strategies)}")
        return self

    def _reads(self) -> None:
        """Refuse what only another family reads."""
        for family, parts in OWN.items():
            for name, keys in parts.items():
                part: _Part = getattr(self, name) if name else self
                for key in keys:
                    if family is not self.family and getattr(part, key) != type(part).model_fields[key].default:
                        where = f"{name}.{key}" if name else key
                        raise UserError(f"{where}: for {KIND[family]} alone, and {self._on}")

    @property
    def _on(self) -> str:
        return f"model '{self.model.name}' trains on {KIND[self.family]}"

    @property
    def family(self) -> Family:
        """The kind of dynamic graph that the model trains on."""
        return _family(self.model.name)

    @property
    def horizon(self) -> int:
        """Snapshots or steps predicted."""
        return self.training.horizon or HORIZON[self.family]

    @property
    def hyper(self) -> Hyper:
        """The part that planning reads."""
        t = self.training
        return Hyper(
            group_size=t.group_size,
            stride=t.stride,
            groups_per_rank=t.groups_per_rank,
            batch_size=t.batch_size,
            window=t.window,
            horizon=self.horizon,
            variant=t.variant,
            seed=self.seed,
            batches=t.batches,
            validate=t.validation,
            standardise=t.standardise,
        )

    @property
    def length(self) -> int | None:
        """Snapshots that `groups` groups need; None for all."""
        t = self.training
        return None if self.groups is None else (self.groups - 1) * t.stride + t.group_size + self.horizon

    def digest(self, *keys: str) -> str:
        """Of the given fields (all without any): equal experiments have equal digests."""
        data = self.model_dump(mode="json", include=set(keys) or None)
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


def load(path: Path, overrides: dict[str, Any] | None = None) -> Experiment:
    """Read an experiment file (YAML); `overrides` replace top-level keys.

    Raises UserError in one line: the file, the key, what was expected, the nearest valid name.
    """
    data = mapping(path, "experiment file", ", such as `dataset: math_overflow_monthly`")
    data.setdefault("name", path.stem)
    data.update(overrides or {})
    return check(data, str(path))


def check(data: dict[str, Any], where: str) -> Experiment:
    """Validate. Raises UserError as `load` does."""
    try:
        return Experiment.model_validate(data)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            part: type[BaseModel] = Experiment
            for step in first["loc"][:-1]:
                part = PARTS.get(str(step), part)
            raise UserError(f"{where}: {unknown('key', key, part.model_fields)}") from None
        raise UserError(f"{where}: {key}: {first['msg']} (got {first['input']!r})") from None
