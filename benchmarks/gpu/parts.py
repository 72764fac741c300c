"""Parts: what there is to run, in this order, and how many minutes each may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple

from gpu.place import Place
from gpu.record import Record


class Part(NamedTuple):
    """`module` has the `function`. `needs_build`: it needs the libraries that the part build makes."""

    module: str
    minutes: float
    needs_build: bool = True
    function: str = "run"

    def run(self) -> Callable[[Place, Record], None]:
        """Imported now: parts need packages that the first one unpacks. Raises record.Failed when the part does not pass."""
        function: Callable[[Place, Record], None] = getattr(import_module(self.module), self.function)
        return function


# Limits such that each command of docs/gpu.md, build included, ends within 9.5 minutes.
PARTS: Mapping[str, Part] = {
    "build": Part("gpu.build", 2),
    "contracts": Part("gpu.contracts", 3),
    "sanitizer": Part("gpu.sanitizer", 4),
    "losses": Part("gpu.losses", 5),
    "ranks": Part("gpu.ranks", 5),
    "kernels": Part("gpu.kernels", 5),
    "edges": Part("gpu.edges", 4),
    "profile": Part("gpu.families", 4.5, function="profile"),
    "validate": Part("gpu.families", 3, function="validate"),
    "windows": Part("gpu.families", 7, function="windows"),
    "streams": Part("gpu.families", 7, function="streams"),
    "signals": Part("gpu.families", 7, function="signals"),
    "launch": Part("gpu.launch", 7),
    "figure15": Part("gpu.figure15", 8, needs_build=False),
}
