"""Pretended CUDA graph: what a capture recorded, to be done again in the same memory, and what a capture forbids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from pretended.findings import Kind
from pretended.memory import Memory, Place, unwatched
from pretended.order import Moment, Stream, at, host

RANDOM = {"normal_", "uniform_", "bernoulli_", "bernoulli", "multinomial", "native_dropout"}
EMPTY = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided"}
copy = torch.ops.aten.copy_.default


class Recorder:
    """The record of what is started on streams of one capture.

    Work runs as it is recorded, so that there are sizes; at the end memory from before is put back as it was, and the graph's own holds
    no numbers.
    """

    def __init__(self, memory: Memory, stream: Stream) -> None:
        self.memory, self.stream, self.streams = memory, stream, [stream]
        self.calls: list[Callable[[], object]] = []
        self.before = memory.known()  # storages that were there
        self.saved: dict[int, Tensor] = {}
        self.own: set[int] = set()  # storages of the graph's pool
        self.used: dict[int, bool] = {}  # storages from before, by number, and whether they are written

    def join(self, stream: Stream) -> None:
        """Add a stream that waits for one of the capture."""
        if at.capture is not self or stream.capture is not None:
            self.forbid("a wait for an event of another capture, or of one that has ended")
            return
        stream.capture = self
        self.streams.append(stream)

    def forbid(self, what: str) -> None:
        """Add a finding for what a capture forbids."""
        self.memory.findings.add(Kind.CAPTURE, what)

    def uses(self, tensor: Tensor, writes: bool) -> None:
        """Note an operand, before the operation."""
        number = tensor.untyped_storage()._cdata
        if self.memory.block(tensor) is not None and (number in self.before or not self.memory.on_device(tensor)):
            if writes and number not in self.saved:
                with unwatched():
                    self.saved[number] = self.memory.bytes_of(number).clone()
            self.used[number] = self.used.get(number, False) or writes

    def operator(self, func: Any, args: Any, given: Mapping[str, Any], returned: Any, known: set[int]) -> None:
        """Note an operator's results, beside its operands."""
        name = func.overloadpacket.__name__
        if name in RANDOM:
            self.forbid(f"{name}: random numbers")
        if name in EMPTY:
            return
        given_, made = tree_map(self._placed, (args, dict(given))), [self._placed(leaf) for leaf in tree_leaves(returned)]
        fresh = [isinstance(one, Place) and one.storage not in known for one in made]

        def again() -> None:
            again_args, again_given = tree_map(self._tensor, given_)
            for into, found, new in zip(made, tree_leaves(func(*again_args, **again_given)), fresh, strict=True):
                if new and into.storage in self.memory.known():  # what went to the host is not the device's any more
                    copy(self._tensor(into), found)

        self.calls.append(again)

    def copies(self, into: Tensor, source: Tensor) -> None:
        """Note a copy between the host and the device."""
        places = self._placed(into), self._placed(source)
        self.calls.append(lambda: copy(*map(self._tensor, places)))

    def fills(self, tensor: Tensor) -> None:
        """Note a tensor that was made with these numbers."""
        with unwatched():
            place, numbers = self._placed(tensor), tensor.detach().clone()
        self.calls.append(lambda: copy(self._tensor(place), numbers))

    def call(self, run: Callable[[], object]) -> None:
        """Note a kernel's call."""
        self.calls.append(run)

    def close(self) -> None:
        """Put memory back as it was before the capture."""
        for number, numbers in self.saved.items():
            self.memory.bytes_of(number).copy_(numbers)
        self.own = self.memory.made(self.streams) - self.before
        for number in self.own:
            if self.memory.poisonable(number):
                self.memory.bytes_of(number).fill_(255)  # NaN, in whatever format

    def _placed(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if self.memory.block(value) is None:
            return value.detach().clone() if not value.dim() else value.detach()  # a number of the host's
        return Place.of(value)

    def _tensor(self, value: Any) -> Any:
        return self.memory.tensor(value) if isinstance(value, Place) else value


class Graph:
    """A captured graph with the interface of `device_lanes.Graph`."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._recorder = memory, None

    @contextmanager
    def capture(self, stream: Stream) -> Iterator[None]:
        with unwatched():
            recorder = Recorder(self._memory, stream)
        stream.capture = at.capture = recorder
        try:
            yield
        finally:
            at.capture = None
            for one in recorder.streams:
                one.capture = None
        for one in recorder.streams:
            if not stream.follows(Moment(one.number, one.known[one.number])):
                self._memory.findings.add(Kind.CAPTURE, "a stream that the first does not wait for in the end")
        with unwatched():
            recorder.close()
        self._recorder = recorder

    def replay(self) -> None:
        recorder, stream = self._recorder, at.stream or self._memory.default
        assert recorder is not None
        stream.learn(host().known)
        for number, writes in recorder.used.items():
            if self._memory.forgotten(number):
                self._memory.findings.add(Kind.CAPTURE, "memory that a graph reads or writes, and that nobody else keeps")
            self._memory.use_all(number, stream, writes)
        for number in recorder.own & self._memory.known():
            self._memory.rewrite(number, stream)
        with unwatched(), torch.no_grad():
            for call in recorder.calls:
                call()
