"""Lines of text files, plain or packed by gzip or zip."""

from __future__ import annotations

import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Generator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from chronoscale.datasets.unpacking import CHUNK, GZIP, gunzip, open_packed
from chronoscale.errors import UserError

DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, UnicodeDecodeError)


def open_binary(path: Path) -> IO[bytes]:
    """Open a dataset's file for reading bytes, unpacked where its first bytes say that it is gzip, or a zip archive of one file. Raises
    UserError if it cannot be opened, and one of DAMAGED for a damaged archive."""
    try:
        packed = open_packed(path)
        return path.open("rb") if packed is None else io.BufferedReader(packed, CHUNK)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'not readable').lower()}") from None


def read_bytes(path: Path) -> bytes:
    """Read a dataset's whole file, unpacked as `open_binary` does. Raises UserError where it cannot be read, is damaged, or would fill
    memory."""
    try:
        with path.open("rb") as file:
            packed = file.read(len(GZIP)) == GZIP
        if packed:
            return gunzip(path, path.read_bytes())
        with open_binary(path) as content:
            return content.read()
    except DAMAGED as error:
        raise damage_error(path, error) from None
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'not readable').lower()}") from None


def text_lines(path: Path) -> Generator[str, None, None]:
    """Yield the lines of a dataset's text file, plain or packed. Raises UserError where it cannot be opened, is truncated, or is not
    UTF-8."""
    try:
        with open_binary(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig") as text:
            yield from text
    except DAMAGED as error:
        raise damage_error(path, error) from None


def first_line(path: Path) -> str:
    """Read the first line of a dataset's text file, plain or packed, by which formats are told apart; '' of an empty file. Raises UserError
    as `text_lines` does."""
    lines = text_lines(path)
    try:
        return next(lines, "")
    finally:
        lines.close()


def has_numbers_below(path: Path, places: Sequence[int]) -> bool:
    """Return whether the fields at `places` of the line below the header of a dataset's csv file are numbers, or there is no such line:
    formats whose ids and times are numbers are told from tables that have names and dates. Raises UserError as `text_lines` does."""
    lines = text_lines(path)
    try:
        below = [line for line in islice(lines, 2) if line.strip()][1:]
    finally:
        lines.close()
    fields = below[0].split(",") if below else []
    return all(is_number(fields[place]) for place in places if place < len(fields))


def damage_error(path: Path, error: Exception) -> UserError:
    """Translate what reading a dataset's file raised into an error for its user: the file is no text, or is truncated or damaged."""
    if isinstance(error, UnicodeDecodeError):
        return UserError(f"{path}: not a text file (byte {error.start} is not UTF-8); the format table takes encoding=latin-1")
    return UserError(f"{path}: truncated or damaged ({error})")


def is_number(entry: str) -> bool:
    """Return whether an entry of a text table is a finite number."""
    try:
        return math.isfinite(float(entry)) and "_" not in entry
    except ValueError:
        return False
