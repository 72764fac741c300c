"""Launched command: what a scheduler is to run, read, before it is queued, as the command itself will read it."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from chronoscale.errors import UserError, unknown
from chronoscale.harness.cli.commands import Commands
from chronoscale.harness.cli.experiment_argument import read_advice, read_comparison, read_timed, read_training
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.harness.keys.experiment import Experiment

DEFAULT = ("bench",)
_MISUSE: Any = typer.BadParameter.__mro__[1]  # UsageError: of options that are unknown, lack a value, or have a wrong one


@dataclass(frozen=True, slots=True)
class LaunchedCommand:
    """A command on an experiment file: its words, as `chronoscale` takes them, and what they come to.

    experiment: what the command will run, its options taken into account. elastic: the numbers of ranks that it may take; None: the
    experiment's.
    """

    words: tuple[str, ...]
    experiment: Experiment
    elastic: Elastic | None

    @classmethod
    def read(cls, file: Path, given: Sequence[str]) -> LaunchedCommand:
        """Read a command and its options, such as `train --epochs 5`, that will run on an experiment file.

        given: may name the file again, first. Raises UserError for a command that does not exist or takes no experiment, and for whatever
        the command itself would refuse before it begins.
        """
        name, *options = given or DEFAULT
        if name.startswith("-"):
            raise UserError(f"-- {name}: expected a command before its options, such as bench or train")
        if name not in Commands.entries:
            raise unknown("command", name, Commands.entries)
        command = Commands.entries[name].command(name)
        if name not in _READERS:
            raise UserError(f"-- {name}: runs no experiment on ranks; expected {', '.join([*_READERS][:-1])} or {[*_READERS][-1]}")
        words = [name, str(file), *(options[1:] if options and Path(options[0]).resolve() == file.resolve() else options)]
        try:
            values = command.make_context(name, words[1:]).params
        except _MISUSE as error:
            raise UserError(f"-- {shlex.join(given)}: {error.format_message()}") from None
        return cls(tuple(words), _read(name, values), values.get("elastic"))

    def check_size(self, tasks: int, size: str) -> str:
        """Compare the command's ranks with the tasks of a job; return, as a warning, what tasks have nothing to do, '' where all have.

        size: of the job, in words. Raises UserError for too few tasks.
        """
        most = max(self.experiment.ranks)
        if self.elastic:
            if tasks < self.elastic.least:
                raise UserError(f"--elastic: at least {self.elastic.least} ranks, and {size}; take more nodes, or a lower least")
            most = min(self.elastic.most, tasks)
        if most > tasks:
            raise UserError(f"ranks: {most}, and {size}; take more nodes, or fewer ranks in the experiment")
        named = (
            f"--elastic takes at most {most}" if self.elastic else f"the experiment has at most {most} (ranks: {[*self.experiment.ranks]})"
        )
        return f"{size}, and {named}: the others would wait" if most < tasks else ""


def _timed(command: str) -> Callable[[Path, int | None], Experiment]:
    def read(file: Path, seed: int | None) -> Experiment:
        return read_timed(command, file, seed, dry=False)

    return read


_READERS: Mapping[str, Callable[..., Experiment]] = {
    **{name: _timed(name) for name in ("profile", "bench", "validate")},
    "train": read_training,
    "compare": read_comparison,
    "advise": read_advice,
}


def _read(name: str, values: Mapping[str, Any]) -> Experiment:
    """Return the experiment of a command. values: of its parameters, which the command's reader has by the same names."""
    reader = _READERS[name]
    return reader(**{each: values[each] for each in inspect.signature(reader).parameters if each in values})
