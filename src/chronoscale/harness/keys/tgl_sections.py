"""The sections of TGL's configurations, each a list of one mapping: sampling, memory, gnn, train."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class TglSection(BaseModel):
    """Section of a configuration file of the software TGL, its keys as TGL names them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class TglSampling(TglSection):
    """Section `sampling` of a configuration file of TGL: neighbours, and the spans of time that they are drawn from."""

    layer: PositiveInt = 1
    neighbor: list[PositiveInt] = []
    strategy: Literal["recent", "uniform"] = "recent"
    prop_time: bool = False
    history: PositiveInt = 1
    duration: NonNegativeFloat = 0.0
    num_thread: PositiveInt | None = None
    no_sample: bool = False
    no_neg: bool = False


class TglMemory(TglSection):
    """Section `memory` of a configuration file of TGL: node memory and mailbox."""

    type: Literal["node", "none"]
    dim_time: NonNegativeInt = 0
    deliver_to: Literal["self", "neighbors"] = "self"
    mail_combine: Literal["last"] = "last"
    memory_update: Literal["gru", "rnn", "transformer"] | None = None
    attention_head: PositiveInt | None = None
    mailbox_size: PositiveInt = 1
    combine_node_feature: bool = False
    dim_out: NonNegativeInt


class TglNetwork(TglSection):
    """Section `gnn` of a configuration file of TGL: the layers that read the neighbours."""

    arch: Literal["transformer_attention", "identity"]
    layer: PositiveInt | None = None
    att_head: PositiveInt | None = None
    dim_time: NonNegativeInt = 0
    dim_out: PositiveInt | None = None
    combine: Literal["rnn"] | None = None
    time_transform: Literal["JODIE"] | None = None


class TglTraining(TglSection):
    """Section `train` of a configuration file of TGL."""

    epoch: PositiveInt
    batch_size: PositiveInt
    lr: PositiveFloat
    dropout: float = Field(ge=0, lt=1)
    att_dropout: float | None = None
    reorder: PositiveInt | None = None
    all_on_gpu: bool | None = None
    combine_neighs: bool | None = None
    ndim: PositiveInt | None = None
    edim: PositiveInt | None = None
