"""Conclusions of studies: claims under joint assumptions, beside what is printed; kept, drawn, and of the epochs that rows show."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.figure import Figure
from small_studies import measured

from chronoscale.errors import UserError
from chronoscale.harness.study import conclusions, evaluation, study_run
from chronoscale.harness.study.conclusions import Answered, Claim
from chronoscale.harness.study.evaluation import scenario_of
from chronoscale.harness.study.point import Points, Record, StudyPoint, StudyResult
from chronoscale.harness.study.study_file import StudyFile
from chronoscale.harness.study.task import Task
from chronoscale.reports.charts import bands
from chronoscale.reports.charts.bands import Band
from chronoscale.simulator.uncertainty.joint import Conclusion, epoch_s
from chronoscale.strategies.schedule import Op

SETTINGS = {"dataset": "events_small", "model": {"name": "tgn", "hidden": 16}}
OWN = f"""
title: Epochs by batch size
metrics: [epoch_s]
grid:
  main: {{experiment: {SETTINGS}, training.batch_size: [100, 800], strategy: sequential, gpus: 1}}
values:
  small: "main[0]"
  large: "main[1]"
rows: [{{what: large, ours: large.epoch_s}}]
conclusions:
  - {{what: large batches over small, faster: large, slower: small, printed: 1000}}
  - {{what: small batches over large, faster: small, slower: large}}
"""


def findings_of(folder: Path, text: str = OWN) -> study_run.Findings:
    return study_run.run(StudyFile.model_validate(yaml.safe_load(text)), "own", None, lambda _: None, True, folder=folder)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Path, study_run.Findings]:
    """What a study finds, and the folder that it is kept in."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conclusions, "QUICK", 2)
        return folder, findings_of(folder)


def test_a_claim_and_its_inverse_are_two_sides_of_one(kept) -> None:
    """Eight times as few batches of eight times as many events are faster, whatever is assumed."""
    table = kept[1].tables["conclusions"].set_index("what")
    one, other = table.loc["large batches over small"], table.loc["small batches over large"]
    assert (one["share"], other["share"]) == (1, 0) and 1 < one["low"] <= one["middle"] <= one["high"] < 8.5
    assert [other[name] for name in ("low", "middle", "high")] == pytest.approx([1 / one[name] for name in ("high", "middle", "low")])
    small, large = (record["epoch_s"] for record in _points())
    assert (one["usual"], other["usual"]) == (pytest.approx(small / large), pytest.approx(large / small))
    assert (one["published_is"], other["published_is"]) == ("above the band", "")
    notes = kept[1].notes
    assert (
        notes[0].startswith("large batches over small: sequential, training.batch_size 800 is faster")
        and "Published: 1e+03, above" in notes[0]
    )
    assert "Published" not in notes[1]


def _points() -> list[dict[str, Any]]:
    axes = [{"experiment": SETTINGS, "training.batch_size": size, "strategy": "sequential"} for size in (100, 800)]
    return [evaluation.evaluate(Task(StudyPoint.of(one), "sweep", "", ("epoch_s",), ())).values for one in axes]


def test_kept_conclusions_are_not_simulated_again(kept, monkeypatch) -> None:
    monkeypatch.setattr(conclusions, "QUICK", 2)
    monkeypatch.setattr(conclusions, "_conclude", lambda *_: pytest.fail("simulated again"))
    again = findings_of(kept[0])
    assert again.notes == kept[1].notes and again.tables["conclusions"].equals(kept[1].tables["conclusions"])


def test_claims_are_drawn_once(kept) -> None:
    (drawing,) = kept[1].drawings
    assert drawing.name == "own-conclusions" and "diamond" in drawing.caption
    without = OWN.partition("conclusions:")[0]
    assert findings_of(kept[0], without).drawings == ()


def test_a_diamond_is_where_a_number_is_printed(monkeypatch) -> None:
    painted = []
    monkeypatch.setattr(bands, "draw", lambda name, title, caption, inches, paint: paint(painted.append(Figure()) or painted[-1]))
    for printed in ((2.5, float("nan")), (float("nan"), float("nan"))):
        bands.bands("a", "a", "", "", [Band("claim", 0.75, 2.0, 1.5, 2.2, 3.0, number) for number in printed])
    axes = [figure.axes[0] for figure in painted]
    diamonds = [[(*line.get_xdata(), *line.get_ydata()) for line in one.lines if line.get_marker() == "D"] for one in axes]
    assert diamonds == [[(2.5, 0)], []]
    assert [text.get_text() for text in axes[0].texts] == ["75%", "75%"]
    assert [len(figure.legends[0].get_texts()) for figure in painted] == [4, 3]


def test_what_did_not_run_claims_nothing(kept) -> None:
    text = OWN.replace("strategy: sequential", "strategy: [sequential, psg]")  # which refuses event streams: the second point
    without = findings_of(kept[0], text)
    assert without.tables == {} and without.drawings == () and without.notes[0].startswith("2 of 4 points: refused")


@pytest.mark.parametrize("wrong", ["faster: nowhere", "faster: 'large.nothing'", "faster: 5"])
def test_a_mistake_names_its_claim(kept, wrong) -> None:
    with pytest.raises(UserError, match=r"^conclusions\[0\]: "):
        findings_of(kept[0], OWN.replace("faster: large", wrong))


def _answered(faster: str, printed: float) -> Answered:
    """A claim that a is 2 to 3 times as fast as b, or that b is as a."""
    one, other = (Record(StudyPoint(strategy=name), StudyResult()) for name in (("a", "b") if faster == "a" else ("b", "a")))
    return Answered(Claim("claim", one, other, printed), Conclusion("a", "b", 2.4, 0.75, 2.0, 2.5, 4.0, 8, 3))


@pytest.mark.parametrize(
    "faster, printed, where",
    [
        ("a", 3.0, "inside the band"), ("a", 1.9, "below the band"), ("a", 4.1, "above the band"),
        ("b", 0.3, "inside the band"), ("b", 0.2, "below the band"), ("b", 0.6, "above the band"), ("b", float("nan"), ""),
    ],
)  # fmt: skip
def test_where_the_printed_number_lies(faster, printed, where) -> None:
    answered = _answered(faster, printed)
    assert answered.where == where and answered.share == (0.75 if faster == "a" else 0.25)
    assert answered.ends == ((2.4, 2.0, 2.5, 4.0) if faster == "a" else (1 / 2.4, 0.25, 0.4, 0.5))


def test_ties_hold_for_neither_side() -> None:
    tied = [each._replace(conclusion=replace(each.conclusion, tied=0.15)) for each in (_answered("a", 1.0), _answered("b", 1.0))]
    assert [each.share for each in tied] == [0.75, pytest.approx(0.1)]


def _grid() -> Points:
    """Six cells in which a is 1, 2 ... 6 times as fast as b; in the last one b did not run."""
    cells = [(model, dataset) for model in ("m", "n") for dataset in ("x", "y", "z")]
    records = []
    for times, (model, dataset) in enumerate(cells, 1):
        for name, seconds in (("a", 1.0), ("b", float(times))):
            status = "refused" if (name, times) == ("b", 6) else "ran"
            values = {"all": {"epoch_s": seconds}, "epoch_s": seconds}
            records.append(Record(StudyPoint(strategy=name, model=model, dataset=dataset), StudyResult(status, values=values)))
    return Points(records)


def test_the_middle_cell_is_of_those_that_both_ran() -> None:
    pair = _grid().middle({"strategy": "a"}, {"strategy": "b"})
    assert pair is not None and (pair.slower["epoch_s"], pair.of, pair.cell) == (3.0, 5, "m on z, the middle of 5")
    lower = _grid().middle({"strategy": "a"}, {"strategy": "b"}, "all.epoch_s", model="n")
    assert lower is not None and (lower.slower["epoch_s"], lower.of) == (4.0, 2)
    one = _grid().middle({"strategy": "b", "model": "m"}, {"strategy": "a", "model": "n"}, dataset="x")
    assert one is not None and one.cell == "m on x" and one.slower.model == "n"
    assert _grid().middle({"strategy": "a"}, {"strategy": "c"}) is None
    with pytest.raises(UserError, match="2 points, not one"):
        (_grid() + Points([_grid()[1]])).middle({"strategy": "a"}, {"strategy": "b"})


SMALL = {
    "strategy": "memshare",
    "dataset": "lastfm",
    "model": "tgn",
    "gpus": 4,
    "cluster": "a40-10g",
    "divisor": 20,
    "batch": 100,
    "least": 4,
}
POINTS = {
    "real": {"dataset": "arxiv", "model": "wd-gcn", "strategy": "real-g", "cluster": "h200", "gpus": 8, "variant": "as-published"},
    "flaredtdg": {"dataset": "soc_flickr", "model": "mpnn-lstm", "strategy": "dynahb", "layers": 2, "cluster": "a40-ib", "gpus": 1},
    "pgt-i": {"dataset": "pems", "model": "pgt-dcrnn", "strategy": "dist-index", "cluster": "polaris", "gpus": 4},
    "memshare": SMALL,
    "fast": {"dataset": "wikitalk", "model": "tgn", "strategy": "sequential", "most": 40000, "batches": 5, "presample": 20},
}  # fmt: skip
READ = {"memshare": "spread", "fast": "epoch"}


@pytest.mark.parametrize("paper", POINTS)
def test_a_claim_is_of_the_epochs_that_rows_show(paper) -> None:
    """Also where a testbed plans few steps of an epoch, from which its length follows."""
    point, name = StudyPoint.of({"paper": paper, **POINTS[paper]}), READ.get(paper, "epoch_s")
    shown = measured(point, name)[name]
    assert epoch_s(scenario_of(point), 0) == pytest.approx(shown if name == "epoch_s" else shown["epoch_s"], rel=1e-9)


def test_a_server_s_costs_are_had_of_other_devices() -> None:
    """A copy to the device takes twice as long over a bus of half the bandwidth; what the host gathers stays."""
    scenario = scenario_of(StudyPoint.of({"paper": "fast", **POINTS["fast"]}))
    device = scenario.cluster.device
    other = replace(device, h2d=replace(device.h2d, bandwidth=device.h2d.bandwidth / 2), launch_s=3 * device.launch_s)
    costs, slower = scenario.costs, scenario.costs.on_device(other)  # type: ignore[attr-defined]
    copies = scenario.schedule.tasks(Op.H2D)
    gathers = scenario.schedule.tasks(Op.GATHER)
    before, after = (each.predict(scenario.schedule, copies)[0].sum() for each in (costs, slower))
    assert after == pytest.approx(2 * before, rel=0.02)
    assert (costs.predict(scenario.schedule, gathers)[0] == slower.predict(scenario.schedule, gathers)[0]).all()
    assert slower.launch_ns == 3 * costs.launch_ns
