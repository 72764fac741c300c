"""Elastic: how many ranks a training may go on with, where machines leave and come."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class Elastic:
    """Numbers of ranks, `least` to `most`, of which a training takes as many as there are processes for."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> Elastic:
        """Read MIN:MAX. Raises UserError for anything else."""
        match = re.fullmatch(r"(\d+):(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UserError(f"--elastic: '{text}', expected MIN:MAX, such as 1:4")
        return cls(int(match[1]), int(match[2]))

    def of(self, processes: int) -> int:
        """Return the number of ranks for so many processes. Raises UserError for too few."""
        if processes < self.least:
            raise UserError(f"--elastic: at least {self.least} processes are needed, {processes} were started")
        return min(processes, self.most)
