"""Another reading of the same files, by `str.split`, json, gzip and NumPy alone: what a file says, or why it says nothing."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
READ = ("src", "dst", "time", "weight", "feature", "label")  # roles of fields; what others hold does not matter
LAYOUTS = {
    "plain": ("src dst", "src dst time"),
    "snap": ("src dst time",),
    "konect": ("src dst _ time",),
    "network_repository": ("src dst time", "src dst _ time"),
}


class Wrong(Exception):
    """Nothing may be read of this file."""


class Events(NamedTuple):
    """In the file's order and ids."""

    src: list[int]
    dst: list[int]
    time: list[float]
    features: list[list[float]]
    labels: list[int]


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    try:
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except Exception as error:
        raise Wrong(f"not text: {error}") from None


def fields_of(text: str, comment: str | None, skip: int, separator: str | None = None) -> list[list[str]]:
    """Fields of every line that counts, as many in each. Without a separator it is a comma where the first line has one."""
    lines = [line if comment is None else line.split(comment)[0] for line in re.split(r"\r\n|\r|\n", text)[skip:]]
    lines = [line for line in lines if line.strip(" \t")]
    if not lines:
        raise Wrong("no data")
    if separator or "," in lines[0]:
        rows = [[field.strip(" \t") for field in line.split(",")] for line in lines]
    else:
        rows = [re.split(r"[ \t]+", line.strip(" \t")) for line in lines]
    if len({len(row) for row in rows}) > 1:
        raise Wrong("lines of different lengths")
    return [[field.strip("\v\f") for field in row] for row in rows]  # blanks to float, and to a C parser


def require_numbers(fields: Iterable[str], gaps: bool = False) -> None:
    """gaps: NaN stands for a reading that is not there."""
    for field in fields:
        if not (gaps and field.lower() == "nan") and (not NUMBER.fullmatch(field) or not math.isfinite(float(field))):
            raise Wrong(f"{field!r} is no number")


def numbers(column: Sequence[str]) -> list[Any]:
    """Integers, if all are; else floats."""
    if all(INTEGER.fullmatch(field) for field in column):
        return [int(field) for field in column]
    return [float(field) for field in column]


def _whole(column: Sequence[str], smallest: int | None) -> list[int]:
    values = numbers(column)
    if any(number != int(number) for number in values) or (smallest is not None and min(values) < smallest):
        raise Wrong("an id or label that is none")
    return [int(number) for number in values]


def events(path: Path, format: str, options: Mapping[str, Any]) -> Events:
    """A stream of a text format."""
    text = text_of(path)
    lines = re.split(r"\r\n|\r|\n", text)
    comment = {"konect": "%", "snap": "#", "network_repository": "#" if text.startswith("#") else "%"}.get(format)
    skip = 1 if format in ("jodie", "tgl") else int(options.get("skip", 0))
    rows = fields_of(text, comment, skip, "," if skip and format != "plain" else None)
    width = len(rows[0])
    if format == "jodie":
        roles = ["src", "dst", "time", "label", *["feature"] * (width - 4)]
    elif format == "tgl":
        roles = [name.strip() for name in lines[0].split(",")]
    elif "columns" in options:
        roles = str(options["columns"]).split(",")
    else:
        roles = next((layout.split() for layout in LAYOUTS[format] if len(layout.split()) == width), [])
    if len(roles) != width:
        raise Wrong(f"{width} fields")
    require_numbers(field for row in rows for role, field in zip(roles, row, strict=True) if role in READ)
    if format == "konect":
        head = [line.lstrip("% ").split() for line in lines if line.startswith("%")]
        if len(head) > 1 and lines[1].startswith("%") and head[1] and head[1][0].isdecimal() and int(head[1][0]) != len(rows):
            raise Wrong("another number of edges than promised")
    column = {role: [row[place] for row in rows] for place, role in enumerate(roles)}
    smallest = 1 if format == "konect" else 0
    wide = [place for place, role in enumerate(roles) if role in ("weight", "feature")]
    return Events(
        _whole(column["src"], smallest),
        _whole(column["dst"], smallest),
        numbers(column["time"]) if "time" in column else list(range(len(rows))),
        [[float(row[place]) for place in wide] for row in rows],
        _whole(column["label"], None) if "label" in column else [],
    )


def table_events(path: Path, options: Mapping[str, Any]) -> list[tuple[str, str, float, list[float]]]:
    """Events of a table with a header, by csv or json and datetime: names, seconds since 1970 or numbers, and a weight."""
    text = text_of(path)
    if ".jsonl" in path.name:
        try:
            objects = [json.loads(line) for line in re.split(r"\r\n|\r|\n", text) if line.strip()]
        except ValueError as error:
            raise Wrong(str(error)) from None
        header = [*dict.fromkeys(name for one in objects for name in one)]
        rows = [["" if one.get(name) is None else str(one[name]) for name in header] for one in objects]
    else:
        try:
            header, *rows = [
                row for row in csv.reader(io.StringIO(text, newline=""), delimiter="\t" if ".tsv" in path.name else ",") if row
            ]
        except (csv.Error, ValueError) as error:
            raise Wrong(str(error)) from None
        header = [name.strip() for name in header]
    if any(len(row) != len(header) for row in rows):
        raise Wrong("lines of different lengths")
    places = [_place(header, str(options[role])) for role in ("src", "dst", "time", "weight")]
    columns = [[row[place].strip() for row in rows] for place in places]
    src, dst, time, weight = columns
    if any(_missing(entry, _has_words(column)) or "\0" in entry for column in (src, dst) for entry in column):
        raise Wrong("an end is missing")
    if any(_missing(entry) or "\0" in entry for column in (time, weight) for entry in column):
        raise Wrong("a number is missing")
    return [(u, v, t, [float(w)]) for u, v, t, w in zip(src, dst, _times(time), numbers(weight), strict=True)]


def _missing(entry: str, among_words: bool = False) -> bool:
    return not entry or (not among_words and entry.lower() in ("nan", "na", "n/a", "null", "none", "-"))


def _has_words(column: list[str]) -> bool:
    return not all(_missing(entry) or NUMBER.fullmatch(entry) for entry in column)


def _place(header: list[str], name: str) -> int:
    if header.count(name) != 1:
        raise Wrong(f"no column {name}")
    return header.index(name)


def _times(entries: list[str]) -> list[float]:
    if all(NUMBER.fullmatch(entry) for entry in entries):
        return numbers(entries)
    try:
        two_digits = [re.sub(r"(?<=[T :])(\d)(?=[:.]|$)", r"0\1", entry) for entry in entries]  # of hours, minutes and seconds
        return [datetime.fromisoformat(entry).replace(tzinfo=UTC).timestamp() for entry in two_digits]
    except ValueError as error:
        raise Wrong(str(error)) from None


def readings(path: Path, format: str) -> tuple[np.ndarray[Any, Any], list[tuple[int, int]] | None]:
    """Values [T, N, C], NaN where there is none, and edges; None where this reading does not know them."""
    if format == "pygt":
        content = json.loads(text_of(path))
        for number in _flat(content["edges"]):
            if type(number) is not int:
                raise Wrong(f"{number!r} is no id")
        for number in _flat(content.get("FX", content.get("block"))):
            if type(number) not in (int, float, type(None)):
                raise Wrong(f"{number!r} is no reading")
        values = np.array([[np.nan if x is None else x for x in row] for row in content.get("FX", content.get("block"))], float)
        return values.reshape(*values.shape[:2], -1), [(u, v) for u, v in content["edges"]]
    if format == "tgcn":
        rows = fields_of(text_of(path), None, 1, ",")
        matrix = fields_of(text_of(path.with_name("x_adj.csv")), None, 0, ",")
        require_numbers((field for row in rows for field in row), gaps=True)
        require_numbers(field for row in matrix for field in row)
        edges = [(u, v) for u, row in enumerate(matrix) for v, entry in enumerate(row) if np.float32(entry) != 0]
        return np.array(rows, float)[:, :, None], edges
    if format == "node_values":
        matrix = np.load(path.with_name("adj_mat.npy"))
        return np.load(path).astype(float), [(int(u), int(v)) for u, v in np.argwhere(matrix != 0)]
    with h5py.File(path) as file:
        name = next(iter(file))
        return np.array(file[name]["block0_values"][()], float)[:, :, None], None


def _flat(entries: Any) -> list[Any]:
    return [one for entry in entries for one in _flat(entry)] if isinstance(entries, list) else [entries]
