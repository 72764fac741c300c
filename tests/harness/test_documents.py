"""Documents: a paper's page is made of stored results and a template; numbers of sentences are those of the rows."""

import json
import sys
from dataclasses import replace
from math import nan
from pathlib import Path

import pandas as pd
import pytest

from chronoscale.errors import UserError
from chronoscale.harness import cli
from chronoscale.harness.reproduce import document as documents
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.document import document
from chronoscale.harness.study.findings import SOLVED, Findings, beside, row
from chronoscale.harness.study.results import load_result, store
from chronoscale.reports.published import PAPERS, Range

ROOT = Path(__file__).parents[2]


def stored(folder: Path, study: str, *rows: dict[str, object], notes: tuple[str, ...] = ()) -> None:
    store(study, "simulated", False, folder, lambda: Findings(pd.DataFrame(rows), notes=notes))


@pytest.fixture
def template(tmp_path, monkeypatch):
    """The template, which a test writes, of a paper that has two studies."""
    two = [registry.find("real", "figure", 8), registry.find("real", "table", 3)]
    monkeypatch.setattr(documents, "folder", lambda paper: tmp_path / "studies" / paper)
    monkeypatch.setattr(registry, "of", lambda paper: two)
    (tmp_path / "studies" / "real").mkdir(parents=True)
    return tmp_path / "studies" / "real" / "page.md"


def test_sentences_have_the_numbers_of_rows(tmp_path, template):
    low_to_high = Range(strategy="a", over="b", low=1, mean=2, high=4)
    stored(tmp_path / "real", "figure-8", row("a over b", low_to_high, [3.0, 5.0], "because"), notes=("a note",))
    stored(tmp_path / "real", "table-3", beside("bytes", 8.0, 4.0, ""))
    template.write_text(
        "{name}: {ours('figure-8', 'a over b'):.1f} ({ours('figure-8', 'a over b', 'high'):.0f} at most) against "
        "{printed('figure-8', 'a over b'):.0f}, {ratio('figure-8', 'a over b'):.2f} times; {cell('figure-8', 'a over b')}; "
        "{max(ours_all('figure-8', 'over')):.1f} of {len(rows('figure-8'))}; {row('table-3', 'bytes')['ours']:.2f}; "
        "{ours('table-3', 'bytes'):.0f} of {printed('table-3', 'bytes'):.0f}, {cell('table-3', 'bytes', 'ratio')}"
    )
    page = document("real", tmp_path)
    assert "REAL: 4.0 (5 at most) against 2, 2.00 times; 3.00 to 5.00 (mean 4.00); 4.0 of 1; 4.00; 4 of 8, 0.5" in page
    assert "| a over b | 1.00 to 4.00 (mean 2.00) | 3.00 to 5.00 (mean 4.00) | 2.00 | because |" in page and "- a note" in page
    assert page.index("## Figure 8") < page.index("## Table 3") and "Not run" not in page
    assert load_result(tmp_path / "real" / "figure-8.json").made in page


def test_pages_say_how_numbers_were_made_and_how_near_they_are(tmp_path, template, monkeypatch):
    """Of the results as they are, not as they once were."""
    some = [registry.find("real", *one) for one in (("figure", 8), ("figure", 14), ("table", 1), ("table", 3))]
    grids = some[0].file.model_copy(update={"grid": {"main": {"gpus": 1}, "ran": [{"runner": "train"}]}})
    some[0] = replace(some[0], file=grids)
    monkeypatch.setattr(registry, "of", lambda paper: some)
    for name, way, rows in (
        ("figure-8", "simulated", [beside("a", 8.0, 9.0, ""), beside("b", 8.0, 16.0, ""), beside("c", 8.0, 6.2, "")]),
        ("figure-14", "executed", [beside("a", 8.0, 8.0, SOLVED)]),
        ("table-1", "counted", [beside("a", 8.0, 8.0, "")]),
        ("table-3", "counted", [beside("a", 8.0, 4.0, "")]),
    ):
        store(name, way, False, tmp_path / "real", lambda rows=rows: Findings(pd.DataFrame(rows)))
    template.write_text(
        "{made('counted')}; {made('executed')} and parts of {partly_executed()}; {made('modelled')}; {near()}; {machines()}."
    )
    page, made = document("real", tmp_path), load_result(tmp_path / "real" / "figure-14.json").environment
    assert "Tables 1 and 3; Figure 14 and parts of Figure 8; none; within 1.25 times of a printed number: 2 of 5; " in page
    assert f"2 of 5; {made['device']}, {made['cores']} cores." in page
    result = json.loads((tmp_path / "real" / "table-1.json").read_text())
    (tmp_path / "real" / "table-1.json").write_text(json.dumps({**result, "way": "executed", "environment": {"device": "X", "cores": "3"}}))
    again = document("real", tmp_path)
    assert "Table 3; Figure 14 and Table 1 and parts of Figure 8" in again and f"{made['cores']} cores and X, 3 cores." in again


def claim(what: str, share: float, band: tuple[float, float], usual: float, published: float, place: str, by: str = "none by itself"):
    ends = {"published": published, "usual": usual, "low": band[0], "middle": sum(band) / 2, "high": band[1]}
    return {"what": what, "share": share, **ends, "published_is": place, "turned_by": by}


def test_a_page_says_which_published_conclusions_are_inside_the_band(tmp_path, template):
    """Of all studies that draw some, from their files; where none does, it has no such section."""
    stored(tmp_path / "real", "table-3", beside("bytes", 8.0, 4.0, ""))
    stored(tmp_path / "real", "figure-8", beside("a over b", 8.0, 4.0, ""))
    template.write_text("nothing")
    assert "joint assumptions" not in document("real", tmp_path)
    claims = pd.DataFrame(
        [
            claim("a over b", 1.0, (1.5, 2.5), 2.0, 1.75, "inside the band"),
            claim("a over c", 0.998, (0.9, 2.5), 3.0, 2.75, "above the band", "jitter at 20%"),
            claim("b over c", 0.0, (0.5, 0.75), 0.7, float("nan"), ""),
        ]
    )
    store(
        "figure-8",
        "simulated",
        False,
        tmp_path / "real",
        lambda: Findings(pd.DataFrame([beside("x", 1, 2, "")]), tables={"conclusions": claims}),
    )
    page = document("real", tmp_path)
    assert (
        "Of 3 conclusions 1 holds in every draw. Of 2 published ratios there are, beside the band of ours: inside 1, above 1, below 0."
        in page
    )
    assert "below 0. What is usually assumed lies outside the band of 1." in page
    assert "| Figure 8 | a over b | 100% | 1.50 to 2.50 | 2.00 | 1.75 | inside the band | none by itself |" in page
    assert "| Figure 8 | a over c | more than 99% | 0.900 to 2.50 | 3.00 | 2.75 | above the band | jitter at 20% |" in page
    assert "| Figure 8 | b over c | 0% | 0.500 to 0.750 | 0.700 | – | – | none by itself |" in page
    assert page.index("nothing") < page.index("## Under joint assumptions") < page.index("## Figure 8")


@pytest.mark.parametrize(
    "sentence, message",
    [
        ("{ours('figure-9', 'a')}", "no result of 'figure-9'"),
        ("{len(rows('figure-8', 'zz'))}", "figure-8 has no row with 'zz'"),
        ("{ours('figure-8', 'b')}", "figure-8 has no row with 'b'"),
        ("{ours('figure-8', 'tw')}", "figure-8 has 0 rows 'tw'"),
        ("{ours('figure-8', 'twice')}", "figure-8 has 2 rows 'twice'"),
        ("{ours('figure-8', 'a').__class__}", "is not for a study"),
    ],
)
def test_a_template_that_names_no_row_is_refused(tmp_path, template, sentence, message):
    stored(tmp_path / "real", "figure-8", *(row(what, None, [1.0], "") for what in ("a", "twice", "twice")))
    stored(tmp_path / "real", "table-3", beside("bytes", 8.0, 4.0, ""))
    template.write_text(sentence)
    with pytest.raises(UserError, match=message):
        document("real", tmp_path)


def test_sentences_wait_for_all_studies(tmp_path, template):
    stored(tmp_path / "real", "figure-8", row("a", None, [1.0], ""))
    template.write_text("Sentence: {ours('table-3', 'bytes'):.0f}.")
    page = document("real", tmp_path)
    assert "Not run in full: table-3." in page and "Sentence" not in page and "## Figure 8" in page


def test_a_quick_result_is_no_ground_for_sentences(tmp_path, template):
    stored(tmp_path / "real", "figure-8", row("a", None, [1.0], ""))
    store(
        "table-3",
        "simulated",
        True,
        tmp_path / "real",
        lambda: Findings(pd.DataFrame([beside("bytes", 8.0, 4.0, "")]), earlier_s=(60.0, nan)),
    )
    template.write_text("Sentence.")
    page = document("real", tmp_path)
    assert "Not run in full: table-3." in page and "Sentence" not in page
    assert "; a quick subset; 2 points of an earlier run, whose commit is not among these, nor the time of 1." in page


def test_results_that_are_none_are_refused(tmp_path):
    with pytest.raises(UserError, match="no result of a study; `chronoscale reproduce real --all"):
        document("real", tmp_path)
    (tmp_path / "real").mkdir()
    for text in ("", "{}", json.dumps({"study": "figure-8", "rows": 1})):
        (tmp_path / "real" / "figure-8.json").write_text(text)
        with pytest.raises(UserError, match="not a study's result"):
            document("real", tmp_path)


def test_single_numbers_stand_beside_ranges(tmp_path, template) -> None:
    stored(tmp_path / "real", "figure-8", beside("single", 8.0, 4.0, ""), row("range", None, [1.0, 3.0], ""))
    stored(tmp_path / "real", "table-3", beside("bytes", 8.0, 4.0, ""))
    template.write_text("{ours('figure-8', 'single'):.0f} of {printed('figure-8', 'single'):.0f}; {ours_all('figure-8')}")
    page = document("real", tmp_path)
    assert "4 of 8; [4.0, 2.0]" in page
    assert "| single | 8.00 | 4.00 | 0.500 |" in page and "| range | – | 1.00 to 3.00 (mean 2.00) |" in page


def test_a_stored_result_is_read_as_it_was(tmp_path):
    rows = [row("a", None, [1.0, 1 / 3], "why"), row("nothing", None, [], "")]
    stored(tmp_path, "figure-8", *rows, notes=("é",))
    result = load_result(tmp_path / "figure-8.json")
    pd.testing.assert_frame_equal(result.findings.rows, pd.DataFrame(rows), check_dtype=False, rtol=1e-14)
    assert result.findings.notes == ("é",) and result.environment["torch"] and not result.quick


def test_the_command_stores_a_result_and_writes_the_page(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    arguments = ["reproduce", "memshare", "--table", "2", "--quick", "--out", str(tmp_path / "out"), "--into", str(page)]
    monkeypatch.setattr(sys, "argv", ["chronoscale", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code and f"page: {page}" in capsys.readouterr().err.replace("\n", "")
    assert {"table-2.json", "table-2.md", "table-2.csv"} <= {path.name for path in (tmp_path / "out" / "memshare").iterdir()}
    assert "a quick subset" in page.read_text()


@pytest.mark.parametrize(
    "command, result", [(["study", "own.yaml"], "own.json"), (["reproduce", "memshare", "--table", "2"], "memshare/table-2.json")]
)
def test_both_commands_keep_results_in_one_folder(command, result, tmp_path, monkeypatch):
    """It is made where it is not there yet."""
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text((ROOT / "examples" / "studies" / "batches.yaml").read_text())
    monkeypatch.setattr(sys, "argv", ["chronoscale", *command, "--quick"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code and {path.name for path in tmp_path.iterdir()} == {"own.yaml", "results"}
    assert (tmp_path / "results" / result).is_file()


@pytest.mark.parametrize("paper", PAPERS)
def test_pages_of_papers_are_what_their_results_and_templates_give(paper):
    page = ROOT / "docs" / f"reproduce_{paper.replace('-', '')}.md"
    assert page.read_text() == document(paper, ROOT / "results")
