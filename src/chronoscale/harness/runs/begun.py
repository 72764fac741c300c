"""Begun runs: those that this process has started anew, so that a command that is refused leaves nothing for the next one to take up."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from chronoscale.errors import NotFiniteError, UserError
from chronoscale.harness.runs.run_folder import Run

PREPARED = ("data", "parts-", "chunks-", "cuts", "rates")  # starts of names of pieces that are made before anything is computed
_begun: list[tuple[Run, list[Path]]] = []  # with the folders above that were not there before


def remember(run: Run) -> None:
    """Remember a run that is about to be started in a new folder."""
    _begun.append((run, [folder for folder in run.folder.parents if not folder.exists()]))


def forget() -> None:
    """Forget all runs, at the start of a command."""
    _begun.clear()


def leave_nothing(error: UserError) -> None:
    """Remove the runs that this process has begun, where the command is refused before it has computed anything; folders that were made for
    them, too. What stopped at a number that is not finite stays, and so does a run that is complete: it says why nothing came of it."""
    for run, above in _begun if not isinstance(error, NotFiniteError) else ():
        with suppress(OSError, UserError):
            if not run.complete and not _computed(run):
                shutil.rmtree(run.folder)
                for folder in above:
                    folder.rmdir()
    forget()


def _computed(run: Run) -> bool:
    """Whether a run holds a file of a piece that is more than a preparation."""
    pieces = [folder for folder in run.folder.iterdir() if folder.is_dir() and not folder.name.startswith((".", *PREPARED))]
    return any(file.is_file() for folder in pieces for file in folder.rglob("*"))
