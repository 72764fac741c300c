"""All faults: those that are recorded in files, and those that are generated from the sources."""

from __future__ import annotations

from pathlib import Path

import generated
from anchor import Unfit
from fault import Fault, read

FOLDER = Path(__file__).parent / "faults"


def load(names: list[str]) -> list[Fault]:
    """The named faults, or all, in order of their files. Raises Unfit for a name that is none, or given twice."""
    faults = [fault for path in sorted(FOLDER.glob("*.yaml")) for fault in read(path.read_text())] + generated.faults()
    by_name = {fault.name: fault for fault in faults}
    if len(by_name) < len(faults):
        raise Unfit(f"faults of one name: {', '.join(sorted({f.name for f in faults if by_name[f.name] is not f}))}")
    if strange := [name for name in names if name not in by_name]:
        raise Unfit(f"no fault '{strange[0]}'; there are {', '.join(by_name)}")
    return [by_name[name] for name in names] if names else faults
