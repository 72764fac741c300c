"""Meetings of virtual ranks: what they hand each other, whose turn it is, and how they fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from chronoscale.errors import MachineError, NotFiniteError, UserError
from chronoscale.real_exec.communication.exchange import all_gather, receive_counts
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.virtual import VirtualRank, run_virtual

CPU = torch.device("cpu")


def run(work: Callable[[VirtualRank], object], ranks: int = 3) -> list[object]:
    return run_virtual(work, ranks, "job")


def test_sums_are_taken_in_the_order_of_ranks() -> None:
    """In float32 (1e8 + 1) - 1e8 is 0, and (1e8 - 1e8) + 1 is 1."""

    def work(virtual: VirtualRank) -> list[float]:
        values = torch.tensor([[1e8, 1.0, -1e8], [1e8, -1e8, 1.0]])[:, virtual.rank].clone()
        virtual.collective.all_reduce(values)
        return values.tolist()

    assert run(work) == [[0.0, 1.0]] * 3


def test_rows_reach_whom_they_are_for() -> None:
    def work(virtual: VirtualRank) -> tuple[object, ...]:
        rank, exchange = virtual.rank, virtual.exchange
        own = torch.full((rank, 2), float(rank))
        gathered = virtual.collective.all_gather(own, [0, 1, 2])
        assert torch.equal(gathered, all_gather(exchange, own, [0, 1, 2]))
        gathered.zero_()  # nobody else has it
        rows = [rank + other for other in range(3)]
        arrives = receive_counts(exchange, rows, CPU)
        into, sent = torch.empty(sum(arrives)), torch.cat([torch.full((n,), 10.0 * rank + to) for to, n in enumerate(rows)])
        exchange.all_to_all(into, sent, arrives, rows)
        sent.zero_()
        return into.tolist(), virtual.collective.sum_array(torch.tensor([rank]).numpy()).tolist()

    assert run(work) == [([10.0 * s + r for s in range(3) for _ in range(s + r)], [3]) for r in range(3)]


def test_messages_keep_their_order_and_their_content() -> None:
    """Around a ring, each sent before it is asked for, and overwritten by its sender."""

    def work(virtual: VirtualRank) -> list[float]:
        value, arrived = torch.zeros(1), []
        for number in range(3):
            value.fill_(10 * virtual.rank + number)
            virtual.exchange.send(value, (virtual.rank + 1) % 3)
        for _ in range(3):
            virtual.exchange.receive(value, (virtual.rank - 1) % 3)
            arrived.append(float(value))
        return arrived

    assert run(work) == [[20, 21, 22], [0, 1, 2], [10, 11, 12]]


def test_each_rank_draws_its_own_numbers_one_at_a_time() -> None:
    """As ranks that are processes: what others draw meanwhile does not matter; and no two run at once."""
    running: list[int] = []

    def work(virtual: VirtualRank) -> list[float]:
        torch.manual_seed(virtual.rank)
        drawn = []
        for _ in range(4):
            running.append(virtual.rank)
            drawn.append(float(torch.rand(1)))
            assert running.pop() == virtual.rank
            virtual.collective.barrier()
        return drawn

    def alone(rank: int) -> list[float]:
        generator = torch.Generator().manual_seed(rank)
        return [float(torch.rand(1, generator=generator)) for _ in range(4)]

    assert run(work, 5) == [alone(rank) for rank in range(5)]


def test_ranks_share_what_they_only_read() -> None:
    made: list[int] = []

    def work(virtual: VirtualRank) -> tuple[object, object]:
        with open_context(Settings(threads=torch.get_num_threads()), virtual) as context:
            shared = context.share_between_ranks("graph", lambda: made.append(context.rank) or object())
            return shared, context.share("state", object)

    results = run(work)
    assert made == [0] and len({id(shared) for shared, _ in results}) == 1 and len({id(own) for _, own in results}) == 3  # type: ignore[misc]


def fail(error: BaseException) -> Callable[[VirtualRank], None]:
    """Work in which rank 1 fails while all others wait for it."""

    def work(virtual: VirtualRank) -> None:
        positions.own_page().set_text("epoch 2")
        virtual.collective.barrier()
        if virtual.rank == 1:
            raise error
        virtual.collective.barrier()

    return work


@pytest.mark.parametrize("error", [UserError("wrong file"), NotFiniteError("the loss is not finite"), MachineError("disk full")])
def test_what_the_user_can_mend_is_told_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error), match=f"^{error}$"):
        run(fail(error))


def test_a_defect_names_its_rank_and_leaves_its_traceback() -> None:
    with pytest.raises(
        MachineError, match=r"^rank 1 of 'job' failed: ValueError: odd \(while starting, epoch 2\); its traceback: "
    ) as told:
        run(fail(ValueError("odd")))
    file = Path(str(told.value).rpartition(" ")[2])
    assert 'ValueError("odd")' in file.read_text() or "ValueError: odd" in file.read_text()
    file.unlink()


def one(virtual: VirtualRank) -> None:
    virtual.collective.barrier()
    if virtual.rank == 2:
        virtual.collective.all_reduce(torch.zeros(4))
    else:
        virtual.collective.barrier()


def early(virtual: VirtualRank) -> None:
    if virtual.rank != 1:
        virtual.collective.barrier()


def crossed(virtual: VirtualRank) -> None:
    virtual.exchange.receive(torch.zeros(1), (virtual.rank + 1) % 3)


def other_shape(virtual: VirtualRank) -> None:
    virtual.exchange.send(torch.zeros(2), 0)
    virtual.exchange.receive(torch.zeros(3), 0)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (one, "virtual ranks meet in different operations: rank 0 in a barrier, rank 2 in an all-reduce of [4]"),
        (early, "virtual ranks wait for each other: ranks 0, 2 in a barrier; rank 1 has ended"),
        (
            crossed,
            "virtual ranks wait for each other: rank 0 in a receive from rank 1, rank 1 in a receive from rank 2, "
            "rank 2 in a receive from rank 0",
        ),
        (other_shape, "rank 0 sent torch.float32 [2], rank 0 expects torch.float32 [3]"),
    ],
)
def test_ranks_that_can_never_meet_are_one_line(work: Callable[[VirtualRank], None], words: str) -> None:
    with pytest.raises(MachineError, match=re.escape(words)) as told:
        run(work)
    assert "\n" not in str(told.value)
    Path(str(told.value).rpartition(" ")[2]).unlink()


def test_times_of_virtual_ranks_mean_nothing() -> None:
    Context().require_times("x follows times")
    with pytest.raises(UserError, match="x follows times, and those of virtual ranks mean nothing"):
        Context(virtual=True).require_times("x follows times")
