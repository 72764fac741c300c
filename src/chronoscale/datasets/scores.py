"""Scores: the table of the numbers that say how good predictions are. A key that is not in it is no score, wherever it turns up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator

NEW_NODES = "on events with a node that training has not seen"


@dataclass(frozen=True, slots=True)
class Score:
    """Score of predictions, such as MAE, average precision or accuracy: a measure of how good they are.

    key: in files, JSON and names of columns. title, meaning: for people. format: "share" is shown as per cent. may_be_undefined: NaN or
    infinite also where training is sound, as there may be nothing to compute it from.
    """

    key: str
    title: str
    meaning: str
    better: Literal["lower", "higher"]
    format: Literal["number", "share"] = "number"
    may_be_undefined: bool = False

    def beats(self, value: float, rival: float) -> bool:
        """Return whether a value of this score is better than `rival`; not where they are equal, or either is NaN."""
        return value < rival if self.better == "lower" else value > rival

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values of this score, NaN left out; NaN where there is no other."""
        known = [value for value in values if value == value]
        return (min if self.better == "lower" else max)(known, default=float("nan"))

    def describe(self, value: float) -> str:
        """Describe a value of this score for people, as in "MAE 2.77"."""
        return f"{self.title} {'undefined' if value != value else self.text(value)}"

    def text(self, value: float) -> str:
        """Return a value of this score as people read it everywhere: a share as per cent, "2.77%"; '–' where it is undefined."""
        if value != value:
            return "–"
        return f"{value:.2%}" if self.format == "share" else f"{value:,.4g}"


SCORES: Mapping[str, Score] = {
    score.key: score
    for score in (
        Score("mae", "MAE", "mean absolute error in units of the data", "lower"),
        Score("rmse", "RMSE", "root mean square error in units of the data", "lower"),
        Score("mape", "MAPE", "mean absolute error over the reading, zeros left out", "lower", "share", may_be_undefined=True),
        Score("mse", "MSE", "mean squared error", "lower"),
        Score("ap", "AP", "average precision", "higher"),
        Score("auc", "AUC", "area under the ROC curve", "higher"),
        Score("mrr", "MRR", "mean reciprocal rank", "higher"),
        Score("accuracy", "accuracy", "share of predictions that are right", "higher", "share"),
        Score("ap_new", "AP (new nodes)", f"average precision {NEW_NODES}", "higher", may_be_undefined=True),
        Score("auc_new", "AUC (new nodes)", f"area under the ROC curve {NEW_NODES}", "higher", may_be_undefined=True),
        Score("mrr_new", "MRR (new nodes)", f"mean reciprocal rank {NEW_NODES}", "higher", may_be_undefined=True),
    )
}  # in the order of columns; the first that a result has stands for it where there is room for one


def require_score(key: str) -> str:
    """Check that a key of a result is a score's, such as "mae" or "ap", and return it. Raises ValueError for one that is not in
    `SCORES`."""
    if key not in SCORES:
        raise ValueError(f"'{key}' is no score; there are {', '.join(SCORES)}")
    return key


FRONTS = ("best_", "last_", "test_", "validation_", "rival_")  # of columns that hold a score


def score_of(column: str) -> Score | None:
    """Return the score that a table's column holds by its name, such as mae, best_mae or test_mae; None for another column."""
    return next((score for front in ("", *FRONTS) if (score := SCORES.get(column.removeprefix(front)))), None)


Scores = dict[Annotated[str, AfterValidator(require_score)], float]  # by key; read by pydantic, a key that is none is a mistake


def scores_present(results: Iterable[Mapping[str, float]]) -> list[Score]:
    """Return the scores that any of the results of predictions (values by key) has, in the order of `SCORES`: the columns of a table of
    them. Raises ValueError for a key that is no score's."""
    keys = {require_score(key) for result in results for key in result}
    return [score for key, score in SCORES.items() if key in keys]
