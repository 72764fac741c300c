"""EdgeBank against a dictionary of pairs, event by event."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from chronoscale.datasets import catalogue
from chronoscale.datasets.streams import negatives, ranking
from chronoscale.datasets.streams.edgebank import EdgeBank, batch_starts
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.splits import split_by_time
from chronoscale.errors import UserError

N = 5
event_lists = st.lists(st.tuples(st.integers(0, 30), st.integers(0, N - 1), st.integers(0, N - 1)), min_size=1, max_size=40).map(sorted)


def stream(events, dtype=np.int64):
    t, src, dst = (np.array(column) for column in zip(*events, strict=True))
    return EventStream(N, src.astype(np.int32), dst.astype(np.int32), t.astype(dtype))


@given(event_lists, st.integers(1, 9), st.one_of(st.none(), st.integers(0, 20)), st.sampled_from([np.int64, np.float64]), st.data())
def test_a_pair_is_predicted_if_it_was_there_before_the_batch(events, batch, window, dtype, data):
    start = data.draw(st.integers(0, len(events) - 1))
    part = range(start, len(events))
    asked = np.random.default_rng(0).integers(-1, N, (len(part), 4)).astype(np.int32)
    src, bank = np.array([events[i][1] for i in part], np.int32), EdgeBank(stream(events, dtype))
    found = bank.scores(src, asked, batch_starts(part, batch), window)
    own = bank.scores(src, np.array([events[i][2] for i in part], np.int32), batch_starts(part, batch), window)
    for row, (event, dsts) in enumerate(zip(part, asked.tolist(), strict=True)):
        known = events[: start + (event - start) // batch * batch]
        newest = {(u, v): t for t, u, v in known}
        now = known[-1][0] if known else 0
        for dst, score in [*zip(dsts, found[row], strict=True), (events[event][2], own[row])]:
            seen = newest.get((events[event][1], dst))
            expected = seen is not None and (window is None or seen >= now - window)
            assert score == (-np.inf if dst < 0 else expected)
    assert found.dtype == np.float32


def test_batches_begin_where_the_part_does():
    assert_array_equal(batch_starts(range(5, 12), 3), [5, 5, 5, 8, 8, 8, 11])
    with pytest.raises(UserError, match="expected 1 or more, got 0"):
        batch_starts(range(5), 0)


def test_what_does_not_fit_is_refused():
    bank, one = EdgeBank(stream([(0, 1, 2), (1, 2, 3)])), np.ones(2, np.int32)
    with pytest.raises(UserError, match="window of EdgeBank: expected 0 or more"):
        bank.scores(one, one, np.zeros(2, np.int64), -1.0)
    with pytest.raises(UserError, match="known: expected shape"):
        bank.scores(one, one, np.zeros(3, np.int64))
    for window in (None, 1.0):
        for known in (-1, 3):
            with pytest.raises(UserError, match=rf"known: expected 0\.\.2 events, got {min(known, 0)}\.\.{max(known, 0)}"):
                bank.scores(one, one, np.array([0, known]), window)
    with pytest.raises(UserError, match="dst: expected shape"):
        bank.scores(one, one[:1], np.zeros(2, np.int64))
    with pytest.raises(UserError, match="a stream with events"):
        EdgeBank(stream([(0, 1, 2)]).span(0, 0))


@pytest.mark.slow
def test_the_figures_of_tgb_s_leaderboard_come_out():
    """tgbl-wiki is `jodie_wikipedia`; TGB ranks an event against all destinations that its source does not meet at its time, and prints a
    test MRR of 0.495 (unlimited) and 0.571 (the last 15 % of the training's time)."""
    if not catalogue.data_folder().is_dir():
        pytest.skip(f"no data folder {catalogue.data_folder()} (set {catalogue.DATA_VARIABLE})")
    events = catalogue.load("jodie_wikipedia")
    split = split_by_time(events)
    dst = negatives.evaluation_negatives(events, split.train_end, split.test, 999, "random").dst
    asked, known, bank = events.span(split.test.start, split.test.stop), batch_starts(split.test, 200), EdgeBank(events)
    window = 0.15 * float(events.t[split.train_end - 1] - events.t[0])
    for memory, printed in ((None, 0.495), (window, 0.571)):
        found = ranking.ranks(bank.scores(asked.src, asked.dst, known, memory), bank.scores(asked.src, dst, known, memory))
        assert round(ranking.mean_reciprocal_rank(found), 3) == printed
