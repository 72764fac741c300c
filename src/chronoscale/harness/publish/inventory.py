"""Inventory of a run: what it was asked for, and what of it is not in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chronoscale.harness.advice import outcome
from chronoscale.harness.advice.verdict import FILE as VERDICT
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.passes import SCHEDULE
from chronoscale.harness.runs.points import FILE, SimulatedPoint
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER, ended
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.strategies.plugins import names_file


class Lack(NamedTuple):
    """Result that a run was asked for and does not have, or not whole, for a sentence of its report.

    what: the result, in words. ranks: on how many; 0 where it has none. files: those missing of it, none where all of it is.
    """

    what: str
    ranks: int
    files: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """Return the result and its missing files, by which one sentence names several numbers of ranks."""
        return self.what, self.files


def executed(run: Run, experiment: Experiment, ranks: int, name: str) -> list[str]:
    """Return the files missing from what a run has executed of one strategy, for its report; [] where it is whole.

    name: of the strategy, as in `strategies`.
    """
    folder = run.folder / f"ranks-{ranks}"
    files = [
        f"{name}{SCHEDULE}",
        f"{name}-losses.npy",
        f"{name}-scores.json",
        *(f"{name}-r{i}.parquet" for i in range(experiment.repeats)),
    ]
    if (folder / f"{name}.prepare.parquet").exists():
        files.append(f"{name}-prepare-r0.parquet")
    return [file for file in files if not (folder / file).exists()]


def replayed(run: Run, ranks: int, name: str) -> list[str]:
    """Return the files missing from a run's replay of one executed strategy, for its report; [] where it is whole.

    `chronoscale validate` writes replays. name: of the strategy.
    """
    return [] if (run.folder / f"replay-{ranks}" / f"{name}.parquet").exists() else [f"{name}.parquet"]


def simulated(run: Run, gpus: int, name: str) -> list[str]:
    """Return the files missing from what a run has simulated of one strategy on `gpus` GPUs, for its report; [] where it is whole.

    A schedule that was replayed some iterations at a time has figures in place of files. name: of the strategy.
    """
    folder = run.folder / f"sim-{gpus:05d}-{name}"
    lacks = [file for file in (FILE, "schedule.parquet", "trace.parquet") if not (folder / file).exists()]
    return [] if lacks and FILE not in lacks and SimulatedPoint.load(folder).summary is not None else lacks


def strategies(run: Run, experiment: Experiment) -> list[str]:
    """Return the names that a run's strategies have in its folder, for its report.

    A strategy given as a Python file is named as it names itself, read off its results; by its file where it has none.
    """
    named = [name for name in experiment.strategies if not names_file(name)]
    results = [path.name.removesuffix(SCHEDULE) for folder in run.pieces("ranks-") for path in sorted(folder.glob(f"*{SCHEDULE}"))]
    results += [folder.name.split("-", 2)[2] for folder in run.pieces("sim-")]
    from_files = [name for name in dict.fromkeys(results) if name not in named]
    return [*named, *from_files, *[name for name in experiment.strategies if names_file(name)][len(from_files) :]]


def missing(run: Run, experiment: Experiment) -> list[str]:
    """Return a sentence, in a list, that names all results a run was asked for and does not have, for its report; [] for none."""
    by_key: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for lack in _lacks(run, experiment):
        by_key.setdefault(lack.key, []).append(lack.ranks)
    sentences = []
    for (what, files), ranks in by_key.items():
        counts = f" on {', '.join(map(str, ranks))} rank{'s' * (ranks != [1])}" if ranks[0] else ""
        sentences.append(f"{what}{counts}{f' (without {chr(44).join(files)})' * bool(files)}")
    return [f"{run.folder.name} was asked for more than its folder holds; not there: {'; '.join(sentences)}."] if sentences else []


def _lacks(run: Run, experiment: Experiment) -> Iterator[Lack]:
    command, names = run.status.command, strategies(run, experiment)
    if command == "advise" and (run.folder / outcome.ASKED).exists():
        for number, candidate in enumerate(outcome.held(run)):
            if not (run.folder / outcome.piece(number) / VERDICT).exists():
                yield Lack(str(candidate), 0)
    if command in ("bench", "validate"):
        for name in names:
            for ranks in experiment.ranks:
                yield from _lack(name, ranks, executed(run, experiment, ranks, name), run.folder / f"ranks-{ranks}")
                if command == "validate" and replayed(run, ranks, name):
                    yield Lack(f"the replay of {name}", ranks)
    for name in names:
        for gpus in experiment.gpus:
            if (folder := run.folder / f"sim-{gpus:05d}-{name}").exists() or command == "simulate":
                yield from _lack(name, gpus, simulated(run, gpus, name), folder)
    if command == "train":
        trained = {record.epoch for record in epoch_records(run.folder / FOLDER)}
        end = ended(run.folder / FOLDER)
        epochs = experiment.epochs if end is None else end.epochs
        if gone := [epoch for epoch in range(epochs) if epoch not in trained]:
            yield Lack(f"{len(gone)} of {epochs} epochs, the first of them {gone[0]}", 0)


def _lack(name: str, ranks: int, files: list[str], folder: Path) -> Iterator[Lack]:
    """The lack of all of a result, or of some files of it."""
    if files:
        whole = not any((folder / f"{name}{end}").exists() for end in (SCHEDULE, "-r0.parquet")) and not (folder / "trace.parquet").exists()
        yield Lack(name, ranks, () if whole else tuple(files))
