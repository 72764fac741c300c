"""Fault: one small wrong change of the package, and the tests that must notice it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent / "faults"


class Unfit(Exception):
    """A fault that cannot be seeded, or tests that cannot judge it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`find`, which stands exactly once in `file` (under src/chronoscale), becomes `put`; `wrong`: what that breaks, in words; `tests`:
    arguments of pytest, as few as notice it."""

    name: str
    file: str
    find: str
    put: str
    wrong: str
    tests: str

    @property
    def native(self) -> bool:
        """Whether the library of the CPU kernels has to be built anew."""
        return self.file.endswith((".cpp", ".h"))

    def seeded(self, text: str) -> str:
        """The file's text with the fault. Raises Unfit where `find` does not stand exactly once, and for what is no Python."""
        if (count := text.count(self.find)) != 1:
            raise Unfit(f"{self.file}: the text to find stands there {count} times, expected once")
        changed = text.replace(self.find, self.put)
        if changed == text:
            raise Unfit(f"{self.file}: the replacement changes nothing")
        if self.file.endswith(".py"):
            try:
                ast.parse(changed)
            except SyntaxError as error:
                raise Unfit(f"{self.file}: with the fault it is no Python ({error})") from None
        return changed


def load(names: list[str]) -> list[Fault]:
    """The named faults, or all, in order of their files. Raises Unfit for a name that is none, or given twice."""
    found = [Fault(**entry) for path in sorted(FOLDER.glob("*.yaml")) for entry in yaml.safe_load(path.read_text())]
    by_name = {fault.name: fault for fault in found}
    if len(by_name) < len(found):
        raise Unfit(f"faults of one name: {', '.join(sorted({f.name for f in found if by_name[f.name] is not f}))}")
    if strange := [name for name in names if name not in by_name]:
        raise Unfit(f"no fault '{strange[0]}'; there are {', '.join(by_name)}")
    return [by_name[name] for name in names] if names else found
