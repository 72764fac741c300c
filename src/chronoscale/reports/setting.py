"""Setting: what results must share to be compared: what is trained, on what, and whether it was executed or simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["executed", "simulated"]
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of a result. Results compare where their settings are equal, and nowhere else.

    work: what is trained: `dataset` and its content, `model`, widths, hyper-parameters, seed. place: what it runs on: `device`, libraries
    and threads that execute it, or `device`, `cluster` and `costs` that simulate it. Both are names and values for the reader.
    """

    kind: Kind
    work: Facts = ()
    place: Facts = ()

    @property
    def facts(self) -> Facts:
        return (("source", self.kind), *self.work, *self.place)

    def fact(self, name: str) -> str:
        """Return a fact by name; '' for one that is not there."""
        return dict(self.facts).get(name, "")

    def __str__(self) -> str:
        what = " on ".join(name for name in (self.fact("model"), self.fact("dataset")) if name)
        cluster, device = self.fact("cluster"), self.fact("device")
        said = ", ".join(name for name in (what, f"{device} ({cluster})" if cluster else device) if name)
        return f"{self.kind}: {said}" if said else self.kind


EXECUTED = Setting("executed")  # where nothing more is known


def differences(settings: Iterable[Setting]) -> dict[Setting, Facts]:
    """Return the facts that tell each setting from the others, as far as their titles do not."""
    found, known = {}, list(dict.fromkeys(settings))
    for one in known:
        alike = [other for other in known if str(other) == str(one)]
        names = dict.fromkeys(name for other in alike for name, _ in other.facts)
        differ = [name for name in names if len({other.fact(name) for other in alike}) > 1]
        found[one] = tuple((name, one.fact(name) or "none") for name in differ)
    return found


def describe(facts: Facts) -> str:
    """Return facts in a line of text."""
    return "; ".join(f"{name} {value}" for name, value in facts)
