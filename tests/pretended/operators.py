"""Interception of torch's operators: what they read and write of the device's memory, and for what the host would wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pretended.findings import Kind
from pretended.memory import Memory
from pretended.order import Stream, at, host

# Operators whose result's size, or itself, the host has to know.
WAITS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "bincount", "equal", "is_nonzero"),
    *("_unique", "_unique2", "unique_dim", "unique_consecutive"),
}
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
SILENT = {"detach", "alias", "_record_function_enter_new", "_record_function_exit", "record_stream"}


class Operators(TorchDispatchMode):
    """A dispatch mode that notes the uses of a thread's operators.

    In a gradient pass they are on the stream on which the forward pass was (`backward`).
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = {**(kwargs or {})}
        name, memory = func.overloadpacket.__name__, self.memory
        tensors = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, Tensor)]
        device = [tensor for tensor in tensors if memory.on_device(tensor)]
        if name in SILENT or func.is_view:
            return func(*args, **given)
        written = _written(func, args, given)
        if name == "copy_" and memory.on_device(args[0]) != memory.on_device(args[1]):
            return self._copy(func, args, given)
        if not device:
            for tensor in tensors:
                if memory.block(tensor) is not None:  # pinned
                    memory.use(tensor, host(), id(tensor) in written)
            returned = func(*args, **given)
            if not tensors and torch._C._current_autograd_node() is not None:  # zeros for a gradient that nothing gave
                self.made(memory.make(returned, *self.stream()))
            return returned
        stream, gradient = self.stream()
        capture = self.captured(stream)
        self._mixed(name, args, given)
        if name in WAITS or (name == "repeat_interleave" and given.get("output_size") is None):
            self.wait(stream, name)
        for tensor in device:
            memory.use(tensor, stream, id(tensor) in written, gradient)
            if capture is not None:
                capture.uses(tensor, id(tensor) in written)
        returned = func(*args, **given)
        known = {tensor.untyped_storage()._cdata for tensor in tensors}
        for leaf in tree_leaves(returned):
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in known:
                memory.make(leaf, stream, gradient)
        if capture is not None:
            capture.operator(func, args, given, returned, known)
        return returned

    def captured(self, stream: Stream) -> Any:
        """Return the capture that a stream is part of."""
        if at.capture is not None and stream.capture is None:
            at.capture.forbid("work on a stream that is not part of the capture")
        return stream.capture

    def made(self, tensor: Tensor) -> None:
        """Note a tensor that the device has made of nothing."""
        if (capture := self.captured(self.stream()[0])) is not None:
            capture.fills(tensor)

    def stream(self) -> tuple[Stream, bool]:
        """Return the stream that the calling thread starts work on, and whether autograd starts it, which marks its gradients."""
        node = torch._C._current_autograd_node()
        current = at.stream or self.memory.default
        if node is None:
            current.learn(host().known)
            return current, False
        stream: Stream = node.metadata.get("stream", current)
        stream.learn(current.known)  # autograd has each wait for the other
        stream.learn(host().known)
        current.learn({**stream.known, stream.number: stream.known[stream.number] + 1000})
        return stream, True

    def wait(self, stream: Stream, what: str) -> None:
        """Let the host wait for all that was started on a stream."""
        if at.issuing:
            self.memory.findings.add(Kind.WAIT, what)
        if stream.capture is not None:
            stream.capture.forbid(f"the host waits: {what}")
        host().learn(stream.known)

    def _copy(self, func: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """Copy between the host and the device."""
        into, source = args[0], args[1]
        asynchronous = bool(given.get("non_blocking", args[2] if len(args) > 2 else False))
        self.across(into, source, asynchronous)
        return func(*args, **given)

    def across(self, into: Tensor, source: Tensor, asynchronous: bool) -> None:
        """Note a copy between the host and the device."""
        memory, (stream, gradient) = self.memory, self.stream()
        theirs = source if memory.on_device(into) else into
        if not theirs.numel():
            return
        if (capture := self.captured(stream)) is not None:
            capture.uses(source, False)
            capture.uses(into, True)
            capture.copies(into, source)
        if asynchronous and memory.pinned(theirs) and _dense(theirs):
            memory.use(source, stream, False, gradient)
            memory.use(into, stream, True, gradient)
            return
        if asynchronous and theirs.dim():
            memory.findings.add(Kind.UNPINNED, f"{list(theirs.shape)} of {theirs.dtype}")
        for tensor, writes in ((source, False), (into, True)):
            memory.use(tensor, stream if memory.on_device(tensor) else host(), writes, gradient)
        self.wait(stream, "a copy")

    def _mixed(self, name: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        """Find operands of the host beside the device's: but for numbers, torch refuses them; as indices it copies them, and the host
        waits."""
        memory = self.memory
        strange = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, Tensor) and leaf.dim() and not memory.on_device(leaf)]
        if name in INDEXED:
            indices = [leaf for leaf in tree_leaves(args[1]) if isinstance(leaf, Tensor)]
            strange = [leaf for leaf in strange if not any(leaf is index for index in indices)]
            if any(leaf.dim() and not memory.on_device(leaf) for leaf in indices) and memory.on_device(args[0]):
                self.wait(self.stream()[0], f"{name} by the host's memory")
            if any(leaf.dtype in (torch.bool, torch.uint8) for leaf in indices):
                self.wait(self.stream()[0], f"{name} by a mask")
        if strange:
            memory.findings.add(Kind.MIXED, f"{name} {[list(leaf.shape) for leaf in strange]}")


def _dense(tensor: Tensor) -> bool:
    """Tell whether a tensor is one piece of memory; what is not goes through another copy, which is not pinned."""
    return sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1 == tensor.numel()


def _written(func: Any, args: tuple[Any, ...], given: Mapping[str, Any]) -> set[int]:
    """Return the ids of the tensors that an operator writes, by its schema; those of ranks' communication say nothing: their first ones,
    but for what is sent."""
    if func.namespace == "c10d":
        return set() if func.overloadpacket.__name__ == "send" else {id(leaf) for leaf in tree_leaves(args[0])}
    written = set()
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = given.get(argument.name, args[place] if place < len(args) else None)
            written |= {id(leaf) for leaf in tree_leaves(value) if isinstance(leaf, Tensor)}
    return written
