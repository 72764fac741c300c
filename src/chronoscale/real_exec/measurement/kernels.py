"""Kernels: how many kernels a row launches on a CUDA device, counted on a CPU from the operations that it dispatches.

What dispatches differently on CUDA is counted as it is there:

- an LSTM or GRU cell is two products and one fused kernel, backwards one kernel and the bias' sum (a GRU's two) beside the products (ATen,
  RNN.cpp and cuda/RNN.cu);
- the optimiser updates all parameters at once (torch's default on CUDA, `foreach`); its step counters stay on the host;
- a tensor sent to the device, or back to the host, is one copy;
- dropout is one kernel (ATen, Dropout.cpp), backwards one product, which dispatches;
- what the host reads at once is a check that is made on a CPU alone: on CUDA it would wait. The operation that made it does not count.

A view launches nothing; an operation of ATen counts as one kernel, though a sort or a scan is several: the count is a lower bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from chronoscale.cuda_ext.native import abi
from chronoscale.real_exec.communication.collective import Numbers
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.measurement.memory_traffic import kernel_bytes, nbytes, operation_bytes

_QUIET = ("empty", "new_empty", "empty_like", "empty_strided", "_unsafe_view", "detach", "alias", "lift_fresh", "_local_scalar_dense")
_TOLD = ("_record_function_enter_new", "_record_function_exit")  # to the profiler
_READS = (Tensor.__bool__, Tensor.__int__)


class KernelCounter(TorchDispatchMode):
    """Context manager that counts, while a rank's program runs on a CPU, the kernels that it would launch on a GPU.

    count: of kernels. bytes: that they read and write in device memory (`memory_traffic`).
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0
        self.bytes = 0
        self._calls = _Calls(self)

    def __enter__(self) -> KernelCounter:
        _running.append(self)
        abi.listeners.append(self._native)
        self._calls.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._calls.__exit__(*error)  # type: ignore[no-untyped-call]
        abi.listeners.remove(self._native)
        _running.remove(self)

    def _native(self, name: str, arguments: tuple[Any, ...], cuda: abi.CudaLaunch) -> None:
        self.count += 1
        self.bytes += kernel_bytes(name, arguments, cuda)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        steps = name.startswith("_foreach") and all(value.dim() == 0 for value in tensors)  # of an optimiser
        result = func(*args, **(kwargs or {}))
        if not (func.is_view or name in (*_QUIET, *_TOLD) or steps):
            self.count += 1
            self.bytes += operation_bytes(func, args, kwargs or {}, result)
        return result


_running: list[KernelCounter] = []  # the last one counts: a gradient belongs to the row that asks for it


class _Calls(TorchFunctionMode):
    """An interceptor of calls that are other kernels on CUDA than on a CPU."""

    def __init__(self, counter: KernelCounter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if func in (torch.lstm_cell, torch.gru_cell):
            return _cell(func, self._counter, *args)
        if func is Tensor.to and isinstance(args[1], (str, torch.device)):
            return _count_as(self._counter, 1, 0, lambda: func(*args, **(kwargs or {})))
        if func is Tensor.cpu:
            return _count_as(self._counter, 1, 0, lambda: func(*args))
        if func is functional.dropout:
            return _dropout(self._counter, *args, **(kwargs or {}))
        if func in _READS:
            self._counter.count -= 1
        return func(*args, **(kwargs or {}))


def _dropout(counter: KernelCounter, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Apply dropout, counted as one kernel where it drops anything."""
    drops = int(training and 0 < p < 1)
    return _count_as(counter, drops, drops * (2 * nbytes([x]) + x.numel()), lambda: functional.dropout(x, p, training, inplace))


def _cell(func: Any, counter: KernelCounter, x: Tensor, state: Any, of_input: Tensor, of_state: Tensor, *biases: Tensor) -> Any:
    """Apply an LSTM or GRU cell as on CUDA: two products, which dispatch, and one fused kernel."""
    hidden = state[0] if func is torch.lstm_cell else state
    gates = x @ of_input.T, hidden @ of_state.T
    after = _Fused.apply(func, counter, *gates, state[1] if func is torch.lstm_cell else state, *biases)  # type: ignore[no-untyped-call]
    return after if func is torch.lstm_cell else after[0]


class _Fused(torch.autograd.Function):
    """The fused part of a recurrent cell, after its products: one kernel forwards; backwards two, for a GRU three."""

    @staticmethod
    def forward(ctx: Any, func: Any, counter: KernelCounter, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.func = func
        ctx.save_for_backward(*values)
        saved = 4 if func is torch.lstm_cell else 5  # values an entry of the state: gates after their activations, a GRU's state and h_n
        read = nbytes(values)
        outputs: tuple[Tensor, ...] = _count_as(counter, 1, read, lambda: _next_state(func, *values))
        counter.bytes += nbytes(outputs) + saved * nbytes(outputs[:1])
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        def gradients() -> tuple[Tensor, ...]:
            values = [value.detach().requires_grad_() for value in ctx.saved_tensors]
            with torch.enable_grad():
                outputs = _next_state(ctx.func, *values)
            return torch.autograd.grad(outputs, values, grads, allow_unused=True)

        state, lstm = ctx.saved_tensors[2], ctx.func is torch.lstm_cell
        read = (2 if lstm else 1) + (4 + 2 if lstm else 5)  # gradients, what was kept; an LSTM's memory before and after
        written = (4 + 4 + 1) if lstm else (6 + 6 + 1)  # gates, written and summed up for the bias; the state before
        return None, None, *_count_as(_running[-1], 2 if lstm else 3, (read + written) * nbytes([state]), gradients)


def _count_as(counter: KernelCounter, kernels: int, size: int, run: Callable[[], Any]) -> Any:
    """Call `run` and return its result, counted as so many kernels that move `size` bytes, whatever it dispatches."""
    before = counter.count + kernels, counter.bytes + size
    result = run()
    counter.count, counter.bytes = before
    return result


def _next_state(func: Any, of_input: Tensor, of_state: Tensor, last: Tensor, *biases: Tensor) -> tuple[Tensor, ...]:
    """Return an LSTM's new state, or a GRU's, from its two products, float [rows, gates H] each."""
    of_input, of_state = of_input + biases[0], of_state + biases[1]
    if func is torch.lstm_cell:
        i, f, g, o = (of_input + of_state).chunk(4, 1)
        c = f.sigmoid() * last + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    (r, z, n), (s, t, m) = of_input.chunk(3, 1), of_state.chunk(3, 1)
    update = (z + t).sigmoid()
    candidate = (n + (r + s).sigmoid() * m).tanh()
    return ((1 - update) * candidate + update * last,)


class KernelCounts(NamedTuple):
    """Number of kernels that a row would launch on a GPU, and the bytes that they read and write in device memory."""

    kernels: int
    bytes: int


def count_kernels(program: Program) -> list[KernelCounts]:
    """Run one pass of a rank's program without its peers, on a CPU; return what each of its rows, in order, would launch on a GPU."""
    counts = []
    program.begin()
    for task in program.tasks:
        with KernelCounter() as counter:
            program.run(task)
        counts.append(KernelCounts(counter.count, counter.bytes))
    program.finish()
    return counts


def launch_ns(device: torch.device, count: int = 2_000) -> int:
    """Measure on this machine how long the host takes to launch one kernel on an idle GPU, ns; 0 on a CPU, where nothing is launched.

    count: launches that are averaged.
    """
    if device.type != "cuda":
        return 0
    tensor, spent = torch.zeros(1, device=device), 0
    for _ in range(2):  # the first time warms up
        torch.cuda.synchronize(device)
        begun = time.perf_counter_ns()
        for _ in range(count):
            tensor.add_(1)
        spent = time.perf_counter_ns() - begun
    return spent // count


class AbsentPeers:
    """Stand-in for the communication of one of `ranks` ranks while its kernels are counted: no peer runs, each operation is one kernel, and
    zeros arrive.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks, self.rank = ranks, 0

    def all_reduce(self, values: Tensor) -> None:
        """Launch one kernel in place of the all-reduce, while kernels are counted."""
        values.mul_(1)

    def all_gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Return zeros in place of other ranks' rows, by one kernel, while kernels are counted."""
        return rows.new_zeros(sum(counts), rows.shape[1])

    def barrier(self) -> None:
        """Return at once: while kernels are counted, no peer runs."""

    def sum_array(self, values: Numbers) -> Numbers:
        """Return the values: while kernels are counted, no peer has any."""
        return values

    def send(self, values: Tensor, rank: int) -> None:
        """Launch one kernel in place of the send, while kernels are counted."""
        values.mul_(1)

    def receive(self, into: Tensor, rank: int) -> None:
        """Fill the tensor with zeros in place of a peer's rows, by one kernel, while kernels are counted."""
        into.zero_()

    def all_to_all(self, into: Tensor, values: Tensor, into_rows: Sequence[int], rows: Sequence[int]) -> None:
        """Fill `into` with zeros in place of other ranks' rows, by one kernel, while kernels are counted."""
        into.zero_()
