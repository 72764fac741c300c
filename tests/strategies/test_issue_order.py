"""Turns: logs of a few coroutines under every policy, with times that are added up by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.strategies.flaredtdg.issue_order import (
    Policy,
    Slot,
    Wait,
    awaited_rows,
    early_ready,
    issue_order,
    one_by_one,
    round_robin,
)
from chronoscale.strategies.schedule import Op

POLICIES = [one_by_one, round_robin, early_ready]


def work(step: int, layer: int = 0) -> Slot:
    return Slot(Op.AGGREGATE, step, layer)


def comm(step: int, layer: int = 0) -> Slot:
    return Slot(Op.ALLTOALL, step, layer)


async def run(*rows: Wait) -> None:
    for row in rows:
        await row


def chains() -> list[list[Wait]]:
    """Three snapshots that each compute, exchange and compute; the last waits for the snapshot before."""
    found = []
    for step in range(3):
        after = (work(step - 1, 1),) if step else ()
        found.append([Wait(work(step)), Wait(comm(step)), Wait(work(step, 1), after)])
    return found


def log(policy: Policy, ns: dict[Slot, int]) -> list[tuple[str, int]]:
    order = issue_order([run(*rows) for rows in chains()], ns, policy)
    return [("comm" if slot.communicates else f"work{slot.layer}", slot.step) for slot in order]


def test_one_by_one_is_one_snapshot_after_another() -> None:
    expected = [(what, step) for step in range(3) for what in ("work0", "comm", "work1")]
    assert log(one_by_one, {}) == expected


def test_in_turn_is_round_robin() -> None:
    expected = [(what, step) for what in ("work0", "comm", "work1") for step in range(3)]
    assert log(round_robin, {work(0): 99}) == expected


def test_in_turn_passes_over_who_must_wait() -> None:
    """The second waits for the end of the first, and goes on before those that were asked later."""
    first, second = run(Wait(work(0)), Wait(work(0, 1)), Wait(work(0, 2))), run(Wait(work(1), (work(0, 1),)), Wait(work(1, 1)))
    assert issue_order([first, second], {}, round_robin) == [work(0), work(0, 1), work(1), work(0, 2), work(1, 1)]


def test_early_ready_takes_what_can_start_first() -> None:
    """Computation 10, 10, 10; exchanges 50, 5, 5.

    At 0 all may compute: the first does until 10. At 10 its exchange may start (until 60), and so may the second's computation, which
    has been ready since 0, until 20; the third's until 30. Exchanges wait for the lane until 60: the first's exchange being done at 60 too,
    its computation is ready at 60, those of the others at 20 and 30; they exchange until 65 and 70. The first computes until 70.
    """
    ns = {work(step): 10 for step in range(3)} | {comm(0): 50, comm(1): 5, comm(2): 5} | {work(step, 1): 10 for step in range(3)}
    assert log(early_ready, ns) == [
        ("work0", 0),  # 0 to 10
        ("work0", 1),  # 10 to 20: ready at 0, before the exchange that can start at 10 as well
        ("comm", 0),  # 10 to 60
        ("work0", 2),  # 20 to 30
        ("comm", 1),  # 60 to 65: ready at 20
        ("work1", 0),  # 60 to 70: ready at 60
        ("comm", 2),  # 65 to 70: ready at 30
        ("work1", 1),  # 70 to 80
        ("work1", 2),  # 80 to 90
    ]


def test_short_exchanges_go_first_where_all_else_is_equal() -> None:
    """Exchanges that may begin at one time, and rows after them that do: by how long these take, not by their numbers."""
    long, short = run(Wait(comm(0)), Wait(work(0), (work(9),))), run(Wait(comm(1)), Wait(work(1), (work(9),)))
    third = run(Wait(work(9)))
    order = issue_order([long, short, third], {comm(0): 30, comm(1): 10, work(9): 100}, early_ready)
    assert order == [work(9), comm(1), comm(0), work(1), work(0)]


def test_lanes_run_beside_each_other() -> None:
    """An exchange of 100 holds no computation up."""
    first, second = run(Wait(comm(0)), Wait(work(0))), run(Wait(work(1)), Wait(work(1, 1)))
    assert issue_order([first, second], {comm(0): 100, work(1): 40, work(1, 1): 40}, early_ready) == [work(1), comm(0), work(1, 1), work(0)]


def test_rows_that_were_issued_before_hold_nothing_up() -> None:
    waiting = run(Wait(work(1), (work(0),)))
    assert issue_order([waiting], {}, early_ready, [work(0)]) == [work(1)]


@pytest.mark.parametrize("policy", POLICIES)
def test_coroutines_that_wait_for_each_other_are_told(policy: Policy) -> None:
    first, second = run(Wait(work(0), (work(1),))), run(Wait(work(1), (work(0),)))
    with pytest.raises(ValueError, match=r"rows wait for each other: .*step=0.*step=1"):
        issue_order([first, second], {}, policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_coroutines_without_rows(policy: Policy) -> None:
    assert issue_order([run(), run(Wait(work(1))), run()], {}, policy) == [work(1)]
    assert issue_order([], {}, policy) == []


def test_rows_of_a_coroutine() -> None:
    rows = chains()[1]
    assert awaited_rows(run(*rows)) == rows


@given(st.data(), st.sampled_from(POLICIES))
def test_any_order_is_one_that_the_rows_allow(data: st.DataObject, policy: Policy) -> None:
    """Every row once, each coroutine's in its order, each after those that it names; and the same again for the same times."""
    count, layers = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    made: list[list[Wait]] = []
    for step in range(count):
        kinds = data.draw(st.lists(st.booleans(), min_size=layers, max_size=layers))
        slots = [(comm if one else work)(step, layer) for layer, one in enumerate(kinds)]
        before = [row.slot for row in made[-1]] if made else []
        after = [tuple(data.draw(st.lists(st.sampled_from(before), max_size=2))) if before else () for _ in slots]
        made.append([Wait(slot, names) for slot, names in zip(slots, after, strict=True)])
    ns = {row.slot: data.draw(st.integers(0, 9)) for rows in made for row in rows}
    order = issue_order([run(*rows) for rows in made], ns, policy)
    assert order == issue_order([run(*rows) for rows in made], ns, policy)
    assert sorted(order) == sorted(row.slot for rows in made for row in rows)
    for rows in made:
        places = [order.index(row.slot) for row in rows]
        assert places == sorted(places)
        assert all(order.index(name) < order.index(row.slot) for row in rows for name in row.after)
