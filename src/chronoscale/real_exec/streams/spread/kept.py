"""Kept: the files in which ranks keep their own rows of memory, one a rank and epoch."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from chronoscale.kept import reading
from chronoscale.real_exec.checkpoint import replaced
from chronoscale.real_exec.context import Context

FOLDER, BEST, EPOCH = "memory", "best", "epoch"


class Kept:
    """Of one rank. A checkpoint says of which epoch its memory is: its file is there before the checkpoint is, and goes when the one after
    the next is written, so that a run that is killed anywhere finds it."""

    def __init__(self, folder: Path, context: Context) -> None:
        self._folder, self._context, self._epoch = folder / FOLDER, context, 0

    def _path(self, what: str) -> Path:
        return self._folder / f"{what}-{self._context.rank:04d}.pt"

    def write(self, epochs: int, tables: Mapping[str, Tensor], best: bool) -> None:
        """What memory is after so many epochs; `best`: the last of them is the best so far. Called on every rank."""
        self._folder.mkdir(parents=True, exist_ok=True)
        content, self._epoch = io.BytesIO(), epochs
        torch.save({EPOCH: torch.tensor(epochs), **tables}, content)
        for what in (f"{epochs:06d}", *[BEST] * best):
            replaced(self._path(what), content.getvalue())
        self._path(f"{epochs - 2:06d}").unlink(missing_ok=True)
        self._context.collective.barrier()

    def record(self) -> Mapping[str, Tensor]:
        """What a checkpoint says of it."""
        return {EPOCH: torch.tensor(self._epoch)}

    def read(self, record: Mapping[str, Tensor], best: bool = False) -> Mapping[str, Tensor]:
        """This rank's tables of the epoch that is recorded. Raises UserError for a file that is missing or damaged, KeyError for another
        kind of record, RuntimeError for a file of another epoch."""
        path, epochs = self._path(BEST if best else f"{int(record[EPOCH]):06d}"), int(record[EPOCH])
        with reading(path, "memory of this rank", "delete the training folder to train from the first epoch on"):
            found: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        if int(found[EPOCH]) != epochs:
            raise RuntimeError(f"{path.name} is of epoch {int(found[EPOCH])}, expected {epochs}")
        return found
