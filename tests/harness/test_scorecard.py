"""Scorecards: rows judged by one rule, against plain arithmetic; what a result says changes what is said."""

import json
import re
from itertools import combinations
from math import exp, log
from pathlib import Path

import pandas as pd
import pytest
from command_line import command, one_line
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.scorecard import NEAR, VERDICTS, Score, ScoredRow, scorecards
from chronoscale.harness.reproduce.scorecard_html import html_page
from chronoscale.harness.reproduce.scorecard_page import page
from chronoscale.harness.study.findings import SOLVED, UNKNOWN, Findings, beside, row
from chronoscale.harness.study.results import store
from chronoscale.reports.published import Claim, Evidence, Range, published

ROOT = Path(__file__).parents[2]
STUDY = registry.find("real", "figure", 8)


def scored(what: str, published: float, ours: float, why: str = "") -> ScoredRow:
    return ScoredRow(STUDY, what, published, ours / published, why)


@pytest.mark.parametrize(
    ("published", "ours", "verdict"),
    [
        (2.0, 1.7, "holds"),
        (2.0, 1.5, "smaller"),
        (2.0, 3.0, "larger"),
        (2.0, 1.04, "smaller"),
        (2.0, 0.94, "reversed"),
        (2.0, 0.96, "smaller"),
        (0.5, 0.45, "holds"),
        (0.5, 0.8, "smaller"),
        (0.5, 0.2, "larger"),
        (0.5, 1.2, "reversed"),
        (1.02, 1.0, "holds"),
        (1.02, 1.1, "larger"),
        (1.1, 1.0, "smaller"),
        (1.1, 1.2, "holds"),
    ],
)
def test_a_comparison_has_a_verdict(published: float, ours: float, verdict: str) -> None:
    row = scored("ours over theirs", published, ours)
    assert row.compares and row.verdict == verdict
    assert scored("theirs over ours", 1 / published, 1 / ours).verdict == verdict


def test_a_share_that_is_saved_over_another_says_no_times() -> None:
    assert not scored("time saved over b, share", 0.8, 0.95).compares


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10), st.booleans()), min_size=1, max_size=8))
def test_sums_are_plain_arithmetic(pairs: list[tuple[float, float, bool]]) -> None:
    rows = [scored("a over b" if over else "seconds", published, ours, UNKNOWN if over else "") for published, ours, over in pairs]
    score, folds = Score(rows), [max(ours / published, published / ours) for published, ours, _ in pairs]
    assert score.fold == pytest.approx(exp(sum(map(log, folds)) / len(folds)))
    assert score.near == sum(fold <= NEAR for fold in folds)
    far = [over for fold, (*_, over) in zip(folds, pairs, strict=True) if fold > NEAR]
    assert (score.known("not established"), score.known("conjecture"), score.known("shown")) == (len(far), 0, 0)
    compared = [(published, ours) for published, ours, over in pairs if over]
    assert len(score.comparisons) == len(compared) == sum(len(score.of(verdict)) for verdict in VERDICTS)
    signs = [(a - c) * (b - d) for (a, b), (c, d) in combinations(compared, 2)]
    if len(compared) >= 3 and all(signs):
        assert score.order == pytest.approx(sum(1 if sign > 0 else -1 for sign in signs) / len(signs))
    assert len(compared) >= 3 or score.order != score.order


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Two results of REAL's, of which one row is solved from the printed number, and a claim that they answer."""
    monkeypatch.chdir(tmp_path)
    claim = Claim(claim="a over b", sentence="…", place="abstract", high=2, ours=(Evidence(study="figure-8", rows="a over b"),))
    real = published("real").model_copy(update={"claims": (claim,)})
    monkeypatch.setattr("chronoscale.harness.reproduce.claims.published", lambda _: real)
    rows = [beside("a over b", 2.0, 0.5, "because"), beside("c over b", 4.0, 3.9, ""), beside("c over a", 3.0, 4.5, UNKNOWN)]
    rows += [beside("seconds", 8.0, 1.0, ""), beside("solved", 1.0, 1.0, SOLVED), beside("open", float("nan"), 1.0, "")]
    store("figure-8", "simulated", False, Path("results/real"), lambda: Findings(pd.DataFrame(rows)))
    store("table-3", "counted", False, Path("results/real"), lambda: Findings(pd.DataFrame([beside("nodes", 8.0, 8.0, "")])))
    return Path("results/real/figure-8.json")


def test_ranges_and_speed_ups_are_compared(results):
    """Of a range without a mean both ends are: one that lies on the other side of 1 is reversed, though its highest is near 1."""
    ranges = [row("a over b", Range(strategy="a", over="b", low=1.4, high=5.2), [0.63, 0.8, 0.98], "")]
    ranges += [row("a over c", Range(strategy="a", over="c", low=1.4, high=5.2), [1.4, 9.0, 5.2], "")]
    ranges += [
        row(f"{what}", Range(strategy="a", over="b", mean=1.2), [1.0], "") for what in ("a test with a, speed-up", "I/O speedup", "MB")
    ]
    ranges += [row("b over c", Range(strategy="b", over="c", low=0.5, high=2), [0.25, 1.0], "")]
    store("figure-8", "simulated", False, Path("results/real"), lambda: Findings(pd.DataFrame(ranges)))
    ((_, _, score), _) = scorecards(Path("results"))[0].figures
    assert [one.what for one in score.comparisons] == ["a over b", "a over c", "a test with a, speed-up", "I/O speedup", "b over c"]
    assert [one.verdict for one in score.comparisons] == ["reversed", "larger", "smaller", "smaller", "larger"]
    assert score.comparisons[0].published == pytest.approx((1.4 * 5.2) ** 0.5) and score.near == 3
    assert score.comparisons[-1].published == 1, "of both ends, though either has the same ratio"


def test_the_command_says_what_holds(results, capsys):
    command("reproduce", "--into", "card.md")
    out = capsys.readouterr().out
    assert (
        "rely on none of its 1 claim. Of its claims 1 reversed, "
        "most of all a over b, up to (2.00× printed, 0.500× here, simulated); of 3 printed comparisons 1 holds and 1 is reversed.\n"
    ) in out
    page = Path("card.md").read_text()
    assert "| REAL, figure 8 | a over b | 2.00 | 0.500 | conjecture | because |" in page and out.splitlines()[0] in page
    command("reproduce", "--json")
    real, every = json.loads(capsys.readouterr().out)
    assert (real["printed"], real["reversed"], real["holds"], real["larger"], every["paper"]) == (5, 1, 1, 1, "all")
    assert (real["within 1.25"], real["cause shown"], real["conjecture"], real["no cause"]) == (2, 0, 1, 2)
    assert real["order"] == pytest.approx(1 / 3) and every["order"] is None


def test_the_page_says_how_long_it_took(results):
    """All results, also one without a printed number; which is longest, and whose minutes are a part."""
    store("figure-4", "simulated", False, results.parent, lambda: Findings(pd.DataFrame([beside("open", float("nan"), 1.0, "")])))
    for name, changed in (("figure-4", {"minutes": 30.26}), ("figure-8", {"minutes": 2.0}), ("table-3", {"minutes": 1.5, "untimed": 7})):
        path = results.with_name(f"{name}.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    minutes = "Making the 3 results took at least 34 minutes, one after another; the longest, REAL's figure 4, 30.3; 1 took longer than is"
    assert f"\n\n{minutes} counted, having taken up points that an earlier run had not timed.\n\n" in page(scorecards(Path("results")))
    path.write_text(json.dumps({**json.loads(path.read_text()), "untimed": 0}))
    assert "took 34 minutes, one after another; the longest, REAL's figure 4, 30.3.\n\n" in page(scorecards(Path("results")))


def test_a_cause_is_shown_by_runs_alone(results, capsys):
    """The reason that a row gives is a conjecture until a run shows it, and rows that are set aside are none."""
    stored = json.loads(results.read_text())
    causes = [{"what": row["what"], "ratio": row["ratio"], "shown": row["what"] == "a over b", "cause": "x 2", "source": "", "changed": 1.1,
               "harms": 0, "tried": 3} for row in stored["rows"]]  # fmt: skip
    stored["rows"].append({"what": "c over d, other maps", "published": 2.0, "ours": 9.0, "ratio": 4.5, "why": "", "aside": "other maps"})
    results.write_text(json.dumps({**stored, "causes": causes}))
    command("reproduce", "--into", "card.md")
    assert re.search(r"\n REAL .* 1 +0 +2 *\n", capsys.readouterr().out)  # shown, conjecture, none
    told = "shown by a run: x 2: 1.10 times the published | because"
    assert f"| REAL, figure 8 | a over b | 2.00 | 0.500 | shown | {told.replace('|', chr(92) + '|')} |" in Path("card.md").read_text()


def test_the_pages_say_why_causes_are_not_shown(results):
    """One change would do at another row's cost, none does, or none was made."""
    (results.parent / "table-3.json").unlink()
    stored = json.loads(results.read_text())
    untried = (
        "Of the 3 rows beyond 1.25 times without a shown cause, 0 have an assumption that, changed, closes half of the gap, but takes "
    )
    assert f"{untried}another row of the study further off; 0 have none among those that were changed; 3 are of studies" in sums_told()
    ratios = {row["what"]: row["ratio"] for row in stored["rows"]}
    lines = [("a over b", 0.9, False, 2), ("c over a", 1.4, False, 2), ("seconds", 0.9, True, 0)]
    stored["causes"] = [
        {"what": what, "ratio": ratios[what], "shown": shown, "cause": "x 2", "source": "", "changed": changed, "harms": harms, "tried": 3}
        for what, changed, shown, harms in lines
    ]
    results.write_text(json.dumps(stored))
    assert "Of the 2 rows beyond 1.25 times without a shown cause, 1 have" in sums_told()
    assert "further off; 1 have none among those that were changed; 0 are of studies in which none was." in sums_told()
    assert "No fold holds the 0 rows" in sums_told() and "the change behind 0 of the 1 shown ones takes" in sums_told()
    store("figure-4", "simulated", False, results.parent, lambda: Findings(pd.DataFrame([beside("bytes", 8.0, 1.0, "")])))
    other = results.with_name("figure-4.json")
    harming = {**stored["causes"][0], "what": "bytes", "harms": 1}
    for name, harms, count in (("x 2", 1, 1), ("x 3", 1, 0), ("x 2", 0, 0)):
        other.write_text(json.dumps({**json.loads(other.read_text()), "causes": [{**harming, "cause": name, "harms": harms}]}))
        assert f"the change behind {count} of the 1 shown ones takes rows of another study of the paper further off" in sums_told()
    stored["rows"][1] |= {"ours": -3.9, "ratio": -0.975}
    results.write_text(json.dumps(stored))
    assert "No fold holds the 1 row in which ours is 0 or of the other sign." in sums_told()


def sums_told() -> str:
    cards = scorecards(Path("results"))
    markdown = page(cards)
    sentences = re.findall(r"^(?:Of the|No fold|A cause is judged|Making the) .*", markdown, re.M)
    assert len(sentences) == 4 and all(f"<p>{sentence}</p>" in html_page(cards) for sentence in sentences)
    return " ".join(sentences)


def test_a_changed_row_changes_what_is_said(results, capsys):
    stored = json.loads(results.read_text())
    stored["rows"][0] |= {"ours": 1.9, "ratio": 0.95}
    results.write_text(json.dumps(stored))
    command("reproduce", "--into", "card.md")
    out = capsys.readouterr().out
    assert "rely on 1 of its 1 claim, within 1.25 times of the printed: a over b, up to (2.00× printed, 1.90× here, simulated). Of 3" in out
    assert "2 hold and 0 are reversed.\n" in out
    assert "## What is reversed?\n\nNothing." in Path("card.md").read_text()


def test_mistakes_are_one_line(results, capsys):
    command("reproduce", "--out", "elsewhere", expect=2)
    assert "elsewhere: no result of a study" in one_line(capsys)
    command("reproduce", "--all", expect=2)
    assert "say of which paper" in one_line(capsys)
    results.write_text("{}")
    command("reproduce", expect=2)
    assert "figure-8.json: not a study's result" in one_line(capsys)


def test_the_pages_are_those_of_the_results():
    cards = scorecards(ROOT / "results")
    assert (ROOT / "docs/scorecard.md").read_text() == page(cards)
    assert (ROOT / "docs/scorecard.html").read_text() == html_page(cards)
