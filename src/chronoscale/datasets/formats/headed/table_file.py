"""Files of tables with a header, CSV and its kin, JSON lines and Parquet, packed by gzip or not: read by pyarrow into columns."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.headed_table import HeadedTable
from chronoscale.datasets.formats.headed.recognition import PARQUET, SEPARATORS, find_separator
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.datasets.formats.tables.lines import DAMAGED, damage_error, first_line, open_binary, read_bytes, text_lines
from chronoscale.datasets.unpacking import CHUNK, require_memory
from chronoscale.errors import UserError

BLOCK = 1 << 24  # bytes of JSON that are parsed together; an object has to fit


@dataclass(frozen=True, slots=True)
class TextLayout:
    """How a text table is laid out, where its reader is told: `header` whether its first line names the columns, None: it does, and nobody
    has said so; separator and decimal mark ("." or "," or "both"), None where the file shows them; encoding of its text."""

    header: bool | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"

    @property
    def has_names(self) -> bool:
        """Whether the first line is read as the names of columns."""
        return self.header is not False


@dataclass(frozen=True, slots=True)
class _TableFile:
    kind: str
    data: pa.Table
    place: Callable[[int], str]
    decimal: str | None = "."
    named: bool = True  # columns have names


def read_headed_table(paths: Sequence[Path], layout: TextLayout) -> HeadedTable:
    """Read the table of one file, or of several with the same columns, one after another.

    Raises UserError for a file that is missing, damaged, or of another form than its beginning promises. A whole table is in memory: about
    what its files unpack to.
    """
    files = [_read_file(path, layout) for path in paths]
    names = files[0].data.column_names
    for path, file in zip(paths[1:], files[1:], strict=True):
        if file.data.column_names != names:
            raise UserError(f"{path}: the columns are {_listed(file.data)}, those of {paths[0]} are {_listed(files[0].data)}")
    places = [str(place) for place in range(len(names))]  # two columns may have one name
    try:
        whole = pa.concat_tables([file.data.rename_columns(places) for file in files], promote_options="permissive")
    except pa.ArrowException as error:
        raise UserError(f"{paths[0]}: the files of one table differ in a column's type ({error})") from None
    if not whole.num_rows:
        raise UserError(f"{paths[0]}: no data")

    def row_error(row: int, problem: str) -> UserError:
        for file in files:
            if row < file.data.num_rows:
                break
            row -= file.data.num_rows
        return UserError(f"{file.place(row)}: {problem}")

    names = [name.strip() if files[0].named else "" for name in names]
    counts = Counter(names)
    columns = [
        Column(name, place + 1, _joined(whole.column(place)), row_error, files[0].decimal or ",", counts[name] == 1)
        for place, name in enumerate(names)
    ]
    if files[0].decimal is None:
        columns = _choose_decimal(paths[0], columns)
    return HeadedTable(tuple(paths), files[0].kind, tuple(columns), whole.num_rows, row_error)


def _choose_decimal(path: Path, columns: list[Column]) -> list[Column]:
    """Return columns of text with the mark before fractions: a comma where one has such entries. Raises Question where points of another
    may then stand between thousands."""
    commas = next((column for column in columns if column.has_decimal_commas), None)
    if commas is None:
        return [replace(column, decimal=".") for column in columns]
    for column in columns:
        if column.has_unclear_points:
            first, other = (one.data.filter(pc.match_substring(one.data, mark))[0] for one, mark in ((column, "."), (commas, ",")))
            text = f"{column.label} has numbers such as {first} beside {other} in {commas.label}, and the point may stand between thousands"
            raise Question(path, text, Answer("it does", {"decimal": ","}), Answer("it stands before fractions", {"decimal": "both"}))
    return columns


def _joined(data: pa.ChunkedArray) -> pa.Array:
    """Return the entries of a column in one piece; categories as what they stand for, text without blanks around it."""
    if pa.types.is_dictionary(data.type):
        data = pc.cast(data, data.type.value_type)
    if pa.types.is_string(data.type) or pa.types.is_large_string(data.type):
        data = pc.utf8_trim_whitespace(pc.cast(data, pa.large_string()))
    return data.combine_chunks()


def _listed(data: pa.Table) -> str:
    return ", ".join(data.column_names[:12])


def _read_file(path: Path, layout: TextLayout) -> _TableFile:
    try:
        with open_binary(path) as file:
            begin = file.read(4)
        start = begin.decode("ascii", "replace").lstrip("\ufeff\ufffd \t\r\n")[:1]
        if begin == PARQUET:
            table = _read_parquet(path)
        elif start in ("{", "["):
            table = _read_json(path, start)
        else:
            table = _read_text(path, layout)
        if table.data.column_names:  # which are decoded here
            table.data.validate(full=True)
        return table
    except DAMAGED as error:
        raise damage_error(path, error) from None
    except pa.ArrowException as error:
        raise UserError(f"{path}: truncated or damaged ({_one_line(error)})") from None


def _read_parquet(path: Path) -> _TableFile:
    with open_binary(path) as file:
        packed = isinstance(file, io.BufferedReader) and not isinstance(file.raw, io.FileIO)
        content = pa.BufferReader(file.read()) if packed else pa.memory_map(str(path))
    try:
        opened = pq.ParquetFile(content)
        require_memory(path, sum(opened.metadata.row_group(at).total_byte_size for at in range(opened.metadata.num_row_groups)))
        return _TableFile("Parquet", opened.read(), lambda row: f"{path}: row {row + 1}")
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: truncated or not a Parquet file ({_one_line(error)})") from None


def _read_json(path: Path, begin: str) -> _TableFile:
    def place(row: int) -> str:
        lines = (number for number, line in enumerate(text_lines(path), start=1) if line.strip())
        return f"{path}:{next(islice(lines, row, None))}" if begin == "{" else f"{path}: entry {row + 1}"

    try:
        if begin == "{":
            data = _read_lines(path, None)
            if any(pa.types.is_timestamp(field.type) for field in data.schema):  # as text, since their zones are lost
                as_text = pa.schema([(one.name, pa.string() if pa.types.is_timestamp(one.type) else one.type) for one in data.schema])
                data = _read_lines(path, as_text)
            return _TableFile("JSON lines", data, place)
        entries = json.loads(read_bytes(path))
        if not all(isinstance(entry, dict) for entry in entries):
            raise UserError(f"{path}: expected a list of objects, each with the same keys")
        return _TableFile("JSON", pa.Table.from_pylist(entries), place)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON ({error.msg})") from None
    except (pa.ArrowException, OverflowError) as error:
        raise UserError(f"{path}: not a table of JSON, an object a line ({_one_line(error)})") from None


def _read_lines(path: Path, schema: pa.Schema | None) -> pa.Table:
    with open_binary(path) as file:
        reading = pa_json.ReadOptions(use_threads=False, block_size=BLOCK)
        return pa_json.read_json(file, reading, pa_json.ParseOptions(explicit_schema=schema))


def _read_text(path: Path, layout: TextLayout) -> _TableFile:
    if layout.separator is None:
        separator = find_separator(first_line(path)) if layout.encoding == "utf-8" else ","
    else:
        separator = {"tab": "\t", "\\t": "\t"}.get(layout.separator, layout.separator)
    if len(separator) != 1:
        raise UserError(f"{path}: separator: expected one character, or tab, got '{separator}'")
    ragged = list[pa_csv.InvalidRow]()

    def refuse(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    def place(row: int) -> str:
        return f"{path}:{_line_of(path, row + layout.has_names, separator)}"

    opened = partial(io.BytesIO, _align(path)) if separator == " " else partial(open_binary, path)
    parsing = pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse)
    try:
        # rows have no numbers in errors where threads read
        reading = pa_csv.ReadOptions(use_threads=False, encoding=layout.encoding, autogenerate_column_names=True)
        with opened() as file:
            width = len(pa_csv.open_csv(file, reading, parsing).schema)
        types = {f"f{at}": pa.large_string() for at in range(width)}
        converting = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        with opened() as file:
            data = pa_csv.read_csv(file, reading, parsing, converting)
    except (pa.ArrowException, LookupError) as error:
        if ragged:
            row = ragged[0]
            where = path if row.number is None else f"{path}:{_line_of(path, row.number - 1, separator)}"
            raise UserError(f"{where}: expected {row.expected_columns} fields, found {row.actual_columns}") from None
        raise UserError(f"{path}: not a table of text ({_one_line(error)})") from None
    if layout.has_names and data.num_rows:
        data = data.rename_columns([str(data.column(at)[0]) for at in range(width)]).slice(1)
    decimal = layout.decimal or (None if separator == ";" else ".")
    return _TableFile(SEPARATORS.get(separator, f"table with '{separator}'"), data, place, decimal, layout.has_names)


def _align(path: Path) -> bytes:
    """Read a text table with blanks between columns, one for each run of them, as in columns that are aligned; a line with a quote in it
    stays as it is."""
    content, aligned = io.BytesIO(read_bytes(path)), io.BytesIO()
    while some := content.readlines(CHUNK):  # a list of all would take ten times the file
        lines = b"".join(some).splitlines()
        aligned.write(b"".join((line if b'"' in line else b" ".join(line.split())) + b"\n" for line in lines))
    return aligned.getvalue()


def _line_of(path: Path, record: int, separator: str) -> int:
    """Return the line, from 1, in which a record, from 0, of a text table ends; empty lines are none."""
    reader = csv.reader(text_lines(path), delimiter=separator, skipinitialspace=separator == " ")
    next(islice((fields for fields in reader if fields), record, None))
    return reader.line_num


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
