"""Setting: what results must share to be compared: what is trained, on what, and whether it was executed or simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["executed", "simulated"]
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of a result in a report: what was trained, and on what. Results compare where their settings are equal, and nowhere else.

    work: `dataset` and its content, `model`, widths, hyper-parameters, seed. place: `device`, libraries and threads that execute it, or
    `device`, `cluster` and `costs` that simulate it. Both are names and values for the reader.
    """

    kind: Kind
    work: Facts = ()
    place: Facts = ()

    @property
    def facts(self) -> Facts:
        return (("source", self.kind), *self.work, *self.place)

    def fact(self, name: str) -> str:
        """Return what the setting says of one thing; '' where it says nothing. name: such as 'dataset', 'cluster' or 'costs'."""
        return dict(self.facts).get(name, "")

    def __str__(self) -> str:
        work = " on ".join(name for name in (self.fact("model"), self.fact("dataset")) if name)
        cluster, device = self.fact("cluster"), self.fact("device")
        parts = ", ".join(name for name in (work, f"{device} ({cluster})" if cluster else device) if name)
        return f"{self.kind}: {parts}" if parts else self.kind


EXECUTED = Setting("executed")  # where nothing more is known


def differences(settings: Iterable[Setting]) -> dict[Setting, Facts]:
    """Return the facts that tell each setting of a report from the others, as far as their titles do not."""
    by_setting, unique = {}, list(dict.fromkeys(settings))
    for setting in unique:
        same_title = [other for other in unique if str(other) == str(setting)]
        names = dict.fromkeys(name for other in same_title for name, _ in other.facts)
        differ = [name for name in names if len({other.fact(name) for other in same_title}) > 1]
        by_setting[setting] = tuple((name, setting.fact(name) or "none") for name in differ)
    return by_setting


def describe(facts: Facts) -> str:
    """Return facts of a setting as one line of a report: 'name value; name value'."""
    return "; ".join(f"{name} {value}" for name, value in facts)
