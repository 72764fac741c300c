"""What counterfactuals of papers change: hosts' rates, files that are read, GraphConv of remote rows, caches that are warm."""

import json

import numpy as np
import pytest
from small_studies import measured, replayed

from chronoscale.harness.study import evaluation
from chronoscale.harness.study.hooks.fast_reuse import Reads, hit_rates
from chronoscale.harness.study.hooks.fast_warps import Gpu
from chronoscale.harness.study.hooks.real_counts import flops_with_halo
from chronoscale.harness.study.point import StudyPoint
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.schedule import Lane, Op

REAL = {"paper": "real", "dataset": "arxiv", "model": "wd-gcn", "layers": 2, "cluster": "h200", "gpus": 8, "variant": "as-published"}
SPREAD = {"paper": "memshare", "dataset": "lastfm", "model": "tgn", "strategy": "disttgl", "cluster": "a40-10g", "gpus": 8}
SIZES = {"divisor": 20, "batch": 100, "least": 3}
PEMS = {"paper": "pgt-i", "dataset": "pems", "model": "pgt-dcrnn", "cluster": "polaris", "strategy": "dist-index", "gpus": 4}


@pytest.mark.slow
def test_remote_rows_are_convolved_with_as_many_edges_as_own_ones() -> None:
    parted, whole = (replayed(StudyPoint.of({**REAL, "strategy": name})) for name in ("distdgl", "real-l"))
    cut = parted.workload.partition
    own = parted.schedule.flops[np.isin(parted.schedule.op, [Op.AGGREGATE, Op.INCREMENT])].astype(float).sum()
    assert cut is not None and cut.halo.sum() > 0
    assert flops_with_halo(parted) == pytest.approx(own * (cut.rows.sum() + cut.halo.sum()) / cut.rows.sum())
    assert flops_with_halo(whole) == measured(whole.point, "flops").flops


def test_a_rank_reads_the_file_before_it_prepares() -> None:
    """105,120 steps of 11,160 sensors, float64."""
    plain, read = (measured(StudyPoint.of({**PEMS, **more}), "prepare_s").prepare_s for more in ({}, {"reads": 1e9}))
    assert read - plain == pytest.approx(105_120 * 11_160 * 8 / 1e9)


@pytest.mark.parametrize("host", [{"gather": 1e9, "sample": 1e7}, {"gather": 3e9, "sample": 2e7}])
def test_hosts_of_spread_streams_take_rows_over_their_rates(host: dict[str, float]) -> None:
    point = StudyPoint.of({**SPREAD, **SIZES, "testbed": json.dumps({"host": host})})
    one = replayed(point)
    trace, schedule = one.trace, one.schedule
    here, took = schedule.lane[trace.task] == Lane.HOST, trace.duration_ns / 1e9
    for op, rate, of in ((Op.SAMPLE, host["sample"], schedule.edges), (Op.GATHER, host["gather"], schedule.bytes)):
        rows = here & (trace.op == op)
        assert rows.any()
        np.testing.assert_allclose(took[rows], of[trace.task[rows]] / rate, rtol=1e-6, atol=2e-9)
    bed, other = evaluation.testbed(point), one.schedule.tasks(Op.FORWARD)
    costs = bed.costs(point, one.cluster)
    assert (costs.predict(schedule, other)[0] == DatasheetCosts(one.cluster.device).predict(schedule, other)[0]).all()


def test_a_warm_cache_has_what_fits_of_what_was_written_before() -> None:
    units = np.arange(64)
    for blocks, warm, share in ((64, False, 0.0), (64, True, 1.0), (32, True, 0.0)):  # of half the size the last go before they are read
        gpu = Gpu(1, l1=16 * 32, l2=blocks * 32)
        assert hit_rates(Reads(0 * units, units, np.ones(64, np.bool_), 32), gpu, warm).l2 == share
