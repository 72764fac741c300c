"""Scorecard page: the scorecards of all papers as Markdown: claims, sums, what is reversed, figures; every number is a result's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isnan

import pandas as pd

from chronoscale.harness.reproduce.claim_section import bands_sentence, claim_table, claim_words, holding_sentence, others_clause
from chronoscale.harness.reproduce.claims import claims_of
from chronoscale.harness.reproduce.minutes import minutes_sentence
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.reproduce.scorecard import RANKED, STANDINGS, VERDICTS, Score, Scorecard, ScoredRow
from chronoscale.harness.reproduce.sums_sentences import sums_sentences
from chronoscale.harness.study.expressions import plural
from chronoscale.harness.study.findings import AGREES, NEAR
from chronoscale.harness.study.results import StoredResult
from chronoscale.reports.numbers import MISSING, number
from chronoscale.reports.published import published
from chronoscale.reports.table_formats import to_markdown

TITLE = "What of the papers holds?"
HEAD = """Made by `chronoscale reproduce --into PAGE` from the stored results of all figures and tables that have a printed number; no
number here is written by hand. What is simulated, counted, modelled and executed, each claim and figure says below;
`chronoscale reproduce all --list` says which of them an older state of the code has made."""
CLAIMED = "What do the papers claim?"
PRINTED = "What became of all that they print?"
REVERSED = "What is reversed?"
RULED = "By which rule?"
SHOWN_AS = {"shown": "cause shown", "conjecture": "conjecture", "not established": "no cause"}  # columns
RULES = f"""A **comparison** is a row that says how many times one system or setting is another (“a over b”, “speed-up”), in time, bytes or
error. Within {AGREES:.0%} of 1 neither is better. It **holds** on the same side of 1 and within {NEAR} times of the printed; else it is
**smaller** or **larger** than printed, by its distance from 1, or **reversed**, on the other side. The **fold** of a row is max(r,
1/r), r ours over the printed, of the means, of a range without a mean the geometric mean of both ends; of several rows their geometric
mean. **Order** is Kendall's τ-b between printed and our comparisons of a figure
that has {RANKED} or more, of a paper the median of its figures': 1 for the same order, 0 for none. Of rows beyond {NEAR} times a
**cause shown** is one changed assumption, within a range that was stated before, which closes half of the gap on a log scale in a run
and takes no other row of the study further off (by {AGREES:.0%} or more, and beyond {NEAR} times); rows are judged one by one, so that
two may be explained by different values of one assumption, and some by chance; a **conjecture** is a reason that the row has and no such
run shows; for the others **no cause** is established. Left out are rows that assume otherwise than the study does, were made from
printed numbers or by a reading that gives them, and printed bounds that ours keeps.

A **claim** is a number of an abstract, an introduction or a conclusion or, of such a sentence without one, of the rows that it sums up.
Ours is, of the same rows, the lowest for “at least”, the highest for “up to”, else the mean of those that are printed. Its **band**
reaches from the lowest to the highest of them; under joint assumptions from the 5th to the 95th percentile of draws of all that is
assumed, of one case in the middle of each comparison. A share that is saved is judged as a comparison of all with what is left; other
numbers hold within {NEAR} times, and are reversed where their sign is another. What agrees **under a limit** does so on other data,
another device or in another case than the claim is of, or in the mean of gains of both signs, so that it says little.

**Names** are of the papers: 1M4G is one machine with four GPUs. `real-g` and `real-l` are REAL's greedy and exact scheduler, `real-reuse`
its reuse without either, `psg` neither; `real-g+-own` is a greedy one of ours, from whose schedule the exact one sets out; **solved** is a
plan in which that ran, to within the paper's 10% of the shortest or until its time was up. `index`, `gpu-index` and `dist-index` are
PGT-I's batches by index on one node, on one GPU and on many."""


def sentences(card: Scorecard) -> tuple[str, str]:
    """Return what a reader may rely on of a paper, in two sentences: what holds, and what does not."""
    compared, claims = len(card.score.comparisons), claims_of(card)
    holding, turned = (len(card.score.of(verdict)) for verdict in ("holds", "reversed"))
    worst = max(card.score.of("reversed"), key=lambda row: row.fold, default=None)
    named = any(claim.verdict == "reversed" for claim in claims)  # the worst of them, before this
    most = f", most of all {worst.what} ({number(worst.published, 3)} printed, {number(worst.ours, 3)} here)" if worst and not named else ""
    of_systems = (
        f"of {compared} printed {plural(compared, 'comparison')} {holding} {'holds' if holding == 1 else 'hold'} "
        f"and {turned} {'is' if turned == 1 else 'are'} reversed{most}"
    )
    second = "; ".join(filter(None, [others_clause(claims), of_systems]))
    return holding_sentence(card.paper, claims), f"{second[0].upper()}{second[1:]}."


def summary(cards: Sequence[Scorecard]) -> pd.DataFrame:
    """Return the table of papers, the last row of all of them: counts of rows and of comparisons by verdict, fold, order."""
    rows = [{"paper": published(card.paper).name, **_columns(card.score, card.order)} for card in cards]
    every = Score([row for card in cards for row in card.score.rows])
    return pd.DataFrame([*rows, {"paper": "all", **_columns(every, float("nan"))}])


def claimed(cards: Sequence[Scorecard]) -> pd.DataFrame:
    """Return the table of what all papers claim, for the terminal: what is claimed, published, ours, verdict and how it was made."""
    claims = [claim for card in cards for claim in claims_of(card)]
    return claim_table(claims).assign(claim=list(map(claim_words, claims))).drop(columns=["band", "why"])


def figures(card: Scorecard) -> pd.DataFrame:
    """Return the table of a paper's figures and tables that have printed numbers: how each is made, and its sums."""
    rows = []
    for study, result, score in card.figures:
        limit = " (quick)" * result.quick
        name = f"{study.kind.capitalize()} {study.number}"
        rows.append({"": f"{name}: {study.printed.title}", "made": result.way + limit, **_columns(score, score.order)})
    return pd.DataFrame(rows)


def turned_rows(cards: Sequence[Scorecard]) -> pd.DataFrame:
    """Return the table of all comparisons that are reversed; empty for none."""
    return pd.DataFrame([_reversed(row) for card in cards for row in card.score.of("reversed")])


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of sums with fold and order as people read them."""
    return table.assign(**{name: [MISSING if isnan(value) else f"{value:.2f}" for value in table[name]] for name in ("fold", "order")})


def page(cards: Sequence[Scorecard]) -> str:
    """Return the page of all papers, Markdown: two sentences each, claims, a table of papers, what is reversed, the rules, and figures."""
    claims = [claim for card in cards for claim in claims_of(card)]
    parts = [f"# {TITLE}", HEAD, *(f"- {' '.join(sentences(card))}" for card in cards)]
    parts += [f"## {CLAIMED}", to_markdown(claim_table(claims)), bands_sentence(claims)]
    parts += [f"## {PRINTED}", to_markdown(shown(summary(cards))), *sums_sentences(cards), minutes_sentence(runs_of(cards))]
    turned = turned_rows(cards)
    parts += [f"## {REVERSED}", to_markdown(turned) if len(turned) else "Nothing."]
    parts += [f"## {RULED}", RULES]
    for card in cards:
        parts += [f"## {published(card.paper).name}", to_markdown(shown(figures(card)))]
    text = "".join(part + ("\n" if part.startswith("- ") and following.startswith("- ") else "\n\n") for part, following in _pairs(parts))
    return text.rstrip("\n") + "\n"


def runs_of(cards: Iterable[Scorecard]) -> list[tuple[Study, StoredResult]]:
    """Return all studies that have a result, with it."""
    return [(study, result) for card in cards for study, result in card.studies.values() if result is not None]


def _pairs(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    stripped = [part.strip("\n") for part in parts]
    return zip(stripped, [*stripped[1:], ""], strict=True)


def _columns(score: Score, order: float) -> dict[str, object]:
    return {
        "printed": len(score.rows),
        f"within {NEAR}": score.near,
        "fold": score.fold,
        "comparisons": len(score.comparisons),
        **{verdict: len(score.of(verdict)) for verdict in VERDICTS},
        "order": order,
        **{SHOWN_AS[standing]: score.known(standing) for standing in STANDINGS},
    }


def _reversed(row: ScoredRow) -> dict[str, object]:
    place = f"{published(row.study.paper).name}, {row.study.kind} {row.study.number}"
    numbers = {"published": number(row.published, 3), "ours": number(row.ours, 3)}
    return {"": place, "what": row.what, **numbers, "cause": row.cause or MISSING, "why": row.reason}
