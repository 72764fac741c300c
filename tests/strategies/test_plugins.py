"""Strategies from files and installed packages: taken when they are whole, refused in one line that says what is missing."""

import re
from importlib import metadata
from pathlib import Path

import pytest

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.strategies import registry
from chronoscale.strategies.plugins import anchor_file

HEAD = """
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import GroupStrategy
"""
WHOLE = """
class Mine(GroupStrategy):
    name, title, source, reuse = "mine", "Mine", "here", Reuse()

    def place(self, workload, ranks, costs):
        return deal(workload.groups, ranks)
"""


def written(folder: Path, text: str, head: str = HEAD) -> Path:
    path = folder / "lab.py"
    path.write_text(head + text)
    return path


def test_a_class_and_an_instance_are_taken(tmp_path):
    file = written(tmp_path, WHOLE + "\nready = Mine()\n")
    assert registry.strategy(f"{file}:Mine").name == registry.strategy(f"{file}:ready").name == "mine"
    assert registry.executable(f"{file}:Mine").kind == "groups"


def test_a_file_is_run_once_a_process(tmp_path):
    file = written(tmp_path, WHOLE + f"\nopen({str(tmp_path / 'ran')!r}, 'a').write('x')\n")
    for _ in range(3):
        registry.strategy(f"{file}:Mine")
    assert (tmp_path / "ran").read_text() == "x"


def test_the_former_name_of_incremental_planning_is_read_and_told(tmp_path):
    file = written(tmp_path, WHOLE.replace("reuse =", "reuse, streams =").replace("Reuse()", "Reuse(), True"))
    with pytest.warns(ChronoscaleWarning, match="`streams` has become `plans_incrementally`; write that"):
        planner = registry.strategy(f"{file}:Mine")
    assert planner.plans_incrementally


def test_relative_files_are_anchored():
    assert anchor_file("lab.py:Mine", Path("/here")) == "/here/lab.py:Mine"
    assert anchor_file("/there/lab.py:Mine", Path("/here")) == "/there/lab.py:Mine"
    assert anchor_file("psg", Path("/here")) == "psg"


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "Mine", "no 'Mine' in it; strategies there: none"),
        (WHOLE, "Other", "no 'Other' in it; strategies there: Mine"),
        ("import no_such_module", "Mine", "not importable \\(ModuleNotFoundError: No module named 'no_such_module'\\)"),
        ("this is no python", "Mine", "not importable \\(SyntaxError"),
        ("raise SystemExit('bye')", "Mine", "not importable \\(SystemExit: bye\\)"),
        (WHOLE.replace("(GroupStrategy):", "(GroupStrategy):\n    def __init__(self): raise OSError('no')"), "Mine", "OSError: no"),
        (WHOLE.replace(', reuse = "mine", "Mine", "here", Reuse()', ' = "mine", "Mine", "here"'), "Mine", "has no `reuse`"),
        (WHOLE.replace("(GroupStrategy):", "(GroupStrategy):\n    prepares = True"), "Mine", "has no `prepare`"),
        (WHOLE.replace('"mine"', '"index-prepare"', 1), "Mine", "no '-prepare' at its end"),
        ("Mine = 3", "Mine", "not a Strategy but int; derive it from"),
        ("class Mine:\n    pass", "Mine", "not a Strategy but Mine"),
        ("class Mine(GroupStrategy):\n    name = 'mine'", "Mine", "has no `place`"),
        (WHOLE.replace('"mine", "Mine", "here", Reuse()', "None, None, None, Reuse()"), "Mine", "has no `name`, `source`, `title`"),
        (WHOLE.replace("(GroupStrategy):", "(GroupStrategy):\n    def __init__(self, x): pass"), "Mine", "needs no arguments"),
        (WHOLE.replace('"mine"', '"psg"', 1), "Mine", "is called 'psg', and that name is taken"),
        (WHOLE.replace('"mine"', '"my/lab"', 1), "Mine", "becomes that of files"),
        (WHOLE.replace("class Mine(GroupStrategy):", "class Mine(GroupStrategy):\n    solves = True"), "Mine", "install it as a package"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, text, name, said):
    file = written(tmp_path, text)
    with pytest.raises(UserError, match=said) as error:
        registry.strategy(f"{file}:{name}")
    assert str(error.value).startswith(str(file)) and "\n" not in str(error.value)


def test_a_file_that_is_not_there():
    with pytest.raises(UserError, match=re.escape("nowhere.py: no such file")):
        registry.strategy("nowhere.py:Mine")


def entry(name: str, target: str) -> metadata.EntryPoint:
    return metadata.EntryPoint(name, target, registry.GROUP)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Entry points of packages that lie in a folder."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(module: str, text: str, **entries: str) -> None:
        (tmp_path / f"{module}.py").write_text(HEAD + text)
        found = [entry(name, f"{module}:{attribute}") for name, attribute in entries.items()]
        monkeypatch.setattr(registry.metadata, "entry_points", lambda group: found if group == registry.GROUP else [])

    return install


def test_an_installed_strategy_goes_by_its_name(installed):
    installed("lab_one", WHOLE, mine="Mine")
    assert registry.strategy("mine").title == "Mine"
    assert list(registry.installed_strategies())[-1] == "mine"
    with pytest.raises(UserError, match=r"unknown strategy 'mime'; did you mean 'mine'\?"):
        registry.strategy("mime")


@pytest.mark.parametrize(
    ("module", "text", "entries", "said"),
    [
        ("lab_two", "raise OSError('no licence')", {"mine": "Mine"}, "not importable \\(OSError: no licence\\)"),
        ("lab_three", "", {"mine": "Mine"}, "not importable \\(AttributeError"),
        ("lab_four", WHOLE, {"other": "Mine"}, "its name is 'mine', not the entry point's"),
    ],
)
def test_a_broken_one_is_left_out_of_lists_and_refused_by_name(installed, module, text, entries, said):
    installed(module, text, **entries)
    with pytest.warns(ChronoscaleWarning, match=f"left out: .*{said}"):
        assert set(registry.installed_strategies()) == set(registry.STRATEGIES)
    with pytest.raises(UserError, match=said):
        registry.strategy(next(iter(entries)))


def test_ours_keep_their_names(installed):
    installed("lab_five", WHOLE.replace('"mine"', '"psg"', 1), psg="Mine")
    assert registry.strategy("psg").title == "PSG"
    with pytest.warns(ChronoscaleWarning, match="the name is taken"):
        assert registry.installed_strategies()["psg"].title == "PSG"
