"""FAST's simulated and executed studies: rates meet what they are solved from and only that, and figures follow from the planned rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from one_rank import here
from small_studies import replayed, run_registered

from chronoscale.batching.streams.sampling.affinity import thread_affinity
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import Kind
from chronoscale.harness.study import execution
from chronoscale.harness.study.findings import UNKNOWN, Findings
from chronoscale.harness.study.hooks import fast, fast_executed, fast_threads
from chronoscale.harness.study.hooks.fast_cases import cause
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.testbeds.host_costs import DISTINCT, Rates, ServerCosts
from chronoscale.harness.study.testbeds.host_streams import prepared
from chronoscale.reports.published import published
from chronoscale.simulator.engine import replay
from chronoscale.strategies.baselines.streams import SIMPLE
from chronoscale.strategies.costs import DatasheetCosts, durations
from chronoscale.strategies.schedule import Lane, Op, Schedule

pytestmark = pytest.mark.filterwarnings("ignore:sampling threads are not bound")
ROUND = Rates(sample=1e8, gather=4e9, distinct=1e8, bus=2e10, launch_s=0.0)
SCALE = {"most": 400_000, "batches": 6, "presample": 20}  # of a quick run
TGL = fast.TGL


def point(dataset: str, model: str, strategy: str, **settings: Any) -> StudyPoint:
    return StudyPoint.of({"paper": "fast", "dataset": dataset, "model": model, "strategy": strategy, **SCALE, "rates": ROUND, **settings})


@cache
def schedule_of(dataset: str, model: str, strategy: str, **settings: Any) -> Schedule:
    return replayed(point(dataset, model, strategy, **settings)).schedule


def simulate(rates: Rates, dataset: str, model: str, strategy: str, **settings: Any) -> dict[str, Any]:
    return fast.simulated(SCALE, rates, dataset=dataset, model=model, strategy=strategy, **settings)


@pytest.fixture(autouse=True)
def ranks_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is executed is executed in this process."""
    monkeypatch.setattr(execution, "launch", here)


@cache
def run(kind: Kind, number: int) -> Findings:
    """The quick form, once."""
    return run_registered(registry.find("fast", kind, number), quick=True)


def test_the_host_takes_rows_over_its_rates() -> None:
    schedule = schedule_of("lastfm", "tgat", "etc")
    ns, _ = durations(ServerCosts(ROUND), schedule)
    at = np.flatnonzero(schedule.op == Op.SAMPLE)
    expected = schedule.edges[at] / 1e8 + (schedule.rows[at] + schedule.edges[at]) / 1e8
    assert ns[at] / 1e9 == pytest.approx(expected, rel=1e-6)
    on_host = np.flatnonzero((schedule.op == Op.GATHER) & (schedule.lane == Lane.HOST))
    assert ns[on_host] / 1e9 == pytest.approx(schedule.bytes[on_host] / 4e9, rel=1e-6)
    other = np.flatnonzero(schedule.lane == Lane.COMPUTE)
    plain, _ = durations(DatasheetCosts(ROUND.cluster.device, ROUND.efficiency), schedule)
    np.testing.assert_array_equal(ns[other], plain[other])
    sent = np.flatnonzero(schedule.op == Op.H2D)
    assert ns[sent] / 1e9 == pytest.approx(schedule.bytes[sent] / 2e10 + ROUND.cluster.device.h2d.latency_s, abs=1e-9)


def test_nothing_is_told_apart_where_rows_are_sent_a_slot() -> None:
    schedule = schedule_of("lastfm", "tgat", TGL)
    at = np.flatnonzero(schedule.op == Op.SAMPLE)
    ns, _ = durations(ServerCosts(ROUND), schedule)
    assert ns[at] / 1e9 == pytest.approx(schedule.edges[at] / 1e8, rel=1e-6)


def test_operators_and_bound_threads_count_for_those_that_have_or_lack_them() -> None:
    slow, bound = replace(ROUND, operators=3.0), replace(ROUND, bound=2.0)
    for name, efficient in (("fast-sc", False), ("fast-sc-te", True)):
        schedule = schedule_of("lastfm", "tgn", name, cached=1.0)
        layers = np.isin(schedule.op, [Op.AGGREGATE, Op.BACKWARD])
        one, other = (durations(ServerCosts(figures, efficient), schedule)[0] for figures in (ROUND, slow))
        assert other[layers] == pytest.approx(one[layers] * (1 if efficient else 3), rel=1e-6)
        np.testing.assert_array_equal(one[~layers], other[~layers])
    for name, times in (("fast-sc-te", 1), ("fast-sc-te-ta", 2)):
        schedule = schedule_of("lastfm", "tgn", name, cached=1.0)
        at = np.flatnonzero(schedule.op == Op.SAMPLE)
        one, other = (durations(ServerCosts(figures), schedule)[0][at] for figures in (ROUND, bound))
        assert one - other == pytest.approx(schedule.edges[at] / 1e8 * (1 - 1 / times) * 1e9, abs=2)


def test_sampling_before_an_epoch_is_in_it_only_where_it_is_asked_for() -> None:
    schedule = schedule_of("lastfm", "tgat", "simple", cached=0.1)
    at = np.flatnonzero(schedule.op == Op.SAMPLE)
    assert len(at) == 2 * schedule.iterations
    with_it, without = (durations(ServerCosts(replace(ROUND, beforehand=b)), schedule)[0][at].sum() for b in (True, False))
    assert with_it == pytest.approx(2 * without, rel=1e-6)


def test_memory_within_a_cpus_cache_is_copied_faster() -> None:
    near = replace(ROUND, near=2.0)
    for dataset, times in (("lastfm", 2), ("wikitalk", 1)):
        schedule = schedule_of(dataset, "tgn", TGL)
        assert (schedule.host <= 27.5e6) == (times == 2)
        for op, factor in ((Op.MEMORY_READ, times), (Op.GATHER, 1)):
            at = schedule.tasks(op)
            one, other = (durations(ServerCosts(figures), schedule)[0][at] for figures in (ROUND, near))
            assert one == pytest.approx(factor * other, rel=1e-6)


def test_rates_meet_what_they_are_solved_from_and_only_that() -> None:
    one, other = fast.solved(SCALE), fast.paced(SCALE)
    assert fast.neighbours("bitcoin", SCALE) / one.sample == pytest.approx(285.03)
    for figures in (one, other):
        assert simulate(figures, **fast.ANCHOR, strategy=TGL)["epoch_s"] == pytest.approx(476.99, rel=1e-3)
    resident = {**fast.ANCHOR, "strategy": "fast", "cached": 1.0, "ahead": 0}
    assert simulate(other, **resident)["epoch_s"] == pytest.approx(138.86, rel=1e-2)
    assert simulate(one, **resident)["epoch_s"] < 100, "a datasheet's share of peak is faster than the printed"
    assert other.gather > one.gather and other.efficiency < one.efficiency and one.distinct == DISTINCT


def test_an_epoch_is_its_batches_times_their_mean() -> None:
    schedule, steps = schedule_of("lastfm", "tgat", TGL), fast.bed().steps("lastfm")
    assert steps == int(np.ceil(0.7 * 1_300_000 / 2_000))
    trace = replay(schedule, ROUND.cluster, ServerCosts(ROUND))
    figures = simulate(ROUND, "lastfm", "tgat", TGL)
    assert figures["epoch_s"] == pytest.approx(trace.span_ns / 1e9 * steps / schedule.iterations)
    assert sum(figures["seconds"].values()) == pytest.approx(figures["epoch_s"], rel=1e-3), "nothing overlaps"


def test_sequential_epochs_by_hand() -> None:
    """TGAT of TGL: four sums over the planned rows and the device's roofline make the epoch."""
    schedule = schedule_of("lastfm", "tgat", TGL)
    moved = {op: float(schedule.bytes[schedule.op == op].sum()) for op in (Op.GATHER, Op.H2D)}
    device = ROUND.cluster.device
    roofline = np.maximum(schedule.flops / device.flops, schedule.bytes / device.memory_bandwidth)
    computed = roofline[schedule.lane == Lane.COMPUTE].sum() / 0.6
    by_hand = schedule.edges[schedule.op == Op.SAMPLE].sum() / 1e8 + moved[Op.GATHER] / 4e9 + moved[Op.H2D] / 2e10 + computed
    trace = replay(schedule, ROUND.cluster, ServerCosts(ROUND))
    assert trace.span_ns / 1e9 == pytest.approx(by_hand, rel=2e-3)


def test_a_changing_cache_is_counted_on_consecutive_batches_after_it_is_full() -> None:
    work = fast.bed().workload(point("lastfm", "tgat", "simple", cached=0.1))
    static = work.stats.work  # type: ignore[attr-defined]
    sampling, loading = (make(work.hyper, work.model) for make in (SIMPLE.feeding.sampling, SIMPLE.feeding.loading))
    counts = static(False, 1, 2_000, sampling, 0, work.hyper.events.every, loading)
    assert len(counts) == SCALE["batches"] and (counts.events == 2_000).all()
    assert (counts.sent_edges < counts.edges).all() and (counts.kept_edges > 0).any()


def test_the_cache_fills_a_device() -> None:
    assert fast.cached("lastfm", "tgat", SCALE) == 1.0
    share, widths = fast.cached("bitcoin", "tgn", SCALE), fast.bed().counts("bitcoin")
    whole = 4 * (widths["nodes"] * 172 + widths["edges"] * 172)
    beside = simulate(ROUND, "bitcoin", "tgn", "fast-compressed")["device_bytes"]
    assert share * whole + beside <= 40e9 < (share + 0.011) * whole + beside


def test_a_setting_replaces_a_strategys_own() -> None:
    bed = fast.bed()
    assert bed.planner(point("lastfm", "tgn", TGL)).ahead == 0 != bed.planner(point("lastfm", "tgn", "fast")).ahead
    assert bed.planner(point("lastfm", "tgn", TGL, ahead=1)).ahead == 1 and bed.planner(point("lastfm", "tgn", "fast", ahead=0)).ahead == 0
    assert bed.planner(point("lastfm", "tgn", "simple", once=True)).feeding.compressed


def test_causes_in_words() -> None:
    assumptions = {"base": 0, "near": 1, "far": 1, "both": 2, "chance": 1}
    fits = [{"assumption": name, "off by, times": off} for name, off in {"near": 1.2, "far": 1.1, "both": 1.0, "chance": 3.0}.items()]

    def cause_of(printed: float, **gains: float) -> str:
        return cause({"printed": printed, **gains}, {name: assumptions[name] for name in gains}, fits)

    assert cause_of(2.0, base=2.05, near=2.0).startswith("within 5%")
    assert cause_of(2.0, base=4.0, near=2.2, far=6.0, both=2.0) == "near: 2.20"
    assert cause_of(2.0, base=4.0, chance=2.0, near=2.2) == "near: 2.20", "what fits the others, too"
    assert cause_of(2.0, base=4.0, far=6.0, both=2.1) == "both: 2.10"
    assert cause_of(2.0, base=4.0, far=2.6) == f"part of it: far: 2.60; the rest is {UNKNOWN}"
    assert cause_of(2.0, base=4.0, far=3.8) == UNKNOWN
    assert cause_of(2.0, base=2.2, far=2.2, near=2.1) == "near: 2.10", "what changes nothing explains nothing"
    assert "not printed" in cause_of(float("nan"), base=4.0, far=3.8)


@pytest.mark.slow
def test_table_4() -> None:
    findings = run("table", 4)
    cases_of = findings.tables["cases"]
    assert len(cases_of) == 2 * 7
    line = findings.rows.set_index("what").loc["wikitalk, tgn, fast over etc"]
    assert line["published"] == pytest.approx(221.21 / 196.0)
    epochs = findings.tables["epochs"].set_index(["dataset", "model", "strategy"])
    ours = epochs["ours_s"]
    assert line["ours"] == pytest.approx(ours["wikitalk", "tgn", "etc"] / ours["wikitalk", "tgn", "fast"])
    assert ours["wikitalk", "tgat", "tgl"] == pytest.approx(476.99, rel=1e-3)
    assert (ours.xs("tgl with prefetching", level=2) < ours.xs("tgl", level=2)).all()
    assert findings.rows["why"].str.len().min() > 5
    assert any("was not run" in note for note in findings.notes) and any(note.startswith("Quick") for note in findings.notes)
    fits = findings.tables["fits"].set_index("assumption")
    assert fits.loc["as solved", "of"] == 14 and (fits["off by, times"] >= 1).all()


def test_what_is_printed_as_out_of_memory() -> None:
    lines = fast.refusals(SCALE, ("gdelt", "bitcoin"))
    assert len(lines) == sum("oom" in row for row in published("fast").tables[4].rows) == 5
    one = fast.held("gdelt", "tgat", SCALE)
    assert one["state"] == 0 and one["lasting"] + one["samples"] > fast.HOST > one["lasting"]
    schedule = schedule_of("gdelt", "tgat", TGL)
    slots = schedule.edges[schedule.op == Op.SAMPLE].sum() * fast.bed().steps("gdelt") / schedule.iterations
    assert one["samples"] == pytest.approx(24 * slots)
    assert all("so would ours be" in str(line["why"]) for line in lines if "gdelt" in str(line["what"]))
    assert UNKNOWN in next(str(line["why"]) for line in lines if "bitcoin" in str(line["what"]))


def test_shares_of_an_epoch() -> None:
    shares = fast_executed.shares({"SAMPLE": 1.0, "GATHER": 2.0, "H2D": 3.0, "AGGREGATE": 4.0})
    assert shares == {"sampling": 0.1, "memory I/O": 0.5, "computing": 0.4}
    covered = [op for ops in fast_executed.PARTS.values() for op in ops]
    schedule = schedule_of("lastfm", "tgn", TGL)
    assert set(map(Op, np.unique(schedule.op))) <= set(covered) and len(covered) == len(set(covered))


@pytest.mark.slow
def test_figure_1() -> None:
    findings = run("figure", 1)
    shares = findings.rows[findings.rows["what"].str.startswith("memory I/O")]
    assert len(shares) == 3 and shares["published_high"].eq(0.78).all() and shares["ours_high"].between(0, 1).all()
    one = simulate(fast.solved(SCALE), "wikitalk", "tgat", TGL)["seconds"]
    io = sum(one[name] for name in ("GATHER", "H2D")) / sum(one.values())
    assert shares.set_index("what").loc["memory I/O, simulated, share", "ours_low"] <= io + 1e-9
    assert any(note.startswith("Executed") for note in findings.notes)


def test_affinity_is_of_the_mean_batch() -> None:
    near = fast_threads.alike(400_000, 8, 8)
    data = prepared("wikitalk", 400_000)
    deal = data.assignment(False, 1, 2_000, 0, -(-data.training_events // 2_000) // 8)
    others, parts = data.negatives_of(False, 0, data.protocol.seed), [deal.rank_events(at, 0) for at in range(deal.iterations)]
    batches = [data.training.roots(own, others(own), own.start)[:2] for own in parts]
    by_hand = sum(thread_affinity(data.training.tcsr, [one], 8) for one in batches) / len(batches)
    assert near == pytest.approx(by_hand) and near.shape == (8, 8) and (np.diag(near) == -1).all()


@pytest.mark.slow
def test_figure_11() -> None:
    findings = run("figure", 11)
    table = findings.tables["ladder"].set_index(["how", "dataset"])
    rows = findings.rows.set_index("what")
    line = table.loc["executed", "wikitalk"]
    assert rows.loc["SlimCache, executed, speed-up", "ours_mean"] == pytest.approx(line["fast-none"] / line["fast-sc"])
    paced = table.loc["nothing ahead, computing as slow as printed"]
    assert (paced["fast-none"] > paced["fast-sc"]).all()
    assert paced["fast-sc"].to_numpy() == pytest.approx(paced["fast-sc-te"].to_numpy(), rel=1e-2), "counted kernels and bytes alone"
    np.testing.assert_array_equal(paced["fast-sc-te"], paced["fast-sc-te-ta"], "no thread is faster but by what is put in")
    assert rows.loc["compression engine, executed, share of an epoch", "ours_mean"] < 0.5
    assert any("bound" in note for note in findings.notes)


def test_compressing_is_the_time_of_its_ids() -> None:
    figures, at_once = fast.paced(SCALE), {"dataset": "lastfm", "model": "tgn", "strategy": "fast", "cached": 1.0, "ahead": 0}
    schedule = schedule_of(**at_once)
    at = schedule.op == Op.SAMPLE
    ids_s = (schedule.rows[at] + schedule.edges[at]).sum() / figures.distinct
    span = replay(schedule, figures.cluster, ServerCosts(figures, True)).span_ns / 1e9
    whole, free = (simulate(one, **at_once)["epoch_s"] for one in (figures, fast.changed(figures, {"distinct": np.inf})))
    assert 1 - free / whole == pytest.approx(ids_s / span, rel=2e-3)


def test_table_6() -> None:
    findings = run("table", 6)
    rows = findings.rows.set_index("what")["ours"]
    assert np.isfinite(rows.to_numpy(np.float64)).all()
    features = 4 * 172 * (24_500_000 + 122_900_000) / 1e9
    assert rows["tgl, host, GB"] > features and rows["etc, host, GB"] > rows["tgl, host, GB"] == rows["fast, host, GB"]
    hot = 4 * fast.cached("bitcoin", "tgn", SCALE) * 147_400_000 / 1e9
    assert rows["fast, disk, GB"] - rows["tgl, disk, GB"] == pytest.approx(hot)
    assert 0.9 * 40 < rows["fast, device, GB"] <= 40 and rows["tgl, device, GB"] < rows["simple, device, GB"]
    assert fast_executed.stored(StudyPoint.of({"dataset": "bitcoin", "events": 20_000}))["an_event"] > 32


@pytest.mark.parametrize(
    "kind, number", [("table", 6), *(pytest.param(*one, marks=pytest.mark.slow) for one in (("table", 4), ("figure", 1), ("figure", 11)))]
)
def test_what_is_said_is_filled_in(kind: Kind, number: int) -> None:
    findings = run(kind, number)
    sentences = [*findings.notes, *findings.rows["why"], *findings.rows["what"]]
    assert not [text for text in sentences if "{" in text or "}" in text]
