"""Stand-ins of snapshots that are made otherwise than the catalogue lists them: larger, or with communities."""

import json

import numpy as np
import pytest

from chronoscale.errors import UserError
from chronoscale.harness.study import evaluation
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.testbeds.stand_ins import LISTED, StandIns, counted, factor, partition, sequence, statistics

MADE = {"times": 2, "mixing": 0.5}
LARGER, MIXED = StandIns(times=2), StandIns(**MADE)
POINT = {"paper": "flaredtdg", "dataset": "rec_amazon", "model": "t-gcn", "layers": 2, "cluster": "a40-ib", "gpus": 4}


def test_counts_are_of_the_published_size_at_any_size() -> None:
    listed, larger = statistics("rec_amazon"), statistics("rec_amazon", LARGER)
    assert (
        larger.num_nodes == listed.num_nodes and sequence("rec_amazon", 0.1, LARGER).num_nodes == 2 * sequence("rec_amazon", 0.1).num_nodes
    )
    np.testing.assert_allclose(larger.edges, listed.edges, rtol=1e-3)
    assert factor("rec_amazon", LARGER) == factor("rec_amazon") // 2
    rows = [partition("rec_amazon", 4, 0.1, made).rows.sum() for made in (LISTED, LARGER)]
    assert rows[0] == rows[1]


def test_fewer_rows_are_read_where_there_are_communities() -> None:
    halo = [partition("rec_amazon", 4, 0.1, made).halo.sum() for made in (LARGER, MIXED)]
    assert halo[1] < 0.95 * halo[0]
    assert (statistics("rec_amazon", MIXED).edges == statistics("rec_amazon", LARGER).edges).all()


def test_a_point_is_simulated_on_them() -> None:
    """What it counts, what is in FlareDTDG's chunks, and what METIS cuts for strategies that have parts."""
    testbed = json.dumps({"stand_ins": MADE, "trains": 0.1})
    point, parted = (StudyPoint.of({**POINT, "strategy": name, "testbed": testbed}) for name in ("dynagraph", "distdgl"))
    work = evaluation.testbed(point).workload(point)
    assert (work.stats.changed_edges == statistics("rec_amazon", MIXED).head(len(work.stats)).changed_edges).all()
    assert work.chunking is counted("rec_amazon", 0.1, 64, MIXED) and work.chunking.factor == 500
    assert evaluation.testbed(parted).workload(parted).partition is partition("rec_amazon", 4, 0.1, MIXED)


@pytest.mark.parametrize(
    ("dataset", "made", "message"), [("rec_amazon", {"times": 3}, "1,000 times smaller"), ("lastfm", MADE, "growing graph")]
)
def test_what_cannot_be_made_is_refused(dataset: str, made: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=f"stand-in of '{dataset}'.*{message}"):
        statistics(dataset, StandIns.model_validate(made))
