"""Claims of abstracts: what a user is told of them, of claims and results of our own."""

import json
import re
from dataclasses import replace
from math import nan
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from command_line import command, one_line
from pydantic import ValidationError

from chronoscale.errors import UserError
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.claim_section import bands_sentence, claim_band, claim_number, claim_words, holding_sentence, reason
from chronoscale.harness.reproduce.claim_values import JointBand, joint_band
from chronoscale.harness.reproduce.claims import claims_of
from chronoscale.harness.reproduce.scorecard import scorecards
from chronoscale.harness.study.findings import Findings, beside, row
from chronoscale.harness.study.results import store
from chronoscale.reports.published import Claim, Evidence, Range, published

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "src/chronoscale/reports/published"
PAPERS = ("real", "pgt-i", "fast", "flaredtdg", "memshare")
STUDY = registry.find("real", "figure", 8)

CLAIMS = (
    Claim(
        claim="a over b",
        sentence="up to <b>4×</b>",
        place="abstract",
        low=1.5,
        high=4,
        ours=(Evidence(study="figure-8", rows="a over b, *"),),
        note="of both sets",
    ),
    Claim(
        claim="bytes of a",
        sentence="half the bytes",
        place="conclusion",
        measure="saved",
        mean=0.5,
        ours=(Evidence(study="table-3", rows="a, GB", over="b, GB"),),
    ),
    Claim(claim="AP of a", sentence="as precise", place="abstract", not_testable="no labels are at hand"),
)


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    real = published("real").model_copy(update={"claims": CLAIMS})
    monkeypatch.setattr("chronoscale.harness.reproduce.claims.published", lambda paper: real if paper == "real" else published(paper))
    rows = [row("a over b, cora", Range(strategy="a", over="b", low=1.5, high=4), [2.0, 3.0, 4.0], "why not")]
    rows += [row("a over b, pubmed", Range(strategy="a", over="b", low=2, high=3), [1.2, 1.2], "copies")]
    conclusion = {"what": "a over b, the middle", "share": 1.0, "published": 4.0, "usual": 3.0, "low": 0.5, "middle": 2.0, "high": 6.0}
    tables = {"conclusions": pd.DataFrame([conclusion])}
    store("figure-8", "simulated", False, Path("results/real"), lambda: Findings(pd.DataFrame(rows), tables=tables))
    sizes = [beside("a, GB", 5.0, 4.0, ""), beside("b, GB", 10.0, 8.0, "")]
    store("table-3", "counted", False, Path("results/real"), lambda: Findings(pd.DataFrame(sizes)))
    return Path("results/real")


def claiming(monkeypatch, *claims: Claim) -> None:
    """Let REAL claim this."""
    real = published("real").model_copy(update={"claims": claims})
    monkeypatch.setattr("chronoscale.harness.reproduce.claims.published", lambda _: real)


def change(path: Path, index: int, **values: object) -> None:
    stored = json.loads(path.read_text())
    stored["rows"][index] |= values
    path.write_text(json.dumps(stored))


def test_the_command_says_what_becomes_of_claims(results, capsys):
    command("reproduce", "--into", "card.md")
    out = capsys.readouterr().out
    assert out.startswith(
        "REAL: a reader may rely on 2 of its 4 claims, within 1.25 times of the printed: a over b, up to (4.00× printed, 4.00× here, "
        "simulated); bytes of a (50.00% printed, 50.00% here, counted); 1 agrees, but under a limit: a over b, at least (1.50× printed, "
        "1.20× here, simulated; ours is of a over b, pubmed, the printed of a over b, cora, where ours is another). "
        "Of its other claims 1 not testable here; of 2 printed comparisons 1 holds and 0 are reversed.\n"
    )
    assert re.search(r"REAL +a over b, up to +4\.00× +4\.00× +holds +simulated +Figure 8 *\n", out)
    page = Path("card.md").read_text()
    assert "| a over b, up to (“up to <b>4×</b>”, abstract) | 4.00× | 4.00× | 1.20× to 4.00× | holds | simulated | Figure 8 |" in page
    assert "| not testable here | – | – | no labels are at hand |" in page


def test_a_changed_row_changes_the_verdict_and_the_sentence(results, capsys):
    change(results / "figure-8.json", 1, ours_low=0.8, ours_mean=0.8, ours_high=0.9, ratio=(0.4 * 0.3) ** 0.5)
    change(results / "table-3.json", 0, ours=7.9, ratio=1.58)
    command("reproduce", "--into", "card.md")
    assert (
        "a reader may rely on 1 of its 4 claims, within 1.25 times of the printed: a over b, up to (4.00× printed, 4.00× here, simulated). "
        "Of its other claims 1 smaller, 1 not testable here, 1 reversed, most of all a over b, at least (1.50× printed, 0.800× here, "
        "simulated); no difference at all here: bytes of a; of 2 printed comparisons 1 holds and 1 is reversed."
    ) in capsys.readouterr().out
    page = Path("card.md").read_text()
    assert "| 1.50× | 0.800× | 0.800× to 4.00× | reversed | simulated | Figure 8 | 2 rows; lowest a over b, pubmed: copies; of both" in page


def test_rows_that_are_set_aside_answer_no_claim(results, capsys):
    """Ours is of the other rows; a claim whose rows are all set aside fails by name."""
    change(results / "figure-8.json", 1, ours_low=0.1, ours_mean=0.1, ours_high=9.0, aside="another machine")
    command("reproduce")
    out = capsys.readouterr().out
    assert re.search(r"a over b, at least +1\.50× +2\.00×", out) and re.search(r"a over b, up to +4\.00× +4\.00×", out)
    change(results / "figure-8.json", 0, aside="another machine")
    command("reproduce", expect=2)
    assert "has no row 'a over b, *' that is scored" in one_line(capsys)


def caused(path: Path, index: int, shown: bool) -> None:
    """Store what runs show of a row."""
    stored = json.loads(path.read_text())
    row = stored["rows"][index]
    cause = {"what": row["what"], "ratio": 2.0, "shown": shown, "cause": "x 2", "source": "", "changed": 1.1, "harms": 0, "tried": 3}
    path.write_text(json.dumps(stored | {"causes": [*stored.get("causes", []), cause]}))


def test_what_runs_show_of_a_row_is_said_of_its_mean_and_of_no_quotient(results):
    change(results / "figure-8.json", 0, published_low=None, published_mean=9.0, published_high=None)
    caused(results / "figure-8.json", 0, True)
    caused(results / "figure-8.json", 1, True)
    caused(results / "table-3.json", 0, True)
    change(results / "table-3.json", 0, ours=7.9, ratio=1.58, why="of a")
    reasons = {claim.claim.claim: value.why for claim in claims_of(scorecards(Path("results"))[0]) for value in claim.values}
    assert reasons["bytes of a"] == "a: of a"
    (claim, *_) = claims_of(scorecards(Path("results"))[0])
    run = "shown by a run: x 2: 1.10 times the published | "
    assert [value.reason("mean") for value in claim.values] == [f"{run}why not", f"{run}copies"]
    assert [value.reason("high") for value in claim.values] == ["of the mean: why not", f"{run}copies"]
    assert claim.end == "low" and claim.why == f"2 rows; lowest a over b, pubmed: {run}copies"


def test_who_gives_ours_gives_the_reason(results):
    """The lowest of "at least", the highest of "up to", though the other is farther from its printed number."""
    change(results / "figure-8.json", 0, ours_high=9.0)
    least, most, *_ = claims_of(scorecards(Path("results"))[0])
    assert (least.why, most.why) == ("2 rows; lowest a over b, pubmed: copies", "2 rows; highest a over b, cora: why not")


def test_agreement_under_a_limit_is_nothing_to_rely_on(results, monkeypatch, capsys):
    """It is told on the first screen with its limit, which a claim that does not hold names, too."""
    claims = tuple(claim.model_copy(update={"limit": "on a CPU"}) if claim.ours else claim for claim in CLAIMS)
    claiming(monkeypatch, *claims)
    command("reproduce", "--into", "card.md")
    assert (
        "rely on none of its 4 claims; 3 agree, but under a limit: a over b, at least (1.50× printed, 1.20× here, simulated; on a CPU; ours"
    ) in capsys.readouterr().out
    change(results / "table-3.json", 0, ours=5.5, ratio=1.1)
    (claim,) = [each for each in claims_of(scorecards(Path("results"))[0]) if each.claim.measure == "saved"]
    assert claim.verdict == "smaller" and reason(claim) == "on a CPU" and not claim.vanishes
    change(results / "table-3.json", 0, ours=7.7, ratio=1.54, why="of a")
    (claim,) = [each for each in claims_of(scorecards(Path("results"))[0]) if each.claim.measure == "saved"]
    assert claim.vanishes and reason(claim) == "on a CPU; no difference here, within 5% of none; a: of a"


@pytest.mark.parametrize(
    ("what", "other", "both"),
    [
        ("bitcoin, gcn, ours", "bitcoin, gcn, theirs", "bitcoin, gcn, ours over theirs"),
        ("ours, 4 GPUs, GiB", "theirs, 4 GPUs, GiB", "ours over theirs, 4 GPUs, GiB"),
        ("a, b, b", "a, c, b", "a, b over c, b"),
        ("ours", "a, ours", "ours over a, ours"),
        ("a, b", "a, b", "a, b over b"),
    ],
)
def test_a_quotient_names_once_what_both_rows_are_of(results, monkeypatch, what, other, both):
    claim = Claim(claim="it", sentence="…", place="abstract", high=2, ours=(Evidence(study="figure-8", rows=what, over=other),))
    claiming(monkeypatch, claim)
    stored = json.loads((results / "figure-8.json").read_text())
    stored["rows"] = [beside(name, 2.0, 2.0, "") for name in dict.fromkeys([what, other])]
    (results / "figure-8.json").write_text(json.dumps(stored))
    (scored,) = claims_of(scorecards(Path("results"))[0])
    assert [value.what for value in scored.values] == [both]


def test_the_printed_number_within_our_band_is_said(results, monkeypatch):
    claim = CLAIMS[0].model_copy(update={"ours": (CLAIMS[0].ours[0].model_copy(update={"conclusion": "a over b"}),)})
    change(results / "figure-8.json", 1, ours_low=0.5, ours_mean=0.5, ours_high=0.5)
    change(results / "figure-8.json", 0, ours_low=0.5, ours_mean=2.9, ours_high=2.9)
    claiming(monkeypatch, claim)
    least, most = claims_of(scorecards(Path("results"))[0])
    assert (least.verdict, most.verdict, least.inside, most.inside) == ("reversed", "smaller", False, True), (
        "4 is printed of the conclusion"
    )
    assert "the printed lies within our joint band; 2 rows; highest" in reason(most) and "band" not in reason(least)
    command("reproduce", "--into", "card.md")
    assert f"\n\n{bands_sentence([least, most])}\n\n" in Path("card.md").read_text()
    assert bands_sentence([least, most]).startswith(
        "Claims that do not hold and whose own number was drawn under joint assumptions: 1; the"
    )
    joint = most.joint
    assert joint and "lies within the band of 1 of" in bands_sentence([least, replace(least, joint=None), most])
    assert "lies within the band of 0 of" in bands_sentence([replace(most, joint=replace(joint, high=3.9))])
    assert "assumptions: 0;" in bands_sentence([replace(most, printed=3.7)]), "another number than the conclusion's"
    assert "assumptions: 0;" in bands_sentence([replace(most, joint=replace(joint, usual=3.7))]), "of another case than ours"
    assert "assumptions: 0;" in bands_sentence([replace(most, printed=3.0, joint=replace(joint, printed=3.0))]), "it holds"


def test_of_claims_of_the_other_sign_the_one_farthest_apart_gives_the_reason(results, monkeypatch):
    evidence = Evidence(study="figure-8", rows="a over b, *")
    claims = (Claim(claim="it", sentence="…", place="abstract", measure="gain", mean=0.3, ours=(evidence,)),)
    claiming(monkeypatch, *claims)
    for index, ours in ((0, -0.1), (1, -0.2)):
        change(results / "figure-8.json", index, published_mean=0.3, ours_low=ours, ours_mean=ours, ours_high=ours)
    (claim,) = claims_of(scorecards(Path("results"))[0])
    assert claim.why == "2 rows; farthest a over b, pubmed: copies"


def test_the_claim_that_is_named_is_one_that_is_reversed(results, capsys):
    """Though another, larger than printed, is farther in times."""
    change(results / "figure-8.json", 0, ours_low=50.0, ours_mean=50.0, ours_high=50.0)
    change(results / "figure-8.json", 1, ours_low=0.9, ours_mean=0.9, ours_high=0.9)
    command("reproduce")
    assert "1 larger, 1 not testable here, 1 reversed, most of all a over b, at least (1.50× printed, 0.900×" in capsys.readouterr().out


def test_none_that_holds(results, capsys):
    for index in (0, 1):
        change(results / "figure-8.json", index, ours_low=6.0, ours_mean=7.0, ours_high=9.0)
    (results / "table-3.json").unlink()
    command("reproduce")
    assert (
        "a reader may rely on none of its 4 claims; nearest is a over b, up to (4.00× printed, 9.00× here, simulated). "
        "Of its claims 2 larger, 1 not testable here, 1 not run, farthest a over b, at least (1.50× printed, 6.00× here, simulated); of"
    ) in capsys.readouterr().out
    (claim,) = [each for each in claims_of(scorecards(Path("results"))[0]) if each.verdict == "not run"]
    assert (claim.claim.claim, reason(claim), claim_band(claim)) == ("bytes of a", "no whole result of table-3", "–")


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        ({"rows": "c over b"}, "claim 'it' of real: figure-8 has no row 'c over b'"),
        ({"rows": "a over b, *", "over": "c, *"}, "has no row 'c, cora', by which to divide 'a over b, cora'"),
        ({"study": "figure-99"}, "claim 'it' of real: no study figure-99"),
        ({"conclusion": "b over a"}, "figure-8 has no conclusions that begin with 'b over a'"),
        ({"rows": "a over b, cora", "without": "cora"}, "has no row 'a over b, cora'"),
    ],
)
def test_a_claim_that_names_what_is_not_there_fails_by_name(results, capsys, monkeypatch, evidence, told):
    given = {"study": "figure-8", "rows": "a over b, cora"} | evidence
    claim = Claim(claim="it", sentence="…", place="abstract", high=2, ours=(Evidence(**given),))
    claiming(monkeypatch, claim)
    command("reproduce", expect=2)
    assert told in one_line(capsys)


def test_rows_without_numbers_fail_by_name(results, capsys, monkeypatch):
    change(results / "table-3.json", 0, ours=None, ratio=None)
    command("reproduce", expect=2)
    told = "claim 'bytes of a' of real: table-3 has 'a, GB' in no row with a printed number and one of ours"
    assert told in one_line(capsys)
    change(results / "table-3.json", 0, ours=4.0, ratio=0.8)
    change(results / "table-3.json", 1, ours=0.0, ratio=0.0)
    command("reproduce", expect=2)
    assert told in one_line(capsys)
    claim = Claim(claim="it", sentence="…", place="abstract", in_rows="mean", ours=(Evidence(study="figure-8", rows="a over b, *"),))
    claiming(monkeypatch, claim)
    command("reproduce", expect=2)
    assert "claim 'it' of real: not all rows that it names have a printed mean" in one_line(capsys)


def test_a_quick_result_answers_no_claim(results, capsys):
    stored = json.loads((results / "table-3.json").read_text()) | {"quick": True}
    (results / "table-3.json").write_text(json.dumps(stored))
    command("reproduce")
    assert "1 not testable here, 1 not run; of" in capsys.readouterr().out


def test_the_band_under_joint_assumptions(results, monkeypatch):
    evidence = Evidence(study="figure-8", rows="a over b, cora", conclusion="a over b")
    claims = [
        Claim(claim="it", sentence="…", place="abstract", measure=measure, mean=0.3, ours=(evidence,)) for measure in ("times", "saved")
    ]
    claiming(monkeypatch, *claims)
    times, saved = claims_of(scorecards(Path("results"))[0])
    assert times.joint == JointBand(0.5, 6.0, 4.0, 3.0) and saved.joint == JointBand(-1.0, pytest.approx(5 / 6), 0.75, pytest.approx(2 / 3))
    assert claim_band(times) == "2.00× to 4.00×; 0.500× to 6.00× of a middle case under joint assumptions"
    assert claim_words(times) == "it, on average" and claim_number(saved, -0.5) == "−50.00%"
    assert times.verdict == "reversed" and holding_sentence("real", [times]) == "REAL: a reader may rely on none of its 1 claim."


def test_what_is_saved_of_ranges_turns_their_ends(results, monkeypatch):
    """The most is saved where the ratio is lowest."""
    evidence = Evidence(study="figure-8", rows="a over b, pubmed", over="a over b, cora")
    claims = [Claim(claim="it", sentence="…", place="abstract", measure="saved", ours=(evidence,), **{end: 0.3}) for end in ("low", "high")]
    claiming(monkeypatch, *claims)
    change(results / "figure-8.json", 1, ours_low=1.8, ours_mean=1.9, ours_high=2.0)
    least, most = claims_of(scorecards(Path("results"))[0])
    assert (least.ours, most.ours) == (pytest.approx(1 - 1.8 / 2), pytest.approx(1 - 2 / 4))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"low": 3, "high": 2}, "expected low <= mean <= high"),
        ({"in_rows": "mean"}, "either printed numbers or `in_rows`"),
        ({"not_testable": "no"}, "either rows of ours or why it is not testable"),
        ({"ours": ()}, "either rows of ours or why it is not testable"),
        ({"ours": ({"study": "figure-8", "rows": "a, *", "over": "b"},)}, "has not as many"),
        ({"ours": ({"study": "figure-8", "rows": "a", "nearest": True},)}, "the nearest of rows needs"),
        ({"ours": ({"study": "fig-8", "rows": "a"},)}, "pattern"),
    ],
)
def test_claims_are_whole(wrong, told):
    good = {"claim": "it", "sentence": "…", "place": "abstract", "high": 4, "ours": ({"study": "figure-8", "rows": "a"},)}
    Claim.model_validate(good)
    with pytest.raises(ValidationError, match=told):
        Claim.model_validate(good | wrong)


def test_a_band_is_of_one_comparison() -> None:
    """Not from the least of one to the most of another."""
    lines = [{"what": f"a over {name}", "published": of, "usual": 2.0, "low": 1.0, "high": 3.0} for name, of in (("b", None), ("c", "2"))]
    result = SimpleNamespace(study="figure-8", findings=Findings(pd.DataFrame(), tables={"conclusions": pd.DataFrame(lines)}))
    for conclusion, told in (("a over ", "2 conclusions that begin with 'a over '"), ("b", "no conclusions")):
        with pytest.raises(UserError, match=f"it: figure-8 has {told}"):
            joint_band("it", Evidence(study="figure-8", rows="*", conclusion=conclusion), result, CLAIMS[0])  # type: ignore[arg-type]
    for name, printed in (("b", nan), ("c", 2.0)):
        evidence = Evidence(study="figure-8", rows="*", conclusion=f"a over {name}")
        band = joint_band("it", evidence, result, CLAIMS[0])  # type: ignore[arg-type]
        assert (band.high, band.printed) == (3.0, pytest.approx(printed, nan_ok=True))


def test_the_most_of_ours_may_be_of_a_row_without_a_printed_number(results, monkeypatch):
    """A mean is of the rows that the paper prints, too."""
    stored = json.loads((results / "figure-8.json").read_text())
    stored["rows"].append({"what": "a over b, other", "ours_low": 7.0, "ours_mean": 8.0, "ours_high": 9.0, "points": 1, "why": "bare"})
    (results / "figure-8.json").write_text(json.dumps(stored))
    mean = CLAIMS[0].model_copy(update={"low": None, "high": None, "mean": 2.0})
    claiming(monkeypatch, CLAIMS[0], mean)
    least, most, middle = claims_of(scorecards(Path("results"))[0])
    assert (least.ours, most.ours, most.verdict) == (1.2, 9.0, "larger") and "3 rows; highest a over b, other: bare" in reason(most)
    assert (most.summed, middle.ours, len(middle.values)) == (4.0, pytest.approx((3.0 * 3 + 1.2 * 2) / 5), 2)


def test_gains_of_both_signs_say_little(results, monkeypatch):
    evidence = Evidence(study="figure-8", rows="a over b, *")
    claiming(monkeypatch, Claim(claim="AP", sentence="…", place="abstract", measure="gain", mean=0.04, ours=(evidence,)))
    change(results / "figure-8.json", 0, ours_low=-0.2, ours_mean=-0.15, ours_high=-0.1)
    for high, limit in ((0.1, "gains of both signs"), (-0.01, "")):
        change(results / "figure-8.json", 1, ours_low=-0.1, ours_mean=-0.02, ours_high=high)
        (claim,) = claims_of(scorecards(Path("results"))[0])
        assert (claim.verdict, claim.limit) == ("reversed", limit) and reason(claim).startswith(limit)


def test_a_printed_extreme_is_of_a_case(results, monkeypatch):
    """Ours is a row that is not printed, or that has the same number in print, or the lowest of rivals beside another one's number."""
    change(results / "figure-8.json", 0, ours_low=1.0, ours_mean=1.2, ours_high=1.2)
    change(results / "figure-8.json", 1, published_high=None, published_low=None, ours_high=4.0)
    claiming(monkeypatch, CLAIMS[0].model_copy(update={"low": None}))
    (most,) = claims_of(scorecards(Path("results"))[0])
    assert most.verdict == "holds" and most.limit.startswith("ours is of a over b, pubmed, the printed of a over b, cora, where")
    change(results / "figure-8.json", 1, published_high=4.0, published_low=2.0)
    assert not claims_of(scorecards(Path("results"))[0])[0].limit
    values = [replace(value, printed_of="c over b") for value in most.values]
    assert "the printed of c over b, where" in replace(most, values=values).limit
