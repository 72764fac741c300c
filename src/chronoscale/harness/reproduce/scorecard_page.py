"""Scorecard page: the scorecards of all papers as Markdown, what speaks against them first; every number is a result's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

import pandas as pd

from chronoscale.harness.reproduce.minutes import minutes_sentence
from chronoscale.harness.reproduce.scorecard import RANKED, VERDICTS, Score, Scorecard, ScoredRow
from chronoscale.harness.study.findings import AGREES, NEAR
from chronoscale.reports.numbers import MISSING, number
from chronoscale.reports.published import published
from chronoscale.reports.table_formats import to_markdown

HEAD = """# What of the papers holds?

Made by `chronoscale reproduce --into PAGE` from the stored results of all figures and tables that have a printed number; no number here is
written by hand. What is simulated, counted, modelled and executed, each figure says below."""

RULES = f"""## By which rule?

A **comparison** is a row that says how many times one system is another (“a over b”), in time, bytes or error. Within
{AGREES:.0%} of 1 neither is better. It **holds** on the same side of 1 and within {NEAR} times of the printed; else it is **smaller**
or **larger** than printed, by its distance from 1, or **reversed**, on the other side. The **fold** of a row is max(r, 1 / r), r ours
over the printed; of several their geometric mean. **Order** is Kendall's τ-b between printed and our comparisons of a figure that
has {RANKED} or more, of a paper the median of its figures': 1 for the same order, 0 for none. **No cause** counts rows beyond {NEAR} times
whose cause, or a part of it, is not established. Rows that were solved from the printed number are left out; rows that count a data
set that was generated with the printed counts are not, and are near for that reason."""


def sentences(card: Scorecard) -> tuple[str, str]:
    """Return what a reader may rely on of a paper, in two sentences: of systems compared, and of all printed numbers."""
    score, name = card.score, published(card.paper).name
    comparisons = len(score.comparisons)
    holds, smaller, larger, turned = (len(score.of(verdict)) for verdict in VERDICTS)
    worst = max(score.of("reversed"), key=lambda row: row.fold, default=None)
    most = f", most of all {worst.what} ({number(worst.published, 3)} printed, {number(worst.ours, 3)} here)" if worst else ""
    first = (
        f"{name}: of {comparisons} printed comparisons of systems {holds} hold within {NEAR} times, {smaller} are smaller, {larger} larger "
        f"and {turned} reversed{most}."
    )
    order = "" if isnan(card.order) else f"; the order of a figure's comparisons is kept with a τ of {card.order:.2f} in the median"
    second = (
        f"Of {len(score.rows)} printed numbers ours are within {NEAR} times of {score.near}, and {score.fold:.2f} times apart in the "
        f"geometric mean; for {score.unexplained} that are farther off no cause is established{order}."
    )
    return first, second


def summary(cards: Sequence[Scorecard]) -> pd.DataFrame:
    """Return the table of papers, the last row of all of them: counts of rows and of comparisons by verdict, fold, order."""
    rows = [{"paper": published(card.paper).name, **_columns(card.score, card.order)} for card in cards]
    every = Score([row for card in cards for row in card.score.rows])
    return pd.DataFrame([*rows, {"paper": "all", **_columns(every, float("nan"))}])


def page(cards: Sequence[Scorecard]) -> str:
    """Return the page of all papers, Markdown: two sentences each, a table of papers, reversed comparisons, figures, and the rules."""
    parts = [HEAD, *(f"- {' '.join(sentences(card))}" for card in cards), to_markdown(_shown(summary(cards)))]
    parts.append(minutes_sentence([run for card in cards for run in card.runs]))
    turned = [row for card in cards for row in card.score.of("reversed")]
    parts += ["## What is reversed?", to_markdown(pd.DataFrame(list(map(_reversed, turned)))) if turned else "Nothing."]
    parts.append(RULES)
    for card in cards:
        parts += [f"## {published(card.paper).name}", to_markdown(_shown(pd.DataFrame(list(_figures(card)))))]
    text = "".join(part + ("\n" if part.startswith("- ") and following.startswith("- ") else "\n\n") for part, following in _pairs(parts))
    return text.rstrip("\n") + "\n"


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
        "no cause": score.unexplained,
    }


def _figures(card: Scorecard) -> Iterator[dict[str, object]]:
    for study, result, score in card.figures:
        limit = " (quick)" * result.quick
        name = f"{study.kind.capitalize()} {study.number}"
        yield {"": f"{name}: {study.printed.title}", "made": result.way + limit, **_columns(score, score.order)}


def _reversed(row: ScoredRow) -> dict[str, object]:
    place = f"{published(row.study.paper).name}, {row.study.kind} {row.study.number}"
    return {"": place, "what": row.what, "published": number(row.published, 3), "ours": number(row.ours, 3), "why": row.why}


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with fold and order as people read them."""
    return table.assign(**{name: [MISSING if isnan(value) else f"{value:.2f}" for value in table[name]] for name in ("fold", "order")})
