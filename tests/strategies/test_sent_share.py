"""SentShare: what plans of MemShare take of the changes of shared nodes to be sent, and where that is from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stream_case import choice, hyper, stream

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.spread import sent_share
from chronoscale.strategies.streams.spread.sent_share import SentCurve, sent_curves, typical_share
from chronoscale.strategies.workload import EventHyper, SharingHyper, Workload

# Two seeds, two epochs of ten steps: halves from the first to the second epoch, and from alpha 0.1 to 0.4.
SHARES = np.array([[[0.8, 0.4], [0.4, 0.2]], [[0.4, 0.2], [0.2, 0.1]]])
CURVE = SentCurve("told", "tgn", "2 ranks", 9, 60, 10, np.array([0.1, 0.4]), SHARES)
OTHER = SentCurve("another", "tgn", "4 ranks", 8, 60, 10, np.array([0.1, 0.4]), SHARES / 10)


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_share, "sent_curves", lambda: (OTHER, CURVE))


def plan(model: str = "tgn", name: str = "memshare", batches: int = 0, **sharing: object) -> Schedule:
    events = EventHyper(sharing=SharingHyper(**{"shared": 0.25, "theta": 0.5, "alpha": 0.1, **sharing}))  # type: ignore[arg-type]
    given = replace(hyper(model, 3, events=events), batches=batches)
    data = stream_statistics(PreparedStream.of(stream(events=60, nodes=9, labels=True), Protocol()))
    return strategy(name).plan(Workload("small", data, shape_for(choice(model), data, given), given), 2, UNUSED)


def sent(schedule: Schedule) -> float:
    """Return the share that a plan's rows have, as near as rounding lets it be told, having asserted that every row has it."""
    rows = schedule.op == Op.ALLGATHER
    changes = schedule.nodes[rows]
    assert changes.any()
    return float(schedule.rows[rows].sum() / changes.sum())


def test_a_curve_is_what_was_measured() -> None:
    assert np.allclose(CURVE.at(0.1), SHARES[0])
    assert np.allclose(CURVE.at(0.4), SHARES[1]) and np.allclose(CURVE.at(2.0), SHARES[1])
    assert np.allclose(CURVE.at(0.2), np.sqrt(SHARES[0] * SHARES[1])) and np.allclose(CURVE.at(0.0), 1.0)
    assert np.allclose(CURVE.at(0.05), np.sqrt(SHARES[0]))


@pytest.mark.parametrize(
    ("steps", "middle", "low", "high"),
    [(0, 0.45, 0.2, 0.8), (20, 0.45, 0.2, 0.8), (10, 0.6, 0.4, 0.8), (3, 0.6, 0.4, 0.8), (15, 0.5, 0.2, 0.8), (60, 0.35, 0.2, 0.8)],
)
def test_epochs_count_by_the_steps_of_the_training(steps: int, middle: float, low: float, high: float) -> None:
    """Means of the seeds are 0.6 and 0.3; what follows the second epoch is as that."""
    predicted = CURVE.predict(0.1, steps)
    assert predicted[:3] == pytest.approx((middle, low, high)) and predicted.origin == "as measured on told (tgn, 2 ranks)"


def test_streams_without_a_curve_have_what_is_typical(curves: None) -> None:
    assert typical_share(0.1)[:3] == pytest.approx((0.45 * 1.1 / 2, 0.02, 0.8))
    assert typical_share(0.1, 10)[:3] == pytest.approx((0.6 * 1.1 / 2, 0.04, 0.8))


def test_plans_send_what_was_measured(curves: None) -> None:
    """By the steps of all epochs; rows are rounded one by one."""
    known = plan()
    assert known.note == "45% of the changes of shared nodes are taken to be sent (20% to 80%), as measured on told (tgn, 2 ranks)"
    rows = known.op == Op.ALLGATHER
    assert known.rows[rows].tolist() == np.rint(0.45 * known.nodes[rows]).tolist() and sent(known) > 0
    assert known.iterations == 8
    assert plan(epochs=1).note.startswith("60% of") and plan(epochs=2).note.startswith("49% of")  # 10 of 16 steps, and 6
    assert plan(alpha=0.2).note.startswith("32% of")


def test_plans_say_where_nothing_was_measured(curves: None) -> None:
    typical = "25% of the changes of shared nodes are taken to be sent (2% to 80%), as on other streams (another, told): "
    assert plan("jodie").note == f"{typical}of this one with jodie none was measured, training.sent sets it"
    assert plan(batches=2).note == f"{typical}of epochs cut to 2 steps none was measured, training.sent sets it"


def test_what_the_user_sets_stays(curves: None) -> None:
    for share in (0.0, 0.5, 1.0):
        schedule = plan(sent=share)
        rows = schedule.op == Op.ALLGATHER
        assert schedule.note == "" and schedule.rows[rows].tolist() == np.rint(share * schedule.nodes[rows]).tolist()


@pytest.mark.parametrize("name", ["memshare-all", "memshare-never", "memshare-shared", "tgl-dist", "disttgl"])
def test_others_assume_nothing(curves: None, name: str) -> None:
    schedule = plan(name=name)
    rows = schedule.op == Op.ALLGATHER
    assert schedule.note == "" and schedule.rows[rows].tolist() == schedule.nodes[rows].tolist()


def test_the_table_holds_what_can_be_measured() -> None:
    """Three streams; the less the larger alpha is; none is further from what is typical than simulations assume (sent_changes)."""
    assert len({curve.stream for curve in sent_curves()}) == len(sent_curves()) >= 3
    for curve in sent_curves():
        assert (np.diff(curve.alphas) > 0).all() and (curve.shares > 0).all() and (curve.shares <= 1).all()
        assert (np.diff(curve.shares.mean((1, 2))) < 0).all() and min(curve.steps, curve.nodes, curve.events) > 1
        for alpha in (0.1, 0.3, 1.0):
            predicted, typical = curve.predict(alpha, 0), typical_share(alpha)
            assert predicted.low <= predicted.middle <= predicted.high and 1 / 4 <= predicted.middle / typical.middle <= 4
