"""FlareDTDG's executed points: trainings for real, of given epochs and to convergence."""

import pytest
from one_rank import inline_ranks

from chronoscale.errors import UserError
from chronoscale.harness.study.hooks import flaredtdg_executed as executed
from chronoscale.harness.study.point import StudyPoint

OURS = "flaredtdg"


def point(dataset: str, strategy: str = OURS, **settings: object) -> StudyPoint:
    axes = {"paper": "flaredtdg", "dataset": dataset, "model": "t-gcn", "strategy": strategy, "gpus": 1, "layers": 2}
    return StudyPoint.of({**axes, "cluster": "a40-ib", **settings})


@pytest.mark.slow
def test_a_training_is_a_run_of_its_settings() -> None:
    """For real, on a small stand-in: losses, times, errors, and the planned peak of fewer full snapshots is less."""
    width = {"width": 16, "rate": 0.003, "epochs": 1}
    two, four = (executed.training(point("rec_amazon_like", full=full, **width)) for full in (2, 4))
    for one in (two, four):
        assert len(one["seconds"]) == len(one["validation"]) == 1 and one["ended"][0] == pytest.approx(one["seconds"][0])
        assert one["epoch_s"] > 0 and 0 < one["test"] < 10 and {"last value", "exponential smoothing"} < set(one["naive"])
    assert two["peak_gb"] < four["peak_gb"]
    with pytest.raises(UserError, match="alpha"):
        executed.training(point("rec_amazon_like", alpha=1.5, **width))


@pytest.mark.parametrize(
    ("dataset", "name", "split", "steps", "nodes"),
    [
        pytest.param("events_small", "esdg", "whole", 1, 1_153, marks=pytest.mark.slow),
        ("growth_small", "esdg", "whole", 1, 1_000),
        pytest.param("events_small", OURS, "crossed", 14, 1_153, marks=pytest.mark.slow),
    ],
)
def test_a_training_to_convergence_is_bounded_in_steps(monkeypatch, dataset, name, split, steps, nodes) -> None:
    """For real, on events in days: of 32 snapshots 22 train, in windows of eight, or in one; at most so many steps, in whole epochs. So it
    is of snapshots as they are."""
    inline_ranks(monkeypatch)
    settings = {"split": split, "width": 4, "rate": 0.003, "seed": 1, "patience": 40, "steps": 15}
    length = {"length": 86_400} if dataset == "events_small" else {}
    result = executed.converged(point(dataset, name, **settings, **length))
    assert result["epoch_steps"] == steps and result["targets"] == steps * nodes, "a step predicts a snapshot's nodes"
    assert not result["ended"] and 1 <= result["settled"] <= -(-15 // steps) and result["taken"] == result["settled"] * steps
    assert 0 < result["test"] < 10 and "last value" in result["naive"]


@pytest.mark.parametrize(("dataset", "length", "expected"), [("growth_small", 86_400, "events"), ("events_small", None, "snapshots")])
def test_a_length_is_of_events_alone(dataset, length, expected) -> None:
    settings = {"split": "whole", "width": 4, "rate": 0.003, "seed": 1, "patience": 40, "steps": 15}
    with pytest.raises(UserError, match=f"dataset '{dataset}': expected {expected}"):
        executed.converged(point(dataset, "esdg", **settings, **({} if length is None else {"length": length})))
