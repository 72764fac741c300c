"""Spoiling a file: a few changes of bytes, lines or fields, drawn by a generator."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

NUMBERS = "nan inf -1 0 -0 1.5 1e3 +5 007 .5 5. 1e308 1e400 1e-320 2147483648 9007199254740993 9223372036854775807 9223372036854775808"
WORDS = "18446744073709551616 0x10 1_000 1d3 1j true null '1' \"1\" ١ ½ 1,2 1;2 % # 1#2 é {} []"
BLANKS = ("", "1 2", "\0", "1\0", "\t", "\f", "1\x0b2", "\u00a0", "\ufeff", "\x1a")
HOSTILE = (*NUMBERS.split(), *WORDS.split(), *BLANKS)
FIELD = re.compile(rb"[^\s,:\[\]{}]+")


def spoilt(generator: np.random.Generator, content: bytes) -> bytes:
    """The content after one to three changes; once in twenty after none."""
    for _ in range(int(generator.choice(4, p=(0.05, 0.55, 0.2, 0.2)))):
        content = KINDS[generator.integers(len(KINDS))](generator, content)
    return content


def _bytes(generator: np.random.Generator, content: bytes) -> bytes:
    at = int(generator.integers(len(content) + 1))
    new = bytes([int(generator.choice([0, 10, 13, 32, 44, 255, int(generator.integers(256))]))])
    return content[:at] + (new, new, b"")[int(generator.integers(3))] + content[at + int(generator.integers(2)) :]


def _cut(generator: np.random.Generator, content: bytes) -> bytes:
    return content[: int(generator.integers(len(content) + 1))]


def _lines(generator: np.random.Generator, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    i, j = (int(k) for k in generator.integers(len(lines), size=2))
    change = int(generator.integers(5))
    if change == 0:
        del lines[i]
    elif change == 1:
        lines.insert(i, lines[j])
    elif change == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif change == 3:
        lines[i] = lines[i].rstrip(b"\n") + (b"\r\n", b"\r", b" \n", b"\t\n", b",\n", b"")[int(generator.integers(6))]
    else:
        lines.insert(i, (b"\n", b"#\n", b"% 1 2\n", b" \n", b"# a b c\n")[int(generator.integers(5))])
    return b"".join(lines)


def _fields(generator: np.random.Generator, content: bytes) -> bytes:
    fields = list(FIELD.finditer(content))
    if not fields:
        return content
    one, other = (fields[int(k)] for k in generator.integers(len(fields), size=2))
    change = int(generator.integers(4))
    new = HOSTILE[int(generator.integers(len(HOSTILE)))].encode() if change < 2 else (b"", other[0])[change - 2]
    return content[: one.start()] + new + content[one.end() :]


KINDS: tuple[Callable[[np.random.Generator, bytes], bytes], ...] = (_bytes, _cut, _lines, _fields, _fields)
