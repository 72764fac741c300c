"""The drawing of time against GPU time for a target."""

import re

import pytest

from chronoscale.reports.charts.advice_chart import Mark
from chronoscale.reports.charts.pareto import LABELLED, pareto


def texts(svg: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", text).strip() for text in re.findall(r"<text.*?</text>", svg, re.DOTALL)]


def test_points_of_the_front_are_named_and_strategies_stand_in_the_legend():
    marks = [Mark("psg", "psg on 4", 1.0, 2.0, True), Mark("esdg", "esdg on 8", 0.5, 9.0, True), Mark("psg", "psg on 8", 2.0, 9.0, False)]
    drawing = pareto("p", marks)
    words = texts(drawing.svg)
    assert {"psg on 4", "esdg on 8", "psg", "esdg", "time for a target, µs"} <= set(words) and "psg on 8" not in words
    assert "draws" not in drawing.caption and pareto("p", marks).svg == drawing.svg
    banded = pareto("p", [marks[0]._replace(low=0.9, high=1.2)])
    assert banded.caption.endswith("Bars cover nine tenths of the draws.")


@pytest.mark.sample(2)
@pytest.mark.parametrize("count", [1, LABELLED, LABELLED + 1, 5 * LABELLED])
def test_a_long_front_names_some_of_its_points(count):
    drawing = pareto("p", [Mark("psg", f"point {i}", 1 / (i + 1), i + 1, True) for i in range(count)])
    assert 0 < sum(text.startswith("point") for text in texts(drawing.svg)) <= LABELLED


def test_points_of_no_time_and_no_points_at_all():
    assert "nothing" not in texts(pareto("p", [Mark("psg", "nothing", 0.0, 0.0, True)]).svg) and pareto("p", []).svg.startswith("<svg")
