"""Samples: a small dataset in every format, written into a folder; which file is to be spoilt, and options to read it with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from dcrnn_files import write_adjacency, write_table

from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream


class Sample(NamedTuple):
    """`files`: contents by name; or `write` puts them into the folder. `spoil`: the one that is spoilt. `open`: the one that is opened."""

    format: str
    open: str
    spoil: str
    write: Callable[[Path], object]
    options: Mapping[str, Any] = MappingProxyType({})


def _text(format: str, name: str, content: str | bytes, **options: Any) -> Sample:
    data = content if isinstance(content, bytes) else content.encode()
    return Sample(format, name, name, lambda folder: (folder / name).write_bytes(data), options)


def _tgcn(folder: Path) -> None:
    (folder / "x_speed.csv").write_text("773869,767541,9\n64.5,67,1\n62,nan,2\n60,69,3.25\n")
    (folder / "x_adj.csv").write_text("1,0.5,0\n0,1,0.25\n0,0,1\n")


def _arrays(folder: Path) -> None:
    np.save(folder / "node_values.npy", np.arange(12.0).reshape(2, 3, 2))
    np.save(folder / "adj_mat.npy", np.diag([1.0, 0.5], k=1))


def _dcrnn(folder: Path) -> None:
    write_table(folder / "a.h5")
    write_adjacency(folder / "adj_mx.pkl")


def _stored(folder: Path) -> None:
    src, dst = np.array([0, 1, 0], np.int32), np.array([1, 2, 2], np.int32)
    stream = EventStream(3, src, dst, np.array([5, 6, 6]), np.ones((3, 2), np.float32), name="s", account={"reader": "plain"})
    store.save(folder / "d", stream)


TIMED = "1 2 5\n2 1000000 6\n7 2 6\n1 1 9\n"
KONECT = "% asym positive\n% 4 9 9\n1 2 1 100\n2 9 1 100\n9 1 3 105\n1 2 1 106\n"
SNAP = "# SNAP\n# FromNodeId ToNodeId t\n5 7 10\n7 5 11\n\n5 300 12\n"
JODIE = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0.0,0,0.5,-1\n2,0,36.0,1,0.25,3\n1,2,77,0,1,2\n"
TGL = ",src,dst,time,ext_roll\n0,1,2,5.0,0\n1,2,1,6.5,1\n2,3,1,8,2\n"
EDGES = "% bip\n1,1,5.0,1000\n2,1,3.5,1001\n2,2,1,1003\n"
SIGNED = "6,2,4,1289241911.72836\n6,5,-2,1289241941.5\n1,15,1,1289243140.25\n"
PYGT = {"edges": [[0, 1], [1, 0], [1, 1]], "node_ids": {"A": 0, "B": 1}, "weights": [1, 0.5, 2], "FX": [[1, 2.5], [None, 4], [5, 6]]}
TABLE = 'from,to,when,w\nann,bob b,2019-01-01T08:15:00,1.5\nbob b,"x, y",2019-01-01T08:15:00,-2\n007,ann,2019-02-28,3e2\n'
LINES = "".join(json.dumps({"from": u, "to": v, "when": t, "w": t / 2}) + "\n" for u, v, t in [("a", "b", 5), ("b", "c", 7), ("c", "a", 9)])
COLUMNS = {"src": "from", "dst": "to", "time": "when", "weight": "w", "sort": True}

SAMPLES = (
    _text("plain", "a.txt", TIMED),
    _text("plain", "a.csv", TIMED.replace(" ", ",")),
    _text("plain", "two.txt", "1 2\n2 3\n3 1\n"),
    _text("plain", "otc.csv", SIGNED, columns="src,dst,weight,time"),
    _text("plain", "r.csv", "s,r,o,t\n" + SIGNED, columns="src,dst,_,time", skip=1, bipartite=True),
    _text("table", "t.csv", TABLE, **COLUMNS),
    _text("table", "t.tsv.gz", gzip.compress(TABLE.replace("x, y", "xy").replace(",", "\t").encode(), mtime=0), **COLUMNS),
    _text("table", "t.jsonl", LINES, **COLUMNS),
    _text("konect", "out.x", KONECT),
    _text("konect", "out.x", KONECT.replace("asym", "bip"), columns="src,dst,weight,time"),
    _text("snap", "s.txt", SNAP),
    _text("snap", "s.txt.gz", gzip.compress(SNAP.encode(), mtime=0)),
    _text("jodie", "j.csv", JODIE),
    _text("tgl", "edges.csv", TGL),
    _text("network_repository", "r.edges", EDGES, bipartite=True),
    _text("network_repository", "r.edges", TIMED),
    _text("pygt", "c.json", json.dumps(PYGT)),
    Sample("tgcn", "x_speed.csv", "x_speed.csv", _tgcn),
    Sample("tgcn", "x_speed.csv", "x_adj.csv", _tgcn),
    Sample("node_values", "node_values.npy", "node_values.npy", _arrays),
    Sample("node_values", "node_values.npy", "adj_mat.npy", _arrays),
    Sample("dcrnn", "a.h5", "a.h5", _dcrnn),
    Sample("dcrnn", "a.h5", "adj_mx.pkl", _dcrnn),
    Sample("store", "d", "d/meta.json", _stored),
    Sample("store", "d", "d/src.npy", _stored),
)
