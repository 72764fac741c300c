"""REAL's Study 1: what is drawn is what is asked for, gains are makespans beside those of pairs, and the page begins with the finding."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from small_studies import study_of

from chronoscale.harness.reproduce import pages, registry
from chronoscale.harness.study.findings import Findings
from chronoscale.harness.study.hooks import real_schedules as hooks
from chronoscale.harness.study.point import StudyPoint
from chronoscale.strategies.real.check import check
from chronoscale.strategies.real.greedy import place
from chronoscale.strategies.snapshots.groups import deal

ONE = {"spread": 0.3, "drift": 0.0, "share": 0.5, "seed": 1, "each": 3, "gpus": 4, "strategies": ("real-g",)}


@pytest.mark.parametrize("drift", [0.0, 0.99])
@pytest.mark.parametrize("spread", [0.0, 0.05, 0.5])
def test_groups_spread_and_drift_as_asked(spread, drift):
    drawn = hooks.drawn_groups(4000, spread, drift, 0.6, seed=3)
    assert hooks.variation(drawn.times) == pytest.approx(spread, rel=0.1, abs=1e-6)
    if spread:
        assert hooks.correlation(drawn.times) == pytest.approx(drift, abs=0.05)
    assert hooks.saved_share(drawn) == pytest.approx(0.6, abs=1e-6)
    assert drawn.times.mean() == pytest.approx(hooks.MEAN_NS, rel=1e-6) and (drawn.times == np.round(drawn.times)).all()
    apart_3 = drawn.reuse[:-3, 2] / np.minimum(drawn.times[:-3], drawn.times[3:])
    assert apart_3 == pytest.approx(0.2, abs=1e-6)


def test_gains_are_makespans_of_pairs_over_the_schedulers():
    gained = hooks.drawn_gains(StudyPoint.of(ONE))
    drawn = hooks.drawn_groups(12, 0.3, 0.0, 0.5, 1)
    expected = check(deal(12, 4, 2), drawn) / check(place(drawn, 4), drawn)
    assert gained["gains"] == {"real-g": expected} and gained["each"] == 3
    with pytest.raises(TypeError, match="psg places groups without times"):
        hooks.drawn_gains(StudyPoint.of({**ONE, "strategies": ("psg",)}))


def test_a_few_groups_have_no_drift_and_share_nothing_alone():
    single = hooks.drawn_groups(1, 0.5, 0.9, 0.5, 0)
    assert (hooks.variation(single.times), hooks.correlation(single.times), hooks.saved_share(single)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("gains", "least"),
    [({0.1: 0.9, 0.2: 1.0, 0.5: 1.2}, 0.2), ({0.1: 1.1, 0.2: 0.9, 0.5: 1.2}, 0.5), ({0.1: 1.1}, 0.1), ({0.1: 1.2, 0.2: 0.9}, np.nan)],
)
def test_a_scheduler_wins_from_where_it_stays_ahead(gains, least):
    assert hooks.crossing(gains) == least or (np.isnan(least) and np.isnan(hooks.crossing(gains)))


@pytest.mark.slow
def test_the_paper_lies_where_pairs_win():
    """Its data sets' rows, computed of the plans: Algorithm 1 is slower than consecutive pairs, and the first note says so."""
    findings = study_of("real", "study", 1, DATASETS=["arxiv"], MODELS=["wd-gcn"])
    rows = findings.rows.set_index("what")
    assert rows.loc["arxiv on 8 GPUs, 2 plans", "real-g over pairs"] < 0.9
    assert rows.loc["arxiv on 8 GPUs, 2 plans", "groups a GPU"] == 12
    assert findings.notes[0].startswith(
        "**By a datasheet's costs the paper's data lie where pairs that need no scheduler beat Algorithm 1**: in 2 plans"
    )


def test_a_studys_finding_stands_before_its_rows():
    study = registry.find("real", "study", 1)
    findings = Findings(pd.DataFrame([{"what": "x", "gain": 1.0}]), notes=("the finding", "a note"))
    page = pages.markdown(study, findings)
    assert page.startswith(f"# Study 1: {study.title}\n") and "(§" not in page
    assert page.index("the finding") < page.index("| x |") < page.index("- a note") and "- the finding" not in page
