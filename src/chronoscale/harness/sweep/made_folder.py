"""Made folders: files that a task of a sweep writes where it runs, brought to the process that asked for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.sweep.sweep import sweep

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class MadeFolder(Generic[R]):
    """What a function returned that fills a folder, and the content of the files that it wrote, by name."""

    result: R
    files: Mapping[str, bytes]

    def write(self, folder: Path) -> None:
        """Write the files into a folder of this process."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def make_folder(make: Callable[[Path], R]) -> MadeFolder[R]:
    """Have a function fill a temporary folder of this process, and return what it made. Raises what `make` raises."""
    with TemporaryDirectory(prefix="chronoscale-sweep-") as scratch:
        result = make(Path(scratch))
        return MadeFolder(result, {file.name: file.read_bytes() for file in sorted(Path(scratch).iterdir())})


def sweep_pieces(run: Run, makes: Mapping[str, Callable[[Path], None]], dask: str, on_progress: Callable[[str], None]) -> None:
    """Fill the pieces of a run that are not there yet on a Dask cluster.

    makes: what fills each piece's folder, by name of the piece; can be pickled and names no file. dask: address of the scheduler.
    on_progress: called with a line of text for each piece that is done. Raises as `sweep`: what was done by then is kept.
    """
    names = dict(enumerate(name for name in makes if not (run.folder / name).exists()))
    done = len(makes) - len(names)

    def take(number: int, made: MadeFolder[None]) -> None:
        nonlocal done
        run.piece(names[number], made.write)
        done += 1
        on_progress(f"{done} of {len(makes)}, {names[number]}")

    sweep(make_folder, {number: makes[name] for number, name in names.items()}, take, dask=dask)
