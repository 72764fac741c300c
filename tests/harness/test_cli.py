"""The command line itself: what is listed at once, what is imported when, and that every command of the table is there."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import forked
import pytest
from command_line import command, one_line

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.cli import demo
from chronoscale.harness.cli.commands import Commands, DataCommands, JobCommands, LaunchCommands
from chronoscale.harness.keys import reference
from chronoscale.harness.keys.families import FAMILIES

HEAVY = {"torch", "pandas", "scipy", "sklearn", "matplotlib", "gurobipy", "highspy", "simpy", "dgl", "distributed", "h5py"}


def imported_by(code: str) -> set[str]:
    """Top-level modules that a fresh process has after `code`."""
    ask = f"import json, sys; {code}; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    return set(json.loads(subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout))


@pytest.mark.sample(1)
@pytest.mark.parametrize("module", ["main", "strategies", "data_list"])
def test_what_is_listed_at_once_imports_nothing_heavy(module):
    modules = imported_by(f"import chronoscale.harness.cli.{module}")
    assert not modules & HEAVY, modules & HEAVY


@pytest.mark.parametrize(
    ("table", "before"), [(Commands, ()), (DataCommands, ("data",)), (JobCommands, ("job",)), (LaunchCommands, ("launch",))]
)
def test_every_command_of_the_table_is_there_and_helps(table, before, capsys):
    command(*before, "--help")
    listed = capsys.readouterr().out
    for name in table.entries:
        assert name in listed
        command(*before, name, "--help")
        assert "Usage" in capsys.readouterr().out


def test_the_table_says_what_the_commands_say():
    """A command's line in the list begins as its own help does."""
    for table in (Commands, DataCommands, JobCommands, LaunchCommands):
        for name, entry in table.entries.items():
            own = " ".join((entry.command(name).help or "").split())
            first = entry.help.rstrip(".").split(",")[0].split(".")[0]
            assert own.startswith(first[:24]), (name, own, entry.help)


def test_an_unknown_command_names_the_nearest(capsys):
    command("simulat", expect=2)
    assert "simulate" in capsys.readouterr().err
    command("data", "lst", expect=2)
    assert "list" in capsys.readouterr().err


@pytest.mark.slow
def test_version_module_and_completion(capsys):
    command("--version")
    output = capsys.readouterr().out
    assert output.startswith("chronoscale 0.")
    run = forked.run(["-m", "chronoscale", "--version"])
    assert run.stdout == output and run.returncode == 0
    command("--help")
    assert "--install-completion" in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "completions"), [("st", "strategies"), ("data l", "list")])
def test_completion_knows_the_commands(typed, completions, monkeypatch, capsys):
    words = typed.split()
    monkeypatch.setenv("_CHRONOSCALE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"chronoscale {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    command()
    assert completions in capsys.readouterr().out.split()


@pytest.mark.parametrize("words", [("data", "list"), ("strategies",), ("keys",)])
def test_lists_fit_80_columns(words):
    run = forked.run(["-m", "chronoscale", *words])
    assert run.returncode == 0 and max(map(len, run.stdout.splitlines())) <= 80
    assert words[-1] != "list" or "flaredtdg 2" in run.stdout


def test_a_dataset_that_is_listed_is_whole_in_json(capsys):
    command("data", "list", "--json")
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["arxiv"]["papers"] == "real table 3" and rows["arxiv"]["source"]
    assert {row["family"] for row in rows.values()} == {"snapshots", "signals", "streams"}
    command("strategies", "--json")
    assert {row["family"] for row in json.loads(capsys.readouterr().out)} == set(FAMILIES)


def test_keys(capsys):
    command("keys", "training.window", "--json")
    assert json.loads(capsys.readouterr().out) == [
        {"key": "training.window", "type": "integer", "default": 12, "family": "signals", "meaning": "steps read"}
    ]
    command("keys", "dataset.cut", "--json")
    assert {row["key"] for row in json.loads(capsys.readouterr().out)} >= {"dataset.cut.width", "dataset.cut.count"}
    both = {row.family: row.default for row in reference.keys("training.horizon")}
    assert both == {"snapshots": "1", "signals": "12"}
    assert {row.family: row.default for row in reference.keys("cluster")} == {"snapshots, streams": "h200", "signals": "polaris"}
    command("keys", "training.widow", expect=2)
    assert "did you mean 'training.window'?" in one_line(capsys)


def test_the_document_of_keys_is_the_code():
    page = Path(__file__).parents[2] / "docs" / "experiments.md"
    assert page.read_text() == reference.document()


def test_the_demo_gathers_what_is_doubtful_into_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with demo.collected_warnings() as doubts:
        for text in ("profile: fits vary", "profile: fits vary", "on 2 ranks: not to be believed: passes vary by 30%"):
            warnings.warn(text, ChronoscaleWarning, stacklevel=2)
    assert doubts == ["profile: fits vary", "on 2 ranks: not to be believed: passes vary by 30%"]
    assert demo.doubts_sentence(doubts, Path("e.yaml")) == (
        "Take these times with care: on 2 ranks: passes vary by 30%; and 1 warning about single cost curves, which "
        "`chronoscale profile e.yaml` prints."
    )
    assert demo.doubts_sentence([], Path("e.yaml")) == "Nothing was noticed that speaks against these numbers."
    assert capsys.readouterr().err == ""
    with pytest.raises(UserError), demo.collected_warnings():
        warnings.warn("few cores", ChronoscaleWarning, stacklevel=2)
        raise UserError("full")
    assert "warning: few cores" in capsys.readouterr().err  # what is known is not lost with the error
