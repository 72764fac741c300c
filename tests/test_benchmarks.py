"""Benchmarks: their core, and whether every subject runs. No time is compared with another."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import permitted
from pytest_benchmark.cli import main as pytest_benchmark

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import core.case
import core.command
from core import compare, listing, revisions, table, turns
from core.case import Case, Setting, Subject, seconds
from core.result import KEY, VERSION, Result, measure

from chronoscale.errors import UserError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# In processes of their own, for seconds.
DEAR = {
    *("agreement", "fast", "feeds", "fidelity", "flaredtdg", "memory", "memshare", "signal_memory", "snapshot_rivals"),
    *("strategies", "partitioners", "slow_link"),
}


@pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")  # a busy machine's times are not to be believed
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in DEAR else ()) for name in listing.names()])
def test_the_smallest_case_of_every_subject_runs(name, tmp_path, monkeypatch):
    """Its contestants do equal work, which they assert themselves, and the record holds every pass."""
    monkeypatch.setattr(turns, "SAMPLE_S", 0.0)
    monkeypatch.setattr(turns, "PAUSE_S", 0.0)
    if name == "slow_link" and not permitted():
        pytest.skip("network namespaces need root, and `ip netns`")
    subject = core.case.load(name)
    case = next(iter(subject.cases(True)))
    (scratch := tmp_path / "scratch").mkdir()
    result = Result.begin(name, 1, subject.packages)
    result.add(case, measure(name, case, Setting(1, 1, scratch)))
    result.save(tmp_path / "result.json")
    entries = Result.load(tmp_path / "result.json").entries
    assert entries and all(entry.case == case.name and entry.figures["seconds"] for entry in entries)


@pytest.mark.parametrize("name", listing.names())
def test_cases_of_a_subject_have_names_of_their_own(name):
    subject = core.case.load(name)
    for device in ("cpu", *(["cuda"] if subject.cuda else [])):
        for quick in (False, True):
            named = [case.name for case in subject.cases_on(device, quick)]
            assert named and len(set(named)) == len(named)


def test_contestants_take_turns():
    """A pass goes through all of them; one with fewer passes leaves out the last."""
    calls: list[str] = []
    contestants = {who: lambda who=who: calls.append(who) or len(calls) for who in "abc"}
    assert turns.in_turns(contestants, 2) == {"a": [1, 4], "b": [2, 5], "c": [3, 6]}
    assert turns.in_turns(contestants, {"a": 2, "b": 1, "c": 2}) == {"a": [7, 10], "b": [8], "c": [9, 11]}
    assert "".join(calls) == "abcabcabcac"


def test_a_sample_is_a_loop_after_warming_up(monkeypatch):
    """Two calls to warm up, one before the clock starts, and as many in the clock as fill a sample."""
    now, calls = [0.0], []

    def call() -> None:
        calls.append(now[0])
        now[0] += 0.004

    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(turns.time, "sleep", lambda _: None)
    assert turns.time_calls({"one": call}, 3, threads=2) == {"one": pytest.approx([0.004] * 3)}
    assert len(calls) == 2 + 3 * (1 + 2)


CASE = Case({"graph": "small", "width": 16}, lambda setting: {})


@pytest.mark.parametrize(
    ("words", "matches"),
    [
        *(([], True), (["graph=small"], True), (["graph=large"], False), (["width=8,16", "small"], True)),
        *((["width=8"], False), (["smal", "width"], True), (["absent=1"], False), (["graph"], True)),
    ],
)
def test_words_choose_cases(words, matches):
    assert CASE.matches(words) == matches


def recorded(first: list[float], second: list[float], subject: str = "made") -> Result:
    """A result of two contestants."""
    result = Result(subject, {"device": "one"}, {"id": "abc"}, made="today")
    result.add(CASE, {"ours": [{"seconds": one, "edges": 10 * one} for one in first], **seconds({"theirs": second})})
    return result


def test_a_table_has_median_range_and_ratios_of_passes():
    ours, theirs = table.rows(recorded([1.0, 3.0, 2.0], [2.0, 3.0, 8.0]).entries)
    assert ours == "| graph=small width=16 | ours | 2 s | 1 s | 3 s | 1 | edges 20 (10 to 30) |"
    assert theirs == "| graph=small width=16 | theirs | 3 s | 2 s | 8 s | 2 (1 to 4) |  |"
    assert [table.duration(value) for value in (1.5, 0.0123, 4e-6, 2e-9)] == ["1.5 s", "12.3 ms", "4 µs", "0.002 µs"]
    assert table.spread([float("nan")]) == table.spread([None]) == "–"


def test_a_result_is_read_as_it_was_written(tmp_path):
    result = recorded([1.0, 3.0], [2.0, float("nan")])
    result.entries[1] = recorded([1.0], [2.0]).entries[1]
    result.save(path := tmp_path / "made.json")
    assert Result.load(path) == result and not list(tmp_path.glob("*.part"))


def test_pytest_benchmark_reads_a_result(tmp_path, monkeypatch, capfd):
    recorded([1.0, 3.0], [2.0, 5.0]).save(path := tmp_path / "made.json")
    monkeypatch.setattr(sys, "argv", ["pytest-benchmark", "compare", str(path)])
    pytest_benchmark()
    printed = capfd.readouterr().out
    assert "benchmark 'graph=small width=16': 2 tests" in printed and "graph=small width=16, theirs" in printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "{}",
        json.dumps({KEY: {"version": VERSION}}),
        json.dumps({KEY: {"version": VERSION, "subject": "a"}, "benchmarks": [{}]}),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, text):
    (path := tmp_path / "made.json").write_text(text)
    with pytest.raises(UserError, match=r"made\.json: no result of a benchmark .*measure again"):
        Result.load(path)
    with pytest.raises(UserError, match="absent"):
        Result.load(tmp_path / "absent.json")


def test_a_result_of_another_version_or_without_passes_is_refused(tmp_path):
    recorded([1.0], [2.0]).save(path := tmp_path / "made.json")
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, KEY: {**data[KEY], "version": VERSION + 1}}))
    with pytest.raises(UserError, match=rf"a result of version {VERSION + 1}, this is version {VERSION}"):
        Result.load(path)
    data["benchmarks"][0]["extra_info"]["figures"]["seconds"] = []
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match="an entry without seconds"):
        Result.load(path)


def test_a_case_without_seconds_is_no_result(tmp_path):
    for passes in ({}, {"ours": []}, {"ours": [{"bytes": 1.0}]}):
        with pytest.raises(ValueError, match="every contestant needs a pass with seconds"):
            measure("made", Case({"a": 1}, lambda setting, passes=passes: passes), Setting(1, 1, tmp_path))


def test_a_comparison_tells_differences_from_scatter():
    before, after = recorded([1.0, 1.2, 1.1], [5.0, 6.0, 7.0]), recorded([0.5, 0.6, 0.55], [5.5, 6.5, 7.5])
    after.environment = {"device": "another"}
    first, *_, ours, theirs = compare.compare(before, after)
    assert first == "device: one, then another"
    assert ours == "| graph=small width=16 | ours | 1.1 s | 550 ms | 0.5 | faster |"
    assert theirs.endswith("| 1.083 (1.071 to 1.1) | no difference |")
    assert compare.verdict(after.entries[0], before.entries[0]) == "slower"


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(UserError, match="different subjects"):
        list(compare.compare(recorded([1.0], [1.0]), recorded([1.0], [1.0], "other")))
    with pytest.raises(UserError, match="no case in common"):
        list(compare.compare(recorded([1.0], [1.0]), Result("made", {}, {})))


def test_commits_take_turns_and_their_passes_are_joined(monkeypatch):
    """The first of a turn is the last of the one before."""
    measured: list[str] = []

    def once(tree: Path, words: list[str]) -> Result:
        measured.append(tree.name)
        return recorded([float(len(measured))], [1.0])

    monkeypatch.setattr(revisions, "_once", once)
    first, second = revisions.measure([Path("a"), Path("b")], ["made"], 3)
    assert "".join(measured) == "abbaab"
    assert (first.entries[0].figures["seconds"], second.entries[0].figures["seconds"]) == ([1.0, 4.0, 5.0], [2.0, 3.0, 6.0])


def test_a_word_that_is_no_commit_is_refused():
    with pytest.raises(UserError, match="'no-such-thing' is neither a result nor a commit"):
        revisions.build("no-such-thing")


@pytest.fixture
def command(monkeypatch):
    """The command line, in this process, with a subject of two cases."""
    spec = importlib.util.spec_from_file_location("benchmarks_main", BENCHMARKS / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cases = [Case({"width": width}, lambda setting: seconds({"ours": [1.0] * setting.repeats})) for width in (8, 16)]
    monkeypatch.setattr(core.case, "load", lambda name: Subject(lambda quick: cases, 4))
    return module.main


def test_the_command_measures_what_matches(command, tmp_path, capsys):
    out = tmp_path / "made.json"
    assert command(["made", "width=16", "--repeats", "2", "--out", str(out)]) == 0
    (entry,) = Result.load(out).entries
    assert entry.case == "width=16" and entry.figures == {"seconds": [1.0, 1.0]}
    assert command(["compare", str(out), str(out)]) == 0
    assert "| width=16 | ours | 1 s | 1 s | 1 | no difference |" in capsys.readouterr().out


def test_a_result_is_kept_where_it_is_asked_for_alone(command, tmp_path, monkeypatch):
    monkeypatch.setattr(core.command, "RESULTS", tmp_path)
    assert command(["made"]) == 0 and not list(tmp_path.iterdir())
    assert command(["made", "--save"]) == 0
    assert Result.load(tmp_path / "made-cpu.json").subject == "made"


def test_a_case_that_fails_costs_no_other(command, tmp_path, monkeypatch, capsys):
    def fails(setting: Setting) -> None:
        raise AssertionError("results differ")

    cases = [Case({"width": 8}, fails), Case({"width": 16}, lambda setting: seconds({"ours": [1.0]}))]
    monkeypatch.setattr(core.case, "load", lambda name: Subject(lambda quick: cases, 4))
    assert command(["made", "--out", str(tmp_path / "made.json")]) == 1
    assert [entry.case for entry in Result.load(tmp_path / "made.json").entries] == ["width=16"]
    assert capsys.readouterr().err.endswith("benchmarks: 1 of 2 cases failed: width=8\n")


def test_the_command_says_what_is_wrong_in_one_line(command, capsys):
    for words, message in (
        (["made", "width=32"], "no case of 'made' matches 'width=32'; there are: width=8; width=16"),
        (["made", "--device", "cuda"], "this subject has no cases for a GPU"),
        (["compare", "a"], "compare takes two results, or two commits and a subject"),
        (["compare", "a", "b"], "'a' and 'b' are not two files; of two commits a subject has to be named, too"),
    ):
        assert command(words) == 2
        assert capsys.readouterr().err == f"benchmarks: {message}\n"


def test_an_unknown_subject_is_refused():
    with pytest.raises(UserError, match="unknown subject 'agregate'; did you mean 'aggregate'"):
        core.case.load("agregate")


def test_the_list_says_what_every_subject_says_of_itself(command, capsys):
    assert command(["list"]) == 0
    for line, name in zip(capsys.readouterr().out.splitlines(), listing.names(), strict=True):
        module = importlib.import_module(f"subjects.{name}")
        device = ["cuda"] if module.SUBJECT.cuda else []
        assert line.split(maxsplit=1 + len(device)) == [name, *device, module.__doc__.splitlines()[0]]


def test_the_list_imports_no_subject():
    """Nor torch, in a process of its own, so that it is there at once."""
    code = "import runpy, sys; sys.argv = ['benchmarks', 'list']; import contextlib\n"
    code += f"with contextlib.suppress(SystemExit): runpy.run_path({str(BENCHMARKS)!r}, run_name='__main__')\n"
    code += "print([name for name in sys.modules if name == 'torch' or name.startswith(('subjects', 'chronoscale'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *lines, imported = done.stdout.splitlines()
    assert len(lines) == len(listing.names()) and imported == "[]"


@pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")
def test_rivals_are_compared_on_somebodys_experiments(tmp_path, monkeypatch):
    hours = [f"2019-01-{1 + at // 24:02d} {at % 24:02d}:00,{at % 24},{(7 * at) % 24}" for at in range(700) if at not in (90, 91)]
    (tmp_path / "air.csv").write_text("\n".join(["time,a,b", *hours[:600]]) + "\n")
    (tmp_path / "air.yaml").write_text(
        f"dataset: {{path: {tmp_path}/air.csv}}\nmodel: {{name: stid}}\ntraining: {{window: 6, horizon: 3}}\n"
    )
    events = "".join(f"{(at * at) % 7} {7 + (3 * at) % 5} {1_546_300_800 + 60 * at}\n" for at in range(300))
    (tmp_path / "calls.txt").write_text(events)
    (tmp_path / "calls.yaml").write_text(f"dataset: {{path: {tmp_path}/calls.txt}}\nmodel: {{name: tgn}}\ntraining: {{batch_size: 50}}\n")
    monkeypatch.setenv("CHRONOSCALE_RIVALS", f"{tmp_path / 'air.yaml'}:{tmp_path / 'calls.yaml'}")
    readings, links = importlib.import_module("subjects.rivals").SUBJECT.cases(False)
    assert (readings.name, links.name) == ("set=air predicted=readings", "set=calls predicted=links")
    scores = readings.measure(Setting(1, 1, tmp_path))["plain"][0]
    assert scores["value 24 steps before"] < 0.1 < scores["last value"]  # a period that the readings have
    assert links.measure(Setting(1, 1, tmp_path))["plain"][0]["popularity of late"] > 0
