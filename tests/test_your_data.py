"""docs/your-data.md: its commands, run as they stand on files that begin as it shows them, print what it shows."""

from __future__ import annotations

import csv
import math
import random
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from command_line import command
from one_rank import inline_ranks

PAGE = (Path(__file__).parents[1] / "docs" / "your-data.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def calls() -> list[list[object]]:
    draw, people = random.Random(4), ["ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal"]
    times = [datetime(2019, 1, 1) + timedelta(minutes=150 * at) for at in range(400)]
    return [[*draw.sample(people, 2), time.isoformat(), draw.randrange(5, 120)] for time in times]


def air() -> list[list[object]]:
    draw, rows = random.Random(4), list[list[object]]()
    for hour in range(240):
        for station in ("north", "south", "east"):
            value = round(50 + 20 * math.sin(hour * math.pi / 12) + draw.random(), 1)
            rows += [[f"{datetime(2019, 1, 1) + timedelta(hours=hour):%Y-%m-%d %H:%M}", station, value]] if not 100 <= hour < 103 else []
    return rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that the page shows the beginning of."""
    monkeypatch.chdir(tmp_path)
    shown = [text for language, text in BLOCK.findall(PAGE) if language == "csv"]
    for name, text, rows in zip(("calls.csv", "air.csv", "ratings.csv"), shown, (calls(), air(), []), strict=True):
        header = text.splitlines()[:1] if rows else text.splitlines()
        with Path(name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([*(line.split(",") for line in header), *rows])
        assert Path(name).read_text().startswith(text), Path(name).read_text()[: len(text)]
    return tmp_path


@pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")
def test_the_page_is_what_its_commands_print(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    inline_ranks(monkeypatch)
    for language, text in BLOCK.findall(PAGE):
        if file := re.match(r"# (\S+\.yaml)\n", text):
            Path(file[1]).write_text(text)
        elif language == "console":
            for line in text.splitlines():
                command(*line.split()[1:])
        elif text.startswith("$ "):
            capsys.readouterr()
            line, _, printed = text.partition("\n")
            command(*line.split()[2:])
            assert capsys.readouterr().out == printed
    assert {path.name for path in (folder / "runs").iterdir()} == {"calls-train-1", "air-train-1"}
