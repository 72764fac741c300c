"""The README: its experiment runs as it stands, in a fresh checkout."""

import json
import re
from pathlib import Path

import pytest
from command_line import command

from chronoscale.datasets import catalogue

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.slow
def test_the_experiment_of_the_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    name = block.splitlines()[0].removeprefix("# ")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(catalogue.DATA_VARIABLE, str(tmp_path / "none"))
    Path(name).write_text(block)
    command("simulate", name, "--json")
    said = capsys.readouterr()
    rows = json.loads(said.out)
    assert len({row["strategy"] for row in rows}) == 4 and {row["ranks"] for row in rows} == {1, 2, 4, 8}
    assert {row["idle_ranks"] for row in rows} == {0} and "warning" not in said.err
    assert f"runs/{Path(name).stem}-simulate-1" in said.err and f"runs/{Path(name).stem}-" in README


@pytest.mark.parametrize("commanded", re.findall(r"`chronoscale \w+ (\S+\.yaml)`", README))
def test_the_commands_of_the_readme_name_its_file(commanded):
    assert f"# {commanded}\n" in README or (Path(__file__).parents[1] / commanded).exists()
