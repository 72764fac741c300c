"""What MemShare prints agrees with itself as far as it does; its studies run, and show what follows from mathematics."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import small_studies
from one_rank import inline_ranks
from small_studies import measured, names_of

from chronoscale.datasets import catalogue
from chronoscale.harness.reproduce import pages, registry
from chronoscale.harness.reproduce.registry import Kind
from chronoscale.harness.study.execution import Training
from chronoscale.harness.study.findings import Findings
from chronoscale.harness.study.hooks import memshare as hooks
from chronoscale.harness.study.hooks import memshare_executed as executed
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.study_file import paper_file
from chronoscale.harness.study.testbeds.spread_streams import prepared, stream
from chronoscale.reports.published import published
from chronoscale.strategies.workload import SharingHyper

PAPER = published("memshare")
DATASETS = ("lastfm", "wikitalk", "stackof", "gdelt")
APS = {(row["gpus"], row["strategy"], row["model"]): np.array([row[d] for d in DATASETS]) for row in PAPER.tables[3].rows if "model" in row}
NAMES = paper_file("memshare").names
QUICK, STAND_IN, EVENTS = NAMES["QUICK"], NAMES["STAND_IN"], 1_500
CUTS = {row["dataset"]: row for row in PAPER.tables[4].rows}


def test_shares_are_of_their_sum():
    for system in ("mspipe", "distgl", "memshare"):
        seconds, shares = (np.array([row[key] for row in PAPER.tables[1].rows]) for key in (system, f"{system}_share"))
        np.testing.assert_allclose(shares, seconds / seconds.sum(), atol=1.3e-4)  # one is off by more than its digits


def test_counts_are_the_catalogues():
    for row in PAPER.tables[2].rows:
        counts = catalogue.entry(row["dataset"]).as_published("memshare")
        assert (row["nodes"], row["edges"]) == (counts.nodes, counts.edges)
        assert (row["node_width"], row["edge_width"]) == (counts.node_features, counts.edge_features)


def test_mean_gains_of_accuracy_are_those_of_the_text():
    assert len(APS) == 42
    gains = {row["over"]: row["ap_gain"] for row in PAPER.tables[3].rows if "over" in row}
    for rival, gain in gains.items():
        ours = [APS[gpus, "memshare", model] - theirs for (gpus, name, model), theirs in APS.items() if name == rival and gpus > 1]
        assert np.mean(ours) == pytest.approx(gain, abs=5e-5)
    assert APS[16, "memshare", "tgn"][0] - APS[16, "tgl-dist", "tgn"][0] == pytest.approx(0.1297)


def test_speedups_of_cuts_are_those_of_the_text():
    first, second, shared = PAPER.tables[4].ranges
    means = [np.mean([row[rival] / row["memshare"] for row in CUTS.values()]) for rival in ("metis", "distgl")]
    assert means == pytest.approx([first.mean, second.mean], abs=0.012)
    by_sharing = [row["memshare"] / row["memshare_shared"] for row in CUTS.values()]
    assert (min(by_sharing), max(by_sharing)) == pytest.approx((shared.low, shared.high), abs=0.007)


def test_gains_of_cuts_are_over_the_mean_of_what_shares_nothing():
    over = []
    for row in PAPER.tables[5].rows:
        unshared = np.mean([row[name] for name in ("metis", "distgl", "memshare")])
        assert row["memshare_shared"] - unshared == pytest.approx(row["gain"], abs=1e-3)
        over.append(row["memshare_shared"] - row["metis_shared"])
    assert np.mean(over) == pytest.approx(0.0115, abs=5e-5)


SMALL: dict[str, object] = {
    "CUTS": {name: 4 * divisor for name, divisor in QUICK.items()},
    "FEWER": EVENTS,
    "TOGETHER": NAMES["TOGETHER"].replace("'batch': 200", "'batch': 60"),
}


@cache
def run(kind: Kind, number: int, **names: object) -> Findings:
    """A quick run, and what holds of all: it says that it is quick, is registered, and has a reason for every row.

    Streams are generated, wherever this runs, and those that are cut or executed are smaller than a quick run's.
    """
    study = registry.find("memshare", kind, number)
    cut = SMALL if (kind, number) in (("figure", 2), ("figure", 3)) else {name: SMALL[name] for name in ("FEWER", "TOGETHER")}
    findings = small_studies.study_of("memshare", kind, number, **cut, **names)
    assert any(note.startswith("Quick") for note in findings.notes)
    assert (findings.rows["why"] != "").all()
    assert study.title in pages.markdown(study, findings)
    return findings


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONOSCALE_DATA", "/nowhere")
    hooks.real.cache_clear()


def point(dataset: str, strategy: str, gpus: int, batch: int = 3_000, divisor: int = 1, **settings: object) -> StudyPoint:
    axes = {"dataset": dataset, "strategy": strategy, "gpus": gpus, "model": "tgn", "cluster": "a40-10g", "least": 4}
    return StudyPoint.of({"paper": "memshare", **axes, "batch": batch, "divisor": divisor, **settings})


def ours(findings: Findings) -> dict[str, float]:
    means = findings.rows["ours_mean"] if "ours_mean" in findings.rows else findings.rows["ours"]
    return dict(zip(findings.rows["what"], means, strict=True))


def test_every_number_has_its_study() -> None:
    there = {(study.kind, study.number): study.way for study in registry.of("memshare")}
    assert {number for kind, number in there if kind == "table"} == set(PAPER.tables)
    assert {number for kind, number in there if kind == "figure"} == set(PAPER.figures)
    assert {key for key, way in there.items() if way == "counted"} == {("table", 2), *(("figure", number) for number in (2, 3, 4, 7))}


@pytest.mark.parametrize("name", DATASETS)
def test_stand_ins_keep_events_a_node_and_have_hot_nodes(name: str) -> None:
    made, printed = stream(hooks.bed(), name, QUICK[name]), hooks.counts(name)
    apart = hooks.bed().apart.get(name, 1)
    assert len(made) / made.num_nodes == pytest.approx(printed["edges"] / printed["nodes"] / apart, rel=0.01)
    assert hooks.hot_share(made) > 0.3
    assert hooks.degrees(made).sum() == 2 * len(made)
    assert hooks.hot_share(made, 1.0) == 1


def test_table_2_says_what_is_left_out() -> None:
    findings = run("table", 2)
    assert ours(findings)["wikitalk, events a node"] == pytest.approx(6.87, abs=0.01)
    assert set(findings.tables["divisors"].columns) == {"dataset", "simulated", "cut", "executed", "quick"}


@pytest.mark.slow
def test_loads_are_between_even_and_all_in_one() -> None:
    findings = run("figure", 2)
    assert any("Skipped: dataset 'jodie_wikipedia'" in note for note in findings.notes)
    assert findings.rows["ours_low"].min() >= 1 and findings.rows["ours_high"].max() <= hooks.PARTS
    means = ours(findings)
    for name in ("stackof", "wikitalk"):
        assert means[f"{name}, ours, largest load over the mean"] < means[f"{name}, METIS, largest load over the mean"]


@pytest.mark.parametrize(
    "policies", [("distgl", "shared-nodes"), pytest.param(("metis", "distgl", "shared-nodes"), marks=pytest.mark.slow)]
)
def test_sharing_more_nodes_cuts_fewer_events(policies) -> None:
    """Each cut by METIS is a process that imports DGL: the slow variant has them."""
    means = ours(run.__wrapped__("figure", 3, POLICIES=list(policies)))
    labels = names_of("memshare", "figure", 3)["LABELS"]
    for name in ("gdelt", "stackof"):
        for policy in policies:
            curve = [means[f"{name}, {labels[policy]}, {share:g} shared, cut"] for share in (0.0, 0.05, 0.1)]
            assert curve == sorted(curve, reverse=True) and 0 <= curve[-1] < curve[0] <= 1


def test_a_way_to_sample_asks_for_what_is_remote() -> None:
    """Local neighbours' events are the rank's own; what decay leaves out is filled up from there."""
    means = ours(run("figure", 4))
    ways = ("recent", "decay", "decay, not completed", "local")
    remote_events = {way: means[f"stackof, {way}, events asked of other ranks, of a root"] for way in ways}
    neighbours = {way: means[f"stackof, {way}, neighbours, of a root"] for way in ways}
    assert remote_events["local"] == 0 < remote_events["decay"] == remote_events["decay, not completed"] < remote_events["recent"]
    assert neighbours["recent"] >= neighbours["decay"] > neighbours["decay, not completed"] > 0


def test_volumes_fall_with_what_is_cut() -> None:
    """Rows of nodes alone: what is shared is synchronised."""
    findings = run("figure", 7)
    table = findings.tables["volumes"].set_index(["how", "k"]).loc["eq. 25"]
    assert table["memory"].is_monotonic_increasing and table["memory"].iloc[0] == 0
    assert (table["cold_nodes"].diff().dropna() < 0).all()
    assert table[list(hooks.TERMS)].sum(axis=1).to_numpy() == pytest.approx(table["total"].to_numpy())


def test_epochs_are_as_many_steps_as_the_paper_has() -> None:
    steps = hooks.bed().steps
    assert steps(point("wikitalk", "memshare", 8)) == -(-round(0.7 * 7_833_139) // 24_000)
    assert steps(point("wikitalk", "disttgl", 8, tests=True)) == -(-round(0.15 * 7_833_139) // 3_000)
    one = point("wikitalk", "memshare", 8, 300, QUICK["wikitalk"])
    figures = measured(one).spread
    assert figures["epoch_s"] == pytest.approx(figures["step_s"] * steps(one))
    assert set(figures["stages"]) == set(NAMES["STAGES"]) and min(figures["stages"].values()) > 0


def test_epochs_and_tests_over_rivals() -> None:
    for number, table in ((9, "epochs"), (10, "tests")):
        findings = run("figure", number)
        seconds = findings.tables[table]
        assert (seconds["tgl"].isna() == (seconds["gpus"] > 4)).all()
        several = seconds[seconds["gpus"] > 4]
        assert (several["memshare"] < several["tgl-dist"]).all()
        tgl_dist = findings.rows.set_index("what").loc["memshare over tgl-dist"]
        assert tgl_dist["ours_mean"] == pytest.approx((seconds["tgl-dist"] / seconds["memshare"]).mean())
    disttgl = run("figure", 10).tables["tests"].set_index(["dataset", "gpus"])["disttgl"]
    assert disttgl["wikitalk", 8] == pytest.approx(disttgl["wikitalk", 4], rel=0.25), (
        "DistTGL tests on one GPU; some of it is under way before"
    )


def test_a_smaller_theta_fetches_less() -> None:
    means = ours(run("figure", 13))
    saved = [means[f"{how}, bytes fetched saved over recent, share"] for how in ("local", "theta 0.01", "theta 0.1", "theta 0.8")]
    assert saved == sorted(saved, reverse=True) and 0 < saved[-1] < saved[0] < 1


def test_stages_are_shares_of_their_sum() -> None:
    table = run("table", 1).tables["stages"]
    assert table.groupby("system")["share"].sum().to_numpy() == pytest.approx(1)
    assert set(table["stage"]) == {row["stage"] for row in PAPER.tables[1].rows}
    fetching = table.set_index(["system", "stage"])["s a step"]
    assert fetching["memshare", "remote fetching"] < fetching["distgl", "remote fetching"]


@pytest.mark.slow
def test_the_ladder_ends_with_fewer_bytes() -> None:
    findings = run("figure", 11)
    lines = findings.tables["ladder"].set_index("how")
    assert names_of("memshare", "figure", 11)["RUNGS"] == [name for name in lines.columns if name != "dataset"]
    assert ours(findings)["executed, stackof, bytes fetched, memshare over tgl-dist"] < 0.5
    simulated = lines.loc["simulated, epoch"]
    assert ours(findings)["simulated, epoch, with pipeline, speed-up"] == pytest.approx(
        simulated["memshare-negatives"] / simulated["memshare"]
    )
    assert {"executed, stackof", "executed, stackof, network of 20 MB/s"} < set(lines.index)


@pytest.mark.slow
def test_what_is_shared_need_not_be_fetched() -> None:
    means = ours(run("figure", 12))
    for how in ("recent", "decay"):
        assert (
            1
            > means[f"executed, stackof, {how}, k 0.1, bytes fetched over 0's"]
            > means[f"executed, stackof, {how}, k 0.3, bytes fetched over 0's"]
        )


@pytest.mark.slow
def test_a_larger_alpha_says_less() -> None:
    table = run("figure", 14).tables["alphas"].set_index("how")
    spoken = [table["share"][f"alpha {alpha:g}"] for alpha in (0.0, 0.3, 2.0)]
    assert spoken == sorted(spoken, reverse=True)
    shared = int(SharingHyper().shared * stream(hooks.bed(), STAND_IN, QUICK[STAND_IN]).num_nodes)
    assert 0 < table["spoken"]["alpha 2"] <= 2 * shared, "the first of each node from each rank, nothing after it"
    assert table["share"]["all"] == 1 and table["spoken"]["never"] == 0
    assert table["test AP"].between(0, 1).all()


def test_printed_gains_of_accuracy_are_those_of_the_text() -> None:
    overall = [hooks.accuracy_gains("mspipe", model)["published_mean"] for model in ("tgn", "jodie", "apan")]
    assert np.mean(overall) == pytest.approx(0.0429, abs=5e-5)


def test_accuracy_over_time_ends_with_the_test() -> None:
    findings = run("figure", 8)
    for name, curve in findings.tables["curves"].groupby("strategy"):
        assert curve["AP"].iloc[-1] == ours(findings)[f"stackof, {name}, AP at their end"]
        assert curve["s"].iloc[-1] == ours(findings)[f"stackof, {name}, seconds of all epochs"] and (np.diff(curve["s"]) > 0).all()


@pytest.mark.slow
def test_cutters_are_all_there() -> None:
    assert set(run("table", 4).tables["epochs"].columns) == {"how", "dataset", *names_of("memshare", "table", 4)["COLUMNS"]}


def test_increments_are_those_of_the_memory() -> None:
    """Each update once: as many as there are different ends of a batch's events, at most."""
    events = stream(hooks.bed(), "stackof", 15_000)
    degree, added = executed.increments(events, 1, 200, 32, 2, 10, 0.001)
    trained = prepared(hooks.bed(), "stackof", 15_000).training_events
    most = sum(np.unique([events.src[first : min(first + 200, trained)], events.dst[first : min(first + 200, trained)]]).size
               for first in range(0, trained, 200))  # fmt: skip
    assert 0 < len(added) == len(degree) <= most
    assert (added > 0).all() and degree.min() >= 1
    assert np.isfinite(run("figure", 5).rows["ours_mean"].astype(float)).all()


SETTINGS = {"layers": 1, "fanout": 10, "width": 8, "heads": 2, "rate": 0.001, "seed": 3, "epochs": 3, "patience": 2}


def test_training_to_convergence_shares_as_the_paper_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rivals share nothing."""
    asked = list[dict[str, Any]]()

    def train(keys: dict[str, Any], paper: str, score: str) -> Training:
        asked.append(keys)
        return Training(None, (None,) * 3, 1, 0.9, {"a guess": 0.5})  # type: ignore[arg-type]

    monkeypatch.setattr(executed, "train", train)
    ours = {"policy": "metis", "shared": 0.1, "theta": 0.2, "alpha": 0.3}
    result = executed.converged(point("events_small", "memshare", 2, 50, **SETTINGS, **ours))
    assert result == {"test": 0.9, "naive": {"a guess": 0.5}, "settled": 2, "ended": False}
    assert executed.converged(point("events_small", "tgl", 2, 50, **SETTINGS | {"epochs": 4}))["ended"]
    first, second = (keys["training"] for keys in asked)
    assert first == second | {"partition": "metis", "shared": 0.1, "theta": 0.2, "alpha": 0.3, "weight_cap": 0.0, "at_least_one": False}


@pytest.mark.slow
def test_training_to_convergence_is_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_ranks(monkeypatch)
    result = executed.converged(point("events_small", "tgl", 1, 50, **SETTINGS))
    assert 0 < result["test"] <= 1 and 1 <= result["settled"] <= 3 and "popularity of late" in result["naive"]


APS_BY_SEED = {"tgl": (0.5, 0.7), "tgl-dist": (0.9, 0.9), "disttgl": (0.1, 0.2), "mspipe": (0.6, 0.9), "memshare": (0.6, 0.8)}


def test_gains_are_seed_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(keys: dict[str, Any], paper: str, score: str) -> Training:
        return Training(None, (None,), 0, APS_BY_SEED[keys["strategies"][0]][keys["seed"]], {"a guess": 0.85})  # type: ignore[arg-type]

    monkeypatch.setattr(executed, "train", train)
    given = {"runner": "train", "of": "converged", "gpus": 2, "batch": 200, "dataset": ["events_small"], "epochs": 1, "patience": 1}
    axes = given | {name: SETTINGS[name] for name in ("fanout", "width", "heads", "rate")} | {"seed": [0, 1]}
    findings = small_studies.study_of("memshare", "table", 3, CONVERGED=axes)
    gains = findings.rows.set_index("what").loc["tgn, gain of test AP, memshare over tgl"]
    assert [gains[f"ours_{end}"] for end in ("low", "mean", "high")] == pytest.approx([0.1, 0.1, 0.1])
    both = {gpus for gpus, name, model in APS if (name, model) == ("tgl", "tgn")} & {gpus for gpus, name, _ in APS if name == "memshare"}
    printed = [APS[gpus, "memshare", "tgn"] - APS[gpus, "tgl", "tgn"] for gpus in both]
    assert gains["published_low"] == pytest.approx(np.min(printed))
    said = " ".join(findings.notes)
    assert (
        "below its rival's with every seed in 1 of 4 comparisons: tgn over tgl-dist; above it with every seed in 2: tgn over tgl, tgn"
        in said
    )
    assert "3 of 10 models are better on the test period than every prediction that learns nothing; the best of these, a guess," in said
    cuts = small_studies.study_of("memshare", "table", 5, CONVERGED=axes).rows.set_index("what")
    over = cuts.loc["gain of test AP, memshare_shared over metis_shared"]
    assert (over["ours_mean"], over["published_mean"]) == (0.0, pytest.approx(0.0115, abs=5e-5))


def test_without_the_stream_studies_of_convergence_say_so() -> None:
    for number in (3, 5):
        findings = small_studies.study_of("memshare", "table", number)
        assert any("Skipped: dataset 'uci_messages'" in note for note in findings.notes)
