"""Results of a run of `compare`, for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from chronoscale.datasets.scores import SCORES, Score
from chronoscale.harness.compare.outcome import Comparison, StrategyOutcome, listed, places
from chronoscale.harness.compare.scaling import scaling_sentences
from chronoscale.harness.compare.sureness import TimesToTarget, times_to_target
from chronoscale.harness.compare.target import reached_by_half
from chronoscale.harness.compare.verdict import verdict
from chronoscale.harness.display.cell import record
from chronoscale.reports.numbers import number, seconds, size

NAN = float("nan")
FILE = "compare.json"  # in the run's folder: as `summary` returns it


def times(result: Comparison) -> TimesToTarget:
    """Return when every strategy of a comparison reaches its target, and how sure that is."""
    epochs = {one.label: one.epochs_to(result.target) for one in result.outcomes}
    return times_to_target(epochs, {one.label: one.passes_s for one in result.outcomes}, result.seeds, bool(result.cluster))


def rows(result: Comparison) -> pd.DataFrame:
    """Return one row a strategy of a comparison, the first to reach the target on top; times in s, sizes in bytes, NaN for never.

    reached: trainings that got to the target. equal_steps: the score after as many optimiser steps as the strategy with the fewest
    takes in all. mathematics: the digest of what is trained (`strategies.trained_work`). rank_hours: to the target, times ranks. Scores
    are those that half of the seeds reach.
    """
    when = times(result)
    outcomes = {one.label: one for one in result.outcomes}
    steps = min(one.steps for one in result.outcomes) * result.epochs
    table = []
    for name in when.order:
        one, median = outcomes[name], when.median(name)
        table.append(
            {
                "label": name,
                "strategy": one.name,
                "ranks": one.ranks,
                "to_target_s": _known(median),
                "low_s": _known(when.low[name]),
                "high_s": _known(when.high[name]),
                "reached": when.reached(name),
                "seeds": len(result.seeds),
                "first_in": when.first_in[name],
                "epochs_to_target": (to_target := _known(round(median / one.epoch_s) if np.isfinite(median) else median)),
                "steps_to_target": to_target * one.steps,
                "epoch_s": one.epoch_s,
                "steps": one.steps,
                "targets": one.targets,
                "mathematics": one.mathematics,
                "best": reached_by_half(one.best(result.score), result.score),
                "equal_steps": reached_by_half(_at_steps(one, steps), result.score),
                "test": reached_by_half(np.array(list(one.test.values())), result.score) if one.test else NAN,
                "learning_rate": one.rate,
                "peak_bytes": one.peak_bytes,
                "moved_bytes": one.moved_bytes,
                "rank_hours": _known(one.ranks * median / 3600),
                "alike": ", ".join(other for other in one.group if other != one.label),
            }
        )
    return pd.DataFrame(table)


def _at_steps(one: StrategyOutcome, steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Each seed's score after the last epoch that ends within so many steps; NaN where there is none."""
    epoch = steps // one.steps
    return np.array([curve[epoch - 1] if 0 < epoch <= len(curve) else NAN for curve in one.curves.values()], np.float64)


def _known(value: float) -> float:
    return value if np.isfinite(value) else NAN


def rounded_table(record: Mapping[str, Any]) -> pd.DataFrame:
    """Return the table of a comparison rounded for people, for the terminal and for pages. record: as `summary` returns it."""
    score, cluster, shown = SCORES[record["score"]], record["cluster"], []
    for row in record["strategies"]:
        span = f"{_time(row['low_s'])} to {_time(row['high_s'])}"
        shown.append(
            {
                "strategy": row["strategy"],
                **({"GPUs": row["ranks"]} if cluster else {}),
                "to target": _time(row["to_target_s"]),
                "nine tenths": span if row["reached"] else "",
                "reached": f"{row['reached']} of {row['seeds']}",
                "first in": f"{row['first_in']:.0%}",
                "epoch": seconds(row["epoch_s"]),
                "epochs": "" if row["epochs_to_target"] is None else f"{row['epochs_to_target']:g}",
                "steps": row["steps"],
                "targets": f"{row['targets']:,}",
                f"best {score.title}": _score(score, row["best"]),
                "at equal steps": _score(score, row["equal_steps"]),
                **({f"test {score.title}": _score(score, row["test"])} if row["test"] is not None else {}),
                "rate": f"{row['learning_rate']:g}",
                "memory": size(row["peak_bytes"]),
                "moved": size(row["moved_bytes"]),
                f"{'GPU' if cluster else 'rank'}-hours": _number(row["rank_hours"], 3),
            }
        )
    return pd.DataFrame(shown)


def _score(score: Score, value: float | None) -> str:
    return score.text(NAN if value is None else value) if score.format == "share" else _number(value, 4)


def _number(value: float | None, digits: int) -> str:
    return number(NAN if value is None else value, digits)


def _time(value: float | None) -> str:
    return "never" if value is None else seconds(value)


def notes(result: Comparison) -> list[str]:
    """Return sentences beside a comparison: what times and rates are, naive predictions, failed trainings, shared ones."""
    counted = "a time to the target is a seed's epochs times the median epoch, without what happens once before"
    if result.cluster:
        certain = all(len(one.passes_s) == 1 for one in result.outcomes)
        doubt = ", whose error is in no interval" if certain else ", in draws of what is uncertain"
        lines = [f"{counted}; virtual ranks learned what so many GPUs learn, and epochs are simulated{doubt}"]
    else:
        lines = [f"{counted}; epochs were timed in turns"]
    lines += [*result.refused, *result.remarks]
    if result.naive:
        rivals = ", ".join(f"{name} {result.score.describe(value)}" for name, value in result.naive.items())
        lines.append(f"without a model: {rivals}")
    lines += scaling_sentences(result, times(result))
    lines += _ends_of_the_grid(result)
    for one in result.outcomes:
        if one.label == one.group[0]:
            if len(one.group) > 1:
                lines.append(f"{', '.join(one.group)} train alike, and share trainings")
            lines += [f"{one.label}, seed {seed}: {text}" for seed, text in one.failed.items()]
    return lines


def _ends_of_the_grid(result: Comparison) -> list[str]:
    """Sentences on strategies whose best learning rate is the lowest or the highest of those tried."""
    rates = result.rates
    sentences = []
    for end, rate in (("lowest", rates[0]), ("highest", rates[-1])) if len(rates) > 1 else ():
        if labels := [one.label for one in result.outcomes if one.label == one.group[0] and one.rate == rate]:
            sentences.append(f"another learning rate may be better: {rate:g}, the {end} of those tried, is the best of {listed(labels)}")
    return sentences


def where(result: Comparison) -> str:
    """Return the words for a table's heading: where strategies were compared, and that they were executed, or simulated."""
    return f"{'' if result.cluster else 'executed '}{places(result.scales, result.cluster)}"


def summary(result: Comparison) -> dict[str, Any]:
    """Return what `chronoscale compare --json` prints: verdict, target, naive scores, a record a strategy, every seed's curve."""
    when = times(result)
    return {
        "verdict": verdict(result, when),
        "score": result.score.key,
        "target": result.target.value,
        "target_is": result.target.why,
        "ranks": list(result.scales),
        "cluster": result.cluster,
        "epochs": result.epochs,
        "seeds": list(result.seeds),
        "naive": dict(result.naive),
        "naive_meanings": dict(result.meanings),
        "first_without_seed": {str(seed): name for seed, name in when.without.items()},
        "strategies": [record({str(key): value for key, value in row.items()}) for row in rows(result).to_dict("records")],
        "curves": {one.label: {str(seed): list(curve) for seed, curve in one.curves.items()} for one in result.outcomes},
        "seconds": {name: [value if np.isfinite(value) else None for value in values.tolist()] for name, values in when.seconds.items()},
        "notes": notes(result),
    }
