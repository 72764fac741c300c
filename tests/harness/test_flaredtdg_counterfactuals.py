"""FlareDTDG's counterfactuals: each changes what it says, of the points that it names and of no others."""

import json

import pytest
from small_studies import replayed

from chronoscale.harness.reproduce import registry
from chronoscale.harness.study.expressions import filled, value
from chronoscale.harness.study.hooks import flaredtdg as hooks
from chronoscale.harness.study.point import StudyPoint, StudyResult
from chronoscale.harness.study.study_file import paper_file
from chronoscale.harness.study.study_grids import StudyGrids, names_of
from chronoscale.harness.study.study_rows import rows_of, turns

FLICKR = {"paper": "flaredtdg", "dataset": "soc_flickr", "model": "t-gcn", "layers": 2, "cluster": "a40-ib", "gpus": 4}
EPOCHS = {"flaredtdg": 10, "esdg": 120}


def point(strategy: str, **changed: object) -> StudyPoint:
    return StudyPoint.of({**FLICKR, "strategy": strategy, "testbed": hooks.assuming(**changed)})


def test_each_changes_points_of_table_5_and_only_those_that_it_names() -> None:
    """A misspelt data set or strategy would change none. K and alpha are those that the paper prints of a data set."""
    study = registry.find("flaredtdg", "table", 5)
    names = names_of(study.file, False, study.printed)
    usual = set(StudyGrids.of(study.file, names).tasks)
    windows = {}
    for each in paper_file("flaredtdg").counterfactuals:
        for turn in turns(each, names):
            settings = {name: value(given, turn) for name, given in each.settings.items()}
            testbed = {name: value(given, turn) for name, given in each.testbed.items()}
            only = {axis: value(given, turn) for axis, given in each.only.items()}
            grids = StudyGrids.of(study.file, names, settings | ({"testbed": json.dumps(testbed)} if testbed else {}), only)
            changed = [task.point for task in set(grids.tasks) - usual]
            assert changed, filled(each.what, turn)
            assert all(one.axes[axis] in values for one in changed for axis, values in only.items())
            if "dataset" in only:
                windows[changed[0].dataset] = testbed["windows"]
    assert {name: (each["full"], each["full"] + each["decayed"], each["alpha"]) for name, each in windows.items()} == {
        "soc_flickr": (4, 8, 0.1), "rec_amazon": (3, 8, 0.1), "soc_youtube": (4, 8, 0.3)
    }  # fmt: skip


def test_baselines_are_planned_with_other_fields() -> None:
    """Neighbours that DynaGraph samples; nodes that DynaHB batches, whose sizes are powers of two."""
    plans = [replayed(one) for one in (point("dynagraph", fanout=[5]), point("dynagraph"), point("dynagraph", fanout=[25]))]
    edges = [plan.schedule.edges[plan.of("AGGREGATE")].sum() for plan in plans]
    assert sorted(edges) == edges and len(set(edges)) == 3
    parts = {part: replayed(point("dynahb", planned={"dynahb": {"part": part}})).schedule.iterations for part in (1, 4, 16)}
    assert parts[4] == replayed(point("dynahb")).schedule.iterations
    vertices = -(-plans[0].workload.snapshots.num_nodes // FLICKR["gpus"])
    limit = 1 << (vertices - 1).bit_length()
    assert [iterations / parts[1] for iterations in parts.values()] == [-(-vertices * part // limit) for part in parts] == [1, 3, 9]


@pytest.mark.parametrize(("equal", "times"), [("", 12), ("epochs", 1), ("steps", 6)])
def test_table_4_takes_epochs_as_trained_or_as_many_of_all(equal: str, times: float) -> None:
    study = registry.find("flaredtdg", "table", 4)
    small = study.file.model_copy(update={"names": {**study.file.names, "ALL": ["soc_flickr"], "MODELS": ["t-gcn"]}})
    names = names_of(small, False, study.printed) | {"installed": lambda named: (named, []), "EQUAL": equal}
    names["TRAINED"] = {**names["TRAINED"], "dataset": "uci_messages"}
    grids = StudyGrids.of(small, names)
    results = []
    for task in grids.tasks:
        ours, trains = task.point.strategy == "flaredtdg", task.runner == "train"
        trained = {"settled": EPOCHS.get(task.point.strategy, 20), "taken": 50, "targets": 200, "test": 0.5, "ended": True}
        results.append(StudyResult(values=trained if trains else {"epoch_s": 8.0 if ours else 4.0, "steps": 30 if ours else 5}))
    rows = {str(row["what"]): row for row in rows_of(small, names | grids.evaluated(results))}
    assert rows["soc_flickr, t-gcn, flaredtdg over esdg, to convergence as executed"]["ours"] == pytest.approx(0.5 * times)
