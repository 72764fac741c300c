"""docs/extending.md: its snippets, run as they stand, in one folder, from the first to the last."""

import re
import tomllib
from pathlib import Path

import pytest
from command_line import command

from chronoscale.datasets.formats.registry import FORMATS
from chronoscale.strategies.registry import GROUP
from chronoscale.strategies.snapshots.models import MODELS

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# What is executed and reported takes most of the time, and other tests do so, too.
@pytest.mark.parametrize("left_out", [pytest.param((), id="all", marks=pytest.mark.slow), pytest.param(("validate", "report"), id="fast")])
def test_every_snippet_runs(tmp_path, monkeypatch, left_out):
    monkeypatch.chdir(tmp_path)
    for table, key in ((FORMATS, "layers"), (MODELS, "gat-gru")):  # what lab.py adds goes with the test
        monkeypatch.setitem(table, key, None)
        monkeypatch.delitem(table, key)
    names: dict[str, object] = {}
    for language, text in BLOCK.findall((ROOT / "docs" / "extending.md").read_text()):
        if left_out:
            text = text.replace("repeats: 3", "repeats: 1").replace("groups: 12", "groups: 6").replace("gpus: [1, 4, 16]", "gpus: [1, 4]")
        file = re.match(r"# (\S+\.(?:py|yaml))\n", text)
        if file is not None:  # a file, or more of one
            path = Path(file[1])
            path.write_text((path.read_text() if path.exists() else "") + text[file.end() :])
        elif language == "python":
            exec(compile(text, "docs/extending.md", "exec"), names)
        elif language == "console":
            for words in map(str.split, text.splitlines()):
                if words[1] not in left_out:
                    command(*words[1:])
        else:
            assert language == "toml" and list(tomllib.loads(text)["project"]["entry-points"]) == [GROUP]
    runs = {"outside-simulate-1", "outside-validate-1", "lab-bench-1", "lab-simulate-1"}
    assert {path.name for path in Path("runs").iterdir()} == {run for run in runs if run.split("-")[1] not in left_out}
    if not left_out:
        page = Path("report/index.html").read_text()
        assert "longest-first" in page and "psg" in page


def test_the_example_is_the_one_that_the_page_walks_through():
    page = (ROOT / "docs" / "extending.md").read_text()
    example = (ROOT / "examples" / "strategy.py").read_text()
    assert example in page and len(example.splitlines()) < 40
    assert "\n".join((ROOT / "examples" / "outside.yaml").read_text().splitlines()[1:]) in page
