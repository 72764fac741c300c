"""Scorecard as one HTML page: what scorecard_page says, a drawing of all rows, and the rows themselves, figure by figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import isfinite
from pathlib import Path

import pandas as pd

from chronoscale.harness.reproduce.claim_section import bands_sentence, claim_band, claim_number, claim_words, places, reason
from chronoscale.harness.reproduce.claims import CLAIM_VERDICTS, ScoredClaim, claims_of
from chronoscale.harness.reproduce.minutes import minutes_sentence
from chronoscale.harness.reproduce.pages import HOW, readable
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.reproduce.scorecard import VERDICTS, Score, Scorecard, ScoredRow
from chronoscale.harness.reproduce.scorecard_page import (
    CLAIMED,
    HEAD,
    PRINTED,
    REVERSED,
    RULED,
    RULES,
    TITLE,
    figures,
    runs_of,
    sentences,
    summary,
    turned_rows,
)
from chronoscale.harness.reproduce.sums_sentences import sums_sentences
from chronoscale.harness.study.findings import NEAR
from chronoscale.harness.study.results import StoredResult
from chronoscale.reports.charts.strips import ENDS, Dot, strip
from chronoscale.reports.html_page import document
from chronoscale.reports.numbers import MISSING, number
from chronoscale.reports.published import published
from chronoscale.reports.table_formats import to_html

STYLE = Path(__file__).with_name("scorecard.css")
OTHER = "other"  # a row that compares no systems


def html_page(cards: Sequence[Scorecard]) -> str:
    """Return the page of all papers as one HTML document that fetches nothing and runs no script: light, dark, on a phone and on paper."""
    claims = [claim for card in cards for claim in claims_of(card)]
    parts = [*map(_paper, cards), f'<p class="soft">{_marked(HEAD)}</p>']
    parts += [f"<h2>{CLAIMED}</h2>", *map(_claims, cards), f"<p>{bands_sentence(claims)}</p>", _drawing(cards)]
    parts += [f"<h2>{PRINTED}</h2>", to_html(summary(cards))]
    parts += [f"<p>{sentence}</p>" for sentence in (*sums_sentences(cards), minutes_sentence(runs_of(cards)))]
    turned = turned_rows(cards)
    parts += [f"<h2>{REVERSED}</h2>", _wrapped(turned) if len(turned) else "<p>Nothing.</p>"]
    parts += [f"<h2>{RULED}</h2>", *(f"<p>{_marked(rule)}</p>" for rule in RULES.split("\n\n"))]
    parts += [_figures(card) for card in cards]
    return document(TITLE, "\n".join(parts), STYLE.read_text("utf-8"))


def _paper(card: Scorecard) -> str:
    """Return what a reader may rely on of one paper, with its claims by verdict."""
    name, claims = published(card.paper).name, claims_of(card)
    first, second = sentences(card)
    first = first.removeprefix(f"{name}: ")
    return (
        f'<section class="paper">\n<h3>{escape(name)} {_counts(claims)}</h3>\n<p>{escape(first[:1].upper() + first[1:])}</p>\n'
        f'<p class="proof">{escape(second)}</p>\n</section>'
    )


def _counts(claims: Sequence[ScoredClaim]) -> str:
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in CLAIM_VERDICTS}
    return " ".join(_badge(verdict, f"{count} {verdict}") for verdict, count in counts.items() if count)


def _badge(verdict: str, text: str) -> str:
    return f'<span class="verdict {_kind(verdict)}">{escape(text)}</span>'


def _kind(verdict: str) -> str:
    """Return a verdict as the class of a style sheet: one of the rows' verdicts, or that of what has none."""
    return verdict if verdict in VERDICTS else OTHER


def _claims(card: Scorecard) -> str:
    """Return a paper's claims, a card each."""
    items = "\n".join(map(_claim, claims_of(card)))
    return f'<h3>{escape(published(card.paper).name)}</h3>\n<ul class="claims">\n{items}\n</ul>'


def _claim(claim: ScoredClaim) -> str:
    band = claim_band(claim)
    numbers = (
        f'<span class="number">{claim_number(claim, claim.printed)}</span> published '
        f'<span class="number">{claim_number(claim, claim.ours)}</span> ours{f" ({escape(band)})" if band != MISSING else ""}'
        if isfinite(claim.printed)
        else "no number in print"
    )
    made = ", ".join(filter(None, [claim.way, places(claim)]))
    quote = f"“{claim.claim.sentence}” ({claim.claim.place})" + (f"; ours {made}" if made else "")
    return (
        f"<li><div>{_badge(claim.verdict, claim.verdict)} <b>{escape(claim_words(claim))}</b><p>{escape(quote)}</p></div>\n"
        f"<div>{numbers}<p>{escape(reason(claim))}</p></div></li>"
    )


def _drawing(cards: Sequence[Scorecard]) -> str:
    """Return the strips of all papers, a dot a row, with what their colours mean."""
    drawn = {published(card.paper).name: [row for row in card.score.rows if isfinite(row.fold)] for card in cards}
    left_out = sum(len(card.score.rows) for card in cards) - sum(map(len, drawn.values()))
    strips = "\n".join(
        f"<h3>{escape(name)}</h3>\n{strip(list(map(_dot, rows)), f'{name}: ours over published, a dot a row', NEAR)}"
        for name, rows in drawn.items()
    )
    keys = [*((verdict, verdict) for verdict in VERDICTS), (OTHER, "no comparison")]
    legend = " ".join(f'<span class="key {kind}">{text}</span>' for kind, text in keys)
    caption = (
        f"Ours over the published, a dot a row, on a logarithmic axis: at 1× they are the same, shaded within {NEAR} times; at an edge is "
        f"what is {ENDS} times apart or more. Colours are of rows that compare two systems. Not drawn, as 0 or of another sign: {left_out}."
    )
    return (
        f'<h2>How far are ours from what is printed?</h2>\n<figure><div class="strips">\n<p class="legend">{legend}</p>\n{strips}\n</div>\n'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _dot(row: ScoredRow) -> Dot:
    place = f"{row.study.kind.capitalize()} {row.study.number}, {row.what}"
    return Dot(row.ratio, row.verdict if row.compares else OTHER, f"{place}: {number(row.published, 3)}, ours {number(row.ours, 3)}")


def _figures(card: Scorecard) -> str:
    """Return a paper's table of figures, and the rows of each."""
    rows = "\n".join(_rows(study, result, score) for study, result, score in card.figures)
    return f"<h2>{escape(published(card.paper).name)}, figure by figure</h2>\n{to_html(figures(card))}\n{rows}"


def _rows(study: Study, result: StoredResult, score: Score) -> str:
    """Return a figure's rows that have a printed number, folded away."""
    frame = result.findings.rows
    printed = frame[[name for name in frame if str(name).startswith("published")]]
    table = readable(replace(result.findings, rows=frame[printed.apply(pd.to_numeric, errors="coerce").notna().any(axis=1)]))
    title = f"{study.kind.capitalize()} {study.number}: {study.printed.title}"
    sums = f"{len(score.rows)} printed, {score.near} within {NEAR} times"
    return (
        f'<details><summary>{escape(title)} <span class="soft">{sums}</span></summary>\n<p class="proof">{escape(HOW[result.way])}</p>\n'
        f"{_wrapped(table.rename(columns={'why': 'why they differ'}))}</details>"
    )


def _wrapped(table: pd.DataFrame) -> str:
    """Return a table whose first and last columns are sentences."""
    return f'<div class="wrapped">{to_html(table)}</div>'


def _marked(text: str) -> str:
    """Return text with Markdown's `code` and **bold** as HTML, all else escaped."""
    text = re.sub(r"`(.+?)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
