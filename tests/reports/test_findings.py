import math
from dataclasses import replace

import pandas as pd
import pytest
from report_samples import executed_only, mixed, point

from chronoscale.reports.findings import answers, basis, cautions, headline, order_sentence, sentence
from chronoscale.reports.report import Report
from chronoscale.reports.setting import Setting
from chronoscale.reports.strategy_result import Prediction, StrategyResult, describe_bad_loss
from chronoscale.reports.tables import comparison
from chronoscale.reports.training_run import Epoch, TrainingRun
from chronoscale.strategies.evaluation.fidelity import Coverage


def answers_text(*runs: StrategyResult) -> list[str]:
    report = Report("t", runs=runs)
    answered = [(answer, basis(section, report.sections)) for section in report.sections for answer in answers(section)]
    return [f"{answer.names} {sentence(answer, stands_on)}" for answer, stands_on in answered]


def headlines(*runs: StrategyResult) -> list[str]:
    report = Report("t", runs=runs)
    return [headline(section, basis(section, report.sections)) for section in report.sections]


def test_an_answer_names_the_fastest_and_its_gain_over_the_baseline() -> None:
    runs = (
        point("executed", "psg", 4, 4.0, 0.04, 5),
        point("executed", "real", 4, 2.0, 0.03, 5),
        point("executed", "slow", 4, 9.0, 0.1, 5),
    )
    assert answers_text(*runs) == ["real is fastest: 2.00 ± 0.03 s an epoch, 2.00 ± 0.04 times as fast as psg (4.00 ± 0.04 s)."]


def test_a_baseline_that_wins_is_compared_with_the_next() -> None:
    runs = (point("executed", "psg", 4, 1.0), point("executed", "real", 4, 1.5))
    assert answers_text(*runs) == ["psg is fastest: 1.00 s an epoch, 1.50 times as fast as the next, real (1.50 s)."]


def test_runs_within_their_spread_are_not_ranked() -> None:
    runs = (point("executed", "psg", 4, 1.02, 0.03, 5), point("executed", "real", 4, 1.0, 0.01, 5))
    assert answers_text(*runs) == ["psg and real tie: 1.02 ± 0.03 s and 1.00 ± 0.01 s an epoch."]


@pytest.mark.parametrize(("other", "text"), [(1.009, "psg and real tie: 1.01 s and 1.00 s an epoch"), (1.011, "real is fastest")])
def test_less_than_a_hundredth_is_a_tie_however_small_the_spread(other: float, text: str) -> None:
    assert answers_text(point("simulated", "psg", 4, other), point("simulated", "real", 4, 1.0))[0].startswith(text)


def test_ties_may_be_of_many_and_still_beat_the_baseline() -> None:
    runs = [point("executed", name, 2, epoch) for name, epoch in (("psg", 2.0), ("a", 1.0), ("b", 1.004), ("c", 1.008))]
    assert answers_text(*runs) == ["a, b and c tie: 1.00 s, 1.00 s and 1.01 s an epoch, 1.98 times as fast as psg (2.00 s)."]


def test_runs_that_disagree_do_not_crown_anyone() -> None:
    """Two runs of one experiment: a strategy leads only if it does beyond what it differs by between them."""
    apart = [point("executed", name, 1, epoch, run=run) for run, name, epoch in (("a", "psg", 1.0), ("a", "real", 0.9), ("b", "psg", 0.8))]
    assert answers_text(*apart, point("executed", "real", 1, 0.7, run="b")) == ["psg and real tie: 900 ± 100 ms and 800 ± 100 ms an epoch."]
    alike = [point("executed", name, 1, epoch, run=run) for run in "ab" for name, epoch in (("psg", 1.0), ("real", 0.5))]
    assert answers_text(*alike) == ["real is fastest: 500 ms an epoch, 2.00 times as fast as psg (1.00 s)."]


def test_one_strategy_has_nothing_to_beat() -> None:
    assert answers_text(point("executed", "psg", 4, 1.0)) == ["psg takes 1.00 s an epoch; nothing to compare with."]


@pytest.mark.parametrize(
    ("real", "text"),
    [
        ((1.0, 0.5, 0.4), "real is fastest from 2 to 8 ranks, 1.25 to 2 times as fast as psg."),
        ((1.0, 0.5, 0.6), "real is fastest from 2 to 4 ranks, psg on 8 ranks."),
        ((1.0, 0.5, 0.5), "real is fastest from 2 to 4 ranks, psg and real tie on 8 ranks."),
    ],
)
def test_a_headline_holds_everywhere_or_says_where(real: tuple[float, ...], text: str) -> None:
    runs = [point("executed", "psg", ranks, epoch) for ranks, epoch in ((2, 2.0), (4, 1.0), (8, 0.5))]
    runs += [point("executed", "real", ranks, epoch) for ranks, epoch in zip((2, 4, 8), real, strict=True)]
    lines = headlines(*runs)
    assert lines == [f"executed: {text.replace('1.25 to 2 ', '1.25 to 2.00 ')}"]


def test_headlines_speak_of_what_was_executed_first_and_never_across_settings() -> None:
    runs = [point("simulated", "real", 2, 0.001, work="large"), point("simulated", "psg", 2, 0.002, work="large")]
    runs += [point("executed", "psg", 2, 0.1, work="small", machine="Xeon"), point("executed", "psg", 2, 0.2, work="large", machine="Xeon")]
    lines = headlines(*runs)
    assert [line.partition(": on 2 ranks")[0] for line in lines] == ["executed: small, Xeon", "executed: large, Xeon", "simulated: large"]
    assert "real is fastest" in lines[2] and lines[2].endswith("(simulated, not validated).")
    assert all("fastest" not in line for line in lines[:2])  # alone in their settings


def replayed(error: float, costs: str = "fitted on Xeon") -> StrategyResult:
    return predicted("psg", 1.0, 1.0, error=error, costs=costs)


def predicted(
    name: str, forecast: float, took: float, spread: float = 0.0, error: float = 0.0, costs: str = "fitted on Xeon", **more: object
) -> StrategyResult:
    """An epoch of so many seconds, predicted and measured five times."""
    frame = pd.DataFrame([("TOTAL", 1e3 * forecast, error)], columns=["op", "predicted_ms", "error_pct"])
    prediction = Prediction(frame, costs, "fitted", Coverage(**{"rows": 4, "compared": 4, "share": 1.0, **more}))  # type: ignore[arg-type]
    return replace(point("executed", name, 2, took, spread, 5, work="g", machine="Xeon"), prediction=prediction)


def test_a_simulated_claim_carries_its_fidelity_where_validate_knows_it() -> None:
    simulated = Setting("simulated", (("dataset", "g"),), (("costs", "fitted on Xeon"),))
    claim = replace(point("simulated", "psg", 8, 1.0), setting=simulated)
    stands_on = "simulated, validated: epochs −4.5 % off those executed on 2 ranks"
    assert (
        headlines(replayed(-4.5), claim)[1]
        == f"simulated: g: on 8 ranks, psg takes 1.00 s an epoch; nothing to compare with ({stands_on})."
    )
    for other in (replayed(-4.5, "fitted on Atom"), replayed(math.nan), point("executed", "psg", 2, 1.0, work="g")):
        assert "(simulated, not validated)" in headlines(other, claim)[1]
    elsewhere = replace(claim, setting=replace(simulated, work=(("dataset", "h"),)))
    assert "(simulated, not validated)" in headlines(replayed(-4.5), elsewhere)[1]


def test_the_order_of_strategies_is_stated_pair_by_pair() -> None:
    """Of three measured at 1, 2 and 2.1 s the last two are within their spread, and the first is predicted to be slower than the second."""
    runs = (predicted("a", 1.5, 1.0, 0.01), predicted("b", 1.2, 2.0, 0.06), predicted("c", 3.0, 2.1, 0.06))
    report = Report("t", runs=runs)
    assert order_sentence(report.sections[0]) == (
        "Predicted order of strategies: on 2 ranks 1 of 2 pairs right, 1 too close for the repeats to decide (Kendall’s τ 0.33)."
    )
    assert cautions(report) == [
        "Predicted in the wrong order on 2 ranks: b takes 2.000 times as long as a, predicted 0.800 times. "
        "Do not choose between them by simulation.",
    ]
    assert order_sentence(Report("t", runs=runs[:1]).sections[0]) == ""
    others = tuple(replace(run, run=f"run-{i}") for i in (1, 2) for run in runs[:2])
    assert order_sentence(Report("t", runs=others).sections[0]) == (
        "Predicted order of strategies: on run-1, 2 ranks 0 of 1 pairs right (Kendall’s τ -1.0); "
        "on run-2, 2 ranks 0 of 1 pairs right (Kendall’s τ -1.0)."
    )


def test_strategies_that_were_not_compared_are_named() -> None:
    partly = predicted("a", 1.0, 1.0, compared=3, share=0.9, unmeasured=("H2D",))
    assert cautions(Report("t", runs=(partly,))) == [
        "a on 2 ranks: 3 of 4 rows compared (90.0% of the measured time); predicted only: H2D.",
    ]


def test_extrapolation_stands_in_the_headline() -> None:
    runs = [point("simulated", name, 2, epoch, source="extrapolated, fitted") for name, epoch in (("psg", 2.0), ("real", 1.0))]
    assert headlines(*runs)[0].endswith("(simulated, durations extrapolated, not validated).")
    assert answers_text(*runs)[0].endswith("(simulated, durations extrapolated, not validated).")


def test_what_failed_is_never_crowned_and_is_named() -> None:
    runs = (
        point("executed", "real", 2, 0.1, n=5, failed=describe_bad_loss([1.0, 0.5, math.nan, math.inf])),
        point("executed", "psg", 2, 1.0, n=5),
        point("executed", "blad", 2, 0.5, n=5),
    )
    assert answers_text(*runs) == ["blad is fastest: 500 ms an epoch, 2.00 times as fast as psg (1.00 s)."]
    assert cautions(Report("t", runs=runs)) == ["real on 2 ranks is not compared: loss not finite at iteration 2."]
    assert headlines(replace(runs[0])) == [""]


@pytest.mark.parametrize(("stopped", "why"), [("", "loss not finite in epoch 1"), ("rank 0: the loss", "rank 0: the loss")])
def test_a_training_that_failed_has_no_best(stopped: str, why: str) -> None:
    losses = (1.0, 1.0 if stopped else math.nan)
    epochs = [Epoch(i, "training", "index", 0, i, i + 1, loss, {"mae": 4.0, "rmse": 5.0}) for i, loss in enumerate(losses)]
    run = TrainingRun("run-1", 1, tuple(epochs), (), stopped=stopped)
    assert run.failed == why
    assert run.table()["failed"].tolist() == [why] and "best_mae" not in run.table()
    assert cautions(Report("t", staged=(run,))) == [f"run-1 is not compared: {why}."]


def test_kinds_are_answered_apart() -> None:
    ranks_by_kind = [(section.kind, answer.ranks) for section in mixed().sections for answer in answers(section)]
    assert ranks_by_kind == [("executed", 1), ("executed", 2), ("simulated", 1), ("simulated", 2)]


def test_cautions_come_from_the_numbers_and_say_where() -> None:
    runs = (
        point("executed", "psg", 2, 1.0, 0.2, 3),
        point("simulated", "psg", 2, 1.0, source="specified"),
        point("simulated", "real", 2, 1.0, source="extrapolated, fitted"),
    )
    assert cautions(Report("t", runs=runs, notes=("Mine.",))) == [
        "Mine.",
        "executed: Fewer than 5 repeats, too few to tell a difference from noise: psg on 2 ranks. Set `repeats` higher.",
        "executed: Spread of 10% or more of the epoch, so smaller differences mean nothing: psg on 2 ranks.",
        "simulated: Durations from a datasheet, which no measurement here confirms: the simulated figures of psg on 2 ranks.",
        "simulated: Durations extrapolated beyond a profile, which no measurement here confirms: the simulated figures of real on 2 ranks.",
    ]
    assert (
        cautions(Report("t", runs=runs[:1]))[0]
        == "Fewer than 5 repeats, too few to tell a difference from noise: psg on 2 ranks. Set `repeats` higher."
    )


def test_sound_measurements_need_no_caution() -> None:
    assert cautions(executed_only()) == []


def test_no_strategy_leads_over_others_that_train_on_more() -> None:
    """real-g+ has half of psg's epoch and half of its steps; psg and blad train alike."""
    alike = [
        replace(point("executed", name, 2, epoch_s), steps=8, targets=800, mathematics="x") for name, epoch_s in (("psg", 2), ("blad", 1))
    ]
    less = replace(point("executed", "real-g+", 2, 0.5), steps=4, targets=400, mathematics="y")
    (text,) = headlines(*alike, less)
    assert text.endswith(
        "epochs compare only where the same steps train on the same targets: of psg and blad, on 2 ranks, blad is fastest: 1.00 s an "
        "epoch, 2.00 times as fast as psg (2.00 s); real-g+ trains on other steps or targets."
    )
    assert answers_text(*alike, less)[1] == "real-g+ takes 500 ms an epoch; no other trains on the same."
    (section,) = Report("t", runs=(*alike, less)).sections
    table = comparison(section).set_index("strategy")
    assert table["steps"].to_dict() == {"psg": 8, "blad": 8, "real-g+": 4} and table["target_us"]["real-g+"] == 1250
    assert table["speedup"]["blad"] == 2 and math.isnan(table["speedup"]["real-g+"])


def test_all_that_train_otherwise_have_nobody_first() -> None:
    runs = [replace(point("executed", name, 2, 1.0), mathematics=name) for name in ("psg", "real-g+")]
    (text,) = headlines(*runs)
    assert text.endswith("on the same targets: psg and real-g+ train on other steps or targets.")


def test_work_that_nobody_recorded_is_compared_with_care() -> None:
    """Runs of earlier versions say nothing of what they train on."""
    runs = [replace(point("executed", name, 2, 1.0, 0.01, 5), mathematics="") for name in ("psg", "real-g+")]
    assert [note for note in cautions(Report("t", runs=tuple(runs))) if "was not recorded" in note]
    assert not [note for note in cautions(Report("t", runs=tuple(runs[:1]))) if "was not recorded" in note]
