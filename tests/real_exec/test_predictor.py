"""The predictor: the network's numbers, what it can learn, what it refuses, and that plans order by it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPRegressor

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.publish import curves
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.measurement import predictor as learning
from chronoscale.real_exec.measurement.fit import tabulate_samples
from chronoscale.real_exec.measurement.predictor import fit_predictor
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costing.curves import RANGED
from chronoscale.strategies.costing.predictor import (
    FLAGS,
    SIZES,
    DenseLayer,
    HeldOutError,
    Predictor,
    log_sizes,
    network_inputs,
    row_flags,
    row_kinds,
    standardise,
)
from chronoscale.strategies.costs import UNUSED, Fit, FittedCosts
from chronoscale.strategies.flaredtdg.plan import expected_ns
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG, IN_ORDER, REMAPPED
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.trace import Source, Trace
from chronoscale.strategies.workload import Hyper, Recency, Workload

GRAPHS = GrowthGraph.rmat(90, 500, 11, 0.1, 3).sequence().without_self_edges()
CURVE = Fit("H2D", 0, "bytes", (1.0, 1.0), dict.fromkeys(RANGED, 1), dict.fromkeys(RANGED, 1), 0.1, 4)
CHUNKS = Chunks((np.arange(90) % 16).astype(np.int32), 16)


def work(seed: int = 0) -> Workload:
    hyper = Hyper(recency=Recency(Decay(2, 4, 0.2), 16), seed=seed)
    return Workload("w", statistics_of(GRAPHS), model_shape("t-gcn", 4, 8, 2), hyper, chunking=ExactChunking(GRAPHS, CHUNKS))


def took(schedule: Schedule) -> Ints:
    """A time that follows from a row's sizes: some for starting it, bytes at 8 a ns, edges at 3 ns; communication ten times as long."""
    slow = np.where(np.isin(schedule.op, [Op.ALLTOALL, Op.ALLREDUCE]), 10, 1)
    return np.asarray(np.rint(slow * (2_000 + schedule.bytes / 8 + 3 * schedule.edges)), np.int64)


def told(predictor: Predictor, schedule: Schedule) -> Ints:
    return predictor.predict(schedule, np.arange(len(schedule)))


def profile(ranks: int = 2) -> pd.DataFrame:
    """Timed without noise."""
    items = []
    for planner, seed in product((IN_ORDER, REMAPPED), range(3)):
        schedule = planner.plan(work(seed), ranks, UNUSED)
        end = np.cumsum(ns := took(schedule))
        source = np.full(len(schedule), Source.MEASURED, np.uint8)
        items.append((schedule, [Pass(Trace.of(schedule, end - ns, end, source, "d"), np.zeros(schedule.iterations))]))
    table = tabulate_samples(items)
    return table.assign(ns=np.concatenate([took(schedule) for schedule, _ in items]))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return profile()


@pytest.fixture(scope="module")
def learned(table: pd.DataFrame) -> Predictor:
    return fit_predictor(table)


def test_it_says_what_scikit_learn_says(table: pd.DataFrame) -> None:
    rows = table.assign(kind=table["op"] + "@" + table["place"])
    result, network = learning.fit_network(rows, 1)
    assert isinstance(network, MLPRegressor) and network.loss == "squared_error"
    columns = {name: rows[name].to_numpy(np.float64) for name in (*SIZES, "ranks", *FLAGS)}
    names = rows["kind"].to_numpy(np.str_)
    read = network_inputs(standardise(log_sizes(columns), result.means, result.deviations), columns, names, result.kinds)
    queries = np.exp(network.predict(read) * result.scale + result.centre)
    np.testing.assert_allclose(result.ns(columns, names), queries, rtol=1e-6)
    assert (read[:, : len(result.kinds)].sum(1) == 1).all() and read.shape[1] == len(result.kinds) + len(SIZES) + 1 + len(FLAGS)


@pytest.mark.slow
def test_times_that_follow_from_sizes_are_learned(learned: Predictor) -> None:
    """Of another draw of chunks than any that was profiled, communication among them."""
    assert all(each.median < 0.07 for each in learned.held_out), learned.held_out
    assert {each.kind for each in learned.held_out} >= {"ALLTOALL@COMM", "REMAP@HOST", "REMAP@COMPUTE", "BACKWARD@COMPUTE", "H2D@H2D"}
    schedule = IN_ORDER.plan(work(7), 2, UNUSED)
    off = np.abs(told(learned, schedule) - took(schedule)) / took(schedule)
    assert np.median(off) < 0.05 and np.quantile(off, 0.9) < 0.2


def test_what_is_held_out_was_not_learned_from(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks described alike are on one side; the last fit has all."""
    fits: list[pd.DataFrame] = []
    errors_of: list[pd.DataFrame] = []
    honest, errors = learning.fit_network, learning._errors
    monkeypatch.setattr(learning, "fit_network", lambda sample, seed: fits.append(sample) or honest(sample, seed))
    monkeypatch.setattr(learning, "_errors", lambda tried, rows: errors_of.append(rows) or errors(tried, rows))
    fit_predictor(table)
    (tried, whole), (held,) = fits, errors_of
    several = [rows[~rows["kind"].isin(["OPTIMIZE@COMPUTE", "ALLREDUCE@COMM"])] for rows in (tried, held)]  # of those every task is one
    remaining, left = (set(map(tuple, rows[learning.DESCRIPTION].to_numpy().tolist())) for rows in several)
    assert left and remaining and not remaining & left
    assert len(whole) - len(tried) == int(0.25 * len(whole)) and set(tried["kind"]) <= set(whole["kind"])
    assert set(whole.index) == set(tried.index) | set(held["sample"])


@pytest.mark.slow
def test_of_repeats_the_median_counts(table: pd.DataFrame, learned: Predictor) -> None:
    """One in three tasks that are described alike took a thousand times as long."""
    spoilt = pd.concat([table, table, table.assign(ns=1_000 * table["ns"])], ignore_index=True)
    schedule = IN_ORDER.plan(work(), 2, UNUSED)
    many = np.isin(schedule.op, [Op.AGGREGATE, Op.BACKWARD, Op.TRANSFORM])
    off = np.abs(told(fit_predictor(spoilt), schedule) / told(learned, schedule) - 1)[many]
    assert np.median(off) < 0.1


@pytest.mark.slow
def test_only_windows_of_blocks_are_learned_from(table: pd.DataFrame, learned: Predictor) -> None:
    others = table.assign(schedule="groups", ns=1)
    assert fit_predictor(pd.concat([table, others], ignore_index=True)) == learned
    with pytest.raises(UserError, match=r"^profile: 0 different tasks of windows, at least 16 are needed to learn their times$"):
        fit_predictor(others)


def test_an_order_is_by_what_was_learned(learned: Predictor) -> None:
    """Early-Ready & Short-Comm sees the predictor's times, not the link's."""
    schedule = FLAREDTDG.plan(work(), 2, UNUSED)
    plain = FittedCosts("d", (), {}, Link(1e12, 0))
    arguments = replace(plain, predictor=learned)
    assert (expected_ns(arguments, schedule) == told(learned, schedule)).all()
    only = schedule.tasks(Op.ALLTOALL)
    assert (told(learned, schedule)[only] > 10 * 1_000).all()
    slow = FLAREDTDG.plan(work(), 2, arguments)
    assert sorted(slow.op.tolist()) == sorted(schedule.op.tolist())


@pytest.mark.slow
def test_what_was_not_profiled_is_refused(table: pd.DataFrame) -> None:
    some = FittedCosts("d", (), {}, predictor=fit_predictor(table[table["op"] != "TEMPORAL"]))
    with pytest.raises(
        UserError, match=r"^predictor: TEMPORAL@COMPUTE was not profiled, AGGREGATE@.* were; profile this experiment first$"
    ):
        FLAREDTDG.plan(work(), 2, some)


def test_of_a_single_rank_that_never_communicated_more_are_planned_by_what_costs_know_of_the_link() -> None:
    """And their number, which never differed, changes no time."""
    single = fit_predictor(profile(1))
    assert not single.communicates and single.deviations[-1] == 0
    costs, schedule = FittedCosts("d", (), {}, Link(1e9, 1e-3), predictor=single), IN_ORDER.plan(work(), 2, UNUSED)
    result, sent = expected_ns(costs, schedule), np.isin(schedule.op, [Op.ALLTOALL, Op.ALLREDUCE])
    assert (result[sent] == 1_000_000 + schedule.bytes[sent]).all()
    assert (result[~sent] == single.predict(replace(schedule, ranks=7), np.flatnonzero(~sent))).all()
    off = np.abs(result / took(schedule) - 1)[~sent]
    assert np.median(off) < 0.1


def test_sizes_beyond_the_profile_are_not_cut_off(learned: Predictor) -> None:
    schedule = IN_ORDER.plan(work(), 2, UNUSED)
    row = schedule.tasks(Op.AGGREGATE)[-1:]
    results = []
    for times in (1, 4, 16, 64):
        columns: dict[str, Any] = {name: getattr(schedule, name)[row] * times for name in SIZES if name != "width"}
        columns |= {"width": schedule.width[row], "ranks": np.array([2])} | {
            name: value[row] for name, value in row_flags(schedule).items()
        }
        results.append(float(learned.ns(columns, row_kinds(schedule)[row])[0]))
    assert all(each != other for each, other in pairwise(results))


def test_it_is_kept_with_the_costs(learned: Predictor, tmp_path: Path) -> None:
    """Old files have none."""
    some = FittedCosts.load(saved(tmp_path / "new.json", learned))
    assert some.predictor == learned
    schedule = IN_ORDER.plan(work(3), 2, UNUSED)
    assert (expected_ns(some, schedule) == told(learned, schedule)).all()
    old = saved(tmp_path / "old.json", None)
    old.write_text(old.read_text().replace('"predictor": null,', ""))
    assert "predictor" not in old.read_text() and FittedCosts.load(old).predictor is None


def saved(path: Path, predictor: Predictor | None) -> Path:
    FittedCosts("d", (CURVE,), {}, predictor=predictor).save(path)
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"means": (0.0,)}, "predictor: expected 8 means and deviations, and a layer; has 1 means"),
        ({"layers": ()}, "predictor: expected 8 means and deviations, and a layer; has 8 means"),
        ({"layers": (DenseLayer(((1.0,),), (0.0,)),)}, "predictor: a layer takes 1 numbers, and gets 14"),
        ({"layers": (DenseLayer(((1.0, 2.0),) * 14, (0.0, 0.0)),)}, "predictor: its last layer has 1 number, the time, got 2"),
        ({"layers": (DenseLayer((*((1.0,),) * 13, (1.0, 2.0)), (0.0,)),)}, "predictor: a layer takes 14 numbers, and gets 14"),
    ],
)
def test_layers_fit_together(change: dict[str, Any], said: str) -> None:
    sound = Predictor(("A@COMPUTE",), (0.0,) * 8, (1.0,) * 8, (DenseLayer(((1.0,),) * 14, (0.0,)),), 0.0, 1.0)
    with pytest.raises(UserError) as error:
        replace(sound, **change)
    assert str(error.value) == said


def test_a_spoilt_file_is_one_line(tmp_path: Path, learned: Predictor) -> None:
    path = saved(tmp_path / "costs.json", learned)
    path.write_text(path.read_text().replace('"centre"', '"center"'))
    with pytest.raises(
        UserError, match=r"^\S+costs.json: not a readable cost model \([^\n]*centre[^\n]*\); `chronoscale profile` makes one$"
    ):
        FittedCosts.load(path)


def test_a_table_shows_its_error() -> None:
    told = (HeldOutError("ALLTOALL@COMM", 0.081, 0.254, 40), HeldOutError("REMAP@HOST", 0.02, 0.05, 12))
    sound = Predictor(("A@COMPUTE",), (0.0,) * 8, (1.0,) * 8, (DenseLayer(((1.0,),) * 14, (0.0,)),), 0.0, 1.0, told)
    found = curves.fit_table(FittedCosts("d", (CURVE,), {}, predictor=sound))
    assert found["op"].tolist() == ["H2D", "ALLTOALL@COMM", "REMAP@HOST"] and found["held-out error %"].tolist() == [10.0, 8.1, 2.0]
    assert found["others %"][1].text == "90 % of tasks below 25.4" and found["samples"].tolist() == [4, 40, 12]
    assert curves.fit_table(FittedCosts("d", (CURVE,), {}))["op"].tolist() == ["H2D"]
