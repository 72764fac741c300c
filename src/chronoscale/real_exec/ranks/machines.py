"""Machines: those on which the processes of a command run, and in what they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronoscale.errors import UserError

SAME = ("chronoscale", "python", "torch")  # versions that machines must have in common: they send each other what these have written

MEMORY = "memory"  # bytes of a host that were free as the command began, among the facts


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine on which processes of a command run: its host's name, its first rank, how many, and what it is (`fingerprint`)."""

    host: str
    first_rank: int
    ranks: int
    facts: Mapping[str, str]

    def of(self, ranks: int) -> int:
        """Return how many of a job's `ranks` first ranks are here."""
        return max(0, min(self.ranks, ranks - self.first_rank))


def check_versions(machines: Sequence[Machine]) -> None:
    """Check that machines can work together. Raises UserError, one line, for other versions than the first one's."""
    first, *others = machines
    for other in others:
        for name in SAME:
            if (here := first.facts.get(name)) != (there := other.facts.get(name)):
                raise UserError(f"{name} is {here} on {first.host}, and {there} on {other.host}; install the same on every machine")


def describe(machines: Sequence[Machine]) -> dict[str, str]:
    """Return what a run on several machines records of them beside the first one's facts: who they are, and in what they differ; {} for
    one machine.
    """
    if len(machines) < 2:
        return {}
    names = sorted({name for machine in machines for name in machine.facts} - {MEMORY})
    different = [name for name in names if len({machine.facts.get(name, "none") for machine in machines}) > 1]
    facts = {f"{name} by machine": ", ".join(machine.facts.get(name, "none") for machine in machines) for name in different}
    return {"machines": ", ".join(f"{machine.host} ({machine.ranks})" for machine in machines), **facts}
