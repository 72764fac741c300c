"""Tables in the forms in which people keep them, written by the standard library and pyarrow, and datasets read of them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronoscale.datasets.formats.question import Question
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.events import EventStream

Columns = Mapping[str, Sequence[Any]]
SEPARATORS = {"csv": ",", "tsv": "\t", "txt": ";", "psv": "|"}
FORMS = (*SEPARATORS, "jsonl", "json", "parquet")


def write_table(path: Path, columns: Columns) -> Path:
    """Write a table in the form that the ending of `path` names, packed where it ends in .gz."""
    form = path.name.removesuffix(".gz").rsplit(".", 1)[1]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if form == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table({name: list(entries) for name, entries in columns.items()}), sink)
        content = sink.getvalue()
    elif form == "jsonl":
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    elif form == "json":
        content = json.dumps(rows).encode()
    else:
        text = io.StringIO()
        writer = csv.writer(text, delimiter=SEPARATORS[form], lineterminator="\n")
        writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
        content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def read_events(path: Path | Sequence[Path], **options: Any) -> EventStream:
    dataset = open_dataset(path, **options)  # type: ignore[arg-type]
    assert isinstance(dataset, EventStream)
    return dataset


def read_signal(path: Path, **options: Any) -> Signal:
    dataset = open_dataset(path, **options)
    assert isinstance(dataset, Signal)
    return dataset


def named_events(stream: EventStream) -> list[tuple[str, str, float]]:
    """Events of a stream in the names, or ids, of its source."""
    names = stream.node_ids if stream.node_names is None else stream.node_names
    assert names is not None
    return [(str(names[u]), str(names[v]), t) for u, v, t in zip(stream.src.tolist(), stream.dst.tolist(), stream.t.tolist(), strict=True)]


def question(path: Path, **options: Any) -> Question:
    """What is asked where a table is read, which is one line."""
    with pytest.raises(Question) as caught:
        open_dataset(path, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def answered(path: Path, doubt: Question, at: int = 0) -> np.ndarray[Any, Any]:
    """Readings [T, N] of a table where a question about it is answered."""
    return read_signal(path, **doubt.answers[at].options).values[:, :, 0]
