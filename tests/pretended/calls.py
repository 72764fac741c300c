"""Interception of torch's functions on tensors of the pretended device: what they say of such tensors, and where these come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from pretended.memory import Memory
from pretended.operators import Operators
from pretended.order import Stream, at, host

CUDA = torch.device("cuda", 0)
GETTERS: dict[Any, Callable[[bool], Any]] = {
    Tensor.device.__get__: lambda there: CUDA if there else torch.device("cpu"),  # type: ignore[attr-defined]
    Tensor.is_cuda.__get__: lambda there: there,  # type: ignore[attr-defined]
    Tensor.is_cpu.__get__: lambda there: not there,  # type: ignore[attr-defined]
    Tensor.get_device: lambda there: 0 if there else -1,
}
RANDOM = {"rand", "randn", "randint", "randperm"}
COPIED = {torch.tensor, torch.as_tensor}  # from Python's objects: the host waits


class Calls(TorchFunctionMode):
    """Answers for tensors of the device; a call that it lets pass runs on the memory that they really have."""

    def __init__(self, memory: Memory, operators: Operators) -> None:
        super().__init__()
        self.memory, self.operators = memory, operators

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given, memory = {**(kwargs or {})}, self.memory
        if func in GETTERS:
            return GETTERS[func](memory.on_device(args[0]))
        first = args[0] if args and isinstance(args[0], Tensor) else None
        if first is not None:
            if func is Tensor.to or func is Tensor.cuda:
                return self._to(first, *args[1:], **({"device": CUDA, **given} if func is Tensor.cuda else given))
            if func is Tensor.cpu:
                return self._home(first, asynchronous=False)
            if func is Tensor.pin_memory:
                return first if memory.pinned(first) else memory.pin(first.clone())
            if func is Tensor.is_pinned:
                return memory.pinned(first)
            if func is Tensor.data_ptr:
                address = func(*args)
                memory.address(first, address)
                return address
            if func in (Tensor.numpy, Tensor.__array__, Tensor.tolist):
                return self._read(func, first, args, given)
        if func is Tensor.backward:
            gradient = args[1] if len(args) > 1 else given.pop("gradient", None)
            with self:
                return torch.autograd.backward(args[0], gradient, *args[2:], **given)
        return self._called(func, args, given)

    def _called(self, func: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """Call a function that makes tensors on the device that it names, or where its operands are."""
        pins, device = given.pop("pin_memory", False), given.get("device")
        there = device is not None and torch.device(device).type == "cuda"
        if there:
            given["device"] = torch.device("cpu")
        returned = func(*args, **given)
        if isinstance(returned, Tensor) and (pins or device is not None):
            if there:
                if func in COPIED:
                    self.operators.wait(self.operators.stream()[0], func.__name__)
                self.operators.made(self.memory.make(returned, self.operators.stream()[0]))
                if func.__name__ in RANDOM and at.capture is not None:
                    at.capture.forbid(f"{func.__name__}: random numbers")
            elif pins:
                self.memory.pin(returned)
            else:
                self.memory.release(returned)
        remember(returned, at.stream or self.memory.default)
        return returned

    def _to(self, tensor: Tensor, *args: Any, **given: Any) -> Any:
        """Answer Tensor.to: a copy between devices, or a change of type on one."""
        asynchronous, device, rest = bool(given.pop("non_blocking", False)), given.pop("device", None), list(args)
        if rest and isinstance(rest[0], Tensor):
            device, rest[:1] = rest[0].device if not self.memory.on_device(rest[0]) else CUDA, [rest[0].dtype]
        elif rest and (isinstance(rest[0], (str, int, torch.device)) or rest[0] is None):
            device = rest.pop(0) or device
        dtype = next((one for one in (*rest, given.pop("dtype", None)) if isinstance(one, torch.dtype)), tensor.dtype)
        asynchronous |= any(one is True for one in rest[:2])
        there, moves = self.memory.on_device(tensor), device is not None
        if moves and torch.device(device).type == "cuda" and not there:
            return self._away(tensor, dtype, asynchronous)
        if moves and torch.device(device).type == "cpu" and there:
            return self._home(tensor, asynchronous).to(dtype)
        given.pop("memory_format", None)
        return self._called(Tensor.to, (tensor, dtype), given)

    def _away(self, tensor: Tensor, dtype: torch.dtype, asynchronous: bool) -> Tensor:
        """Copy a tensor to the device."""
        source = tensor if dtype == tensor.dtype else self._called(Tensor.to, (tensor, dtype), {})  # on the host, which is pageable
        if source is not tensor and self.memory.pinned(tensor) and not tensor.requires_grad:
            self.memory.pin(source)  # torch copies first and converts there
        made = source.clone()
        self.memory.make(made, self.operators.stream()[0])
        self.operators.across(made, source, asynchronous)
        remember(made, at.stream or self.memory.default)
        return made

    def _home(self, tensor: Tensor, asynchronous: bool) -> Tensor:
        """Copy a tensor to memory of the host that is not pinned: the host waits, whatever it was asked."""
        if not self.memory.on_device(tensor):
            return tensor
        stream, gradient = self.operators.stream()
        self.memory.use(tensor, stream, False, gradient)
        self.operators.wait(stream, "a copy to the host")
        return self.memory.release(tensor.clone())

    def _read(self, func: Any, tensor: Tensor, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """Let the host read a tensor, for which it waits."""
        if self.memory.on_device(tensor):
            if func is not Tensor.tolist:
                raise TypeError("can't convert cuda:0 device type tensor to numpy")
            return self._home(tensor, asynchronous=False).tolist()
        self.memory.use(tensor, host(), False)
        return func(*args, **given)


def remember(returned: Any, stream: Stream) -> None:
    """Note on which stream a forward pass was, for its gradient pass, which autograd runs there."""
    waiting = [leaf.grad_fn for leaf in tree_leaves(returned) if isinstance(leaf, Tensor) and leaf.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if "stream" not in node.metadata:
            node.metadata["stream"] = stream
            waiting += [before for before, _ in node.next_functions if before is not None]
