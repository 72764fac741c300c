"""Links between machines, and how fast each is, from passes that were measured over them."""

from dataclasses import replace

import numpy as np
import pytest

from chronoscale.errors import UserError
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.measurement.fit import fit, fit_pace, tabulate_samples, with_enough_samples
from chronoscale.real_exec.measurement.pairs import fit_pairs, messages
from chronoscale.real_exec.ranks.machines import Machine, check_versions, describe
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

MACHINES = [range(0, 2), range(2, 3), range(3, 6)]


def measured(schedule: Schedule, ns: np.ndarray, clock_ns: int = 0) -> list[Pass]:
    """Passes in which every row took so long."""
    start = np.zeros(len(schedule), np.int64)
    trace = Trace.of(schedule, start, start + ns.astype(np.int64), np.full(len(schedule), Source.MEASURED, np.uint8), "x")
    return [Pass(replace(trace, clock_ns=clock_ns), np.zeros(1))] * 3


def test_each_pair_of_machines_has_its_own_link() -> None:
    """And each machine that has two ranks one inside."""
    schedule = messages(MACHINES)
    machine_of = {rank: number for number, ranks in enumerate(MACHINES) for rank in ranks}
    expected = {(0, 1): (1e8, 3e-4), (0, 2): (5e7, 1e-3), (1, 2): (2e9, 0.0), (0, 0): (4e9, 1e-5), (2, 2): (1e9, 2e-5)}
    ns = np.zeros(len(schedule))
    for row in range(len(schedule)):
        ends = machine_of[int(schedule.rank[row])], machine_of[int(schedule.step[row])]
        bandwidth, latency = expected[min(ends), max(ends)]
        ns[row] = 1e9 * (latency + schedule.bytes[row] / bandwidth) * (1 if schedule.op[row] == Op.RECV else 0.1)  # sent is not received
    vague = fit_pairs(schedule, measured(schedule, ns, clock_ns=5 * 10**6), MACHINES)
    assert {(each.first, each.second) for each in vague} == {(0, 1), (0, 2)}  # of the others, no two sizes take as long as clocks agree
    for link in (links := fit_pairs(schedule, measured(schedule, ns), MACHINES)):
        bandwidth, latency = expected.pop((link.first, link.second))
        assert link.link.bandwidth == pytest.approx(bandwidth, rel=1e-3) and link.link.latency_s == pytest.approx(latency, abs=2e-7)
    assert not expected and len(links) == 5


def test_every_message_has_two_ends() -> None:
    schedule = messages(MACHINES)
    for number in np.unique(schedule.collective):
        send, receive = np.flatnonzero(schedule.collective == number)
        assert {int(schedule.op[send]), int(schedule.op[receive])} == {Op.SEND, Op.RECV}
        assert schedule.rank[send] == schedule.step[receive] and schedule.rank[receive] == schedule.step[send]
        assert schedule.bytes[send] == schedule.bytes[receive]


def work() -> Schedule:
    builder = Builder("work", 6)
    for order in range(12):
        size = 1000 * (order + 1)
        builder.add(Op.H2D, Lane.H2D, {"rank": np.arange(6), "order": order, "bytes": size, "rows": order, "kernels": 1, "iteration": 0})
    return builder.finish()


def test_a_machine_that_is_slower_stays_so() -> None:
    """All ranks' rows are fitted by one curve, and each machine's take their own multiple of it."""
    schedule, speeds = work(), np.array([1.0, 1.0, 3.0, 2.0, 2.0, 2.0])
    ns = (500 + schedule.bytes) * speeds[schedule.rank]
    items = [(schedule, measured(schedule, ns))]
    costs = fit(with_enough_samples(tabulate_samples(items)), "x", {})
    assert costs.pace == ()
    costs = replace(costs, pace=fit_pace(costs, items, MACHINES))
    assert len(costs.pace) == 6 and costs.pace[2] / costs.pace[0] == pytest.approx(3) and costs.pace[3] == costs.pace[5]
    rows = schedule.tasks(Op.H2D)
    assert costs.predict(schedule, rows)[0] == pytest.approx(ns[rows], rel=0.01)
    more = replace(schedule, ranks=7)  # of which nothing was measured
    assert (costs.predict(more, rows)[0] == replace(costs, pace=()).predict(more, rows)[0]).all()


def test_no_shorter_collective_is_believed_than_clocks_agree() -> None:
    builder = Builder("all-reduce", 2, kind="collectives")
    for number, size in enumerate((1000, 10**6, 2 * 10**6, 4 * 10**6)):
        builder.add(Op.ALLREDUCE, Lane.COMM, {"rank": np.arange(2), "order": number, "collective": number, "bytes": size, "iteration": 0})
    schedule = builder.finish()
    table = tabulate_samples([(schedule, measured(schedule, schedule.bytes, clock_ns=500_000))])
    with pytest.warns(UserWarning, match="2 of 8 collectives took less than the 500 µs by which clocks of machines may differ"):
        taken = with_enough_samples(table)
    assert sorted(set(taken["bytes"])) == [10**6, 2 * 10**6, 4 * 10**6]


def machine(host: str, first: int = 0, ranks: int = 2, **facts: str) -> Machine:
    return Machine(host, first, ranks, {"chronoscale": "1", "python": "3.11", "torch": "2", "cores": "8", **facts})


def test_machines_are_recorded_with_what_they_differ_in() -> None:
    assert describe([]) == {} and describe([machine("a")]) == {}
    there = [machine("a"), machine("b", 2, cores="16"), machine("c", 4, 1, gpu="x")]
    assert describe(there) == {"machines": "a (2), b (2), c (1)", "cores by machine": "8, 16, 8", "gpu by machine": "none, none, x"}
    assert [each.of(3) for each in there] == [2, 1, 0]


def test_other_versions_are_refused() -> None:
    check_versions([machine("a"), machine("b", cores="1")])
    with pytest.raises(UserError, match="torch is 2 on a, and 3 on b; install the same on every machine"):
        check_versions([machine("a"), machine("b", torch="3")])
