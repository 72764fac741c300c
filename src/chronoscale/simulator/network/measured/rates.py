"""Rates: what single links reach, as nvbandwidth and perftest's ib_write_bw print it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from chronoscale.simulator.network.measured.table import Line, mistake

Place = Literal["h2d", "intra", "inter"]
RUNNING = re.compile(r"Running (\w+?)\.?\s*$")
TESTS: Mapping[str, Place] = {
    "host_to_device_memcpy_ce": "h2d",
    "device_to_device_memcpy_read_ce": "intra",
    "device_to_device_memcpy_write_ce": "intra",
}
AVERAGE = re.compile(r"BW average\[(\w+)/sec\]")
NUMBER = re.compile(r"\d+(\.\d+)?")
UNITS: Mapping[str, float] = {"Gb": 1e9 / 8, "MB": 2.0**20, "MiB": 2.0**20, "GB": 1e9}  # perftest's MB are 2^20 bytes


class MeasuredRate(NamedTuple):
    """Rate of one kind of link that a benchmark printed, bytes/s in one direction; place: which key of a cluster file it belongs to."""

    path: Path
    line: int
    place: Place
    rate: float


def is_nvbandwidth(text: str) -> bool:
    """Return whether a text is the output of nvbandwidth."""
    return "nvbandwidth" in text and "memcpy" in text


def is_ib_write_bw(text: str) -> bool:
    """Return whether a text is the output of perftest's ib_write_bw."""
    return "RDMA_Write BW" in text or AVERAGE.search(text) is not None


def read_nvbandwidth(path: Path, lines: list[Line]) -> list[MeasuredRate]:
    """Read nvbandwidth's matrices: the median of each test's pairs, copies by copy engines. lines: of the file.

    Raises UserError naming file, line and reason: none of the tests in it, units that are not stated, a matrix cut short.
    """
    rates, test, begin, unit = [], "", 0, False
    values: list[float] = []

    def end() -> None:
        if test in TESTS:
            if not values or not unit:
                raise mistake(path, begin, f"{test}: {'no unit (GB/s) is stated' if values else 'a matrix cut short'}")
            rates.append(MeasuredRate(path, begin, TESTS[test], float(np.median(values)) * 1e9))

    for number, text in lines:
        if running := RUNNING.search(text):
            end()
            test, begin, values, unit = running[1], number, [], False
        elif "(GB/s)" in text:
            unit = True
        elif unit and (words := text.split()) and words[0].isdigit() and any("." in word for word in words):
            values += [float(word) for word in words[1:] if re.fullmatch(r"\d+\.\d+", word) and float(word) > 0]
    end()
    if not rates:
        raise mistake(path, lines[0][0], f"none of {', '.join(TESTS)} is in it")
    return rates


def read_ib_write_bw(path: Path, lines: list[Line]) -> list[MeasuredRate]:
    """Read the largest average of ib_write_bw's table. lines: of the file.

    Raises UserError naming file, line and reason: units that are not stated or not known, a row cut short or without an average.
    """
    head = next((i for i, (_, text) in enumerate(lines) if "#bytes" in text), None)
    if head is None:
        raise mistake(path, lines[0][0], "no table of ib_write_bw: a line with #bytes is missing")
    number, text = lines[head]
    stated = AVERAGE.search(text)
    if stated is None or stated[1] not in UNITS:
        raise mistake(path, number, f"expected BW average in {', '.join(f'[{unit}/sec]' for unit in UNITS)}, got {text.strip()!r}")
    best = MeasuredRate(path, 0, "inter", 0.0)
    for number, text in lines[head + 1 :]:
        words = text.split()
        if not words or not words[0].isdigit():
            continue
        if len(words) < 4:
            raise mistake(path, number, f"a row cut short: {len(words)} columns of 4 at least")
        if not NUMBER.fullmatch(words[3]):
            raise mistake(path, number, f"expected an average in column 4, got {words[3]!r}")
        best = max(best, MeasuredRate(path, number, "inter", float(words[3]) * UNITS[stated[1]]), key=lambda rate: rate.rate)
    if not best.rate:
        raise mistake(path, lines[head][0], "a table without rows")
    return [best]
