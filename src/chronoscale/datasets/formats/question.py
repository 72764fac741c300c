"""Question that a reader asks instead of guessing, with the options that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chronoscale.errors import UserError


class Answer(NamedTuple):
    """Answer to a question about a dataset's file: what it means, and the options of the reader (or another `format`) that give it."""

    meaning: str
    options: Mapping[str, str]
    format: str | None = None

    @property
    def shown(self) -> str:
        """The options as text, such as `src=a time=c`."""
        named = [] if self.format is None else [f"format {self.format}"]
        return " ".join([*named, *(f"{name}={value}" for name, value in self.options.items())])


class Question(UserError):
    """Error of a dataset reader for what may be meant in two ways or is implausible: the question, and the options that answer it.

    path: the file. answers: in the order in which they are likely.
    """

    def __init__(self, path: Path, text: str, *answers: Answer) -> None:
        self.text, self.answers = text, answers
        super().__init__(f"{path}: {text}; say which: {list_answers(answers)}")


def list_answers(answers: Sequence[Answer]) -> str:
    """Return answers as one phrase for an error message: `src=a` (what it means) or …"""
    return ", or ".join(f"{answer.shown} ({answer.meaning})" for answer in answers)
