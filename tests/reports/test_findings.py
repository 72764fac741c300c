import pytest
from report_samples import executed_only, mixed, point

from chronoscale.reports.findings import answers, cautions, headline
from chronoscale.reports.report import Report


def said(*runs: object) -> list[str]:
    return [f"{answer.fastest} {answer.how}" for answer in answers(Report("t", runs=runs))]  # type: ignore[arg-type]


def test_an_answer_names_the_fastest_and_its_gain_over_the_baseline() -> None:
    runs = (
        point("executed", "psg", 4, 4.0, 0.04, 5),
        point("executed", "real", 4, 2.0, 0.03, 5),
        point("executed", "slow", 4, 9.0, 0.1, 5),
    )
    assert said(*runs) == ["real is fastest: 2.00 ± 0.03 s an epoch, 2.00 ± 0.04 times as fast as psg (4.00 ± 0.04 s)."]


def test_a_baseline_that_wins_is_compared_with_the_next() -> None:
    runs = (point("simulated", "psg", 4, 1.0), point("simulated", "real", 4, 1.5))
    assert said(*runs) == ["psg is fastest: 1.00 s an epoch, 1.50 times as fast as the next, real (1.50 s)."]


def test_runs_within_their_spread_are_not_ranked() -> None:
    runs = (point("executed", "psg", 4, 1.02, 0.03, 5), point("executed", "real", 4, 1.0, 0.01, 5))
    assert said(*runs) == ["real and psg cannot be told apart: 1.00 ± 0.01 s and 1.02 ± 0.03 s an epoch."]


def test_one_strategy_has_nothing_to_beat() -> None:
    assert said(point("executed", "psg", 4, 1.0)) == ["psg takes 1.00 s an epoch; nothing to compare with."]


@pytest.mark.parametrize(
    ("real", "text"),
    [
        ((1.0, 0.5, 0.4), "real is fastest from 2 to 8 ranks, 1.25 to 2.00 times as fast as psg."),
        ((1.0, 0.5, 0.6), "real is fastest from 2 to 4 ranks, psg on 8 ranks."),
        ((1.0, 0.5, 0.5), ""),
    ],
)
def test_a_headline_holds_everywhere_or_says_where(real: tuple[float, ...], text: str) -> None:
    runs = [point("simulated", "psg", ranks, epoch) for ranks, epoch in ((2, 2.0), (4, 1.0), (8, 0.5))]
    runs += [point("simulated", "real", ranks, epoch) for ranks, epoch in zip((2, 4, 8), real, strict=True)]
    assert headline(answers(Report("t", runs=tuple(runs))), "psg") == text


def test_kinds_are_answered_apart() -> None:
    found = [(answer.setting.kind, answer.ranks) for answer in answers(mixed())]
    assert found == [("executed", 1), ("executed", 2), ("simulated", 1), ("simulated", 2)]


def test_cautions_come_from_the_numbers() -> None:
    runs = (
        point("executed", "psg", 2, 1.0, 0.2, 3),
        point("simulated", "psg", 2, 1.0, source="specified"),
        point("simulated", "real", 2, 1.0, source="extrapolated, fitted"),
    )
    assert cautions(Report("t", runs=runs, notes=("Mine.",))) == [
        "Mine.",
        "Fewer than 5 repeats: psg on 2 ranks.",
        "Spread of 10% or more of the epoch: psg on 2 ranks.",
        "Durations from a datasheet: the simulated figures of psg on 2 ranks.",
        "Durations extrapolated beyond a profile: the simulated figures of real on 2 ranks.",
    ]


def test_sound_measurements_need_no_caution() -> None:
    assert cautions(executed_only()) == []
