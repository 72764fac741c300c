"""What a simulation says of what it does not know: draws, failures, assumptions, marks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from command_line import command, killed_at, one_line

from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs.assumed import assumed_of
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.harness.runs.run_folder import Run
from chronoscale.strategies.costing.samples import FEW, thinly_sampled
from chronoscale.strategies.costs import Fit, FittedCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

BOTH = {"strategies": ["psg", "blad"], "gpus": [1, 2], "training": {"group_size": 2, "groups_per_rank": 2}}  # which train alike
DRAWN = {"uncertainty": {"draws": 7, "jitter": 0.2, "stragglers": {"of": "node", "factor": 1.5}}}


def rows(capsys) -> list[dict]:
    return json.loads(capsys.readouterr().out)


def point(name: str, run: str = "small-simulate-1") -> tuple[SimulatedPoint, Trace]:
    folder = Path("runs", run, name)
    return SimulatedPoint.load(folder), Trace.load(folder / "trace.parquet")


def test_every_point_has_the_band_of_its_draws(experiment, capsys):
    command("simulate", experiment(**BOTH, **DRAWN), "--json")
    table = rows(capsys)
    for row in table:
        summary, trace = point(f"sim-{row['ranks']:05d}-{row['strategy']}")
        assert len(summary.draws_s) == 7
        assert (row["epoch_low_s"], row["epoch_high_s"]) == tuple(np.quantile(summary.draws_s, [0.05, 0.95])) == summary.band
        assert row["epoch_s"] == trace.span_ns / 1e9 == sorted(summary.draws_s)[3]
    ours, base = (point(f"sim-00002-{name}")[0].draws_s for name in ("blad", "psg"))
    low, high = np.quantile(np.divide(base, ours), [0.05, 0.95])
    assert (table[-1]["speedup_low"], table[-1]["speedup_high"]) == (low, high)
    command("report", "runs/small-simulate-1", "--out", "page")
    page = Path("page/index.html").read_text()
    assert "Shaded: nine tenths of the draws" in page and "95\u00a0%,\u00a0s" in page
    place = json.loads(Path("page/report.json").read_text())["sections"][0]["place"]
    assert place["uncertainty"] == "jitter 0.2, 1 node 1.5 times as slow (7 draws)"


def test_without_anything_uncertain_there_is_one_replay_and_no_band(experiment, capsys):
    command("simulate", experiment(**BOTH), "--json")
    assert not {"epoch_low_s", "speedup_low", "training_s"} & set(rows(capsys)[0])
    assert point("sim-00001-psg")[0].draws_s == ()
    assert all(np.isnan(point("sim-00001-psg")[0].band))


def test_only_classes_need_no_draws(experiment, capsys):
    command("simulate", experiment(strategies=["psg"], gpus=[2]), "--json")
    usual = rows(capsys)[0]
    half = {"classes": [{"share": 0.5, "speed": 0.01}]}
    command("simulate", experiment(strategies=["psg"], gpus=[2], uncertainty=half), "--json")
    slower = rows(capsys)[0]
    assert slower["epoch_s"] > usual["epoch_s"] and "epoch_low_s" not in slower


def test_the_seed_is_the_experiments(experiment, capsys):
    epochs = []
    for seed in (0, 0, 1):
        command("simulate", experiment(strategies=["psg"], gpus=[1], **DRAWN), "--json", "--seed", seed)
        epochs.append(rows(capsys)[0]["epoch_high_s"])
    assert epochs[0] == epochs[1] != epochs[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uncertainty": {"jitters": 0.1}}, "unknown key 'uncertainty.jitters'; did you mean 'uncertainty.jitter'?"),
        ({"uncertainty": {"jitter": -0.1}}, "uncertainty.jitter: expected at least 0 (got -0.1)"),
        ({"uncertainty": {"draws": 0}}, "uncertainty.draws: expected more than 0 (got 0)"),
        ({"uncertainty": {"stragglers": {"factor": 0.5}}}, "uncertainty.stragglers.factor: expected at least 1 (got 0.5)"),
        ({"uncertainty": {"stragglers": {"of": "rack"}}}, "uncertainty.stragglers.of: expected 'gpu' or 'node' (got 'rack')"),
        ({"uncertainty": {"classes": [{"share": 0.5}]}}, "uncertainty.classes.0.speed: required, and not there"),
        (
            {"uncertainty": {"classes": [{"share": 0.8, "speed": 1}, {"share": 0.7, "speed": 1}]}},
            "uncertainty.classes: their shares add up to 1.5, more than 1",
        ),
        ({"failures": {}}, "failures: nothing fails; give mtbf_s, times_s or tasks"),
        ({"failures": {"mtbf_s": 0}}, "failures.mtbf_s: expected more than 0 (got 0)"),
        ({"failures": {"times_s": [1], "policy": "resume"}}, "failures.policy: expected 'restart', 'shrink' or 'stop' (got 'resume')"),
    ],
)
def test_mistakes_are_one_line(experiment, capsys, changes, message):
    command("simulate", experiment(**changes), expect=2)
    line = one_line(capsys)
    assert message in line and "small.yaml" in line


def test_a_task_that_no_schedule_has(experiment, capsys):
    command("simulate", experiment(strategies=["psg"], gpus=[1], failures={"tasks": [{"epoch": 0, "task": 99999}]}), expect=2)
    assert "failures: tasks: no task 99999 in epoch 0: 'psg' on 1 ranks has " in one_line(capsys)


def test_a_training_that_fails_is_reported(experiment, capsys):
    """A failure long after the last epoch comes too late; one at a task does not."""
    plain = {"strategies": ["psg"], "gpus": [2], "epochs": 3}
    command("simulate", experiment(**plain, failures={"times_s": [1e6]}), "--json")
    row = rows(capsys)[0]
    assert row["ended"] == "trained" and not row.get("failures")
    assert row["training_s"] == pytest.approx(3 * row["epoch_s"], rel=1e-9)
    failing = {"tasks": [{"epoch": 1, "task": 0}], "restart_s": 7.0, "checkpoint_s": 0.25}
    command("simulate", experiment(**plain, failures=failing), "--json")
    summary, trace = point("sim-00002-psg", "small-simulate-2")
    epoch, into = trace.span_ns / 1e9, ((trace.start_ns[0] + trace.end_ns[0]) // 2 - trace.start_ns.min()) / 1e9
    assert summary.endured is not None
    assert rows(capsys)[0]["training_s"] == pytest.approx(3 * epoch + 2 * 0.25 + into + 7.0, rel=1e-9)
    assert (summary.endured.lost_s, summary.endured.ended) == (pytest.approx(into + 7.0), {"trained": 1})


def test_fewer_gpus_run_schedules_of_their_own(experiment, capsys):
    failing = {"times_s": [1e-9, 2e-9], "policy": "shrink"}
    command("simulate", experiment(strategies=["psg"], gpus=[1, 3], epochs=2, failures=failing), "--json")
    one, three = rows(capsys)
    assert (one["ended"], three["ended"]) == ("too few ranks", "trained")
    assert point("sim-00003-psg")[0].endured.ranks == 1
    assert three["training_s"] == pytest.approx(2 * one["epoch_s"], rel=1e-4)


def test_what_an_answer_rests_on_is_told_at_the_most_gpus(experiment, capsys):
    command("simulate", experiment(**BOTH), "--json")
    table = rows(capsys)
    assert [row["assumptions"] is not None for row in table] == [row["ranks"] == 2 for row in table]
    effects_shown, record = table[-1]["assumptions"], assumed_of(Run(Path("runs/small-simulate-1")))
    assert record is not None and record.gpus == 2
    effects, base = ({one.assumption: one for one in record.effects[name]} for name in ("blad", "psg"))
    assert 0 < len(effects_shown) <= 5
    for one in effects_shown:
        effect, usual = effects[one["assumption"]], base[one["assumption"]]
        assert one["epoch_s"] == [effect.low_s, effect.high_s]
        assert one["speedup"] == [usual.low_s / effect.low_s, usual.high_s / effect.high_s]
    command("simulate", experiment(**BOTH, seed=1), "--tornado")
    assert "what the answers on 2 GPUs rest on" in capsys.readouterr().out
    command("report", "runs/small-simulate-1", "--out", "page")
    assert "tornado" in Path("page/report.md").read_text() and Path("page/figures/tornado.svg").exists()
    assert Path("page/tables/assumptions.csv").read_text().count("\n") == 1 + 2 * len(effects_shown)


def test_a_conclusion_under_joint_assumptions_opens_what_is_said(experiment, capsys):
    """The share is that of the draws, which are the same for both; without draws nothing is claimed. Few draws are the first of many."""
    command("simulate", experiment(**BOTH, assumptions={"draws": 8}), "--json")
    table = rows(capsys)
    record = assumed_of(Run(Path("runs/small-simulate-1")))
    assert record is not None
    (conclusion,) = record.conclusions
    slower, faster = (np.array(record.drawn_s[name]) for name in (conclusion.slower, conclusion.faster))
    assert (conclusion.draws, conclusion.share) == (8, np.mean(slower > faster))
    of_faster = next(row for row in table if (row["strategy"], row["ranks"]) == (conclusion.faster, 2))
    assert [one["share"] for one in of_faster["conclusions"]] == [conclusion.share]
    assert all(row["conclusions"] in (None, []) for row in table if row is not of_faster)
    command("report", "runs/small-simulate-1", "--out", "page")
    words = f"On 2 GPUs {conclusion}."
    assert words in json.loads(Path("page/report.json").read_text())["headlines"][0]
    assert conclusion.slower in Path("page/tables/conclusions.csv").read_text()
    command("simulate", experiment(**BOTH, assumptions={"draws": 16}))
    assert f"of 16 joint draws of {conclusion.assumptions} assumptions" in " ".join(capsys.readouterr().err.split())
    more = assumed_of(Run(Path("runs/small-simulate-2")))
    assert more is not None and more.drawn_s["blad"][:8] == record.drawn_s["blad"]
    command("simulate", experiment(**BOTH, assumptions={"draws": 0}))
    assert "joint draws" not in capsys.readouterr().err and assumed_of(Run(Path("runs/small-simulate-3"))) is None


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one core draws without forks")
def test_killed_draws_leave_nothing_and_the_run_is_taken_up(experiment, capsys):
    """No forked process goes on, or keeps the run from the next command."""
    file = experiment(**BOTH, assumptions={"draws": 60})

    piece, others = Path("runs/small-simulate-1/.assumed-00002.part"), len(psutil.Process().children(recursive=True))

    def drawing() -> bool:
        """Whether the command draws, and has a fork."""
        return piece.exists() and len(psutil.Process().children(recursive=True)) > others + 1

    killed_at(drawing, "simulate", file)
    command("simulate", file)
    assert "taking up runs/small-simulate-1" in capsys.readouterr().err
    record = assumed_of(Run(Path("runs/small-simulate-1")))
    assert record is not None and len(record.drawn_s["psg"]) == 60 and len(list(Path("runs").iterdir())) == 1


def test_what_limits_a_number_stands_beside_it(experiment, capsys):
    command("simulate", experiment(strategies=["psg"], gpus=[1, 16]), "--json")
    few_gpus, many = rows(capsys)
    idle = many["idle_ranks"]
    assert idle and few_gpus["rests_on"] == "datasheet, no profile"
    assert many["rests_on"] == f"datasheet, no profile; {idle} of 16 ranks idle"
    command("report", "runs/small-simulate-1", "--out", "page")
    answers = json.loads(Path("page/report.json").read_text())["sections"][0]["answers"]
    assert f"; {idle} of 16 ranks idle under psg" in answers[-1]["said"] and "idle" not in answers[0]["said"]


def test_few_samples_are_reported_by_operation(experiment, capsys):
    command("simulate", experiment(strategies=["psg"], gpus=[1]))
    schedule = Schedule.load(Path("runs/small-simulate-1/sim-00001-psg/schedule.parquet"))

    def fit(op: str, width: int, samples: int) -> Fit:
        return Fit(op, width, "bytes", (1.0, 0.0), {"bytes": 0}, {"bytes": 1}, 0.1, samples)

    fits = fit("H2D", 8, FEW), fit("AGGREGATE", 8, FEW - 1), fit("BACKWARD", 999, 1)
    assert thinly_sampled(FittedCosts("x", fits, {}), schedule) == ("AGGREGATE",)


def test_keys_are_documented():
    experiment = check({"dataset": "x", "uncertainty": {"classes": [{"share": 0.5, "speed": 0.8}]}}, "t")
    assert experiment.uncertainty.stated.classes[0].speed == 0.8 and not experiment.uncertainty.stated.random


def test_a_training_that_never_ends_has_no_duration(experiment, capsys):
    command("simulate", experiment(strategies=["psg"], gpus=[1], epochs=2, failures={"mtbf_s": 1e-9, "draws": 2}), "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["ended"] == "endless" and row.get("training_s") is None and row.get("training_high_s") is None


def test_a_failure_after_the_training_is_refused(experiment, capsys):
    command("simulate", experiment(strategies=["psg"], gpus=[1], epochs=2, failures={"tasks": [{"epoch": 2, "task": 0}]}), expect=2)
    assert "failures.tasks: epoch 2: the training has 2 (epochs), numbered from 0" in one_line(capsys)


def test_runs_with_and_without_contention_are_apart(experiment, capsys):
    for shared in (True, False):
        command("simulate", experiment("shared" if shared else "alone", strategies=["psg"], gpus=[2], contention=shared))
    command("report", "runs/shared-simulate-1", "runs/alone-simulate-1")
    assert "contention none" in Path("report/report.md").read_text().replace("**", "").replace(": ", " ")


def test_the_busiest_links_stand_in_the_report(experiment, capsys):
    command("simulate", experiment(strategies=["psg"], gpus=[1, 16]))
    command("report", "runs/small-simulate-1")
    links, counted = pd.read_csv("report/tables/links.csv"), pd.read_csv("runs/small-simulate-1/sim-00016-psg/links.csv")
    assert set(links["ranks"]) == {16} and links["link"].tolist() == counted["link"].tolist()[:5]
    assert links["link_bytes"].tolist() == counted["bytes"].tolist()[:5] and links["mean_use"].between(0, 1).all()
    assert "The busiest links on the most GPUs" in Path("report/report.md").read_text()
