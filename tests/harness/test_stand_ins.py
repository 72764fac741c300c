"""Stand-ins of snapshots that are made otherwise than the catalogue lists them: larger, or with communities."""

import json

import numpy as np
import pytest

from chronoscale.batching.snapshots.partition import metis_partition
from chronoscale.errors import UserError
from chronoscale.harness.reproduce import registry
from chronoscale.harness.study import evaluation
from chronoscale.harness.study.hooks import flaredtdg as hooks
from chronoscale.harness.study.point import StudyPoint, StudyResult
from chronoscale.harness.study.study_grids import StudyGrids, names_of
from chronoscale.harness.study.study_rows import rows_of
from chronoscale.harness.study.testbeds.stand_ins import LISTED, StandIns, counted, factor, partition, sequence, statistics
from chronoscale.reports.published import published

MADE = {"times": 2, "mixing": 0.5}
LARGER, MIXED = StandIns(times=2), StandIns(**MADE)
POINT = {"paper": "flaredtdg", "dataset": "rec_amazon", "model": "t-gcn", "layers": 2, "cluster": "a40-ib", "gpus": 4}


def test_counts_are_of_the_published_size_at_any_size() -> None:
    listed, larger = statistics("rec_amazon"), statistics("rec_amazon", LARGER)
    assert larger.num_nodes == listed.num_nodes
    assert sequence("rec_amazon", 0.1, LARGER).num_nodes == 2 * sequence("rec_amazon", 0.1).num_nodes
    np.testing.assert_allclose(larger.edges, listed.edges, rtol=1e-3)
    assert factor("rec_amazon", LARGER) == factor("rec_amazon") // 2


@pytest.mark.slow
def test_fewer_rows_are_read_where_there_are_communities() -> None:
    larger, mixed = (partition("rec_amazon", 4, 0.1, made) for made in (LARGER, MIXED))
    assert mixed.halo.sum() < 0.95 * larger.halo.sum() and mixed.rows.sum() == larger.rows.sum() == 7 * statistics("rec_amazon").num_nodes
    assert (statistics("rec_amazon", MIXED).edges == statistics("rec_amazon", LARGER).edges).all()


def test_a_points_workload_is_made_of_them() -> None:
    """What it counts, what is in FlareDTDG's chunks, and what METIS cuts for strategies that have parts."""
    testbed = hooks.assuming(stand_ins=MADE, trains=0.1)
    point, parted = (StudyPoint.of({**POINT, "strategy": name, "testbed": testbed}) for name in ("dynagraph", "distdgl"))
    work, (made, listed) = evaluation.testbed(point).workload(point), (statistics("rec_amazon", of) for of in (MIXED, LISTED))
    length = len(work.stats)
    assert (work.stats.touched_rows == made.head(length).touched_rows).all()
    assert (made.head(length).touched_rows != listed.head(length).touched_rows).any()
    assert work.chunking is counted("rec_amazon", 0.1, 64, MIXED) and work.chunking.factor == 500
    assert evaluation.testbed(parted).workload(parted).partition is partition("rec_amazon", 4, 0.1, MIXED)


def test_a_counterfactual_leaves_the_stand_ins_of_a_point() -> None:
    """Of Table 12, whose points on other stand-ins have a testbed of their own."""
    study, printed = registry.find("flaredtdg", "table", 12).file, published("flaredtdg").tables[12]
    grids = StudyGrids.of(study, names_of(study, False, printed), {"testbed": hooks.assuming(hidden=16)})
    assert [json.loads(point.setting("testbed")) for point in grids.points["main"]] == [{"hidden": 16}] * 3
    made = [json.loads(point.setting("testbed")) for point in grids.points["made"]]
    assert {one["hidden"] for one in made} == {16}
    assert sorted(len(one["stand_ins"]) for one in made) == [1] * 3 + [2] * 3


def test_table_12s_rows_are_of_the_stand_in_that_they_name() -> None:
    """Of points whose communication grows with the fields of their stand-ins: a tenth of the other parts, two, three tenths."""
    study, printed = registry.find("flaredtdg", "table", 12).file, published("flaredtdg").tables[12]
    names = names_of(study, False, printed) | {"cut_of": lambda dataset, made: (0.5, 0.5)}
    grids = StudyGrids.of(study, names)
    parts = dict.fromkeys([name for name in study.metrics if name.startswith("part:")], 2.5)
    results = []
    for task in grids.tasks:
        fields = len(json.loads(task.point.setting("testbed", "{}")).get("stand_ins", {}))
        results.append(StudyResult(values={**parts, "alone_s": 1.0 + fields, "bytes:ALLTOALL": 8.0 / (1 + fields), "epoch_s": 20.0}))
    rows = {str(row["what"]): row for row in rows_of(study, names | grids.evaluated(results))}
    for fields, label in enumerate(("communication", "communication, larger", "communication, with communities")):
        assert rows[f"rec_amazon, {label}"]["ours"] == pytest.approx((1 + fields) / (11 + fields)), label
    assert "0.5 times the bytes that the listed" in str(rows["rec_amazon, communication, larger"]["why"])
    assert "0.667 times the bytes that the larger" in str(rows["rec_amazon, communication, with communities"]["why"])


@pytest.mark.slow
def test_what_a_cut_leaves_is_counted_edge_by_edge() -> None:
    share, read = hooks.cut_of("rec_amazon", {})
    snapshots, ranks = sequence("rec_amazon", hooks.bed().trains), hooks.gpus_of("rec_amazon")
    part = metis_partition(snapshots, ranks)
    edges = [(part[s], part[d], t, s) for t, one in enumerate(snapshots) for s, d in zip(one.src.tolist(), one.dst.tolist(), strict=True)]
    assert share == sum(a != b for a, b, _, _ in edges) / len(edges)
    assert read == len({(b, t, s) for a, b, t, s in edges if a != b}) / (snapshots.num_nodes * len(snapshots))


@pytest.mark.parametrize(
    ("dataset", "made", "message"), [("rec_amazon", {"times": 3}, "1,000 times smaller"), ("lastfm", MADE, "growing graph")]
)
def test_what_cannot_be_made_is_refused(dataset: str, made: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=f"stand-in of '{dataset}'.*{message}"):
        statistics(dataset, StandIns.model_validate(made))
