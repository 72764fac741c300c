"""Rivals of models that predict links in dictionaries and scikit-learn, by code of their own: nothing of `chronoscale`'s is called."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

NEIGHBOURS = 10


class Candidates(NamedTuple):
    """Batch of events to score, or a snapshot's edges: src [E]; candidates [E, 2 + k], the destination, a random negative and ranked ones,
    -1 where there is none; known: the number of events before it."""

    src: np.ndarray
    candidates: np.ndarray
    known: int


class History:
    """What is known of a stream so far. src, dst, clock [M]: its events, and the time by which they fade; t [M]: their times."""

    def __init__(self, src: np.ndarray, dst: np.ndarray, clock: np.ndarray, t: np.ndarray, half_lives: Sequence[float], hops: int) -> None:
        self.src, self.dst, self.clock, self.t, self.hops, self.done = src, dst, clock, t, hops, 0
        self.rates = 1 / np.array(half_lives)[:, None]
        nodes = int(max(src.max(), dst.max())) + 1
        self.faded, self.now = np.full((len(half_lives), nodes), -np.inf), 0.0
        self.degree = np.zeros(nodes)
        self.count: Counter[tuple[int, int]] = Counter()
        self.newest: dict[tuple[int, int], int] = {}
        self.near: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=NEIGHBOURS))

    def learn(self, known: int) -> None:
        """Take in the events up to number `known`, a few at a time: the weights of many would be too small for a float."""
        while self.done < known:
            self._learn(min(known, self.done + 200))

    def _learn(self, known: int) -> None:
        new, now = slice(self.done, known), self.clock[known - 1] + 1
        for row, rate in enumerate(self.rates[:, 0]):
            added = np.bincount(self.dst[new], np.exp2((self.clock[new] - now) * rate), self.faded.shape[1])
            with np.errstate(divide="ignore"):
                self.faded[row] = np.logaddexp2(self.faded[row] - (now - self.now) * rate, np.log2(added))
        self.degree += np.bincount(self.src[new], minlength=len(self.degree)) + np.bincount(self.dst[new], minlength=len(self.degree))
        for event, (a, b) in enumerate(zip(self.src[new].tolist(), self.dst[new].tolist(), strict=True), self.done):
            self.count[a, b] += 1
            self.newest[a, b] = event
            self.near[a].append(b)
            if a != b:
                self.near[b].append(a)
        self.done, self.now = known, now

    def scores(self, batch: Candidates, window: float) -> dict[str, np.ndarray]:
        """Return every rival's scores, those of fading popularity with the number of their half-life, [E, 2 + k]; -inf for absent ones."""
        self.learn(batch.known)
        shape, there = batch.candidates.shape, batch.candidates.ravel() >= 0
        ends = np.maximum(batch.candidates, 0)
        pairs = [(a, b) for a, row in zip(batch.src.tolist(), ends.tolist(), strict=True) for b in row]
        newest = np.array([self.newest.get(pair, -1) for pair in pairs])
        seen, since = newest >= 0, self.t[max(batch.known - 1, 0)] - window
        near = {a: self._near(a) for a in set(batch.src.tolist())}
        common = [sum(near[a][c] for c in self.near[b]) if b in self.near else 0 for a, b in pairs]
        flat = {
            "EdgeBank": seen * 1.0,
            "window": (seen & (self.t[np.maximum(newest, 0)] >= since)) * 1.0,
            "frequency": np.array([self.count.get(pair, 0) for pair in pairs], np.float64),
            "attachment": (self.degree[batch.src][:, None] * self.degree[ends]).ravel(),
            "neighbours": np.array(common, np.float64),
        }
        for row in range(len(self.rates)):
            popularity = np.maximum(self.faded[row][ends.ravel()].round(9), -1e6)  # equal sums in another order are equal
            flat[f"popular {row}"] = popularity
            flat[f"seen {row}"] = popularity + 1e7 * seen
            flat[f"latest {row}"] = np.where(seen, newest, popularity - 64)
        return {name: np.where(there, values, -np.inf).reshape(shape) for name, values in flat.items()}

    def _near(self, node: int) -> Counter[int]:
        near = list(self.near[node]) if node in self.near else []
        for _ in range(self.hops - 1):
            near = [far for one in near for far in self.near.get(one, ())]
        return Counter(near)


def figures(scores: np.ndarray) -> dict[str, float]:
    """Return AP and AUC against the first negative, MRR among the others, where there are any."""
    compared = np.isfinite(scores[:, 1])
    result = {}
    if compared.any():
        values = scores[compared, :2].T.ravel()
        labels = np.repeat([1, 0], compared.sum())
        result = {"ap": float(average_precision_score(labels, values)), "auc": float(roc_auc_score(labels, values))}
    ranked = compared & np.isfinite(scores[:, 2:]).any(1)
    if ranked.any():
        positive, others = scores[ranked, :1], scores[ranked, 2:]
        rank = 1 + 0.5 * ((others > positive).sum(1) + (others >= positive).sum(1))
        result["mrr"] = float((1 / rank).mean())
    return result


def _means(many: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([one[key] for one in many if key in one] or [math.nan])) for key in ("ap", "auc", "mrr")}


def links(
    history: History, validation: Sequence[Candidates], test: Sequence[Candidates], window: float, apart: bool
) -> dict[str, dict[str, float]]:
    """Return the scores of every rival on the test; half-lives are those of the best AP in validation. apart: scores are means over the
    batches, else they are of all at once."""

    def total(batches: Sequence[Candidates], keep: slice) -> dict[str, dict[str, float]]:
        scored: dict[str, list[np.ndarray]] = defaultdict(list)
        for batch in batches:
            for name, scores in history.scores(batch._replace(candidates=batch.candidates[:, keep]), window).items():
                scored[name].append(scores)
        if not apart:
            return {name: figures(np.concatenate(scores)) for name, scores in scored.items()}
        each = {name: [figures(scores) for scores in many if len(scores)] for name, many in scored.items()}
        return {name: _means(many) for name, many in each.items()}

    validated = total(validation, slice(0, 2))
    tested = total(test, slice(None))
    rows = range(len(history.rates))
    chosen = {kind: max(rows, key=lambda row, kind=kind: validated[f"{kind} {row}"]["ap"]) for kind in ("seen", "latest", "popular")}
    fixed = {name: scores for name, scores in tested.items() if " " not in name}
    return {**fixed, **{kind: tested[f"{kind} {row}"] for kind, row in chosen.items()}}
