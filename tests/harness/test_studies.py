"""Study files: mistakes are one line, expressions reach nothing else, points are kept and taken up again."""

import ast
import json
import re
import sys
from dataclasses import replace
from inspect import isclass
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
import yaml
from pydantic import BaseModel

from chronoscale.errors import UserError
from chronoscale.harness import cli
from chronoscale.harness.cli import output
from chronoscale.harness.reproduce import registry
from chronoscale.harness.study import axes, evaluation, grid, hooks, replay, study_file, testbeds
from chronoscale.harness.study.evaluation import evaluated
from chronoscale.harness.study.expressions import NAMES, filled, value
from chronoscale.harness.study.point import Points, Record, StudyPoint, StudyResult
from chronoscale.harness.study.study_file import folder, load, paper_file
from chronoscale.harness.study.task import Task
from chronoscale.harness.study.testbeds.experiments import ExperimentTestbed
from chronoscale.real_exec.measurement import environment
from chronoscale.reports.published import PAPERS

ROOT = Path(__file__).parents[2]
OWN = (ROOT / "examples" / "studies" / "batches.yaml").read_text()
HOOKS = sorted(path.stem for path in Path(hooks.__file__).parent.glob("*.py") if path.stem != "__init__")


@pytest.fixture
def own(tmp_path) -> Path:
    path = tmp_path / "batches.yaml"
    path.write_text(OWN)
    return path


def ended(monkeypatch, *arguments) -> int:
    monkeypatch.setattr(sys, "argv", ["chronoscale", "study", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return int(left.value.code or 0)


def test_anybodys_study_runs_and_goes_on_where_it_was(own, tmp_path, monkeypatch, capsys) -> None:
    assert ended(monkeypatch, own, "--quick", "--out", tmp_path / "out") == 0
    result = json.loads((tmp_path / "out" / "batches.json").read_text())
    assert result["quick"] and result["environment"]["device"] and result["environment"]["torch"] and result["minutes"] >= 0
    assert [row["what"] for row in result["rows"]] == ["batches of 100, s"] and result["notes"] == ["Quick: 1 point."]
    assert 0 < result["rows"][0]["ours_mean"] < 60
    assert len(list((tmp_path / "out" / "batches.points").iterdir())) == 1
    (point,) = (tmp_path / "out" / "batches.points").iterdir()
    seconds = json.loads(point.read_text())["seconds"]
    assert 0 < seconds <= 60 * result["minutes"] + 0.3  # minutes have two places
    point.write_text(json.dumps({**json.loads(point.read_text()), "seconds": seconds + 600}))
    measured = []
    monkeypatch.setattr(evaluation, "_DONE", {})
    monkeypatch.setattr(
        evaluation, "measure", lambda point, *_: measured.append(point) or StudyResult(values={"epoch_s": 5.0, "utilisation": 1.0})
    )
    assert ended(monkeypatch, own, "--out", tmp_path / "out") == 0
    stored = json.loads((tmp_path / "out" / "batches.json").read_text())
    again = stored["rows"]
    assert stored["minutes"] >= 10 and stored["untimed"] == 0, "the other point's time is counted"
    assert [point.setting("training.batch_size") for point in measured] == [200, 400], "the other point is there from before"
    assert (result["resumed"], stored["resumed"]) == (0, 1)
    assert [row["ours_mean"] for row in again] == [result["rows"][0]["ours_mean"], 5.0, 5.0]
    assert "batches of 200" in capsys.readouterr().out


def test_progress_is_lines_where_there_is_no_terminal(own, tmp_path, monkeypatch, capsys) -> None:
    """The first point, and then one every 10 s; points end after 3, 9, 15 and 18 s of a clock of the test's own."""
    ends = iter([3.0, 9.0, 15.0, 18.0])
    monkeypatch.setattr(evaluation, "_DONE", {})
    own.write_text(OWN.replace("[100, 200, 400]", "[50, 100, 200, 400]"))
    now = [0.0]

    def measured(*_) -> StudyResult:
        now[0] = next(ends)
        return StudyResult(values={"epoch_s": 5.0, "utilisation": 1.0})

    monkeypatch.setattr(evaluation, "measure", measured)
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert ended(monkeypatch, own, "--out", tmp_path / "out") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("batches: ")]
    assert [(line.split(":")[1].strip(), line.rpartition("; ")[2]) for line in lines] == [
        ("1 of 4", "0.1 minutes"),
        ("3 of 4", "0.2 minutes"),
    ]


@pytest.mark.parametrize(
    "find, put, message",
    [
        ("way: simulated", "way: guessed", "way: expected 'executed', 'simulated', 'counted' or 'modelled' (got 'guessed')"),
        ("rows:", "rowz:", "unknown key 'rowz'; did you mean 'rows'?"),
        ("utilisation]", "utilization]", "unknown metric 'utilization'; did you mean 'utilisation'?"),
        ("one.epoch_s]", "one.epoch]", "'[one.epoch]': AttributeError: a point has no 'epoch'"),
        ("one.epoch_s]", "one.__class__]", ".__class__ is not for a study"),
        ("one.epoch_s]", "open('x')]", "NameError: name 'open' is not defined"),
        ("gpus: 1}", "gpus: =1 +}", "'1 +': not an expression"),
        ("strategy: sequential", "strategy: seqential", "did you mean 'sequential'"),
        ('ours: "[one.epoch_s]"', "ours: \"'a'\"", "rows[0]: ValueError: could not convert string to float"),
        ("{one: main}", "{one: '5'}", "rows[0]: TypeError: 'int' object is not iterable"),
        ('ours: "[one.epoch_s]"', "ours: one.epoch_s\n    printed: 0", "rows[0]: ZeroDivisionError"),
        ("notes:", "notes:\n  - =nosuch", "notes[0]: KeyError: 'nosuch'"),
        ("one.epoch_s]", "main.gi_frame]", ".gi_frame is not for a study"),
        ("strategy: sequential", "stratgy: sequential", "grid.main: unknown axis 'stratgy'; did you mean 'strategy'?"),
        ("strategy: sequential", "batches: 5, strategy: sequential", "grid.main: unknown axis 'batches'"),  # read where no experiment is
        ("way: simulated", "way: simulated\nhooks: [nope]", f"hooks: unknown 'nope'; there are: {', '.join(HOOKS)}"),
        (
            "dataset: events_small",
            "costs: fitted, dataset: events_small",
            "'costs' is not read there; points are replayed on",
        ),
    ],
)
def test_mistakes_are_one_line(own, find, put, message, tmp_path, monkeypatch, capsys) -> None:
    own.write_text(own.read_text().replace(find, put))
    assert ended(monkeypatch, own, "--quick", "--out", tmp_path / "out") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and message in lines[0]


def test_points_that_do_not_run_are_said(own, tmp_path, monkeypatch, capsys) -> None:
    refused = "3 of 3 points: refused: unknown dataset 'nowhere'"
    own.write_text(OWN.replace("events_small", "nowhere"))
    assert ended(monkeypatch, own, "--out", tmp_path / "out") == 2
    errors = " ".join(capsys.readouterr().err.split())
    assert f"no point of the study has run; {refused}" in errors and not (tmp_path / "out" / "batches.json").exists()
    own.write_text(OWN.replace("strategy: sequential", "strategy: [sequential, psg]"))
    assert ended(monkeypatch, own, "--quick", "--out", tmp_path / "out") == 0
    assert "1 of 2 points: refused: " in json.loads((tmp_path / "out" / "batches.json").read_text())["notes"][1]


def test_a_paper_s_own_file_is_run_as_that_study(tmp_path, monkeypatch, capsys) -> None:
    path = ROOT / "src" / "chronoscale" / "studies" / "pgt-i" / "table-1.yaml"
    assert ended(monkeypatch, path, "--quick", "--out", tmp_path) == 0
    assert (tmp_path / "pgt-i" / "table-1.json").is_file() and (tmp_path / "pgt-i" / "table-1.md").is_file()
    capsys.readouterr()
    own = tmp_path / "table-1.yaml"  # of no paper's folder: anybody's
    own.write_text(OWN.partition("\n")[2].replace("title: ", "# "))
    assert ended(monkeypatch, own, "--quick", "--out", tmp_path) == 0


def test_a_quick_result_replaces_no_full_one(own, tmp_path, monkeypatch, capsys) -> None:
    for options, code in (((), 0), (("--quick",), 2), ((), 0)):
        assert ended(monkeypatch, own, *options, "--out", tmp_path) == code
    assert "holds the result of the whole study" in " ".join(capsys.readouterr().err.split())


def test_the_page_shows_the_example() -> None:
    assert OWN.partition("\n")[2] in (ROOT / "docs" / "studies.md").read_text()


def test_the_page_has_every_key() -> None:
    """Of files and grids, metrics, and what expressions may call; its examples are read."""
    text, *examples = re.split(r"```yaml\n(.*?)```", (ROOT / "docs" / "studies.md").read_text(), flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", "".join([text, *examples[1::2]]), flags=re.DOTALL)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    shown = {*spans, *(match[0] for span in spans if (match := re.match(r"[\w.]+[:(]?", span)))}
    shown |= {name.rstrip("(") for name in shown}
    models = [one for one in vars(study_file).values() if isclass(one) and issubclass(one, BaseModel) and one is not BaseModel]
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    kinds = {*get_args(study_file.Way), *get_args(study_file.Runner), *get_args(study_file.Chart.model_fields["kind"].annotation)}
    called = {*NAMES, "quick", "printed", "filled", *(f"main.{name}" for name in ("at", "all", "where", "one", "table"))}
    families = {f"{name}:" for name in replay.FAMILIES}
    assert {*keys, *kinds, *axes.EVERY, *axes.BLOCK, *replay.METRICS, *families, *called} - shown == set()
    study = {key: given for example in examples[::2] for key, given in yaml.safe_load(example).items()}
    counts = {name: len(grid.points(block, "", study["names"])) for name, block in study["grid"].items()}
    assert study_file.StudyFile.model_validate(study) and counts == {"main": 5, "ran": 1}


def test_templates_are_split_at_braces_outside_of_text() -> None:
    names = {"a": {"x": 0.5}, "b": "t"}
    assert filled("{a['x']:.0%} of {{b}} is {'}' + b}", names) == "50% of {b} is }t"
    assert filled("{f'{a[\"x\"]:g}' if b else ''}; {b:>3}", names) == "0.5;   t"
    with pytest.raises(UserError, match="a brace is not closed"):
        filled("{a", names)


@pytest.mark.parametrize("text", ["().__class__", "'{0}'.format(1)", "(lambda: 1)()", "[x for x in y if (z := 1)]", "frame.to_csv('x')"])
def test_expressions_reach_nothing_else(text) -> None:
    with pytest.raises(UserError, match="is not for a study"):
        value(text, {"y": [1], "frame": None})


def test_axes_see_those_before_them_and_points_come_once() -> None:
    block = {
        "strategy": ["psg", "real-g"],
        "variant": "=['exact', 'x'] if strategy == 'psg' else 'exact'",
        "gpus": [1, 2],
        "if": "gpus > least",
    }
    points = grid.points([block, {**block, "strategy": "psg"}], "real", {"least": 1})
    assert [(one.strategy, one.variant, one.gpus) for one in points] == [("psg", "exact", 2), ("psg", "x", 2), ("real-g", "exact", 2)]
    like = grid.points({"like": "base", "gpus": 4, "copies": [True, False]}, "", {"base": {"gpus": 8, "dataset": "d"}})
    assert [(one.dataset, one.gpus, one.setting("copies")) for one in like] == [("d", 4, True), ("d", 4, False)]


def test_axes_are_read_by_code_or_by_the_file() -> None:
    """Code reads those that are listed, and no others of the papers' studies."""
    sources = [path.read_text() for part in (hooks, testbeds) for path in Path(part.__file__).parent.glob("*.py")]
    constants = {node.value for text in sources for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    assert constants >= axes.SETTINGS
    for study in registry.every():
        read = {*axes.words(study.file.model_dump()), *axes.words(paper_file(study.paper).model_dump())}
        for block in (one for blocks in study.file.grid.values() for one in (blocks if isinstance(blocks, list) else [blocks])):
            axes.check({name: given for name, given in block.items() if name not in axes.BLOCK}, read)
        shared = paper_file(study.paper)
        for change in (*shared.counterfactuals, *study.file.counterfactuals):
            axes.check(change.settings, read)
            assert set(change.names) <= {*shared.names, *study.file.names} and change.what and change.source, (study.name, change.what)
            assert not change.testbed or set(change.testbed) <= set(type(evaluation.of_paper(study.paper)).model_fields), study.name
    with pytest.raises(UserError, match="unknown axis 'hoow'"):
        grid.points({"dataset": "d", "hoow": 1}, "", {}, {"how"})
    assert len(grid.points({"dataset": "d", "how": [1, 2]}, "", {}, {"how"})) == 2


def test_points_are_chosen_by_their_values() -> None:
    points = Points([Record(StudyPoint(strategy=name, gpus=n), StudyResult(values={"s": n * 1.0})) for name in "ab" for n in (1, 2)])
    assert points.all("s", strategy="a") == [1.0, 2.0] and points.at("s", strategy="b", gpus=2) == 2.0
    assert len(points.where(strategy=("a", "b"), gpus=1)) == 2 and len(points.where(strategy="c")) == 0
    with pytest.raises(UserError, match="2 points, not one, with strategy a"):
        points.one(strategy="a")


def test_a_kept_point_is_of_one_task() -> None:
    """Results of other metrics, functions, hooks, runners or settings have files of their own."""
    point = StudyPoint.of({"paper": "", "experiment": {"dataset": "events_small"}, "gpus": 1})
    task = Task(point, "sweep", "", ("epoch_s",), ())
    others = [
        replace(task, metrics=("step_s",)),
        replace(task, runner="count", function="one"),
        replace(task, runner="count", function="other"),
        replace(task, hooks=("fast",)),
        replace(task, point=StudyPoint.of({"paper": "", "experiment": {"dataset": "events_small"}, "gpus": 2})),
    ]
    assert len({one.key for one in (task, *others)}) == 1 + len(others)


def test_an_executed_point_is_of_one_machine(monkeypatch) -> None:
    """Device, torch's version and threads tell kept seconds apart; what is counted or simulated is the same everywhere."""
    tasks = [Task(StudyPoint.of({"paper": "", "dataset": "a"}), runner, "one", (), ()) for runner in ("train", "count", "sweep")]
    keys = [[task.key for task in tasks]]
    for where, name, there in (
        (environment, "device_name", lambda _: "another processor"),
        (torch, "__version__", "0.0.1"),
        (torch, "get_num_threads", lambda: 977),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(where, name, there)
            keys.append([task.key for task in tasks])
    executed, counted, simulated = (set(some) for some in zip(*keys, strict=True))
    assert len(executed) == len(keys) and len(counted) == len(simulated) == 1


def test_hooks_of_one_point_have_results_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr(evaluation, "_DONE", {})
    monkeypatch.setattr(evaluation, "hooked", lambda _: {"one": lambda point: {"v": 1}, "other": lambda point: {"v": 2}})
    point = StudyPoint.of({"paper": "", "dataset": "a"})
    results = [evaluation.evaluate(Task(point, "count", name, (), ())).values["v"] for name in ("one", "other", "one")]
    assert results == [1, 2, 1]


def test_an_experiment_takes_a_points_axes() -> None:
    experiment = {"dataset": "events_small", "model": {"name": "tgn", "hidden": 16}, "training": {"batch_size": 100, "fanout": [5]}}
    axes = {"paper": "", "experiment": experiment, "training.batch_size": 200, "model": "jodie", "cluster": "h200", "gpus": 64}
    point, bed = StudyPoint.of(axes), ExperimentTestbed()
    keys = json.loads(bed.keys(point))
    assert keys["training"] == {"batch_size": 200, "fanout": [5]} and keys["model"] == {"name": "jodie", "hidden": 16}
    cluster = bed.cluster(point)
    assert cluster.name == "h200" and cluster.nodes * cluster.gpus_per_node == 64


def test_results_are_read_as_they_were(tmp_path, monkeypatch) -> None:
    values = {"array": np.arange(3.0), "pair": (1, [2.5]), "by": {1: float("nan")}, "text": "t", "number": np.float64(0.1)}
    monkeypatch.setattr(evaluation, "evaluate", lambda task: StudyResult("ran", "", values))
    task = Task(StudyPoint("real"), "count", "f", (), ())
    (first,), (second,) = (evaluated([task], lambda _: None, 1, tmp_path) for _ in range(2))
    assert first.values is values
    assert second.values["array"].tolist() == [0, 1, 2] and second.values["pair"] == (1, [2.5]) and second.values["number"] == 0.1
    assert list(second.values["by"]) == [1] and np.isnan(second.values["by"][1])
    (tmp_path / f"{task.key}.json").write_text("{")
    assert evaluated([task], lambda _: None, 1, tmp_path)[0].values is values, "a broken file is made again"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_file_of_a_paper_is_read(paper) -> None:
    for path in folder(paper).iterdir() if folder(paper).is_dir() else ():
        if path.suffix == ".yaml" and path.name != "paper.yaml":
            study = load(path)
            assert study.rows and study.about_s and study.way
            assert bool(study.title) == path.name.startswith("study")  # a figure has the title that the paper gives it
