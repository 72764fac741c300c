"""Parts: what there is to run, in this order, and how many minutes each may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple

from gpu.place import Place
from gpu.record import Record


class Part(NamedTuple):
    """`module` has the function `run`."""

    module: str
    minutes: float

    def run(self) -> Callable[[Place, Record], None]:
        """Imported now: parts need packages that the first one unpacks. Raises record.Failed when the part does not pass."""
        found: Callable[[Place, Record], None] = import_module(self.module).run
        return found


# Three commands of less than ten minutes: build, contracts, sanitizer; losses, kernels; profile, validate. figure15 needs no device.
PARTS: Mapping[str, Part] = {
    "build": Part("gpu.build", 2.5),
    "contracts": Part("gpu.contracts", 3),
    "sanitizer": Part("gpu.sanitizer", 3.5),
    "losses": Part("gpu.losses", 3),
    "kernels": Part("gpu.kernels", 6),
    "profile": Part("gpu.profiled", 5),
    "validate": Part("gpu.validated", 4),
    "figure15": Part("gpu.figure15", 8),
}
