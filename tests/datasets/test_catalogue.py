"""The catalogue against the papers' tables, and the datasets at hand against the counts of their README files."""

import numpy as np
import pytest
from pydantic import ValidationError

from chronoscale.datasets import catalogue
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.generators import build
from chronoscale.datasets.generate.specs import GrowthSpec
from chronoscale.errors import UserError

PAPERS = {  # rows of the papers' dataset tables
    "real": "arxiv products reddit stackoverflow stackoverflow_a2q wiki_talk arxiv_300 products_300",
    "flaredtdg": "soc_flickr rec_amazon soc_youtube soc_bitcoin ogbn_papers100m",
    "memshare": "lastfm wikitalk stackof gdelt",
    "fast": "lastfm wikitalk bitcoin gdelt",
    "pgt-i": "chickenpox_hungary windmill_large metr_la pems_bay pems_all_la pems",
}
HOT = 0.934  # share of the events of math_overflow_monthly in which the hottest tenth of its nodes has a part
AT_HAND = {  # nodes, steps or events, edges of the graph (all snapshots together; None for streams)
    "math_overflow_monthly": (24_740, 77, 323_357),
    "enron_monthly": (87_036, 38, 530_284),
    "uci_messages": (1_899, 59_835, None),
    "jodie_wikipedia": (9_227, 157_474, None),
    "us_flights_2001": (229, 3_000_000, None),
    "los_loop": (207, 2_016, 2_833),
    "pygt_chickenpox": (20, 521, 102),
    "covid_us_counties": (3_218, 311, 18_937),
    "us_flights_hourly": (229, 4_344, 3_275),
}


@pytest.fixture(scope="module")
def folder():
    folder = catalogue.data_folder()
    if not folder.is_dir():
        pytest.skip(f"no data folder {folder} (set {catalogue.DATA_VARIABLE})")
    return folder


def test_every_dataset_of_the_papers_is_listed_and_nothing_else_is_published():
    listed = {paper: [n for n in catalogue.names() if any(p.paper == paper for p in catalogue.entry(n).published)] for paper in PAPERS}
    assert {paper: set(names) for paper, names in listed.items()} == {paper: set(names.split()) for paper, names in PAPERS.items()}


def test_counts_that_differ_between_papers_are_kept_apart():
    gdelt = catalogue.entry("gdelt")
    assert (gdelt.as_published("memshare").edge_features, gdelt.as_published("fast").edge_features) == (186, 182)
    with pytest.raises(UserError, match="unknown paper for dataset 'gdelt'"):
        gdelt.as_published("real")


def test_a_published_dataset_says_what_to_fetch():
    with pytest.raises(UserError, match="'stackoverflow' is not at hand: fetch SNAP sx-stackoverflow"):
        catalogue.load("stackoverflow")


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match="did you mean 'los_loop'"):
        catalogue.entry("losloop")


def test_an_absent_folder_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv(catalogue.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=r"graph\.txt; set CHRONOSCALE_DATA to the folder that holds uci_messages/graph\.txt"):
        catalogue.load("uci_messages")


@pytest.mark.parametrize("name", ["growth_small", "dygraph_small", "communities_small"])
def test_generated_datasets_load_and_follow_the_seed(name):
    dataset = catalogue.load(name)
    assert dataset.name == name
    assert len(dataset) == len(list(catalogue.iterate_snapshots(name)))
    assert dataset.num_edges != catalogue.load(name, seed=1).num_edges or (dataset.src != catalogue.load(name, seed=1).src).any()


def test_generated_signals_have_the_counts_of_what_they_stand_for():
    names = [name for name in catalogue.names() if catalogue.entry(name).family == "signals" and catalogue.entry(name).stands_for]
    assert names == ["metr_la_like", "pems_bay_like", "windmill_like"]
    for name in names:
        found = catalogue.entry(name)
        row, made = catalogue.entry(found.stands_for.dataset).as_published("pgt-i"), found.generator
        assert (made.sensors, made.steps, made.channels) == (row.nodes, row.steps, row.node_features)
        assert found.horizon == row.horizon
    assert catalogue.entry("los_loop").horizon is None


def test_generated_streams_have_the_counts_of_what_they_stand_for():
    names = [name for name in catalogue.names() if catalogue.entry(name).family == "streams" and catalogue.entry(name).stands_for]
    assert names == ["lastfm_like", "wikitalk_like", "bitcoin_like", "gdelt_like", "stackof_like"]
    for name in names[:-1]:
        found = catalogue.entry(name)
        row, made, stands_for = catalogue.entry(found.stands_for.dataset).as_published("fast"), found.generator, found.stands_for
        assert made.nodes == pytest.approx(row.nodes, rel=0.04)  # FAST rounds
        assert made.events * (stands_for.edges or stands_for.factor) == pytest.approx(row.edges, rel=0.006)
        assert made.features == made.node_features == 0
    lastfm, gdelt = (catalogue.entry(f"{name}_like").generator for name in ("lastfm", "gdelt"))
    exact = [catalogue.entry(name).as_published("memshare") for name in ("lastfm", "gdelt", "wikitalk")]
    assert (lastfm.nodes, lastfm.events, gdelt.nodes) == (exact[0].nodes, exact[0].edges, exact[1].nodes)
    wikitalk = catalogue.entry("wikitalk_like").generator
    assert (wikitalk.nodes, wikitalk.events) == (exact[2].nodes, exact[2].edges)
    stackof, row = catalogue.entry("stackof_like").generator, catalogue.entry("stackof").as_published("memshare")
    assert (stackof.nodes, stackof.events) == (row.nodes, row.edges)


def hot(events) -> float:
    """Share of the events in which the tenth of the nodes with most of them has a part. events: (src, dst), int [n] each."""
    src, dst = events
    degree = np.bincount(np.concatenate([src, dst]))
    most = np.isin(np.arange(degree.size), np.argsort(-degree, kind="stable")[: degree.size // 10])
    return (most[src] | most[dst]).mean()


def test_a_stand_in_has_hot_nodes():
    whole = catalogue.entry("stackof_like").generator
    made = build(whole.model_copy(update={"nodes": 26_019, "events": 634_970, "pairs": 362_334}), "x", 0).stream()
    assert hot((made.src, made.dst)) == pytest.approx(HOT, abs=0.01)


def test_hot_nodes_of_a_graph_of_its_kind(folder):
    real = catalogue.load("math_overflow_monthly")
    assert hot(tuple(np.concatenate([getattr(one, end) for one in real]) for end in ("src", "dst"))) == pytest.approx(HOT, abs=0.001)


def test_flaredtdg_entries_have_what_tables_1_and_2_print():
    rows = {name: catalogue.entry(name).as_published("flaredtdg") for name in PAPERS["flaredtdg"].split()}
    assert [row.task for row in rows.values()] == ["regression"] * 4 + ["classification"]
    assert [row.gpus for row in rows.values()] == [4, 4, 4, 16, 16]
    assert [row.steps for row in rows.values()] == [None, 70, 80, 90, 222]
    assert [row.feature_bytes for row in rows.values()] == [None, 1.1e9, 1.7e9, 12.8e9, 55.6e9]
    assert rows["ogbn_papers100m"].edges == 1_600_000_000 and rows["soc_bitcoin"].nodes == 24_600_000


def test_a_trend_of_a_spec_is_what_snapshots_hold():
    fields = {"kind": "growth", "nodes": 50, "edges": 400, "snapshots": 5, "change_rate": 0.1}
    assert [s.num_edges for s in build(GrowthSpec.model_validate({**fields, "trend": [0.2, 1.0]}), "x", 0)] == [80, 160, 240, 320, 400]
    assert [s.num_edges for s in build(GrowthSpec.model_validate({**fields, "trend": [0.5, 0.5]}), "x", 0)] == [200] * 5
    for wrong in ([0.0, 1.0], [0.5, 1.1], [0.5], "0.5"):
        with pytest.raises(ValidationError, match="trend"):
            GrowthSpec.model_validate({**fields, "trend": wrong})


def test_an_entry_whose_generator_makes_another_family_is_refused():
    fields = catalogue.entry("traffic_small").model_dump(exclude={"family"})
    with pytest.raises(ValueError, match="traffic_small: a generator of kind traffic does not make snapshots"):
        catalogue.Entry.model_validate({**fields, "family": "snapshots"})


def test_ten_thousand_snapshots_are_streamed():
    stream = catalogue.iterate_snapshots("dygraph_10k")
    assert isinstance(stream, EvolvingGraph)
    assert len(stream) == 10_000
    with pytest.raises(UserError, match="is of the family streams, not a sequence of snapshots"):
        catalogue.iterate_snapshots("uci_messages")


@pytest.mark.parametrize("name", AT_HAND)
def test_what_is_at_hand_has_the_counts_of_its_readme(folder, name):
    entry = catalogue.entry(name)
    if not (folder / entry.file).exists():
        pytest.skip(f"no file {folder / entry.file}")
    dataset = catalogue.load(name)
    nodes, steps, edges = AT_HAND[name]
    assert (dataset.name, dataset.num_nodes, len(dataset)) == (name, nodes, steps)
    if entry.family == "dtdg":
        assert dataset.num_edges == edges
    if entry.family == "signals":
        assert dataset.edge_index.shape == (2, edges)


def test_every_local_entry_has_its_counts_checked():
    assert set(AT_HAND) == {n for n in catalogue.names() if catalogue.entry(n).origin == "local"}
