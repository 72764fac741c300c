"""Pretended machine: runs the package on a GPU that is not there, and records what a real one would mind."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from emulation import compiler
from torch import Tensor

import chronoscale
from chronoscale.cuda_ext.native import abi, backend, cpp_operators
from chronoscale.real_exec.execution import context, device_lanes, lanes
from chronoscale.real_exec.execution.row_threads import RowThreads
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.measurement import environment
from pretended.calls import CUDA, Calls, remember
from pretended.findings import Findings, Kind
from pretended.graph import Graph
from pretended.memory import Memory
from pretended.operators import Operators
from pretended.order import Event, Stream, at, host

HEADER = Path(chronoscale.__file__).parent / "cuda_ext" / "csrc" / "common" / "chronoscale.h"


class Device:
    """The streams of a device that is not there, as `device_lanes.Streams`, and what watches who uses them."""

    def __init__(self, library: Any) -> None:
        self.findings, self.library = Findings(), library
        self.default = Stream()
        self.streams = [self.default]
        self.memory = Memory(self.findings, self.default)
        self.operators = Operators(self.memory)

    def stream(self) -> Stream:
        self.streams.append(Stream())
        return self.streams[-1]

    def event(self) -> Event:
        return Event()

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, at.stream = at.stream, stream
        try:
            with self.watched():
                yield
        finally:
            at.stream = before

    def graph(self, pool: object) -> Graph:
        return Graph(self.memory)

    def pool(self) -> None:
        """Return nothing: all graphs keep their memory for themselves."""

    def synchronize(self) -> None:
        if at.capture is not None:
            return at.capture.forbid("the host waits for the device")
        for stream in self.streams:
            stream.synchronize()

    def current(self, device: object = None) -> Stream:
        return at.stream or self.default

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Intercept what the calling thread does."""
        if at.watched:
            yield
            return
        at.watched = True
        try:
            with Operators(self.memory) as operators, Calls(self.memory, operators):
                yield
        finally:
            at.watched = False

    def backward(self, run: Any, outputs: Any, gradients: Sequence[Tensor | None], *args: Any, **given: Any) -> Any:
        """A gradient pass, which torch starts with calls no longer intercepted. It marks what it begins with, for other streams than the
        caller's."""
        for gradient in gradients:
            if gradient is not None and (block := self.memory.block(gradient)) is not None:
                block.given = self.current()
        with Calls(self.memory, self.operators):
            return run(outputs, gradients, *args, **given)

    def call_for_status(self, run: Any, name: str, x: Tensor, arguments: tuple[Any, ...], cuda: abi.CudaLaunch) -> int:
        """Run a kernel of the C ABI, and note what it reads and writes by its declaration."""
        if abi.on_cuda(x):
            stream, gradient = self.operators.stream()
            constant = parameters(f"cs_cuda_{name}")
            for value, reads in zip((*arguments, *cuda.arguments), constant, strict=False):
                tensor = self.memory.addressed(value) if reads is not None else None
                if tensor is None:
                    continue
                if not self.memory.on_device(tensor):
                    self.findings.add(Kind.MIXED, f"{name} {list(tensor.shape)}")
                self.memory.use(tensor, stream, not reads, gradient)
                if (capture := self.operators.captured(stream)) is not None:
                    capture.uses(tensor, not reads)
        return int(run(name, x, arguments, cuda))


class Kernels:
    """A library whose calls become part of the capture that is under way."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)

        def called(*arguments: Any) -> Any:
            if arguments and at.capture is not None:
                at.capture.call(lambda: function(*arguments))
            return function(*arguments)

        return called


@cache
def _declarations() -> str:
    """Return the C ABI as the compiler sees it."""
    return subprocess.run([str(compiler()), "-E", "-P", "-x", "c++", str(HEADER)], capture_output=True, text=True, check=True).stdout


@cache
def parameters(function: str) -> Sequence[bool | None]:
    """Return, for each parameter of a function of the C ABI, whether it is memory that is only read; None for what is no memory."""
    found = re.search(rf"\b{function}\(([^)]*)\)", _declarations())
    assert found is not None, function
    return [("const " in one) if "*" in one else None for one in found[1].split(",")]


class Handed(RowThreads):
    """Progress that hands on, with each row that another thread waits for, what the thread that ran it knows."""

    def __init__(self, tasks: Sequence[Task], thread: Sequence[int], needs: Sequence[Sequence[int]], threads: int) -> None:
        super().__init__(tasks, thread, needs, threads)
        self._needs, self._known = needs, dict[int, dict[int, int]]()

    def run(self, steps: Any) -> None:
        begin, here = dict(host().known), threading.get_ident()

        def handed(step: Any) -> Any:
            def run(i: int, task: Task) -> None:
                host().learn(begin)
                for need in self._needs[i]:
                    host().learn(self._known.get(need, {}))
                issues = threading.get_ident() == here
                try:
                    at.issuing = issues
                    step(i, task)
                finally:
                    at.issuing = False
                self._known[i] = dict(host().known)

            return run

        super().run([handed(step) for step in steps])
        for known in self._known.values():
            host().learn(known)


@contextmanager
def pretended(library: Any) -> Iterator[Findings]:
    """Have the package find one GPU, whose kernels are `library`'s: emulated ones, or such that take the same arguments. What the device
    would have minded is complete when the block has ended."""
    device, kernels = Device(library), Kernels(library)
    unavailable_reason, call_for_status = backend.unavailable_reason, abi.call_for_status
    zeros, apply = abi._counters, torch.autograd.Function.apply.__func__  # type: ignore[attr-defined]
    engine = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def counters(place: torch.device, stream: int, pieces: int) -> Tensor:
        kept = zeros(place, stream, pieces)
        if at.capture is not None:
            return kept
        device.memory.use(kept, device.operators.stream()[0], writes=True)
        return kept

    def applied(cls: Any, *args: Any, **given: Any) -> Any:
        returned = apply(cls, *args, **given)
        remember(returned, device.current())
        return returned

    patches = [
        mock.patch.object(abi, "cuda_library", lambda: kernels),
        mock.patch.object(cpp_operators, "load_operators", lambda: None),  # C++ would take the tensors for the CPU's, which they are
        mock.patch.object(abi, "_on_device", lambda x: nullcontext(device.operators.stream()[0].cuda_stream)),
        mock.patch.object(abi, "_captured", lambda device: at.capture is not None),
        mock.patch.object(abi, "_zeros", {}),
        mock.patch.object(abi, "_counters", counters),
        mock.patch.object(abi, "call_for_status", lambda *given: device.call_for_status(call_for_status, *given)),
        mock.patch.object(backend, "unavailable_reason", lambda name, index=None: None if name == "cuda" else unavailable_reason(name)),
        mock.patch.object(device_lanes, "RowThreads", Handed),
        mock.patch.object(lanes, "CudaStreams", lambda _: device),
        mock.patch.object(context, "pick_device", lambda name, rank, shares: CUDA if name != "cpu" else torch.device("cpu")),
        mock.patch.object(environment, "device_name", lambda _: "a pretended GPU"),
        # torch looks at a stream's type before calls are intercepted
        mock.patch.object(Tensor, "record_stream", lambda tensor, stream: device.memory.mark(tensor, stream)),
        mock.patch.object(torch.cuda, "current_stream", device.current),
        mock.patch.object(torch.cuda, "synchronize", lambda _=None: device.synchronize()),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: at.capture is not None),
        mock.patch.object(torch.cuda, "get_device_name", lambda _=None: "a pretended GPU"),
        mock.patch.object(torch.autograd, "_engine_run_backward", lambda *args, **given: device.backward(engine, *args, **given)),
        mock.patch.object(torch.autograd.Function, "apply", classmethod(applied)),
    ]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        backend._default.cache_clear()
        try:
            with device.watched():
                yield device.findings
        finally:
            device.memory.close()
            backend._default.cache_clear()
