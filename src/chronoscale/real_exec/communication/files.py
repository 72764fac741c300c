"""Files of a job's folder, sent between ranks each of which has a folder of its own, as on several machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.communication.exchange import Exchange
from chronoscale.real_exec.ranks import positions
from chronoscale.records import write_atomically

CHUNK = 1 << 23  # bytes that are sent at once

Transfer = Callable[[bytes], bytes]  # returns on every rank that takes part what the sender gives; what the others give is ignored


def broadcast_files(folder: Path, patterns: Sequence[str], collective: Collective) -> None:
    """Write those files of rank 0's `folder` that match one of the patterns to the other ranks' `folder`; called on every rank.

    patterns: as of `Path.glob`. Each file is written completely or not at all.
    """
    _transfer_files(folder, patterns, collective.rank == 0, lambda content: broadcast_bytes(content, collective))


def send_files(folder: Path, patterns: Sequence[str], exchange: Exchange, other: int, own: bool, device: torch.device) -> None:
    """Write files of one rank to another alone, as `broadcast_files`; called on both.

    own: they are this rank's, and go to `other`; else they come from it. device: of the process group.
    """
    move = exchange.send if own else exchange.receive

    def transfer(content: bytes) -> bytes:
        size = torch.tensor([len(content)], device=device)
        move(size, other)
        received = bytearray()
        for begin, length in _chunks(int(size)):
            part = torch.frombuffer(bytearray(content[begin : begin + length] if own else length), dtype=torch.uint8).to(device)
            move(part, other)
            received += b"" if own else bytes(part.cpu().numpy())
        return content if own else bytes(received)

    _transfer_files(folder, patterns, own, transfer)


def _transfer_files(folder: Path, patterns: Sequence[str], own: bool, transfer: Transfer) -> None:
    """Transfer names of files, then each one's content; `own`: from this rank."""
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}) if own else []
    names = json.loads(transfer(json.dumps([path.relative_to(folder).as_posix() for path in paths]).encode()))
    for name in names:
        content = transfer((folder / name).read_bytes() if own else b"")
        if not own:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, content)


def broadcast_bytes(content: bytes, collective: Collective) -> bytes:
    """Return the bytes of rank 0 on every rank; what the others pass is ignored. As bytes: nobody has to unpickle any."""
    own = collective.rank == 0
    size = int(collective.sum_array(np.array([len(content) if own else 0], np.int64))[0])
    received = bytearray()
    for begin, length in _chunks(size):
        sent = np.frombuffer(content, np.uint8, length, begin) if own else np.zeros(length, np.uint8)
        received += bytes(collective.sum_array(sent))
    return bytes(received)


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and length of what is sent at once of so many bytes; say how far it is, so that who watches sees that it goes on."""
    page = positions.own_page()
    for begin in range(0, size, CHUNK):
        page.set_text(f"sending files: {begin >> 20} of {size >> 20} MB")
        yield begin, min(CHUNK, size - begin)
