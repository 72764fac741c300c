"""What a call of an operator costs its host: operands so small that a kernel takes none of it.

    python benchmarks/bench_calls.py [--repeats 15]

Microseconds of one thread's processor time, by the operators in C++ and by ctypes: without gradients, with them asked for, and forward
and backward; beside them torch.mm. In turns; medians and half the interquartile range.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import cpp_operators
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.operators.aggregation import aggregate, increment
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.cuda_ext.operators.slots import Slots, attend
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.real_exec.measurement.environment import device_name

Call = tuple[Callable[..., Any], tuple[Any, ...]]  # an operator, and what it is given
WAYS = ("c++", "ctypes")
ROWS, WIDTH = 8, 8
LOOPS = 500


def leaf(*size: int) -> Tensor:
    return torch.rand(*size).requires_grad_()


def calls() -> dict[str, Call]:
    pointer, ids = torch.arange(0, 2 * ROWS + 1, 2), torch.randint(0, ROWS, (2 * ROWS,), dtype=torch.int32)
    graph, edges = CSR(pointer, ids, None, ROWS), ids.sort().values
    change = Delta(torch.arange(2, dtype=torch.int32), pointer[:3], ids[:4], torch.ones(4), ROWS, ROWS)
    slots = Slots(torch.randint(0, ROWS, (ROWS, 2)), torch.ones(ROWS, 2, dtype=torch.bool), torch.rand(ROWS, 2), None)
    clock = leaf(WIDTH), leaf(WIDTH)
    return {
        "torch.mm": (torch.mm, (leaf(ROWS, WIDTH), leaf(WIDTH, WIDTH))),
        "aggregate": (aggregate, (graph, leaf(ROWS, WIDTH))),
        "increment": (increment, (leaf(ROWS, WIDTH), change, leaf(ROWS, WIDTH))),
        "attend": (attend, (leaf(ROWS, 1, 2 * WIDTH), leaf(ROWS, WIDTH), slots, clock)),
        "gates": (gates, (leaf(ROWS, 3 * WIDTH), leaf(ROWS, 3 * WIDTH), leaf(ROWS, WIDTH), torch.ones(ROWS, dtype=torch.bool))),
        "encode": (encode, (torch.rand(ROWS), *clock)),
        "aggregate_edges": (aggregate_edges, (leaf(2 * ROWS, WIDTH), edges, ROWS)),
        "gather_rows": (gather_rows, (leaf(ROWS, WIDTH), leaf(ROWS, WIDTH), ids)),
        "edge_softmax": (edge_softmax, (leaf(2 * ROWS, 1), pointer)),
    }


@contextmanager
def by(way: str) -> Iterator[None]:
    """By the operators in C++, or not."""
    original = cpp_operators.load_operators
    cpp_operators.load_operators = (lambda: None) if way == "ctypes" else original  # type: ignore[assignment]
    try:
        yield
    finally:
        cpp_operators.load_operators = original


def contestants(name: str, operator: Callable[..., Any], given: tuple[Any, ...]) -> dict[str, Callable[[], object]]:
    """Each a loop of calls: by way and pass."""
    leaves = [part for part in (*given, *(given[3] if name == "attend" else ())) if isinstance(part, Tensor) and part.requires_grad]

    def first(made: Any) -> Tensor:
        return made[0] if isinstance(made, tuple) else made

    into = torch.ones_like(first(operator(*given)))

    def plain() -> None:
        with torch.no_grad():
            for _ in range(LOOPS):
                operator(*given)

    def graded() -> None:
        for _ in range(LOOPS):
            operator(*given)

    def both() -> None:
        for _ in range(LOOPS):
            torch.autograd.grad(first(operator(*given)), leaves, into)

    def on(way: str, what: Callable[[], None]) -> Callable[[], object]:
        def call() -> None:
            with by(way):
                what()

        return call

    ways = WAYS[:1] if name == "torch.mm" else WAYS
    return {f"{way}, {what.__name__}": on(way, what) for way in ways for what in (plain, graded, both)}


def measured(loops: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of a loop, in turns. Without a pause: one thread leaves nobody spinning, and a cold processor is no property of a call."""
    times: dict[str, list[float]] = {who: [] for who in loops}
    for _ in range(repeats + 1):
        for who, loop in loops.items():
            start = time.thread_time()
            loop()
            times[who].append(time.thread_time() - start)
    return {who: spent[1:] for who, spent in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="host time a call of an operator")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    set_threads(1)
    if cpp_operators.load_operators() is None:
        raise SystemExit("bench_calls: the operators in C++ are not compiled: chronoscale compile")
    print(
        f"{device_name(torch.device('cpu'))}, native {versions()['cpu']}, torch {torch.__version__}; {options.repeats} repeats; µs a call\n"
    )
    print("| operator | way | no gradient | gradient asked for | forward and backward |\n|---|---|---|---|---|")
    for name, (operator, given) in calls().items():
        times = measured(contestants(name, operator, given), options.repeats)
        for way in WAYS[:1] if name == "torch.mm" else WAYS:
            cells = []
            for what in ("plain", "graded", "both"):
                low, middle, high = statistics.quantiles([1e6 * spent / LOOPS for spent in times[f"{way}, {what}"]], n=4)
                cells.append(f"{middle:.1f} (±{(high - low) / 2:.1f})")
            print("|", " | ".join([name, "torch" if name == "torch.mm" else way, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
