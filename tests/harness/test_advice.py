"""What is said of points that have been simulated: reasons, order, budget, and how sure the first is."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronoscale.harness.advice.candidate import Candidate, short_key, value_text
from chronoscale.harness.advice.headline import headline
from chronoscale.harness.advice.outcome import cautions
from chronoscale.harness.advice.ranking import Choice, ranking
from chronoscale.harness.advice.reasons import bounds, reason, reasons
from chronoscale.harness.advice.shown import not_ranked, terminal_table
from chronoscale.harness.advice.verdict import Verdict
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.simulator.critical_path import PathShare
from chronoscale.strategies.schedule import COLLECTIVES, Lane, Op

POINT = SimulatedPoint("psg", 4, 1000, "datasheet", "h200", 32, steps=3, targets=1_000_000)


def verdict(epoch_s=1.0, *blames: PathShare, waits=0.0, **point) -> Verdict:
    return Verdict(replace(POINT, **point), epoch_s, 3, blames, waits)


def candidate(strategy="psg", gpus=4, cluster="h200", **changed) -> Candidate:
    return Candidate(cluster, strategy, gpus, changed)


def ranked(*verdicts: tuple[Candidate, Verdict], **advise) -> list[Choice]:
    experiment = check({"dataset": "growth_small", "epochs": 3600, "advise": advise}, "x")
    return ranking(experiment.advise, experiment.epochs, dict(enumerate(verdicts)))


BACKWARD, TEMPORAL = PathShare("BACKWARD", "COMPUTE", "", 0.5), PathShare("TEMPORAL", "COMPUTE2", "", 0.41)
REASONS = [
    ((BACKWARD, TEMPORAL), "compute-bound: 91 % of the epoch on the compute lanes, most of it backward"),
    ((PathShare("", "", "", 0.4), replace(BACKWARD, share=0.3)),
     "bound by host launches: kernels wait for the host 40 % of the epoch, then the compute lanes 30 %"),
    ((PathShare("H2D", "H2D", "", 0.63),), "bound by H2D copies: 63 % of the epoch"),
    ((PathShare("D2H", "D2H", "", 0.63),), "bound by D2H copies: 63 % of the epoch"),
    ((PathShare("SAMPLE", "HOST", "", 0.3), PathShare("GATHER", "HOST", "", 0.4)),
     "bound by the host: 70 % of the epoch in its lane, most of it gather"),
    ((PathShare("FETCH", "COMM", "", 0.8),), "bound by fetches through the data engine: 80 % of the epoch"),
    ((PathShare("ALLTOALL", "COMM", "between nodes", 0.7), PathShare("", "", "", 0.25)),
     "bound by all-to-all between nodes: 70 % of the epoch, then host launches 25 %"),
    ((PathShare("ALLTOALL", "COMM", "inside a node", 0.4), PathShare("ALLREDUCE", "COMM", "between nodes", 0.45)),
     "bound by all-reduce between nodes: 45 % of the epoch, then all-to-all inside a node 40 %"),
    ((), "nothing to do"),
]  # fmt: skip


@pytest.mark.parametrize(("blames", "message"), REASONS, ids=range(len(REASONS)))
def test_the_largest_bound_is_the_reason(blames, message):
    assert reason(verdict(1.0, *blames)) == message


def test_waiting_and_idle_ranks_are_reasons():
    balanced = verdict(1.0, BACKWARD, waits=0.19)
    assert reason(balanced) == "compute-bound: 50 % of the epoch on the compute lanes, most of it backward"
    assert reason(replace(balanced, waits=0.2)).endswith("; imbalance: GPUs wait for the busiest 20 % of the epoch")
    idle = verdict(1.0, BACKWARD, waits=0.9, gpus=1024, idle_ranks=1000)
    assert reason(idle).startswith("idle ranks: 1,000 of 1,024 GPUs have nothing to train; compute-bound") and "imbalance" not in reason(
        idle
    )


def test_from_how_many_gpus_on_a_bound_holds():
    """It is said where the larger numbers are bound alike and a smaller one is not; settings, strategies and clusters apart."""
    compute, network = PathShare("BACKWARD", "COMPUTE", "", 0.8), PathShare("ALLTOALL", "COMM", "between nodes", 0.6)
    kinds = {4: compute, 8: network, 16: compute, 64: network, 128: network}
    verdicts = {gpus: (candidate(gpus=gpus), verdict(1.0, blame, gpus=gpus)) for gpus, blame in kinds.items()}
    verdicts |= {1000 + gpus: (candidate("esdg", gpus), verdict(1.0, network, gpus=gpus)) for gpus in (8, 128)}
    verdicts |= {
        2000: (candidate("psg", 256, size=4), verdict(1.0, compute, gpus=256)),
        3000: (candidate("psg", 256), Verdict(None, refused="no")),
    }
    sentences = reasons(verdicts)
    assert [gpus for gpus in kinds if "from 64 GPUs on" in sentences[gpus]] == [64, 128]
    assert sentences[64] == "bound by all-to-all between nodes from 64 GPUs on: 60 % of the epoch"
    assert not any("GPUs on" in sentences[number] for number in (1008, 1128, 2000)) and 3000 not in sentences


@given(st.lists(st.tuples(st.sampled_from([*Op]), st.sampled_from([*Lane]), st.floats(0.01, 1)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_every_row_has_a_bound(rows):
    """Whatever the operation and lane, and no share is lost."""
    blames = [PathShare(op.name, lane.name, "inside a node" if op in COLLECTIVES else "", share) for op, lane, share in rows]
    bottlenecks = bounds(blames)
    assert sum(bound.share for bound in bottlenecks) == pytest.approx(sum(one.share for one in blames), rel=1e-9)
    assert [bound.share for bound in bottlenecks] == sorted((bound.share for bound in bottlenecks), reverse=True)
    assert len({bound.kind for bound in bottlenecks}) == len(bottlenecks)


def test_what_an_objective_ranks_by():
    fast, small = (candidate("psg", 8), verdict(1.0, gpus=8, peak_bytes=500)), (candidate("psg", 1), verdict(4.0, gpus=1, peak_bytes=900))
    assert [one.candidate.gpus for one in ranked(fast, small)] == [8, 1]
    first, second = ranked(small, fast, objective="gpu-hours")
    assert (3600 * first.value, 3600 * second.value, second.behind) == (4.0, 8.0, 1.0)  # 3,600 epochs of a million targets
    assert ranked(small, fast, objective="memory")[0].value == 500
    dear = (candidate("psg", 1, "a100"), verdict(4.0, gpus=1))
    first, second = ranked(fast, dear, objective="cost", clusters=["h200", "a100"], prices={"h200": 1.0, "a100": 2.5})
    assert (3600 * first.value, 3600 * second.value, first.cost) == (8.0, 10.0, 8.0)
    prepared = ranked((candidate(), verdict(1.0, prepare_s=1800.0)))[0]
    assert (prepared.hours, prepared.gpu_hours, prepared.value) == (1.5, 6.0, 1.0)


def test_of_equals_the_one_that_takes_less_is_first():
    equal = [(candidate(gpus=gpus), verdict(2.0, gpus=gpus)) for gpus in (8, 2, 4)]
    choices = ranked(*equal)
    assert [one.candidate.gpus for one in choices] == [2, 4, 8] and [one.front for one in choices] == [True, False, False]
    assert headline(choices, "time") == (
        "First by time: psg on 2 GPUs of h200, 2.00 s for a million targets trained on, as for psg on 4 GPUs of h200. "
        "No uncertainty was stated, so that nothing says how sure this is. 2 others are closer than 1 %: take them for equal."
    )


def test_how_sure_the_first_is():
    def drawn(strategy, *draws_s):
        return candidate(strategy), verdict(sorted(draws_s)[len(draws_s) // 2], strategy=strategy, draws_s=draws_s)

    sure = ranked(drawn("a", *[1.0] * 20), drawn("b", *[1.25] * 19, 0.9), drawn("c", *[2.0] * 20))
    assert [one.won for one in sure] == [None, 0.95, 1.0] and [one.apart for one in sure] == [None, True, True]
    assert headline(sure, "time") == (
        "First by time: a on 4 GPUs of h200, 1.00 s for a million targets trained on, 20 % less than b on 4 GPUs of h200. "
        "Under the uncertainty it is ahead in 95 % of 20 draws."
    )
    unsure = ranked(drawn("a", *[1.0] * 10), drawn("b", *[1.25] * 6, *[0.9] * 4), drawn("c", *[1.3] * 9, 0.5), drawn("d", *[9.0] * 10))
    assert [one.won for one in unsure] == [None, 0.6, 0.9, 1.0]
    assert headline(unsure, "time").endswith(
        "Under the uncertainty it is not told apart from the second, nor from 1 more: it is ahead in 60 % of 10 draws."
    )
    table = terminal_table(unsure, 20)
    assert table["first ahead in"].tolist() == ["", "60 % of draws", "90 % of draws", "100 % of draws"]
    assert unsure[1].band == pytest.approx((0.9, 1.25))
    hours = ranked(drawn("a", *[1.0] * 10), drawn("b", *[1.25] * 10), objective="gpu-hours")
    assert hours[1].won == 1.0 and [3600 * value for value in hours[1].draws] == pytest.approx([5.0] * 10)
    memory = ranked(drawn("a", 1.0, 2.0), drawn("b", 1.0, 2.0), objective="memory")
    assert memory[1].won is None and headline(memory, "memory").endswith("Memory is planned and does not vary with time.")
    assert ranked(drawn("a", 1.0, 2.0), drawn("b", 3.0))[1].won is None  # drawn differently: no pairs


def test_a_single_one_and_none():
    choices = ranked((candidate(), verdict(1e-3)), (candidate("esdg"), Verdict(None, refused="no vertices")))
    assert headline(choices, "time") == (
        "First by time: psg on 4 GPUs of h200, 1.00 ms for a million targets trained on; nothing else fits and keeps to the budget."
    )
    assert [one.why for one in choices] == ["", "no vertices"]
    assert headline(ranked((candidate(), verdict(1.0)), budget={"gpu_hours": 1.0}), "time") == ""


def test_what_does_not_rank_for_one_reason_is_one_line():
    over, no = {"out_of_memory": "out of memory"}, Verdict(None, refused="no vertices")
    verdicts = [(candidate(name, gpus), no) for name in ("a", "b") for gpus in (1, 2)] + [
        (candidate("c", 1), no),
        (candidate("c", 1024), no),
    ]
    verdicts += [(candidate("a", 1, size=4), no), (candidate("a", 1, "a100"), no), (candidate("d", 8), verdict(1.0, gpus=8, **over))]
    assert not_ranked(ranked(*verdicts)) == [
        "a, b on 1, 2 GPUs of h200: no vertices",
        "c on 1, 1,024 GPUs of h200: no vertices",
        "a on 1 GPU of h200, size 4: no vertices",
        "a on 1 GPU of a100: no vertices",
        "d on 8 GPUs of h200: does not fit: out of memory",
    ]


def test_points_that_take_no_time():
    choices = ranked((candidate("a"), verdict(0.0)), (candidate("b"), verdict(0.0)), (candidate("c"), verdict(1.0)))
    assert [one.behind for one in choices] == [0.0, 0.0, float("inf")] and "as for b" in headline(choices, "time")


def test_candidates_in_words():
    assert str(candidate(gpus=1)) == "psg on 1 GPU of h200"
    several = Candidate("h200", "psg", 1024, {"training.batch_size": 4, "training.fanout": (10, 5), "launch": None, "model.time": True})
    assert str(several) == "psg on 1,024 GPUs of h200, batch_size 4, fanout [10, 5], launch none, time true"
    assert short_key("model.name", {"model.name": 1, "dataset.name": 2}) == "model.name" and value_text((1, True)) == "[1, true]"


def test_doing_less_is_not_faster():
    """Half the epoch for a quarter of the targets; and what nobody counted does not rank."""
    less, all_of = (candidate("half"), verdict(1.0, targets=250_000, mathematics="x")), (candidate("all"), verdict(2.0, mathematics="y"))
    unknown = candidate("mine"), verdict(0.1, targets=0)
    for objective in ("time", "gpu-hours"):
        choices = ranked(less, all_of, unknown, objective=objective)
        assert [one.candidate.strategy for one in choices] == ["all", "half", "mine"] and choices[1].behind == pytest.approx(1.0)
        assert [one.front for one in choices] == [True, False, False]
        assert choices[2].rank is None and choices[2].why == "nothing says how many targets an epoch trains on"
        assert cautions(choices) == [
            "an epoch of those that rank is 3 to 3 steps on 250,000 to 1,000,000 targets: no rank says how many epochs an error takes, "
            "`chronoscale compare` does"
        ]
    assert cautions(ranked(all_of)) == []
    assert [one.candidate.strategy for one in ranked(unknown, objective="memory")] == ["mine"]


def test_draws_count_targets_too():
    slow, fast = (candidate("a"), verdict(2.0, draws_s=(2.0, 2.2))), (candidate("b"), verdict(1.0, targets=250_000, draws_s=(1.0, 1.1)))
    first, second = ranked(fast, slow)
    assert first.candidate.strategy == "a" and second.won == 1.0
