"""Memory of one lane that another reads is marked for it: the allocator would else give it to the lane that made it while it is read.

Rows run on CPU tensors, one after another. Every storage belongs to the lane whose row made it; a row that touches another lane's, in an
operator or by its address, must have said so to `record_stream` before, as a GPU's allocator would have to be told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import stream_case
import torch
from lane_programs import blocks, cells, groups
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import chronoscale
from chronoscale.real_exec import lanes
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.device_lanes import on_host
from chronoscale.real_exec.kernels import Unheard
from chronoscale.real_exec.program import Program
from chronoscale.strategies.schedule import Lane

SOURCES = str(Path(chronoscale.__file__).parent)
COMPUTING = {Lane.COMPUTE, Lane.COMPUTE2}
Found = set[tuple[str, str, str]]  # line that read, whose memory, on which lane


def place() -> str:
    """Return the line of ours that the call comes from."""
    frame = sys._getframe(2)
    while not frame.f_code.co_filename.startswith(SOURCES):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_code.co_filename.removeprefix(SOURCES)}:{frame.f_lineno}"


class Memory:
    """Which lane has made each storage, and who has read it. Storages are held, so that none follows another unseen."""

    def __init__(self) -> None:
        self.lane = Lane.COMPUTE
        self._made: dict[int, tuple[torch.UntypedStorage, Lane]] = {}
        self._marked: set[tuple[int, Lane]] = set()
        self._read: dict[tuple[int, frozenset[Lane]], tuple[str, str, str]] = {}

    def make(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self._made[storage._cdata] = storage, self.lane

    def mark(self, tensor: Tensor, lane: Lane) -> None:
        self._marked.add((tensor.untyped_storage()._cdata, lane))

    def read(self, tensor: Tensor) -> None:
        """A gradient pass runs each part on the stream of its forward pass, and marks what it is given itself."""
        key = tensor.untyped_storage()._cdata
        readers = frozenset({self.lane} | (COMPUTING if torch._C._current_autograd_node() is not None else set()))
        if tensor.numel() and key in self._made and self._made[key][1] not in readers:
            self._read.setdefault((key, readers), (place(), self._made[key][1].name, self.lane.name))

    def unmarked(self) -> Found:
        """Return what was read and never marked, not even later: what is marked is alive."""
        return {said for (key, readers), said in self._read.items() if not any((key, lane) in self._marked for lane in readers)}


class Dispatched(TorchDispatchMode):
    """Reads what operators are given, and makes what they return in storages of their own."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not func.is_view and func.overloadpacket.__name__ != "detach":
            for tensor in given:
                self.memory.read(tensor)
        returned = func(*args, **(kwargs or {}))
        known = {tensor.untyped_storage()._cdata for tensor in given}
        for leaf in tree_leaves(returned):
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in known:
                self.memory.make(leaf)
        return returned


class Called(TorchFunctionMode):
    """Reads what kernels get the address of, and hears what `uses` says."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if func == Tensor.is_cuda.__get__ and sys._getframe(1).f_code is lanes.uses.__code__:  # type: ignore[attr-defined]
            return True
        if func is Tensor.data_ptr:
            self.memory.read(args[0])
        return func(*args, **(kwargs or {}))


def unmarked(program: Program, monkeypatch: pytest.MonkeyPatch) -> Found:
    """What a pass of the rows of a device reads of other lanes and has not marked."""
    memory = Memory()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: memory.lane)
    monkeypatch.setattr(Tensor, "record_stream", lambda tensor, lane: memory.mark(tensor, lane))
    getattr(program, "grid", program).shares = False  # as on a GPU
    program.begin()
    for task in program.tasks:
        if on_host(task):
            program.run(task)
            continue
        memory.lane = task.lane
        with Called(memory), Dispatched(memory):
            program.run(task)
    program.finish()
    return memory.unmarked()


PROGRAMS: list[tuple[Callable[..., Program], str, str]] = [
    *((groups, model, way) for model in ("wd-gcn", "gat-lstm", "evolvegcn-h") for way in ("psg", "blad", "every")),
    *((cells, model, name) for model in ("t-gcn", "gat-lstm", "evolvegcn-h") for name in ("esdg", "distdgl")),
    *((blocks, model, name) for model in ("t-gcn", "evolvegcn-h") for name in ("flaredtdg", "flaredtdg-remap")),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("made", "model", "way"), PROGRAMS, ids=lambda value: getattr(value, "__name__", value))
def test_snapshots_mark_what_they_read_of_other_lanes(
    made: Callable[..., Program], model: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = unmarked(made(model, way, ranks=3), monkeypatch)
    assert not found


@pytest.mark.parametrize("name", ["tgl", "fast"])
@pytest.mark.parametrize("model", stream_case.MODELS)
def test_streams_mark_what_they_read_of_other_lanes(tmp_path: Path, model: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stream_case.prepared(tmp_path, stream_case.stream(features=3))
    chosen, given = stream_case.choice(model), stream_case.hyper(model)
    schedule = stream_case.planned(folder, chosen, given, name, 2)
    found = unmarked(stream_case.program(folder, schedule, chosen, given, Context(collective=Unheard(2))), monkeypatch)
    assert not found
