"""Scorecard as an HTML page: it stands alone, everything is escaped, its dots and rows are those of the results."""

import json
import math
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from command_line import command, one_line
from hypothesis import given
from hypothesis import strategies as st
from page_reader import Reader

from chronoscale.harness.study.findings import Findings, beside
from chronoscale.harness.study.results import store
from chronoscale.reports.charts.strips import HALF, HEIGHT, MIDDLE, Dot, strip
from chronoscale.reports.published import Claim, Evidence, published

ROOT = Path(__file__).parents[2]
MEAN = '</style><script>alert(1)</script> & "it\'s"'  # in text, in attributes and in a style


@pytest.fixture(scope="module")
def whole() -> str:
    return (ROOT / "docs/scorecard.html").read_text()


def stored_rows() -> list[dict]:
    """Rows of all results that have a printed number, which assume nothing otherwise and were not solved from it."""
    papers = ("real", "pgt-i", "fast", "flaredtdg", "memshare")
    files = [path for paper in papers for path in (ROOT / "results" / paper).glob("*.json")]
    rows = [row for path in files for row in json.loads(path.read_text())["rows"]]
    left = [row for row in rows if not row.get("aside") and not str(row.get("why")).startswith("solved from the printed numbers")]
    return [row for row in left if row.get("ratio") is not None]


def colour(row: dict) -> str:
    """The verdict of a comparison, by the printed number that its ratio is of; within 5 % of 1 there is no side."""
    kinds = [end for end in ("", "_mean", "_low", "_high") if row.get(f"published{end}")]
    several = ["_low", "_high"] if kinds == ["_low", "_high"] else kinds[:1]  # a number, a mean, both ends or the only one
    published, ours = (math.prod(row[whose + end] or 0 for end in several) for whose in ("published", "ours"))
    pair = tuple(max(value, 0) ** (1 / len(several)) for value in (published, ours)) if several else (0, 0)
    times = any(words in row["what"] for words in (" over ", "speed-up", "speedup"))
    if not times or row["what"].endswith(", share") or min(pair) <= 0:
        return "other"
    logs = [0 if abs(math.log(value)) <= math.log(1.05) else math.log(value) for value in pair]
    if logs[0] * logs[1] < 0:
        return "reversed"
    if 1 / 1.25 <= row["ratio"] <= 1.25 and bool(logs[0]) == bool(logs[1]):
        return "holds"
    return "smaller" if abs(logs[1]) < abs(logs[0]) else "larger"


def test_the_page_stands_alone_and_is_small(whole: str) -> None:
    reader = Reader(whole)
    assert reader.fetched == [] and reader.scripts == 0 and "url(" not in whole and "@import" not in whole
    assert len(whole.encode()) < 600_000
    assert "prefers-color-scheme: dark" in whole and "@media print" in whole and 'name="viewport"' in whole
    style = whole[whole.index("<style>") : whole.index("</style>")]
    assert set(re.findall(r"var\((--[\w-]+)\)", style)) <= set(re.findall(r"(--[\w-]+):", style))
    dark = "".join(re.findall(r"prefers-color-scheme: dark\) \{(.*?)\n\}", style, re.DOTALL))
    assert {"--page", "--ink", "--holds", "--smaller", "--larger", "--reversed", "--other"} <= set(re.findall(r"(--[\w-]+):", dark))


def test_a_dot_a_row_and_every_printed_row(whole: str) -> None:
    rows, text = stored_rows(), Reader(whole).text
    assert whole.count("<circle ") == sum(row["ratio"] > 0 for row in rows)
    assert f"Not drawn, as 0 or of another sign: {sum(row['ratio'] <= 0 for row in rows)}." in text
    assert [row["what"] for row in rows if row["what"] not in text] == []
    assert Counter(re.findall(r'class="dot (\w+)"', whole)) == Counter(colour(row) for row in rows if row["ratio"] > 0)


def test_what_is_said_is_what_markdown_says(whole: str) -> None:
    text = Reader(whole).text
    page = (ROOT / "docs/scorecard.md").read_text()
    sentences = [line for line in page.splitlines() if line.startswith("- ")]
    assert len(sentences) == 5
    for line in sentences:
        _, first = line.split(": ", 1)
        claims, rows = first.split(". Of ")
        assert claims[1:] in text and f"Of {rows}" in text
    rules = page[page.index("## By which rule?") : page.index("\n## REAL")].replace("**", "").replace("`", "").split("\n\n")[1:]
    assert all(" ".join(rule.split()) in " ".join(text.split()) for rule in rules)


@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.sampled_from(["holds", "other"])), min_size=1, max_size=120))
def test_dots_stand_where_their_ratio_is(ratios: list[tuple[float, str]]) -> None:
    svg = strip([Dot(ratio, kind, f"{ratio}") for ratio, kind in ratios], MEAN, 1.25)
    reader = Reader(svg)
    assert reader.scripts == 0
    circles = re.findall(r'class="dot (\w+)" cx="([\d.]+)%" cy="([\d.]+)" r="[\d.]+"><title>([\d.e+-]+)</title>', svg)
    assert Counter((kind, ratio) for kind, _, _, ratio in circles) == Counter((kind, f"{ratio}") for ratio, kind in ratios)
    for _, x, y, ratio in circles:
        exponent = max(min(math.log2(float(ratio)) / 5, 1), -1)  # 1 at 32 times
        assert float(x) == pytest.approx(50 + 48.5 * exponent, abs=0.051)
        assert MIDDLE - HALF - 0.1 <= float(y) <= MIDDLE + HALF + 0.1 < HEIGHT
    assert len({(x, y) for _, x, y, _ in circles}) == len(circles)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A result and a claim, all of whose words are markup."""
    monkeypatch.chdir(tmp_path)
    claim = Claim(claim=MEAN, sentence=MEAN, place="abstract", high=2, ours=(Evidence(study="figure-8", rows=f"{MEAN} over b"),), note=MEAN)
    dull = Claim(claim=MEAN, sentence=MEAN, place="abstract", not_testable=MEAN)
    real = published("real").model_copy(update={"name": MEAN, "claims": (claim, dull)})
    for module in ("claims", "claim_section", "scorecard_page", "scorecard_html"):
        monkeypatch.setattr(f"chronoscale.harness.reproduce.{module}.published", lambda _: real)
    rows = [beside(f"{MEAN} over b", 2.0, 0.5, MEAN), beside(MEAN, 2.0, 0.0, MEAN), beside("not printed", float("nan"), 7.0, "")]
    store("figure-8", "simulated", False, Path("results/real"), lambda: Findings(pd.DataFrame(rows)))


@pytest.mark.parametrize("name", ["card.html", "card.HTM"])
def test_everything_is_escaped(planted, name):
    command("reproduce", "--into", name)
    page = Path(name).read_text()
    reader = Reader(page)
    assert page.startswith("<!DOCTYPE html>") and reader.scripts == 0 and page.count("</style>") == 1
    assert reader.text.count(MEAN) >= 12
    assert "0 reversed" not in page and "1 reversed" in reader.text and "not printed" not in reader.text
    assert re.findall(r'class="dot (\w+)"', page) == ["reversed"] and "another sign: 1." in page


def test_a_papers_page_is_markdown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command("reproduce", "real", "--into", "real.html", expect=2)
    assert "real.html: a paper's page is Markdown, give a .md file" in one_line(capsys)
    assert not Path("real.html").exists()
