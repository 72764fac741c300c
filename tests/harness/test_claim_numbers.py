"""Claims of abstracts: put together and judged, against a reading of the JSON and YAML files that shares no code."""

import json
import math
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.claim_section import reason
from chronoscale.harness.reproduce.claim_values import ClaimValue
from chronoscale.harness.reproduce.claims import ScoredClaim, claims_of
from chronoscale.harness.reproduce.scorecard import scorecards
from chronoscale.reports.published import Claim, Evidence

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "src/chronoscale/reports/published"
PAPERS = ("real", "pgt-i", "fast", "flaredtdg", "memshare")
STUDY = registry.find("real", "figure", 8)


def ends(line: dict, whose: str) -> tuple[float, float, float] | None:
    """Lowest, mean and highest; a single number, or the mean of one point, is all three."""
    if line.get(whose) is not None:
        return (line[whose],) * 3
    low, mean, high = (line.get(f"{whose}_{end}") for end in ("low", "mean", "high"))
    if low is None and high is None and line.get("points") == 1:
        low = high = mean
    if low is mean is high is None:
        return None
    return tuple(math.nan if value is None else value for value in (low, mean, high))


def numbers(paper: str, claim: dict) -> list[tuple[float, float, float, float, tuple]]:
    """Ours (low, mean, high), points, and printed, of each row or pair of rows that a claim names."""
    entries = []
    for evidence in claim["ours"]:
        stored = json.loads((ROOT / f"results/{paper}/{evidence['study']}.json").read_text())["rows"]
        lines = {line["what"]: line for line in stored if "what" in line}
        pattern = re.compile(re.escape(evidence["rows"]).replace(r"\*", "(.+)") + "$")
        of = []
        for what, line in lines.items():
            if not (match := pattern.match(what)) or ("without" in evidence and evidence["without"] in what):
                continue
            if line.get("aside") or str(line.get("why")).startswith("solved from the printed numbers"):
                continue
            ours, printed = ends(line, "ours"), ends(line, "published")
            points = line.get("points") or 1
            if "over" in evidence:
                other_name = evidence["over"]
                for word in match.groups():
                    other_name = other_name.replace("*", word, 1)
                other = lines[other_name]
                points = min(points, other.get("points") or 1)
                pairs = [(ours, ends(other, "ours")), (printed, ends(other, "published"))]
                ratios = [tuple(a / b for a, b in zip(*pair, strict=True)) if all(pair) else None for pair in pairs]
                if claim.get("measure") == "saved":
                    ratios = [each and tuple(1 - value for value in reversed(each)) for each in ratios]
                ours, printed = ratios
            if ours:
                of.append((match.groups()[:-1], (*ours, points, printed)))
        if evidence.get("nearest"):
            of = [(case, each) for case, each in of if each[4]]
            cases = list(dict.fromkeys(case for case, _ in of))
            of = [(case, min(each for of_case, each in of if of_case == case)) for case in cases]
        entries += [each for _, each in of]
    return entries


def together(triples: list[tuple[float, ...]], end: str, points: list[float]) -> float:
    if end == "mean":
        return sum(triple[1] * count for triple, count in zip(triples, points, strict=True)) / sum(points)
    return min(triple[0] for triple in triples) if end == "low" else max(triple[2] for triple in triples)


def judged(measure: str, printed: float, ours: float) -> str:
    """The rule in words: 'holds' on the same side within a quarter; within 5 % of 1 there is no side."""
    if measure in ("gain", "number"):
        if printed * ours <= 0:
            return "reversed"
        if 1 / 1.25 <= ours / printed <= 1.25:
            return "holds"
        return "smaller" if abs(ours) < abs(printed) else "larger"
    first, second = (1 / (1 - value) if measure == "saved" else value for value in (printed, ours))
    sides = [0 if 1 / 1.05 <= value <= 1.05 else 1 if value > 1 else -1 for value in (first, second)]
    if sides[0] * sides[1] == -1:
        return "reversed"
    if 1 / 1.25 <= second / first <= 1.25 and bool(sides[0]) == bool(sides[1]):
        return "holds"
    far = [abs(math.log(value)) if side else 0 for value, side in zip((first, second), sides, strict=True)]
    return "smaller" if far[1] < far[0] else "larger"


@pytest.fixture(scope="module")
def scored() -> list[ScoredClaim]:
    return [claim for card in scorecards(ROOT / "results") for claim in claims_of(card)]


def test_every_claim_is_judged_as_a_second_reading_of_the_files_judges_it(scored: list[ScoredClaim]) -> None:
    expected = []
    for paper in PAPERS:
        for claim in yaml.safe_load((PUBLISHED / f"{paper}.yaml").read_text())["claims"]:
            if "not_testable" in claim:
                expected.append((paper, claim["claim"], "mean", None, None, "not testable here"))
                continue
            entries = numbers(paper, claim)
            for end in ("low", "mean", "high"):
                if end not in claim and claim.get("in_rows") != end:
                    continue
                both = [each for each in entries if each[4]]
                some = both if end == "mean" else entries
                ours = together([each[:3] for each in some], end, [each[3] for each in some])
                printed = claim.get(end) or together([each[4] for each in both], end, [1] * len(both))
                verdict = judged(claim.get("measure", "times"), printed, ours)
                expected.append((paper, claim["claim"], end, printed, ours, verdict))
    assert len(expected) == len(scored) and {paper for paper, *_ in expected} == set(PAPERS)
    for (paper, words, end, printed, ours, verdict), claim in zip(expected, scored, strict=True):
        assert (paper, words, end, verdict) == (claim.paper, claim.claim.claim, claim.end, claim.verdict)
        if printed is not None:
            assert (claim.printed, claim.ours) == (pytest.approx(printed), pytest.approx(ours))
            assert claim.band[0] <= ours <= claim.band[1]


def test_rows_are_those_that_the_sentence_sums_up(scored: list[ScoredClaim]) -> None:
    """Put together as ours are, what the paper prints for the rows named is what its sentence says, or the page says what it is."""
    for claim in scored:
        if claim.values:
            assert claim.summed == pytest.approx(claim.printed, rel=0.08), claim.claim.claim
            assert ("the printed rows themselves give" in reason(claim)) == (abs(claim.summed - claim.printed) > 0.05 * abs(claim.printed))


triple = st.lists(st.floats(0.05, 20), min_size=3, max_size=3).map(sorted)


@given(
    st.sampled_from(["times", "saved", "gain", "number"]),
    st.sampled_from(["low", "mean", "high"]),
    st.floats(0.05, 20),
    st.lists(st.tuples(triple, st.integers(1, 40)), min_size=1, max_size=6),
)
def test_ours_and_verdicts_are_plain_arithmetic(measure: str, end: str, printed: float, rows: list) -> None:
    def of(value: float) -> float:  # shares below 1, gains of either sign
        return {"saved": 1 - 1 / value, "gain": value - 3}.get(measure, value)

    triples = [tuple(map(of, values)) for values, _ in rows]
    printed = 1 - 1 / (1 + printed) if measure == "saved" else printed
    nothing = dict.fromkeys(("low", "mean", "high"), math.nan)
    values = [
        ClaimValue(str(i), dict(zip(("low", "mean", "high"), each, strict=True)), nothing, points, "")
        for i, (each, (_, points)) in enumerate(zip(triples, rows, strict=True))
    ]
    claim = Claim(claim="it", sentence="…", place="abstract", measure=measure, high=1, ours=(Evidence(study="figure-8", rows="*"),))
    scored = ScoredClaim("real", claim, end, printed, values, None, [(STUDY, None)])
    ours = together(triples, end, [points for _, points in rows])
    assert scored.ours == pytest.approx(ours)
    edges = (1 / 1.25, 1.25) if measure in ("gain", "number") else (1 / 1.25, 1 / 1.05, 1.05, 1.25)
    if not any(math.isclose(value, edge, rel_tol=1e-6) for edge in edges for value in (scored.fold, ours, printed)):
        assert scored.verdict == judged(measure, printed, scored.ours)
    assert scored.band == (min(low for low, *_ in triples), max(high for *_, high in triples))
