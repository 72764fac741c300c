"""Parts of `make gpu`: the commands of each, in this order, and how many minutes they may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Command = tuple[str, ...]  # words after python3; "OUT" is the part's folder, "DEVICE" its device


class Part(NamedTuple):
    """Commands that run one after another. `needs_build`: they need a device, and the libraries that the part build makes."""

    minutes: float
    commands: tuple[Command, ...]
    needs_build: bool = True


def _subject(name: str, *words: str) -> Command:
    return ("benchmarks", name, *words, "--device", "DEVICE", "--out", f"OUT/{name}-DEVICE.json")


def _own(module: str, *words: str) -> Command:
    return ("-m", f"gpu.{module}", *words, "--device", "DEVICE", "--out", "OUT")


# Limits such that each command of docs/gpu.md, build included, ends within 9.5 minutes.
PARTS: Mapping[str, Part] = {
    "build": Part(2, (_own("build"),)),
    "contracts": Part(3, (_own("contracts"),)),
    "sanitizer": Part(4, (_own("sanitizer"),)),
    "losses": Part(5, (_subject("agreement", "what=device,launch"),)),
    "ranks": Part(5, (_subject("agreement", "what=ranks"),)),
    "kernels": Part(7, tuple(map(_subject, ("aggregate", "increment", "attention", "rebuild")))),
    "edges": Part(7, tuple(map(_subject, ("edges", "slots")))),
    "snapshots": Part(7.5, (_own("families", "snapshots"),)),
    "windows": Part(7, (_own("families", "windows"),)),
    "streams": Part(7, (_own("families", "streams"),)),
    "signals": Part(7, (_own("families", "signals"),)),
    "figure15": Part(8, (_own("families", "figure15"),), needs_build=False),
}
