"""What ranks tell each other, executed on this rank: `main(folder)`.

Each operation runs over memory and over a network of RATE and LATENCY. Writes whether the same came of it, bit for bit, and when it began
and ended, ns on a clock that ranks share; tests/real_exec/test_traffic_shaping.py holds them against the model.
"""

import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
import torch.distributed as dist

from chronoscale.real_exec.communication.exchange import all_gather, receive_counts
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks.rank import serve

RATE, LATENCY = 2e7, 0.002  # bytes a second, seconds
LATE_S = 0.03  # by which the last rank comes after the others
DTYPES = (torch.int32, torch.int64, torch.float32, torch.uint8)
WIDTHS = (3, 1, 0)
COUNTS: dict[str, Callable[[int, int], int]] = {
    "uneven": lambda a, b: (3 * a + 2 * b) % 5,
    "one rank has nothing": lambda a, b: a + b if a else 0,
    "one rank gets nothing": lambda a, b: a + b if b else 0,
    "nothing at all": lambda a, b: 0,
    "each to itself": lambda a, b: 3 * (a == b),
    "one message": lambda a, b: 4 * (a == 1 and b == 0),
}  # rows that rank a sends to rank b
ROWS, FLOATS = 30_000, 2  # of timed messages


def rows(rank: int, other: int, count: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """That a rank sends to another: no two of a message are alike."""
    numbers = torch.arange(count * width).view(count, width)
    return (numbers + 16 * rank + 4 * other).to(dtype)


def misdelivered(context: Context) -> list[str]:
    """All-to-alls that brought anything but what was sent, and what ranks were wrongly told of them."""
    wrong, own, ranks = [], context.rank, range(context.ranks)
    for (name, count), width, dtype in product(COUNTS.items(), WIDTHS, DTYPES):
        sent, come = [count(own, q) for q in ranks], [count(q, own) for q in ranks]
        told = receive_counts(context.exchange, sent, torch.device("cpu"))
        into = torch.full((sum(told), width), 99).to(dtype)
        context.exchange.all_to_all(into, torch.cat([rows(own, q, sent[q], width, dtype) for q in ranks]), told, sent)
        if told != come or not torch.equal(into, torch.cat([rows(q, own, come[q], width, dtype) for q in ranks])):
            wrong.append(f"{name}, {width} wide, {dtype}")
    return wrong


def outcomes(context: Context) -> dict[str, tuple[torch.Tensor, list[int]]]:
    """Of every operation what came of it, when this rank came to it and when it left, ns. The last rank comes late."""
    own, ranks, done = context.rank, context.ranks, {}
    values = torch.randn(ROWS, FLOATS, generator=torch.Generator().manual_seed(own))

    def all_reduce() -> torch.Tensor:
        total = values.clone()
        context.collective.all_reduce(total)
        return total

    def exchanged() -> torch.Tensor:  # rank q gets q + 1 shares of everyone
        share = ROWS // 10
        into = torch.empty(ranks * share * (own + 1), FLOATS)
        sent = [share * (q + 1) for q in range(ranks)]
        context.exchange.all_to_all(into, values[: sum(sent)], [share * (own + 1)] * ranks, sent)
        return into

    def message() -> torch.Tensor:  # of the last rank to the first; others have none
        into = values.clone()
        if own == ranks - 1:
            context.exchange.send(values, 0)
        elif own == 0:
            context.exchange.receive(into, ranks - 1)
        return into

    def gathered() -> torch.Tensor:
        counts = [ROWS // (rank + 1) for rank in range(ranks)]
        return context.collective.all_gather(values[: counts[own]], counts)

    def spread() -> torch.Tensor:
        counts = [ROWS // (rank + 2) for rank in range(ranks)]
        return all_gather(context.exchange, values[: counts[own]], counts)

    def barrier() -> torch.Tensor:
        context.collective.barrier()
        return torch.zeros(0)

    for operation in (all_reduce, exchanged, message, gathered, spread, barrier):
        dist.barrier()
        if own == ranks - 1:
            time.sleep(LATE_S)
        begin = time.perf_counter_ns()
        done[operation.__name__] = (operation(), [begin, time.perf_counter_ns()])
    return done


def run(folder: Path, rank: int, ranks: int) -> None:
    """A file of what was found."""
    found = {}
    with open_context(Settings(device="cpu")) as context:
        found["misdelivered"], plain = misdelivered(context), outcomes(context)
    with open_context(Settings(device="cpu", network=RATE, network_latency=LATENCY)) as context:
        shaped = outcomes(context)
        found["kinds"] = [type(context.collective).__name__, type(context.exchange).__name__]
    with open_context(Settings(device="cpu", network_latency=1e-9)) as context:
        found["misdelivered"] += misdelivered(context)
    found["same"] = {name: torch.equal(value, plain[name][0]) for name, (value, _) in shaped.items()}
    found["times"] = {name: times for name, (_, times) in shaped.items()}
    (folder / f"found-{ranks}-{rank}.json").write_text(json.dumps(found))


def main(folder: str) -> int:
    return serve("cpu", lambda: run(Path(folder), dist.get_rank(), dist.get_world_size()))
