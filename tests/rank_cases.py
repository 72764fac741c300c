"""Labelled cases on several ranks of this machine: what tests ask for, and how ranks come by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.rank import serve

ASKED = "asked.json"


def parameters(request: pytest.FixtureRequest) -> list[Mapping[str, Any]]:
    """Return the parameters of every test of the asking file that this session runs, {} for a test without any."""
    items = [item for item in request.session.items if item.path == request.path]
    return [item.callspec.params if hasattr(item, "callspec") else {} for item in items]


def run_entry(entry: str, folder: Path, numbers: Iterable[int]) -> None:
    """Run a module of this folder, its `main` with `folder`, on each of these numbers of ranks."""
    for ranks in numbers:
        wait(start(entry, folder, ranks, 1), entry)


def run_on_ranks(entry: str, folder: Path, labels: Mapping[int, Sequence[str]]) -> None:
    """Run the cases of these labels on as many ranks; the `main` of `entry` calls `serve_cases`."""
    (folder / ASKED).write_text(json.dumps(labels))
    run_entry(entry, folder, (ranks for ranks, names in labels.items() if names))


def serve_cases(folder: Path, run: Callable[[Path, int, int, list[str]], None]) -> int:
    """Run what was asked of this number of ranks; return an exit code. `run` takes the folder, the rank, the number of ranks and labels."""

    def work() -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        run(folder, rank, ranks, json.loads((folder / ASKED).read_text())[str(ranks)])

    return serve("cpu", work)
