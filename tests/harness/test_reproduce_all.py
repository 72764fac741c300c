"""Reproduction of all: what is made anew and why, in which order, what a failure and Ctrl-C leave, and what the user is told."""

import json
import re
from pathlib import Path

import pytest
from command_line import command, one_line

from chronoscale.harness.reproduce import making, registry
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.reproduce.state import StudyState
from chronoscale.harness.study import origin
from chronoscale.harness.study.study_file import StudyFile
from chronoscale.reports.published import Claim, published

ROW = {"what": "a over b", "printed": 2.0, "ours": "1 + 0.5"}
SPOILT = {**ROW, "ours": "no_such"}


def tiny(number: int, row: dict[str, object] = ROW, **keys: object) -> Study:
    """A study of REAL's without a point."""
    keys = {"paper": "real", "title": f"tiny {number}", "way": "counted", "about_s": 60 * number, "rows": [row], **keys}
    return Study("real", "study", number, StudyFile.model_validate(keys))


@pytest.fixture
def studies(tmp_path, monkeypatch) -> list[Study]:
    """Three studies without a point, the last of which is timed; digests are of few modules, so that they cost nothing."""
    some = [tiny(1), tiny(2), tiny(3, grid={"ran": {"runner": "train", "of": "x", "if": False, "gpus": 1}})]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "of", lambda paper: some if paper == "real" else [])
    claim = Claim(claim="faster", sentence="…", place="abstract", high=2, not_testable="a claim without studies")
    real = published("real").model_copy(update={"claims": (claim,)})
    monkeypatch.setattr("chronoscale.harness.reproduce.claims.published", lambda _: real)
    monkeypatch.setattr(origin, "code_digest", lambda *modules: f"code of {len(modules)}")
    return some


def told(capsys) -> tuple[list[str], str]:
    """Lines on stderr without times, and the output."""
    captured = capsys.readouterr()
    return [re.sub(r"\d+ s\b|\d+ min\b", "T", line) for line in captured.err.splitlines()], captured.out


def result(number: int) -> Path:
    return Path(f"results/real/study-{number}.json")


def test_only_what_is_not_up_to_date_is_made(studies, capsys, monkeypatch):
    """From nothing, again, and after a change of each thing that results are made of."""
    command("reproduce", "all", "--workers", 1)
    lines, out = told(capsys)
    assert [line for line in lines if " of 3: " in line] == [
        "1 of 3: real study-2 (no result): made in T; T so far, about T left",
        "2 of 3: real study-1 (no result): made in T; T so far, about T left",
        "3 of 3: real study-3 (no result): made in T; T so far, about T left",
    ]
    assert lines[0] == "0 of 3 studies are up to date" and "of 3 printed comparisons 0 hold" in out
    assert all(result(number).with_suffix(".md").is_file() for number in (1, 2, 3))
    made_of = json.loads(result(1).read_text())["made_of"]
    assert set(made_of) == {"study", "code", "data"} and all(made_of.values())

    command("reproduce", "all", "--into", "card.md")
    lines, again = told(capsys)
    assert lines == ["3 of 3 studies are up to date", "page: card.md"] and again == out and "a over b" in Path("card.md").read_text()

    studies[0] = tiny(1, {**ROW, "ours": "1 + 0.25"})
    stored = json.loads(result(2).read_text())
    result(2).write_text(json.dumps({**stored, "made_of": {}}))
    stored = json.loads(result(3).read_text())
    result(3).write_text(json.dumps({**stored, "made_of": {**stored["made_of"], "code": "other", "data": "other"}}))
    command("reproduce", "all", "--workers", 1)
    assert {line.partition(": ")[2].partition("): ")[0] for line in told(capsys)[0] if " of 3: " in line} == {
        "real study-1 (changed: what its files say",
        "real study-2 (no record of what it is made of",
        "real study-3 (changed: its code, its data",
    }
    assert json.loads(result(1).read_text())["rows"][0]["ours"] == 1.25


def test_the_list_says_what_would_be_made_and_makes_nothing(studies, capsys):
    command("reproduce", "all", "--study", 2)
    result(1).write_text("{")
    stored = json.loads(result(2).read_text())
    result(3).write_text(json.dumps({**stored, "quick": True, "minutes": 0.1}))
    capsys.readouterr()
    before = {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()}
    command("reproduce", "all", "--list")
    out = capsys.readouterr().out
    assert "2 of 3 studies are not up to date, 4 min of work" in out and "a quick subset" in out and "a damaged file" in out
    command("reproduce", "--list", "--json")
    first, second, third = json.loads(capsys.readouterr().out)
    assert second == {"paper": "real", "what": "--study 2", "how": "counted", "about_s": 60 * stored["minutes"], "result": "up to date"}
    assert first["about_s"] == 60 and third["about_s"] == 180, "a subset's minutes say less than the file"
    assert before == {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()}
    command("reproduce", "real", "--list")
    assert "--study 3" in capsys.readouterr().out


def test_a_failure_is_told_at_the_end_and_ends_no_other(studies, capsys):
    studies[1] = tiny(2, SPOILT)
    command("reproduce", "all", "--workers", 1, expect=1)
    lines, out = told(capsys)
    line = "rows[0]: 'no_such': NameError: name 'no_such' is not defined"
    assert lines[1].startswith(f"1 of 3: real study-2 (no result): failed: {line}; ") and lines[-1] == f"failed: real study-2: {line}"
    assert result(1).is_file() and result(3).is_file() and not result(2).exists() and "of 2 printed" in out
    studies[1] = tiny(2)
    command("reproduce", "all", "--workers", 1)
    assert told(capsys)[0][:2] == ["2 of 3 studies are up to date", "1 of 1: real study-2 (no result): made in T; T so far, about T left"]


def test_defects_are_told_like_other_failures(studies, monkeypatch, capsys):
    monkeypatch.setattr(making, "run_study", lambda *_, **__: {}["no such\nkey"])
    command("reproduce", "all", "--workers", 1, "--study", 1, expect=1)
    assert told(capsys)[0][-1] == r"failed: real study-1: KeyError: 'no such\nkey'"
    assert making._line(OSError(28, "x", "file")).startswith("file: the disk is full")


def test_a_budget_begins_nothing_that_would_end_later(studies, capsys):
    """By the file's 60, 120 and 180 s where nothing has run, then by what the last run took."""
    command("reproduce", "all", "--budget", "2m30s", "--workers", 1)
    lines, _ = told(capsys)
    assert lines[-1] == "left for another time, as 2m30s would not do: real study-3; T"
    assert result(1).is_file() and result(2).is_file() and not result(3).exists()
    for budget in ("2", "soon", "-1h", "0s", "", "nat"):
        command("reproduce", "all", "--budget", budget, expect=2)
        assert f"--budget {budget}: expected a time with its unit, such as 2h" in one_line(capsys)
    stored = json.loads(result(2).read_text())
    result(2).write_text(json.dumps({**stored, "minutes": 300, "made_of": {}}))
    command("reproduce", "all", "--budget", "0.5h", "--workers", 1)
    lines, _ = told(capsys)
    assert lines[1].startswith("1 of 2: real study-3 ")
    assert "as 0.5h would not do: real study-2; 5 h T" in lines[-1] and result(3).is_file()


def test_a_budget_that_is_too_small_for_anything_says_so(studies, capsys):
    command("reproduce", "all", "--budget", "1s", "--workers", 1)
    lines, out = told(capsys)
    assert lines[1] == "left for another time, as 1s would not do: real study-2, real study-1, real study-3; T" and out == ""
    assert lines[2].startswith("no scorecard: results: no result of a study")
    command("reproduce", "all", "--budget", "1s", "--into", "card.md", expect=2)
    assert "results: no result of a study" in one_line(capsys)


def test_what_is_timed_runs_alone_after_all_else(studies, monkeypatch):
    """And what is not, in processes, the longest first."""
    swept, alone, ran = [], [], []
    monkeypatch.setattr(making, "run_study", lambda study, name, *_, workers: ran.append((name, workers)) or 1 / 0)

    def sweep(judge, jobs, take, workers):
        swept.append(([(job.state.name, job.workers) for job in jobs.values()], workers))
        for number in reversed(jobs):
            take(number, judge(jobs[number]))

    monkeypatch.setattr(making, "sweep", sweep)
    states = [StudyState.of(study, Path("results")) for study in (*studies, tiny(4))]
    made = making.make_all(states, 8, float("inf"), lambda made, left: alone.append((made.state.name, left)), lambda _: None)
    assert swept == [([("real study-4", 2), ("real study-2", 2), ("real study-1", 2)], 8)]
    assert alone == [("real study-1", 240 + 180), ("real study-2", 240 + 180), ("real study-4", 180), ("real study-3", 0)]
    assert ran == [("study-1", 2), ("study-2", 2), ("study-4", 2), ("study-3", 8)] and {one.status for one in made} == {"failed"}


@pytest.mark.slow
def test_processes_make_the_same(studies, capsys):
    command("reproduce", "all", "--workers", 2)
    lines, out = told(capsys)
    assert len([line for line in lines if ": made in T; " in line]) == 3 and "of 3 printed" in out
    assert "reproducing: now real study-2, real study-1; 0.0 minutes" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all", "--paper", "reel"), "unknown paper 'reel'; did you mean 'real'?"),
        (("all", "--paper", "fast", "--figure", "99"), "no figure 99 in fast; `chronoscale reproduce all --list` shows what there is"),
        (("all", "--quick"), "without --all and --quick"),
        (("real", "--budget", "2h"), "of all papers: chronoscale reproduce all"),
        (("real", "--paper", "fast", "--list"), "of all papers: chronoscale reproduce all"),
        (("--study", "1"), "say of which paper: chronoscale reproduce PAPER, or all"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command("reproduce", *arguments, expect=2)
    assert message in one_line(capsys)
