"""MemoryFiles: the files in which ranks keep their own rows of memory, one a rank and epoch."""

from __future__ import annotations

import io
from collections.abc import Container, Mapping
from pathlib import Path

import torch
from torch import Tensor

from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.records import reading, write_atomically

FOLDER, EPOCH = "memory", "epoch"


class MemoryFiles:
    """Files of one rank's part of node memory in the folder of a training, one an epoch.

    A checkpoint, and the best epoch's model, record the epoch of their memory. A file is written before either of them, and removed when
    neither can refer to it any more, so that a run that is killed at any point finds what it needs.
    """

    def __init__(self, folder: Path, context: Context) -> None:
        self._folder = folder / FOLDER
        self._context = context
        self._epoch = 0

    def _path(self, epochs: int) -> Path:
        return self._folder / f"{epochs:06d}-{self._context.rank:04d}.pt"

    def write(self, epochs: int, tables: Mapping[str, Tensor], best: Container[int]) -> None:
        """Write this rank's node memory after so many epochs, and remove files that are not needed any more. Called on every rank.

        tables: as `SpreadProgram.tables`. best: after how many epochs the best models were saved, of all epochs and of all but the last.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        content, self._epoch = io.BytesIO(), epochs
        torch.save({EPOCH: torch.tensor(epochs), **tables}, content)
        write_atomically(self._path(epochs), content.getvalue())
        self._context.gather_files(self._folder, lambda rank: f"{epochs:06d}-{rank:04d}.pt")  # to where training is resumed
        for path in self._folder.glob("[0-9]*.pt"):
            earlier = int(path.name.partition("-")[0])
            if earlier < epochs - 1 and earlier not in best:  # the checkpoint may still be that of the epoch before
                path.unlink(missing_ok=True)
        self._context.collective.barrier()

    def record(self) -> Mapping[str, Tensor]:
        """Return what a checkpoint records of this rank's node memory: the epoch of its file."""
        return {EPOCH: torch.tensor(self._epoch)}

    def require_ranks(self, ranks: int) -> None:
        """Check that the memory in the folder of a training is of as many ranks as train. Raises UserError where it is not."""
        numbers = {int(path.stem.partition("-")[2]) for path in self._folder.glob("[0-9]*.pt")}
        if numbers and (kept := max(numbers) + 1) != ranks:
            raise UserError(f"{self._folder}: memory is spread over {kept} ranks, and cannot go on on {ranks}; train on {kept} ranks again")

    def read(self, record: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Read this rank's tables of node memory after the epoch that a checkpoint records.

        Raises UserError for a file that is missing or damaged, KeyError for another kind of record, RuntimeError for a file of another
        epoch.
        """
        epochs = int(record[EPOCH])
        path = self._path(epochs)
        with reading(path, "memory of this rank", "delete the training folder to train from the first epoch on"):
            tables: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        if int(tables[EPOCH]) != epochs:
            raise RuntimeError(f"{path.name} is of epoch {int(tables[EPOCH])}, expected {epochs}")
        return tables
