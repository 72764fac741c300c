"""What a comparison concludes: targets, times to them and how sure they are, who is first, and on how many GPUs."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.scores import SCORES
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.compare import sureness
from chronoscale.harness.compare.figure import chart
from chronoscale.harness.compare.outcome import Comparison, StrategyOutcome, count_gpus
from chronoscale.harness.compare.scaling import scaling_sentences
from chronoscale.harness.compare.shown import notes, rows, summary, times
from chronoscale.harness.compare.sureness import times_to_target
from chronoscale.harness.compare.target import Target, reached_by_half, resolve
from chronoscale.harness.compare.trainings import Contender, alike
from chronoscale.harness.compare.verdict import verdict
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import STRATEGIES
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

INF, NAN = float("inf"), float("nan")
MSE, AP = SCORES["mse"], SCORES["ap"]
WORK = Workload("w", statistics_of(GrowthGraph.rmat(16, 40, 4, 0.1, 1).sequence()), model_shape("t-gcn", 4, 4), Hyper(group_size=2))
NAIVE = {"last value": 0.4, "training mean": 0.6}


def best(**scores: list[float]) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in scores.items()}


def test_targets_by_value_by_name_and_by_share() -> None:
    reached = best(a=[0.2, 0.1, 0.3], b=[0.5, NAN, 0.5], c=[0.1, NAN, NAN])
    assert resolve({"mse": 0.07}, MSE, reached, NAIVE).value == 0.07
    assert resolve("naive", MSE, reached, NAIVE).value == 0.4
    assert resolve("b", MSE, reached, NAIVE).value == 0.5
    half = resolve({"share": 0.5}, MSE, reached, NAIVE)
    assert half.value == pytest.approx(0.3)
    assert half.why == "50% of the way from the last value without a model (0.4) to a (0.2)"
    higher = resolve({"share": 0.5}, AP, best(a=[0.9]), {"EdgeBank": 0.7})
    assert higher.value == pytest.approx(0.8) and higher.met(0.8) and higher.met(0.81) and not higher.met(0.79) and not higher.met(NAN)


def test_a_target_that_no_strategy_beats_naive_predictions_for() -> None:
    target = resolve({"share": 0.9}, MSE, best(a=[0.5, 0.7]), NAIVE)
    assert target.value == 0.4 and target.why == "that of the last value without a model, which no strategy beats"


@pytest.mark.parametrize(
    ("asked", "naive", "message"),
    [
        ("c", NAIVE, "compare.target: unknown strategy 'c'"),
        ("lost", NAIVE, "compare.target: fewer than half of lost's trainings have a finite score; name another target"),
        ("naive", {}, "compare.target: this task has no prediction without a model; name a score, such as {mse: …}"),
        ({"share": 0.5}, {"last value": NAN}, "compare.target: this task has no prediction without a model"),
    ],
)
def test_targets_that_nobody_knows(asked: object, naive: dict[str, float], message: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(asked, MSE, best(a=[0.1, 0.1, 0.1], lost=[0.1, NAN, NAN]), naive)  # type: ignore[arg-type]
    assert message in str(error.value) and "\n" not in str(error.value)


def test_resamples_are_all_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the whole enumeration of seeds and of timed epochs, each as likely."""
    monkeypatch.setattr(sureness, "DRAWS", 60_000)
    epochs = {"a": np.array([3.0, 5.0, INF]), "b": np.array([4.0, 4.0, 4.0])}
    passes = {"a": (1.0, 2.0), "b": (1.5, 1.0)}
    times = times_to_target(epochs, passes, (0, 1, 2))

    def medians(name: str, chosen: tuple[int, ...]) -> list[float]:
        return [sorted(epochs[name][list(chosen)])[1] * float(np.median(taken)) for taken in product(passes[name], repeat=2)]

    first: list[str] = []
    for chosen in product(range(3), repeat=3):
        for ours, theirs in product(medians("a", chosen), medians("b", chosen)):
            first += ["a", "b"] if ours == theirs else 2 * ["a" if ours < theirs else "b"]
    for name in epochs:
        assert times.first_in[name] == pytest.approx(first.count(name) / len(first), abs=0.01)
    assert times.median("a") == 7.5 and times.median("b") == 5.0 and times.reached("a") == 2 and times.order == ["b", "a"]
    assert times.high["a"] == INF and times.low["b"] == 4.0 and times.high["b"] == 6.0
    assert times.without == {0: "b", 1: "b", 2: "b"}


def test_a_seed_that_is_hard_for_all_takes_nothing_from_the_first() -> None:
    """Resamples take the same seeds for all: who is ahead for each seed is ahead in all of them."""
    epochs = {"a": np.array([1.0, 10.0, 3.0]), "b": np.array([1.1, 11.0, 3.3])}
    assert times_to_target(epochs, {"a": (1.0,), "b": (1.0,)}, (0, 1, 2)).first_in == {"a": 1.0, "b": 0.0}


def test_who_ties_is_not_crowned() -> None:
    """Two that are equal share each resample, and a seed that is left out turns nothing."""
    result = compared(outcome("a", (0.4, 0.3), (0.3,)), outcome("b", (0.4, 0.3), (0.3,)))
    when = times(result)
    assert when.first_in == {"a": 0.5, "b": 0.5} and when.without == {0: "a", 1: "a"}
    text = said(result)
    assert "On 1 rank, a reaches it first: 1.00 s (1.00 s to 2.00 s), no faster than b (" in text
    assert "It is first in 50% of resamples of 2 seeds and their timed epochs, so it is not told apart from b, and first" in text
    three = compared(*(outcome(name, (0.4, 0.3), (0.3,)) for name in "abc"))
    assert "so it is not told apart from b and c, and first" in said(three)


def test_simulated_draws_are_those_of_one_cluster_for_all() -> None:
    """What is slow in a draw is slow for all: who is ahead in each draw is ahead; and the interval is that of the draws."""
    epochs, draws = {"a": np.array([1.0]), "b": np.array([1.0])}, np.linspace(0.5, 1.5, 101)
    taken = {"a": tuple(draws), "b": tuple(1.05 * draws)}
    simulated = times_to_target(epochs, taken, (0,), simulated=True)
    assert simulated.first_in == {"a": 1.0, "b": 0.0}
    assert (simulated.low["a"], simulated.high["a"]) == pytest.approx((0.55, 1.45), abs=0.02)
    assert times_to_target(epochs, taken, (0,)).first_in["a"] < 0.95


def test_what_says_nothing_of_its_work_trains_alone() -> None:
    """A strategy of a user's, on each number of GPUs."""
    plan = STRATEGIES["psg"].plan(WORK, 1, UNUSED)
    silent, stated = plan.saying(0, "mine"), plan.saying(100, "abc")
    first, scaled, second = Contender("mine", 1), Contender("mine", 4), Contender("other", 4)
    assert alike({first: silent, scaled: silent}) == {first: (first,), scaled: (scaled,)}
    assert alike({first: stated, second: stated, scaled: silent}) == {first: (first, second), scaled: (scaled,)}


def test_half_of_an_even_number_of_seeds_is_enough() -> None:
    """And what half of a strategy's trainings reach, half of them do reach."""
    times = times_to_target({"a": np.array([3.0, 1.0]), "b": np.array([2.0, INF])}, {"a": (1.0,), "b": (1.0,)}, (4, 5))
    assert times.median("a") == 1.0 and times.median("b") == 2.0
    assert times.without == {4: "a", 5: "b"}
    for score, values in product((MSE, AP), ([0.1, 0.4], [0.3, 0.1, 0.2, NAN], [0.5])):
        value = reached_by_half(np.array(values), score)
        assert sum(Target(score, value, "").met(one) for one in values) >= len(values) / 2
    assert math.isnan(reached_by_half(np.array([0.1, NAN, NAN]), MSE))


@pytest.mark.parametrize("share", [1.0, 0.9, 1e-9])
def test_the_leader_reaches_its_own_share(share: float) -> None:
    draw = np.random.default_rng(0)
    for start, end in draw.uniform(0, 1, (200, 2)):
        target = resolve({"share": share}, MSE, best(a=[end]), {"last value": start})
        assert target.met(end) or end > start


def outcome(name: str, *curves: tuple[float, ...], epoch_s: float = 1.0, steps: int = 4, ranks: int = 0) -> StrategyOutcome:
    """ranks: the number of GPUs, where there are several scales."""
    seeds, label = dict(enumerate(curves)), f"{name} on {count_gpus(ranks)}" if ranks else name
    return StrategyOutcome(label, name, ranks or 1, (label,), 0.01, seeds, {}, (epoch_s,) * 3, 10, steps, 100, label, 20, {})


def compared(*outcomes: StrategyOutcome, target: float = 0.3, epochs: int = 3) -> Comparison:
    seeds = tuple(range(len(outcomes[0].curves)))
    scales = tuple(dict.fromkeys(one.ranks for one in outcomes))
    cluster = "h200" if len(scales) > 1 else ""
    return Comparison(MSE, Target(MSE, target, "as the experiment asks"), outcomes, NAIVE, scales, epochs, seeds, (0.01,), cluster)


def said(result: Comparison) -> str:
    return verdict(result, times(result))


def test_who_misses_the_target_is_never_first() -> None:
    """However short its epochs, and however good its error gets."""
    fast = outcome("fast", (0.4, 0.35, 0.31), (0.4, 0.35, 0.31), epoch_s=0.01)
    good = outcome("good", (0.5, 0.3, 0.3), (0.4, 0.3, 0.2))
    result = compared(fast, good)
    assert said(result) == (
        "Target: validation MSE 0.3, as the experiment asks. On 1 rank, good reaches it first: 2.00 s (2.00 s to 2.00 s); no other "
        "strategy reaches it in half of its trainings. It is first in 100% of resamples of 2 seeds and their timed epochs, and first "
        "whichever seed is left out."
    )
    table = rows(result)
    assert table["strategy"].tolist() == ["good", "fast"] and table["reached"].tolist() == [2, 0] and math.isnan(table["rank_hours"][1])


def test_a_target_that_nobody_reaches() -> None:
    text = said(compared(outcome("a", (0.4, 0.35)), outcome("b", (0.5,)), target=0.1))
    assert text.endswith("No strategy reaches it in half of its trainings within 3 epochs on 1 rank; the best is a with MSE 0.35.")
    assert "No strategy" in said(compared(outcome("a", ()), target=0.1))


def test_one_seed_that_decides_is_named() -> None:
    steady = outcome("steady", (0.3,), (0.3,), (0.3,), epoch_s=1.5)
    lucky = outcome("lucky", (0.3,), (0.3,), (0.5, 0.4, 0.4), epoch_s=1.0)
    text = said(compared(steady, lucky))
    assert (
        "as the experiment asks. Not decided. On 1 rank, lucky reaches it first" in text and "so it is not told apart from steady" in text
    )
    assert text.endswith("One seed decides: without seed 0, steady is first; without seed 1, steady is first.")
    assert said(compared(outcome("a", (0.3,)), outcome("b", (0.3,), epoch_s=3.0))).endswith("One seed says nothing of how sure this is.")


def test_only_who_is_sure_and_needs_no_single_seed_is_decided() -> None:
    result = compared(outcome("a", (0.3,), (0.3,)), outcome("b", (0.3,), (0.3,), epoch_s=3.0))
    sure = replace(times(result), first_in={"a": 0.96, "b": 0.04}, without={0: "a", 1: "a"})
    assert "Not decided" not in verdict(result, sure)
    assert "Not decided" in verdict(result, replace(sure, without={0: "a", 1: "b"}))
    assert "Not decided" in verdict(result, replace(sure, first_in={"a": 0.94, "b": 0.06}))
    assert "Not decided" in said(compared(outcome("a", (0.3,)), outcome("b", (0.3,), epoch_s=3.0)))


def test_who_does_not_beat_what_needs_no_model_is_told_first() -> None:
    """By none of its seeds: not beaten; by some: a tie; where nothing is known without a model, nothing is said."""
    outcomes = outcome("a", (0.3,), (0.5,), (0.39,)), outcome("b", (0.9, 0.4)), outcome("c", (0.5,), (0.45,), (0.5,)), outcome("d", ())
    won = outcome("e", (0.3,), (0.39,), (0.2,))
    several = [replace(one, curves={i: one.curves.get(i, ()) for i in range(3)}) for one in (*outcomes, won)]
    assert said(compared(*several)).startswith(
        "b, c and d do not beat the last value without a model: validation MSE 0.4 against 0.5 of c. Not told apart from the last value "
        "without a model, validation MSE 0.4, is a (2 of 3 seeds beat it). Target: "
    )
    assert said(compared(several[1], won)).startswith("b does not beat the last value without a model: validation MSE 0.4. Target: ")
    assert said(compared(several[0], won)).startswith(
        "Not told apart from the last value without a model, validation MSE 0.4, is a (2 of 3"
    )
    assert said(compared(several[2], several[1])).startswith(
        "No strategy beats the last value without a model: validation MSE 0.4 against 0.5 of c. Target: "
    )
    assert said(compared(won)).startswith("Target: ")
    assert said(replace(compared(*several), naive={"last value": NAN})).startswith("Target: ")
    higher = replace(compared(won), score=AP, target=Target(AP, 0.3, "asked"), naive={"x": 0.1, "EdgeBank": 0.5})
    assert said(higher).startswith("No strategy beats the EdgeBank without a model: validation AP 0.5 against 0.3 of e. Target: ")


def test_the_figure_has_the_best_predictions_without_a_model() -> None:
    """Three of five, the best first, whichever way is better; all of two."""
    result = compared(outcome("a", (0.5, 0.3)))
    five = {"one": 0.5, "two": 0.2, "three": 0.4, "four": 0.1, "five": 0.3}
    errors, higher = replace(result, naive=five), replace(result, naive=five, score=AP, target=Target(AP, 0.3, "asked"))
    assert chart(summary(errors)).naive == {"four": 0.1, "two": 0.2, "five": 0.3}
    assert chart(summary(higher)).naive == {"one": 0.5, "three": 0.4, "five": 0.3}
    assert chart(summary(errors)).caption.endswith(" Dotted: the best 3 of 5 predictions without a model.")
    assert chart(summary(result)).naive == NAIVE and "Dotted" not in chart(summary(result)).caption


def test_a_rate_at_the_end_of_the_grid_is_told() -> None:
    """Where another might be better; not of strategies that share a training, and not of a grid of one."""
    outcomes = [
        outcome("a", (0.3,)),
        outcome("b", (0.3,)),
        replace(outcome("c", (0.3,)), rate=0.03),
        replace(outcome("d", (0.3,)), group=("a", "d")),
    ]
    sentences = [line for line in notes(replace(compared(*outcomes), rates=(0.01, 0.03, 0.1))) if "learning rate" in line]
    assert sentences == ["another learning rate may be better: 0.01, the lowest of those tried, is the best of a and b"]
    assert not any("learning rate" in line for line in notes(compared(*outcomes)))


def test_scores_at_equal_steps_are_those_of_the_fewest() -> None:
    """Three epochs of four steps are one of twelve."""
    few, many = outcome("few", (0.9, 0.8, 0.7)), outcome("many", (0.6, 0.5, 0.4), steps=12)
    table = rows(compared(few, many)).set_index("strategy")
    assert table["equal_steps"].to_dict() == {"few": 0.7, "many": 0.6}


def test_more_gpus_pay_until_learning_slows() -> None:
    """Two GPUs halve the epoch and keep its steps; eight take a quarter of the steps, and learn as much less."""
    curve = (0.6, 0.3, 0.3)
    result = compared(
        outcome("fine", curve, epoch_s=1.0, steps=8, ranks=1),
        outcome("coarse", curve, epoch_s=3.0, ranks=1),
        outcome("fine", curve, epoch_s=0.5, steps=8, ranks=2),
        outcome("coarse", curve, epoch_s=2.0, ranks=2),
        outcome("fine", (0.6, 0.5, 0.4), epoch_s=0.25, steps=2, ranks=8),
        outcome("coarse", curve, epoch_s=1.0, ranks=8),
    )
    assert scaling_sentences(result, times(result)) == [
        "fine: fastest to the target on 2 GPUs, after 2 epochs of 8 steps; on 8 GPUs an epoch takes 0.500 times as long, and half of its "
        "trainings do not reach the target in 3 epochs of 2 steps",
        "coarse: fastest to the target on 8 GPUs, after 2 epochs of 4 steps, the largest number that was compared",
    ]
    text = said(result)
    assert (
        "On 1, 2 and 8 GPUs of h200, simulated, fine on 2 GPUs reaches it first: 1.00 s" in text
        and "2.00 times as fast as fine on 1 GPU (" in text
    )
    table = rows(result).set_index("label")
    assert table["rank_hours"]["fine on 2 GPUs"] == 2 / 3600 and math.isnan(table["rank_hours"]["fine on 8 GPUs"])
    slower = compared(outcome("a", (0.3,), ranks=1, epoch_s=0.1), outcome("a", (0.5, 0.3), ranks=4, epoch_s=0.06, steps=1))
    assert scaling_sentences(slower, times(slower)) == [
        "a: fastest to the target on 1 GPU, after 1 epoch of 4 steps; on 4 GPUs an epoch takes 0.600 times as long, and the target takes 2 "
        "epochs of 1 step"
    ]
    never = [outcome("a", (0.5,), ranks=1), outcome("a", (0.6,), ranks=2)]
    beside = compared(*never, outcome("b", (0.3,), ranks=1))
    assert scaling_sentences(beside, times(beside)) == ["a: no number of GPUs brings half of its trainings to the target"]
    assert scaling_sentences(compared(*never), times(compared(*never))) == []
