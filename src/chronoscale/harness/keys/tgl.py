"""TGL's configurations (config/*.yml of its repository, explained in its config/readme.yml), as the keys of an experiment on streams.

A configuration puts a model together from parts; five ways to do so are models by name. What merely has another name is mapped, what has
no bearing on what is trained is noted, and anything else is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from chronoscale.errors import UserError, unknown
from chronoscale.harness.keys.tgl_sections import TglMemory, TglNetwork, TglSampling, TglSection, TglTraining
from chronoscale.validation_messages import mistake, shown
from chronoscale.yaml_files import mapping


class TglConfiguration(NamedTuple):
    """Configuration file of the software TGL as the keys of an experiment file, and what of it is not followed.

    keys: model (name, hidden, heads, dropout, and of layers, time, mails those that it has), training (batch_size, learning_rate, fanout,
    sampling, windows, duration), epochs. notes: what the file says and nothing here follows, a sentence each.
    """

    keys: dict[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Contents of the four sections of a TGL configuration."""

    sampling: TglSampling
    memory: TglMemory
    gnn: TglNetwork
    train: TglTraining


@dataclass(frozen=True, slots=True)
class _Model:
    """takes: the valid values of keys, `section.key`. aggregates: whether it has layers over sampled neighbours. notes: as `NOTED`."""

    takes: dict[str, tuple[object, ...]]
    aggregates: bool
    notes: dict[str, str]


_PLAIN: dict[str, tuple[object, ...]] = {"gnn.combine": (None,), "gnn.time_transform": (None,), "sampling.no_sample": (False,)}
_ONCE: dict[str, tuple[object, ...]] = {"sampling.history": (1,), "sampling.duration": (0.0,)}
_ROOTS: dict[str, tuple[object, ...]] = {"sampling.prop_time": (False,), "sampling.no_neg": (False,)}
MODELS = {
    "tgn": _Model(
        {
            **(_PLAIN | _ONCE | _ROOTS),
            "memory.deliver_to": ("self",),
            "memory.memory_update": ("gru",),
            "memory.mailbox_size": (1,),
            "memory.combine_node_feature": (True,),
        },
        True,
        {},
    ),
    "tgat": _Model(_PLAIN | _ONCE | _ROOTS, True, {}),
    "dysat": _Model(
        {
            "gnn.combine": ("rnn",),
            "gnn.time_transform": (None,),
            "gnn.dim_time": (0,),
            "sampling.no_sample": (False,),
            "sampling.prop_time": (True,),
            "sampling.no_neg": (False,),
        },
        True,
        {"gnn.combine": "{value} is read, and not followed: windows are joined by self-attention, as in DySAT's paper"},
    ),
    "jodie": _Model(
        {
            **(_ONCE | _ROOTS),
            "gnn.combine": (None,),
            "sampling.no_sample": (True,),
            "memory.deliver_to": ("self",),
            "memory.mailbox_size": (1,),
            "memory.combine_node_feature": (True,),
        },
        False,
        {"memory.dim_time": "{value} is read, and not followed: {model} takes the time that has passed as one number, as in its paper"},
    ),
    "apan": _Model(
        {
            **(_PLAIN | _ONCE),
            "sampling.prop_time": (False,),
            "sampling.layer": (1,),
            "memory.deliver_to": ("neighbors",),
            "memory.combine_node_feature": (False,),
        },
        False,
        {"memory.dim_time": "{value} is read, and not followed: {model} encodes the places of mails, as in its paper"},
    ),
}
UNUSED = "{value} is not followed: such a model has no use for it, in TGL either"
SPEED = "{value} has no bearing on what is trained, and is not followed"
NOTED = {
    "sampling.num_thread": SPEED,
    "train.all_on_gpu": SPEED,
    "train.combine_neighs": SPEED,
    "train.ndim": "{value} is not followed: the dataset says it",
    "train.edim": "{value} is not followed: the dataset says it",
}
SECTIONS: dict[str, type[TglSection]] = {"sampling": TglSampling, "memory": TglMemory, "gnn": TglNetwork, "train": TglTraining}
Section = TypeVar("Section", bound=TglSection)


def read(path: Path) -> TglConfiguration:
    """Read a configuration file of the software TGL, which the key `tgl` of an experiment file names.

    Raises UserError in one line: the file, the key, what was given, what is valid.
    """
    data = mapping(path, "configuration of TGL", " in the sections sampling, memory, gnn, train, each a list of one mapping")
    try:
        for name in data:
            if name not in SECTIONS:
                raise unknown("section", name, SECTIONS)
        parts = _Parts(*(_section(data, name, kind) for name, kind in SECTIONS.items()))  # type: ignore[arg-type]
        return _configuration(parts)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _section(data: dict[Any, Any], name: str, kind: type[Section]) -> Section:
    entries = data.get(name)
    if not isinstance(entries, list) or len(entries) != 1:
        raise UserError(f"{name}: expected a list of one mapping{'' if name in data else ', and it is not there'}")
    try:
        return kind.model_validate(entries[0])
    except ValidationError as error:
        raise UserError(f"{name}: {mistake(error, kind)}") from None


def _configuration(parts: _Parts) -> TglConfiguration:
    sampling, memory, gnn, train = parts.sampling, parts.memory, parts.gnn, parts.train
    name = _name(parts)
    model = MODELS[name]
    for key, valid in model.takes.items():
        if (value := _value(parts, key)) not in valid:
            raise UserError(f"{key}: {shown(value)} is not to be had with {name}; valid: {', '.join(map(shown, valid))}")
    fanout = [] if sampling.no_sample else sampling.neighbor
    if len(fanout) != (0 if sampling.no_sample else sampling.layer):
        raise UserError(f"sampling.neighbor: expected {sampling.layer} numbers, as many as sampling.layer, got {len(fanout)}")
    if model.aggregates and gnn.layer != sampling.layer:
        raise UserError(f"gnn.layer: {shown(gnn.layer)} is not to be had with {sampling.layer} layers sampled; valid: {sampling.layer}")
    if sampling.history > 1 and sampling.duration == 0:
        raise UserError(f"sampling.duration: {sampling.history} windows need a duration above 0")
    if train.att_dropout not in (None, train.dropout):
        raise UserError(
            f"train.att_dropout: {train.att_dropout} is not to be had beside a dropout of {train.dropout}; valid: {train.dropout}"
        )
    if train.reorder is not None and train.reorder > 1:
        raise UserError(f"train.reorder: {train.reorder} is not to be had: batches are trained on in the order of time; valid: 1")
    keys = {
        "model": {
            "name": name,
            "hidden": _hidden(parts),
            "heads": _heads(parts, name),
            "dropout": train.dropout,
            **({"layers": sampling.layer} if model.aggregates else {}),
            **({"time": width} if (width := _time(parts, name)) else {}),
            **({"mails": memory.mailbox_size} if name == "apan" else {}),
        },
        "training": {
            "batch_size": train.batch_size,
            "learning_rate": train.lr,
            "fanout": list(fanout),
            "sampling": sampling.strategy,
            "windows": sampling.history,
            "duration": sampling.duration,
        },
        "epochs": train.epoch,
    }
    sentences = {**dict.fromkeys(_unused(parts, name), UNUSED), **NOTED, **model.notes}
    noted = {key: _value(parts, key) for key in sentences}
    notes = (f"{key}: {sentences[key].format(value=shown(value), model=name)}" for key, value in noted.items() if value not in (None, 0))
    return TglConfiguration(keys, tuple(notes))


def _unused(parts: _Parts, name: str) -> list[str]:
    """Keys that are there, and that TGL does not read either for such a model."""
    unread: dict[str, set[str]] = {"sampling": set(), "memory": set(), "gnn": set()}
    if parts.sampling.no_sample:
        unread["sampling"] = {"layer", "neighbor", "strategy"}
    if parts.memory.type == "none":
        unread["memory"] = {*TglMemory.model_fields} - {"type", "dim_out"}
    elif name != "apan":
        unread["memory"] = {"attention_head"}
    if parts.gnn.arch == "identity":
        unread["gnn"] = {"layer", "att_head", "dim_time"}
    return [f"{section}.{key}" for section, keys in unread.items() for key in getattr(parts, section).model_fields_set if key in keys]


def _heads(parts: _Parts, name: str) -> int:
    if not MODELS[name].aggregates and name != "apan":
        return 1
    heads = parts.memory.attention_head if name == "apan" else parts.gnn.att_head
    if heads is None:
        raise UserError(f"{'memory.attention_head' if name == 'apan' else 'gnn.att_head'}: required, and not there")
    return heads


def _name(parts: _Parts) -> str:
    """The model that is put together. Raises UserError where the parts are none's."""
    memory, gnn = parts.memory, parts.gnn
    if memory.type == "none":
        if gnn.arch == "identity":
            raise UserError("gnn.arch: identity is not to be had without memory; valid: transformer_attention, or memory.type: node")
        return "dysat" if parts.sampling.history > 1 else "tgat"
    valid = {"transformer_attention": {"gru": "tgn"}, "identity": {"rnn": "jodie", "transformer": "apan"}}[gnn.arch]
    if memory.memory_update not in valid:
        raise UserError(
            f"memory.memory_update: {shown(memory.memory_update)} is not to be had with gnn.arch: {gnn.arch}; valid: {', '.join(valid)}"
        )
    if valid[memory.memory_update] == "jodie" and gnn.time_transform is None:
        raise UserError("gnn.time_transform: nothing is not to be had with memory_update: rnn; valid: JODIE")
    return valid[memory.memory_update]


def _hidden(parts: _Parts) -> int:
    memory, gnn = parts.memory, parts.gnn
    if gnn.dim_out is None and not memory.dim_out:
        raise UserError("gnn.dim_out: required, and not there")
    if memory.type == "node" and gnn.dim_out not in (None, memory.dim_out):
        raise UserError(f"memory.dim_out: {memory.dim_out} is not to be had with gnn.dim_out: {gnn.dim_out}; valid: {gnn.dim_out}")
    return gnn.dim_out or memory.dim_out


def _time(parts: _Parts, name: str) -> int:
    """Width of the time encoding, of which a model has one."""
    memory, gnn = parts.memory, parts.gnn
    if name == "tgn" and memory.dim_time != gnn.dim_time:
        raise UserError(f"memory.dim_time: {memory.dim_time} is not to be had with gnn.dim_time: {gnn.dim_time}; valid: {gnn.dim_time}")
    return 0 if name in ("jodie", "apan") else gnn.dim_time


def _value(parts: _Parts, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(parts, section), name)
