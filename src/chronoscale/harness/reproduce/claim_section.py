"""Claim section: what became of the claims of papers' abstracts, in a sentence a paper and in a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import pandas as pd

from chronoscale.harness.reproduce.claim_values import End
from chronoscale.harness.reproduce.claims import CLAIM_VERDICTS, ScoredClaim
from chronoscale.harness.study.expressions import plural
from chronoscale.harness.study.findings import AGREES, NEAR
from chronoscale.reports.numbers import MISSING, number
from chronoscale.reports.published import published

WORDS: dict[End, str] = {"low": "at least", "mean": "on average", "high": "up to"}


def holding_sentence(paper: str, claims: Sequence[ScoredClaim]) -> str:
    """Return which of a paper's claims a reader may rely on, one sentence. paper: its key, such as 'real'. claims: its, one at least."""
    agreeing = [claim for claim in claims if claim.verdict == "holds"]
    holding, limited = ([claim for claim in agreeing if bool(claim.limit) == has] for has in (False, True))
    of = f"{published(paper).name}: a reader may rely on {len(holding) or 'none'} of its {len(claims)} {plural(len(claims), 'claim')}"
    if holding:
        of += f", within {NEAR} times of the printed: {'; '.join(map(_briefly, holding))}"
    if limited:
        of += f"; {len(limited)} {'agrees' if len(limited) == 1 else 'agree'}, but under a limit: {'; '.join(map(_briefly, limited))}"
    if agreeing:
        return f"{of}."
    nearest = min((claim for claim in claims if claim.verdict in ("smaller", "larger")), key=lambda claim: claim.fold, default=None)
    return of + (f"; nearest is {_briefly(nearest)}." if nearest else ".")


def others_clause(claims: Sequence[ScoredClaim]) -> str:
    """Return what became of the claims that do not hold, and which of them is reversed the most, else farthest; '' for none."""
    others = [claim for claim in claims if claim.verdict != "holds"]
    counts = {verdict: sum(claim.verdict == verdict for claim in others) for verdict in sorted(CLAIM_VERDICTS, key="reversed".__eq__)}
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    tested = sorted((claim for claim in others if claim.values), key=lambda claim: (claim.verdict == "reversed", claim.fold))
    worst = f", {'most of all' if tested[-1].verdict == 'reversed' else 'farthest'} {_briefly(tested[-1])}" if tested else ""
    none = [claim_words(claim) for claim in others if claim.vanishes]
    gone = f"; no difference at all here: {' and '.join(none)}" if none else ""
    return f"of its {'other ' * (len(others) < len(claims))}claims {counted}{worst}{gone}" if others else ""


def bands_sentence(claims: Sequence[ScoredClaim]) -> str:
    """Return of how many claims that do not hold, and have a band under joint assumptions, the printed number lies within that."""
    banded = [claim for claim in claims if claim.judged_jointly and claim.verdict != "holds"]
    inside = sum(claim.inside for claim in banded)
    return (
        f"Claims that do not hold and whose own number was drawn under joint assumptions: {len(banded)}; the printed number lies within "
        f"the band of {inside} of them, where what is assumed decides."
    )


def claim_table(claims: Sequence[ScoredClaim]) -> pd.DataFrame:
    """Return the table of claims as people read it, a row a claimed number: printed, ours with its bands, verdict, how made, why."""
    return pd.DataFrame(
        [
            {
                "paper": published(claim.paper).name,
                "claim": f"{claim_words(claim)} (“{claim.claim.sentence}”, {claim.claim.place})",
                "published": claim_number(claim, claim.printed),
                "ours": claim_number(claim, claim.ours),
                "band": claim_band(claim),
                "verdict": claim.verdict,
                "made": claim.way or MISSING,
                "where": places(claim) or MISSING,
                "why": reason(claim),
            }
            for claim in claims
        ]
    )


def claim_words(claim: ScoredClaim) -> str:
    """Return what is claimed, with which of several numbers it is, such as 'FAST over all rivals, up to'."""
    several = claim.end != "mean" or len(claim.values) > 1 or any(value.points > 1 for value in claim.values)
    return claim.claim.claim + f", {WORDS[claim.end]}" * several


def claim_number(claim: ScoredClaim, value: float) -> str:
    """Return a number of a claim as it is measured: '2.10×', '89.0%', '+0.0382'."""
    if not isfinite(value):
        return number(value)
    shown = {
        "times": f"{number(value, 3)}×",
        "saved": f"{100 * value:.2f}%",
        "gain": f"{'+' * (value > 0)}{number(value, 3)}",
        "number": number(value, 3),
    }
    return shown[claim.claim.measure].replace("-", "−")


def claim_band(claim: ScoredClaim) -> str:
    """Return from where to where ours lie: over the rows, and under joint assumptions."""
    if not claim.values:
        return MISSING
    low, high = (claim_number(claim, end) for end in claim.band)
    ends = " to ".join(claim_number(claim, end) for end in (claim.joint.low, claim.joint.high)) if claim.joint else ""
    joint = f"{ends} of a middle case under joint assumptions" if ends else ""
    return "; ".join(filter(None, [f"{low} to {high}" if low != high else "", joint])) or MISSING


def places(claim: ScoredClaim) -> str:
    """Return the figures and tables that answer a claim, such as 'Figure 8'."""
    return ", ".join(f"{study.kind.capitalize()} {study.number}" for study, _ in claim.studies)


def reason(claim: ScoredClaim) -> str:
    """Return what limits ours; why they differ, where they do; what the paper's own rows give, where it is another number; and what the
    claim leaves open."""
    summed = claim.summed
    apart = abs(summed - claim.printed) > AGREES * abs(claim.printed)
    own = f"the printed rows themselves give {claim_number(claim, summed)}" if apart else ""
    inside = "the printed lies within our joint band" if claim.inside and claim.verdict != "holds" else ""
    none = f"no difference here, within {AGREES:.0%} of none" if claim.vanishes else ""
    why = claim.why if claim.verdict != "holds" else ""
    return "; ".join(filter(None, [claim.limit, none, inside, why, own, claim.claim.note]))


def _briefly(claim: ScoredClaim) -> str:
    made = "; ".join(filter(None, [claim.way, claim.limit]))
    return f"{claim_words(claim)} ({claim_number(claim, claim.printed)} printed, {claim_number(claim, claim.ours)} here, {made})"
