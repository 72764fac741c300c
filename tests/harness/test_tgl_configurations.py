"""TGL's configurations: the five models as TGL's repository has them, key by key, and one line for what is not to be had."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from chronoscale.errors import UserError
from chronoscale.harness.keys import tgl

Document = dict[str, list[dict[str, Any]]]
ONE = {"layer": 1, "neighbor": [10], "strategy": "recent", "prop_time": False, "history": 1, "duration": 0, "num_thread": 32}
TWO = {**ONE, "layer": 2, "neighbor": [10, 10], "strategy": "uniform"}
NODE = {"type": "node", "dim_time": 100, "deliver_to": "self", "mail_combine": "last", "mailbox_size": 1, "dim_out": 100}
NONE = {"type": "none", "dim_out": 0}
ATTENTION = {"arch": "transformer_attention", "layer": 2, "att_head": 2, "dim_time": 100, "dim_out": 100}
TRAIN = {"epoch": 100, "batch_size": 600, "lr": 0.0001, "dropout": 0.1, "att_dropout": 0.1, "all_on_gpu": True}
CONFIGURATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "TGN": {
        "sampling": ONE,
        "memory": {**NODE, "memory_update": "gru", "combine_node_feature": True},
        "gnn": {**ATTENTION, "layer": 1},
        "train": {**TRAIN, "dropout": 0.2, "att_dropout": 0.2},
    },
    "TGAT": {"sampling": TWO, "memory": NONE, "gnn": ATTENTION, "train": TRAIN},
    "DySAT": {
        "sampling": {**TWO, "prop_time": True, "history": 3, "duration": 10000},
        "memory": NONE,
        "gnn": {**ATTENTION, "dim_time": 0, "combine": "rnn"},
        "train": {**TRAIN, "epoch": 50},
    },
    "JODIE": {
        "sampling": {"no_sample": True, "history": 1},
        "memory": {**NODE, "memory_update": "rnn", "combine_node_feature": True},
        "gnn": {"arch": "identity", "time_transform": "JODIE"},
        "train": {key: value for key, value in TRAIN.items() if key != "att_dropout"},
    },
    "APAN": {
        "sampling": {**ONE, "no_neg": True},
        "memory": {
            **NODE,
            "deliver_to": "neighbors",
            "memory_update": "transformer",
            "attention_head": 2,
            "mailbox_size": 10,
            "combine_node_feature": False,
        },
        "gnn": {"arch": "identity"},
        "train": TRAIN,
    },
}
UNUSED = "such a model has no use for it, in TGL either"
ON_GPU = "train.all_on_gpu: true has no bearing on what is trained, and is not followed"
THREADS = "sampling.num_thread: 32 has no bearing on what is trained, and is not followed"


def write(folder: Path, name: str, changes: dict[str, Any] | None = None) -> Path:
    """The configuration, with changes `section.key`; a value of ... takes the key away."""
    document = copy.deepcopy(CONFIGURATIONS[name])
    for key, value in (changes or {}).items():
        section, entry = key.split(".")
        document[section][entry] = value
        if value is ...:
            del document[section][entry]
    path = folder / f"{name}.yml"
    path.write_text(yaml.safe_dump({section: [entries] for section, entries in document.items()}, sort_keys=False))
    return path


def expected(name: str, layers: int, heads: int, time: int, mails: int, dropout: float = 0.1) -> dict[str, Any]:
    some = {key: size for key, size in {"layers": layers, "time": time, "mails": mails}.items() if size}
    return {"name": name, "hidden": 100, "heads": heads, "dropout": dropout, **some}


def trained(fanout: list[int], sampling: str, windows: int = 1, duration: float = 0) -> dict[str, Any]:
    rest = {"fanout": fanout, "sampling": sampling, "windows": windows, "duration": duration}
    return {"batch_size": 600, "learning_rate": 0.0001, **rest}


@pytest.mark.parametrize(
    ("name", "keys", "notes"),
    [
        ("TGN", {"model": expected("tgn", 1, 2, 100, 0, 0.2), "training": trained([10], "recent"), "epochs": 100}, [THREADS, ON_GPU]),
        ("TGAT", {"model": expected("tgat", 2, 2, 100, 0), "training": trained([10, 10], "uniform"), "epochs": 100}, [THREADS, ON_GPU]),
        (
            "DySAT",
            {"model": expected("dysat", 2, 2, 0, 0), "training": trained([10, 10], "uniform", 3, 10000), "epochs": 50},
            [THREADS, ON_GPU, "gnn.combine: 'rnn' is read, and not followed: windows are joined by self-attention, as in DySAT's paper"],
        ),
        (
            "JODIE",
            {"model": expected("jodie", 0, 1, 0, 0), "training": trained([], "recent"), "epochs": 100},
            [ON_GPU, "memory.dim_time: 100 is read, and not followed: jodie takes the time that has passed as one number, as in its paper"],
        ),
        (
            "APAN",
            {"model": expected("apan", 0, 2, 0, 10), "training": trained([10], "recent"), "epochs": 100},
            [THREADS, ON_GPU, "memory.dim_time: 100 is read, and not followed: apan encodes the places of mails, as in its paper"],
        ),
    ],
)
def test_the_five_configurations_are_read_unchanged(tmp_path: Path, name: str, keys: dict[str, Any], notes: list[str]) -> None:
    assert tgl.read(write(tmp_path, name)) == (keys, tuple(notes))


@pytest.mark.parametrize(
    ("name", "changes", "where", "value"),
    [
        ("TGN", {"train.batch_size": 4000}, ("training", "batch_size"), 4000),
        ("TGN", {"train.lr": 1e-3}, ("training", "learning_rate"), 1e-3),
        ("TGN", {"train.lr": 1}, ("training", "learning_rate"), 1),
        ("TGN", {"train.epoch": 3}, ("epochs",), 3),
        ("TGN", {"sampling.neighbor": [5]}, ("training", "fanout"), [5]),
        ("TGN", {"sampling.strategy": "uniform"}, ("training", "sampling"), "uniform"),
        ("TGN", {"gnn.att_head": 4}, ("model", "heads"), 4),
        ("TGN", {"memory.dim_out": 64, "gnn.dim_out": 64}, ("model", "hidden"), 64),
        ("TGN", {"memory.dim_time": 32, "gnn.dim_time": 32}, ("model", "time"), 32),
        ("TGN", {"gnn.dim_out": ...}, ("model", "hidden"), 100),
        ("TGN", {"train.dropout": 0, "train.att_dropout": ...}, ("model", "dropout"), 0),
        ("TGN", {"train.reorder": 1}, ("epochs",), 100),
        ("TGAT", {"sampling.layer": 1, "sampling.neighbor": [7], "gnn.layer": 1}, ("model", "layers"), 1),
        ("DySAT", {"sampling.history": 5}, ("training", "windows"), 5),
        ("DySAT", {"sampling.duration": 2.5}, ("training", "duration"), 2.5),
        ("APAN", {"memory.mailbox_size": 16}, ("model", "mails"), 16),
        ("APAN", {"memory.attention_head": 4}, ("model", "heads"), 4),
    ],
)
def test_each_key_goes_to_its_place(tmp_path: Path, name: str, changes: dict[str, Any], where: tuple[str, ...], value: object) -> None:
    found: Any = tgl.read(write(tmp_path, name, changes)).keys
    for key in where:
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("name", "changes", "note"),
    [
        ("TGN", {"train.combine_neighs": True}, "train.combine_neighs: true has no bearing on what is trained, and is not followed"),
        ("TGN", {"train.ndim": 128}, "train.ndim: 128 is not followed: the dataset says it"),
        ("TGN", {"memory.attention_head": 2}, f"memory.attention_head: 2 is not followed: {UNUSED}"),
        (
            "TGAT",
            {"memory.memory_update": "gru"},
            f"memory.memory_update: 'gru' is not followed: {UNUSED}",
        ),
        ("JODIE", {"sampling.neighbor": [10]}, f"sampling.neighbor: [10] is not followed: {UNUSED}"),
        ("JODIE", {"gnn.layer": 1}, f"gnn.layer: 1 is not followed: {UNUSED}"),
    ],
)
def test_what_is_not_followed_is_noted(tmp_path: Path, name: str, changes: dict[str, Any], note: str) -> None:
    plain, changed = tgl.read(write(tmp_path, name)), tgl.read(write(tmp_path, name, changes))
    assert changed.keys == plain.keys and {*changed.notes} - {*plain.notes} == {note}


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("TGN", {"sampling.strategy": "identity"}, "sampling: strategy: expected 'recent' or 'uniform' (got 'identity')"),
        ("TGN", {"sampling.neighbour": [10]}, "sampling: unknown key 'neighbour'; did you mean 'neighbor'?"),
        ("TGN", {"sampling.neighbor": [10, 10]}, "sampling.neighbor: expected 1 numbers, as many as sampling.layer, got 2"),
        ("TGN", {"sampling.neighbor": [0]}, "sampling: neighbor.0: expected more than 0 (got 0)"),
        ("TGN", {"sampling.prop_time": True}, "sampling.prop_time: true is not to be had with tgn; valid: false"),
        ("TGN", {"sampling.no_neg": True}, "sampling.no_neg: true is not to be had with tgn; valid: false"),
        ("TGN", {"sampling.no_sample": True}, "sampling.no_sample: true is not to be had with tgn; valid: false"),
        ("TGN", {"sampling.history": 3}, "sampling.history: 3 is not to be had with tgn; valid: 1"),
        ("TGN", {"sampling.layer": 2, "sampling.neighbor": [9, 9]}, "gnn.layer: 1 is not to be had with 2 layers sampled; valid: 2"),
        ("TGN", {"memory.type": "edge"}, "memory: type: expected 'node' or 'none' (got 'edge')"),
        ("TGN", {"memory.mail_combine": "mean"}, "memory: mail_combine: expected 'last' (got 'mean')"),
        ("TGN", {"memory.mailbox_size": 2}, "memory.mailbox_size: 2 is not to be had with tgn; valid: 1"),
        ("TGN", {"memory.deliver_to": "neighbors"}, "memory.deliver_to: 'neighbors' is not to be had with tgn; valid: 'self'"),
        ("TGN", {"memory.combine_node_feature": False}, "memory.combine_node_feature: false is not to be had with tgn; valid: true"),
        ("TGN", {"memory.dim_out": 512}, "memory.dim_out: 512 is not to be had with gnn.dim_out: 100; valid: 100"),
        ("TGN", {"memory.dim_time": 64}, "memory.dim_time: 64 is not to be had with gnn.dim_time: 100; valid: 100"),
        (
            "TGN",
            {"memory.memory_update": "rnn"},
            "memory.memory_update: 'rnn' is not to be had with gnn.arch: transformer_attention; valid: gru",
        ),
        ("TGN", {"memory.memory_update": ...}, "memory.memory_update: nothing is not to be had with gnn.arch: transformer_attention"),
        ("TGN", {"gnn.arch": "gat"}, "gnn: arch: expected 'transformer_attention' or 'identity' (got 'gat')"),
        ("TGN", {"gnn.att_head": ...}, "gnn.att_head: required, and not there"),
        ("TGN", {"gnn.combine": "rnn"}, "gnn.combine: 'rnn' is not to be had with tgn; valid: nothing"),
        ("TGN", {"train.lr": ...}, "train: lr: required, and not there"),
        ("TGN", {"train.lr": "0,001"}, "train: lr: expected a number (got '0,001')"),
        ("TGN", {"train.epoch": True}, "train: epoch: expected a whole number (got true)"),
        ("TGN", {"train.dropout": 1}, "train: dropout: expected less than 1 (got 1)"),
        ("TGN", {"train.att_dropout": 0.5}, "train.att_dropout: 0.5 is not to be had beside a dropout of 0.2; valid: 0.2"),
        ("TGN", {"train.reorder": 16}, "train.reorder: 16 is not to be had: batches are trained on in the order of time; valid: 1"),
        ("TGAT", {"gnn.arch": "identity"}, "gnn.arch: identity is not to be had without memory; valid: transformer_attention"),
        ("TGAT", {"gnn.dim_out": ...}, "gnn.dim_out: required, and not there"),
        ("DySAT", {"sampling.duration": 0}, "sampling.duration: 3 windows need a duration above 0"),
        ("DySAT", {"sampling.prop_time": False}, "sampling.prop_time: false is not to be had with dysat; valid: true"),
        ("DySAT", {"gnn.dim_time": 100}, "gnn.dim_time: 100 is not to be had with dysat; valid: 0"),
        ("DySAT", {"gnn.combine": ...}, "gnn.combine: nothing is not to be had with dysat; valid: 'rnn'"),
        ("JODIE", {"gnn.time_transform": ...}, "gnn.time_transform: nothing is not to be had with memory_update: rnn; valid: JODIE"),
        ("JODIE", {"sampling.no_sample": False, "sampling.neighbor": [10]}, "sampling.no_sample: false is not to be had with jodie"),
        ("APAN", {"sampling.layer": 2, "sampling.neighbor": [10, 10]}, "sampling.layer: 2 is not to be had with apan; valid: 1"),
        ("APAN", {"memory.attention_head": ...}, "memory.attention_head: required, and not there"),
        (
            "APAN",
            {"memory.memory_update": "gru"},
            "memory.memory_update: 'gru' is not to be had with gnn.arch: identity; valid: rnn, transformer",
        ),
    ],
)
def test_what_is_not_to_be_had_is_one_line(tmp_path: Path, name: str, changes: dict[str, Any], said: str) -> None:
    path = write(tmp_path, name, changes)
    with pytest.raises(UserError) as caught:
        tgl.read(path)
    assert str(caught.value).startswith(f"{path}: {said}") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sampling: [", "not valid YAML"),
        ("- sampling", "expected keys and values in the sections sampling, memory, gnn, train, each a list of one mapping"),
        ("samplng: []", "unknown section 'samplng'; did you mean 'sampling'?"),
        ("memory: []", "sampling: expected a list of one mapping, and it is not there"),
        ("sampling: {layer: 1}", "sampling: expected a list of one mapping"),
        ("sampling: [{}, {}]", "sampling: expected a list of one mapping"),
        ("sampling: [7]", "sampling: expected keys and values (got 7)"),
    ],
)
def test_a_file_of_another_form_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.yml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        tgl.read(path)
    assert str(caught.value).startswith(f"{path}: {said}") and "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"none\.yml: no such configuration of TGL"):
        tgl.read(tmp_path / "none.yml")
