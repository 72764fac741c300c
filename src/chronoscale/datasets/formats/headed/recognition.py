"""Recognition of files that are tables with a header, by their first bytes and first line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from chronoscale.datasets.formats.tables.lines import DAMAGED, is_number, open_binary

PARQUET = b"PAR1"
SEPARATORS = {",": "CSV", "\t": "TSV", ";": "CSV with semicolons", "|": "table with bars", " ": "table with blanks"}
BLANKS = " \r\n"  # around a line of columns that are aligned
OBJECT = 1 << 16  # characters of an object in a line, at most, that are looked at


def is_parquet(path: Path) -> bool:
    """Return whether a file's first bytes, unpacked, are Parquet's; one that cannot be unpacked is none. Raises UserError if it cannot be
    opened."""
    try:
        with open_binary(path) as file:
            return file.read(len(PARQUET)) == PARQUET
    except DAMAGED:
        return False


def find_separator(line: str) -> str:
    """Find the character between the columns of a text table by its first line: the one of SEPARATORS that makes the most fields; blanks
    only where no other occurs. A comma where none does."""
    fields = {separator: len(split_line(line, separator)) for separator in SEPARATORS}
    most = max(list(SEPARATORS)[:-1], key=lambda separator: fields[separator])
    return most if fields[most] > 1 else " " if fields[" "] > 1 else ","


def split_line(line: str, separator: str) -> list[str]:
    """Split a line of a text table into its fields, without blanks around them; separators in quotes are none."""
    try:
        line = line.strip(BLANKS if separator == " " else "\r\n")
        return [field.strip() for field in next(csv.reader([line], delimiter=separator, skipinitialspace=separator == " "), [])]
    except csv.Error:
        return []


def is_header(line: str) -> bool:
    """Return whether a line reads like the header of a table: two fields or more, of which the first is no number and one at least is no
    number and not empty, or only the first is empty, as pandas writes a frame. Sensors in a header may well be numbers, what stands before
    them is not."""
    names = split_line(line, find_separator(line))
    return len(names) > 1 and not is_number(names[0]) and (not names[0] or any(not is_number(name) for name in names)) and any(names)


def is_json_line(line: str) -> bool:
    """Return whether a line is one object of JSON, without the keys of PyTorch Geometric Temporal's files, or begins a list."""
    start = line.lstrip()
    if start.startswith("["):
        return True
    if not start.startswith("{") or len(line) > OBJECT:
        return False
    try:
        content = json.loads(line)
    except ValueError:
        return False
    return isinstance(content, dict) and not {"edges", "FX", "block"} & content.keys()
