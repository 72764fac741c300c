"""docs/extending.md: its snippets, run as they stand, in one folder, from the first to the last."""

import re
import tomllib
from pathlib import Path

import pytest
from command_line import command
from one_rank import inline_ranks

from chronoscale.datasets.formats.registry import FORMATS
from chronoscale.strategies.registry import GROUP
from chronoscale.strategies.snapshots.models import MODELS

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


SECTION = "## A model on event streams\n"


def run_snippets(page: str, left_out: tuple[str, ...], names: dict[str, object]) -> None:
    """Write, execute or call every snippet of a page, but for commands with a word of `left_out`."""
    for language, text in BLOCK.findall(page):
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
                if not {*words} & {*left_out}:
                    command(*words[1:])
        else:
            assert language == "toml" and list(tomllib.loads(text)["project"]["entry-points"]) == [GROUP]


def page_and_section() -> tuple[str, str]:
    """The page without its section on event streams, and that section."""
    page = (ROOT / "docs" / "extending.md").read_text()
    begin = page.index(SECTION)
    end = page.index("\n## ", begin)
    return page[:begin] + page[end:], page[begin:end]


# What is executed and reported takes most of the time, and other tests do so, too.
@pytest.mark.parametrize("left_out", [pytest.param((), id="all", marks=pytest.mark.slow), pytest.param(("validate", "report"), id="fast")])
def test_every_snippet_runs(tmp_path, monkeypatch, left_out):
    monkeypatch.chdir(tmp_path)
    for table, key in ((FORMATS, "layers"), (MODELS, "gat-gru")):  # what lab.py adds goes with the test
        monkeypatch.setitem(table, key, None)
        monkeypatch.delitem(table, key)
    run_snippets(page_and_section()[0], left_out, {})
    runs = {"outside-simulate-1", "outside-validate-1", "lab-bench-1", "lab-simulate-1"}
    assert {path.name for path in Path("runs").iterdir()} == {run for run in runs if run.split("-")[1] not in left_out}
    if not left_out:
        page = Path("report/index.html").read_text()
        assert "longest-first" in page and "psg" in page


# One rank in this process: what two do is in tests/harness/test_own_models.py, too.
@pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")
@pytest.mark.parametrize("left_out", [pytest.param((), id="all", marks=pytest.mark.slow), pytest.param(("--ranks",), id="fast")])
def test_every_snippet_on_event_streams_runs(tmp_path, monkeypatch, left_out):
    monkeypatch.chdir(tmp_path)
    if left_out:
        inline_ranks(monkeypatch)
    run_snippets(page_and_section()[1], left_out, {})
    runs = ["visits-compare-1", "visits-train-1", "visits-train-2"]
    assert sorted(path.name for path in Path("runs").iterdir()) == runs[: len(runs) - bool(left_out)]
    assert len(Path("fading.py").read_text().splitlines()) <= 50


def test_the_example_is_the_one_that_the_page_walks_through():
    page = (ROOT / "docs" / "extending.md").read_text()
    example = (ROOT / "examples" / "strategy.py").read_text()
    assert example in page and len(example.splitlines()) < 40
    assert "\n".join((ROOT / "examples" / "outside.yaml").read_text().splitlines()[1:]) in page
