"""One pass of the restreaming partitioner, against rows counted one by one from the events before."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np
import pytest
from fetched_rows import fetched_rows
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu

from chronoscale.cuda_ext.scheduling import restream as made
from chronoscale.cuda_ext.scheduling.restream import SHARED, UNSEEN, RestreamPass, RestreamSettings
from chronoscale.errors import UserError

NODES = 7
STATE = ("node", "recent", "degree", "reads", "slots", "load", "event_rows")


class Case(NamedTuple):
    """A stream's ends, int32 [M], where its nodes are, int32 [N], their pulls, float64 [N, P], and settings."""

    src: np.ndarray
    dst: np.ndarray
    node: np.ndarray
    pull: np.ndarray
    settings: RestreamSettings

    @property
    def parts(self) -> int:
        return self.pull.shape[1]

    def restreamed(self) -> tuple[RestreamPass, np.ndarray]:
        """Return the pass after all events, and their parts."""
        state = RestreamPass.start(self.node, self.pull, self.settings)
        return state, state.assign(self.src, self.dst)

    def batches(self) -> list[range]:
        """Return the events of each global batch."""
        size = self.parts * self.settings.batch
        return [range(at, min(at + size, self.src.size)) for at in range(0, self.src.size, size)]

    def recent(self, node: int, before: int) -> list[tuple[int, int]]:
        """Return a node's latest events before one, and their other ends."""
        events = [e for e in range(before) if node in (self.src[e], self.dst[e])]
        return [(e, int(self.src[e] + self.dst[e]) - node) for e in events[-self.settings.fanout :]]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        monkeypatch.setattr(made, "cpu_library_or_warn", lambda _: None)


def drawn_case(seed: int) -> Case:
    """Return a first pass or a later one, with hubs, loops, repeated pairs, idle and shared nodes, and tight or loose balance."""
    draw = np.random.default_rng(seed)
    parts, count, first = int(draw.integers(1, 5)), int(draw.integers(0, 60)), draw.random() < 0.4
    src, dst = ((draw.random(count) ** 3 * (NODES - 1)).astype(np.int32) for _ in range(2))
    node = draw.choice([SHARED, UNSEEN], NODES, p=[0.2, 0.8]) if first else draw.integers(SHARED, parts, NODES)
    pull = np.zeros((NODES, parts)) if first else draw.choice([0.0, 0.5, 40.0, 123.25], (NODES, parts))
    pressure, *slack = (float(draw.choice(values)) for values in ([0.0, 0.5, 12.0], *[[0.0, 0.05, 0.4, 9.0, 1e300]] * 2))
    settings = RestreamSettings(int(draw.integers(1, 7)), int(draw.integers(1, 4)), 4.0, 7.0, pressure, *slack)
    return Case(src, dst, node.astype(np.int32), pull, settings)


cases = st.integers(0, 2**32 - 1).map(drawn_case)


@pytest.mark.usefixtures("place")
@given(cases)
def test_events_go_where_fewest_bytes_are_fetched(case: Case) -> None:
    settings = case.settings
    state, part = case.restreamed()
    node, load = case.node.copy(), np.zeros(case.parts, np.int64)
    for batch in case.batches():
        home = {v: node.copy() for v in range(NODES)}  # as they were when a batch's first event of the node came
        seen: set[int] = set()
        for e in batch:
            u, v, chosen = int(case.src[e]), int(case.dst[e]), int(part[e])
            for end in {u, v} - seen:
                home[end] = node.copy()
            seen |= {u, v}
            costs = {}
            for p in range(case.parts):
                before = [f for f in range(batch.start, e) if part[f] == p]
                if len(before) >= room(case, batch, int(load[p]) - len(before)):
                    continue
                cost = settings.charge * load[p] - sum(case.pull[end, p] for end in {u, v})
                for end in {u, v} - {int(w) for f in before for w in (case.src[f], case.dst[f])}:
                    events = case.recent(end, batch.start)
                    rows = [end, *(other for _, other in events)]
                    cost += 4.0 * sum(home[end][w] not in (p, SHARED, UNSEEN) for w in rows) + 7.0 * sum(part[f] != p for f, _ in events)
                costs[p] = cost
            least = min(costs.values())
            alike = [p for p in costs if costs[p] <= least + 1e-9]
            assert costs[chosen] == pytest.approx(least, abs=1e-9) and (load[chosen], chosen) == min((load[p], p) for p in alike)
            load[chosen] += 1
            for end in (u, v):
                node[end] = chosen if node[end] == UNSEEN else node[end]
    assert state.node.tolist() == node.tolist() and state.load.tolist() == load.tolist()


def room(case: Case, batch: range, load: int) -> int:
    """Events of a batch that a part of so many events before may get."""
    settings, count, parts = case.settings, len(batch), case.parts
    whole = int((1 + settings.total_slack) * batch.stop / parts) + 1 - load
    return min(ceil((1 + settings.batch_slack) * count / parts), max(whole, ceil(count / parts)))


@pytest.mark.usefixtures("place")
@given(cases, st.lists(st.integers(0, 3), min_size=NODES, max_size=NODES))
def test_rows_are_fetched_once_a_batch(case: Case, drawn: list[int]) -> None:
    """Wherever nodes are, and least where `homes` has them."""
    state, part = case.restreamed()
    node = np.where(state.node < 0, state.node, np.array(drawn, np.int32) % case.parts)

    def rows(node: np.ndarray) -> tuple[int, int]:
        return fetched_rows((case.src, case.dst), node, part, case.parts * case.settings.batch, case.settings.fanout)

    assert state.fetched(node) == rows(node)
    homes = state.homes()
    assert state.fetched(homes) == rows(homes)
    assert ((homes < 0) == (state.node < 0)).all() and (homes[homes < 0] == state.node[homes < 0]).all()
    for v in np.flatnonzero(homes >= 0):
        for p in range(case.parts):
            other = homes.copy()
            other[v] = p
            assert rows(other)[0] >= rows(homes)[0]
        if homes[v] != state.node[v]:
            assert rows(homes)[0] < rows(np.where(np.arange(NODES) == v, state.node, homes))[0]
    reads = np.zeros((NODES, case.parts))
    for batch in case.batches():
        for root, p in {(int(v), int(part[e])) for e in batch for v in (case.src[e], case.dst[e])}:
            reads[root, p] += len(case.recent(root, batch.start))
    degree = np.array([sum(v in pair for pair in zip(case.src, case.dst, strict=True)) for v in range(NODES)])
    np.testing.assert_allclose(state.next_pull(), 7.0 * reads / np.maximum(degree, 1)[:, None])


@pytest.mark.usefixtures("place")
@given(cases)
def test_balance(case: Case) -> None:
    _, part = case.restreamed()
    slack, parts = case.settings, case.parts
    for batch in case.batches():
        loads = np.bincount(part[batch.start : batch.stop], minlength=parts)
        assert loads.max() <= ceil((1 + slack.batch_slack) * len(batch) / parts)
        assert np.bincount(part[: batch.stop], minlength=parts).max() <= (1 + slack.total_slack) * batch.stop / parts + 2


@needs_cpu
@given(cases, st.integers(0, 9))
def test_both_are_the_same_to_the_last_bit(case: Case, whole: int) -> None:
    native, plain = (RestreamPass.start(case.node, case.pull, case.settings) for _ in range(2))
    cut = min(whole * case.parts * case.settings.batch, case.src.size)
    results = [native.assign(case.src[part], case.dst[part]) for part in (slice(0, cut), slice(cut, None))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "cpu_library_or_warn", lambda _: None)
        np.testing.assert_array_equal(np.concatenate(results), plain.assign(case.src, case.dst))
    for name in STATE:
        np.testing.assert_array_equal(getattr(native, name), getattr(plain, name))


@pytest.mark.usefixtures("place")
def test_what_is_refused() -> None:
    ids, pull = np.zeros(4, np.int32), np.zeros((2, 2))
    for settings, says in (
        ({"batch": 0}, "batch=0; expected at least 1"),
        ({"fanout": -1}, "fanout=-1; expected at least 1"),
        ({"node_bytes": -1.0}, "node_bytes=-1.0; expected a finite number of at least 0"),
        ({"pressure": float("nan")}, "pressure=nan; expected a finite number of at least 0"),
        ({"batch_slack": float("inf")}, "batch_slack=inf; expected a finite number of at least 0"),
    ):
        with pytest.raises(UserError) as refused:
            RestreamSettings(**settings)  # type: ignore[arg-type]
        assert str(refused.value) == f"restreaming: {says}"
    for node, wrong, says in (
        (ids[:1], pull, r"node int32 \[1\], pull float64 \[2, 2\]; expected int32 \[N\] and float64 \[N, P\] of at least one part"),
        (ids[:2].astype(np.int64), pull, r"node int64 \[2\], .*"),
        (ids[:2], np.zeros((2, 0)), r".*pull float64 \[2, 0\].*"),
        (np.array([0, 2], np.int32), pull, r"parts of nodes must lie in \[-2, 2\), got 0 to 2"),
        (np.array([-3, 0], np.int32), pull, r"parts of nodes must lie in \[-2, 2\), got -3 to 0"),
        (ids[:2], np.array([[0.0, np.nan], [0.0, 0.0]]), "pulls must be finite"),
    ):
        with pytest.raises(UserError, match=f"^restreaming: {says}$"):
            RestreamPass.start(node, wrong, RestreamSettings())
    state = RestreamPass.start(ids[:2], pull, RestreamSettings(batch=2))
    for src, dst in ((ids, ids[:1]), (ids.astype(np.int64), ids), (ids.reshape(2, 2), ids.reshape(2, 2))):
        with pytest.raises(UserError, match=r"^restreaming: src int\d\d \[.*\], dst int32 \[.*\]; expected int32 \[M\] twice$"):
            state.assign(src, dst)
    for src in (ids - 1, ids + 2):
        with pytest.raises(UserError, match=r"^restreaming: node ids must lie in \[0, 2\)$"):
            state.assign(src, ids)
    assert state.assign(ids[:0], ids[:0]).size == 0 and state.assign(ids[:3], ids[:3]).size == 3
    with pytest.raises(UserError, match=r"^restreaming: 4 events after 3; expected whole batches of 4, and below 2\^31 events$"):
        state.assign(ids, ids)
