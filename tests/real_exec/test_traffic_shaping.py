"""What ranks tell each other, and communication that is held to a rate, as over a network that ranks of one machine do not have."""

from __future__ import annotations

import json

import pytest
import torch
from message_cases import FLOATS, LATENCY, RATE, ROWS
from pairwise import fast
from rank_cases import parameters, run_entry

from chronoscale.real_exec.communication.exchange import SingleRankExchange, receive_counts
from chronoscale.real_exec.communication.traffic_shaping import ShapedCollective, ShapedExchange
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.job import Settings
from chronoscale.strategies.cluster import Link

RANKS = fast((4, 2), lambda _, ranks: ranks == 2)
WIDTH = 4 * FLOATS  # bytes of a row
OPERATIONS = ("all_reduce", "exchanged", "message", "gathered", "spread", "barrier")


@pytest.fixture(scope="module")
def results(tmp_path_factory, request):
    """What every rank found, by number of ranks."""
    folder = tmp_path_factory.mktemp("messages")
    numbers = sorted({call["ranks"] for call in parameters(request) if "ranks" in call})
    run_entry("message_cases", folder, numbers)
    return {ranks: [json.loads((folder / f"found-{ranks}-{rank}.json").read_text()) for rank in range(ranks)] for ranks in numbers}


def moved(operation: str, rank: int, ranks: int) -> float:
    """Bytes that a rank sends or receives, whichever are more."""
    share, everyone = ROWS // 10, range(ranks)
    if operation == "exchanged":
        sent, arrived = (share * (q + 1) for q in everyone if q != rank), share * (rank + 1) * (ranks - 1)
        return WIDTH * max(sum(sent), arrived)
    if operation == "spread":
        counts = [ROWS // (q + 2) for q in everyone]
        return WIDTH * max(counts[rank] * (ranks - 1), sum(counts) - counts[rank])
    if operation == "gathered":
        return WIDTH * sum(ROWS // (q + 1) for q in everyone if q != rank)
    return {"all_reduce": 2 * (ranks - 1) / ranks * WIDTH * ROWS, "message": WIDTH * ROWS, "barrier": 0}[operation]


@pytest.mark.parametrize("ranks", RANKS)
def test_an_exchange_takes_any_dtype_width_and_count(results, ranks):
    assert [each["misdelivered"] for each in results[ranks]] == [[]] * ranks


@pytest.mark.parametrize("ranks", RANKS)
def test_what_comes_is_the_same_bits(results, ranks):
    assert all(each["kinds"] == ["ShapedCollective", "ShapedExchange"] for each in results[ranks])
    assert [each["same"] for each in results[ranks]] == [dict.fromkeys(OPERATIONS, True)] * ranks


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ranks", RANKS)
def test_an_operation_lasts_its_bytes_time_from_when_the_last_rank_came(results, ranks, operation):
    parts = [0, ranks - 1] if operation == "message" else list(range(ranks))
    begin = max(results[ranks][rank]["times"][operation][0] for rank in parts)
    for rank in parts:
        assert results[ranks][rank]["times"][operation][1] - begin >= (LATENCY + moved(operation, rank, ranks) / RATE) * 1e9 - 1


class Noted:
    """In the place of several ranks: all that is asked of it is done."""

    ranks, rank = 4, 1

    def all_reduce(self, values):
        pass

    def all_gather(self, rows, counts):
        return torch.cat([rows[:1].expand(count, *rows.shape[1:]) for count in counts])

    def barrier(self):
        raise AssertionError("a meeting is one")

    def send(self, values, rank):
        pass

    def receive(self, into, rank):
        pass

    def all_to_all(self, into, values, into_rows, rows):
        into.copy_(values[:1].expand_as(into) if len(values) else into)


@pytest.fixture
def delays(monkeypatch):
    """Seconds that each operation was held for, of a clock that stands still."""
    until = []
    monkeypatch.setattr("chronoscale.real_exec.communication.traffic_shaping.time.perf_counter_ns", lambda: 10**12)
    monkeypatch.setattr("chronoscale.real_exec.communication.traffic_shaping.sleep_until", lambda end: until.append((end - 10**12) / 1e9))
    return until


@pytest.mark.parametrize("link", [Link(1e6, 0.0), Link(1e9, 0.5), Link(float("inf"), 0.25)])
def test_what_an_operation_is_held_for(delays, link):
    collective, exchange, values = ShapedCollective(Noted(), link), ShapedExchange(Noted(), link, 1), torch.zeros(100, 5, dtype=torch.int64)
    collective.all_reduce(values)
    collective.all_gather(values[:10], [40, 10, 0, 7])
    collective.barrier()
    exchange.send(values, 2)
    exchange.receive(values[:50], 2)
    exchange.all_to_all(values[:60], values, [10, 30, 0, 20], [40, 50, 4, 6])
    exchange.all_to_all(values[:90], values[:50], [40, 10, 0, 40], [5, 45, 0, 0])
    exchange.all_to_all(values[:3].byte(), values[:9].byte(), [1, 1, 1, 0], [0, 0, 0, 9])
    exchange.all_to_all(values[:0], values[:0], [0] * 4, [0] * 4)
    row = 40  # bytes
    sizes = [1.5 * 100 * row, 47 * row, 0, 100 * row, 50 * row, 50 * row, 80 * row, 9 * 5, 0]
    assert delays == pytest.approx([link.latency_s + size / link.bandwidth for size in sizes], abs=1e-9)


def test_one_rank_has_no_network():
    with open_context(Settings(device="cpu", network=1.0, network_latency=60.0)) as context:
        assert isinstance(context.exchange, SingleRankExchange)
        assert receive_counts(context.exchange, [3], context.device) == [3]
        context.collective.barrier()
