"""Files of a job's folder, sent between ranks each of which has a folder of its own, as on several machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.ranks import positions
from chronoscale.records import write_atomically

CHUNK = 1 << 23  # bytes that are sent at once


def send_files(folder: Path, patterns: Sequence[str], collective: Collective, source: int = 0) -> None:
    """Write those files of the rank `source`'s `folder` that match one of the patterns to the other ranks' `folder`; called on every rank.

    patterns: as of `Path.glob`. Each file is written completely or not at all.
    """
    own = collective.rank == source
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}) if own else []
    names = json.loads(broadcast_bytes(json.dumps([path.relative_to(folder).as_posix() for path in paths]).encode(), collective, source))
    for name in names:
        content = broadcast_bytes((folder / name).read_bytes() if own else b"", collective, source)
        if not own:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, content)


def broadcast_bytes(content: bytes, collective: Collective, source: int = 0) -> bytes:
    """Return the bytes of the rank `source` on every rank; what the others pass is ignored. As bytes: nobody has to unpickle any."""
    own = collective.rank == source
    size = int(collective.sum_array(np.array([len(content) if own else 0], np.int64))[0])
    received = bytearray()
    for begin in range(0, size, CHUNK):
        positions.own_page().set_text(f"sending files: {begin >> 20} of {size >> 20} MB")  # who watches sees that it goes on
        length = min(CHUNK, size - begin)
        sent = np.frombuffer(content, np.uint8, length, begin) if own else np.zeros(length, np.uint8)
        received += bytes(collective.sum_array(sent))
    return bytes(received)
