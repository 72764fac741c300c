"""Parts: what there is to run, in this order, and how many minutes each may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple

from gpu.place import Place
from gpu.record import Record


class Part(NamedTuple):
    """`module` has the function `run`. `needs_build`: it needs the libraries that the part build makes."""

    module: str
    minutes: float
    needs_build: bool = True

    def run(self) -> Callable[[Place, Record], None]:
        """Imported now: parts need packages that the first one unpacks. Raises record.Failed when the part does not pass."""
        found: Callable[[Place, Record], None] = import_module(self.module).run
        return found


# Limits such that each command of docs/gpu.md, build included, ends within 9.5 minutes.
PARTS: Mapping[str, Part] = {
    "build": Part("gpu.build", 2),
    "contracts": Part("gpu.contracts", 3),
    "sanitizer": Part("gpu.sanitizer", 4),
    "losses": Part("gpu.losses", 5),
    "ranks": Part("gpu.ranks", 5),
    "kernels": Part("gpu.kernels", 5),
    "edges": Part("gpu.edges", 4),
    "profile": Part("gpu.profiled", 4.5),
    "validate": Part("gpu.validated", 3),
    "windows": Part("gpu.windows", 7),
    "streams": Part("gpu.streams", 7),
    "signals": Part("gpu.signals", 7),
    "launch": Part("gpu.launch", 7),
    "figure15": Part("gpu.figure15", 8, needs_build=False),
}
