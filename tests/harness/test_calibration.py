"""Calibration: what a profile takes, how strategies and probes take turns, and what is said of noise."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import command
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, write
from one_rank import here

from chronoscale.harness.execute import calibration, execution
from chronoscale.harness.execute.budget import ALIKE, SAMPLES, SLACK, Budget, work_ns
from chronoscale.harness.execute.calibration import interleave
from chronoscale.harness.execute.watch import TICKS, Watch, core_seconds, own_seconds
from chronoscale.harness.runs.noise import OTHERS, SPREAD, STEAL, Noise
from chronoscale.harness.workflows.execution import ProbeCandidate
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.process_setup import cores_per_rank
from chronoscale.strategies.costing.request import CostRequests
from chronoscale.strategies.costs import FittedCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper

QUIET = Noise(0.5, 0.0, 0.01, 0.02, 7, 4)


def rows(*edges: int, op: str = "AGGREGATE") -> Schedule:
    """One row for each, as many ns long."""
    return write("\n".join(f"a{i}: {op}@COMPUTE edges={n} ns={n}" for i, n in enumerate(edges))).schedule


def candidate(label: str, schedule: Schedule) -> ProbeCandidate:
    return ProbeCandidate(label, schedule, lambda: pytest.fail("written before it is taken"))


def budget(requested: Schedule, allowed: float, **more: bool) -> Budget:
    known = CostRequests(NsCosts())
    known.note(requested)
    return Budget(known.ranges, allowed, NsCosts(), **more)


def test_what_is_missing_is_taken_at_any_cost_and_the_rest_while_it_lasts() -> None:
    candidates = [
        candidate("middle", rows(*[50] * SAMPLES)),
        candidate("again", rows(*[50] * SAMPLES)),  # brings nothing, and there is nothing left for it
        candidate("low", rows(10)),
        candidate("high", rows(1000)),
        candidate("other", rows(1, op="COPY")),  # nobody asks for copies
        candidate("small", rows(20)),
    ]
    requested = rows(10, 1050)  # a tenth above what is timed is taken
    assert [one.label for one in budget(requested, 100).choose(candidates)] == ["middle", "low", "high"]
    assert [one.label for one in budget(requested, 10**4).choose(candidates)] == ["middle", "again", "low", "high", "small"]
    assert [one.label for one in budget(requested, 10**4, incomplete=True).choose(candidates)] == [one.label for one in candidates]


def test_nothing_is_made_once_nothing_is_missing_and_the_budget_is_spent() -> None:
    def candidates():
        yield candidate("all", rows(*[10] * SAMPLES, 100))
        yield candidate("looked at", rows(50))
        pytest.fail("made in vain")

    taken = budget(rows(10, 100), 10 * SAMPLES + 100).choose(candidates())
    assert [one.label for one in taken] == ["all"]


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=1, max_size=12), st.integers(0, 400))
def test_what_is_taken_covers_what_can_be_covered(sizes: list[list[int]], allowed: int) -> None:
    """As much as all candidates together; and each beyond the budget brought something when it was taken."""
    requested, candidates = rows(1, 20, 60), [candidate(str(i), rows(*one)) for i, one in enumerate(sizes)]
    chosen = budget(requested, allowed)
    taken = chosen.choose(candidates)
    edges = np.concatenate([one.schedule.edges for one in taken])
    every = np.concatenate([one.schedule.edges for one in candidates])
    assert min(every.min() * (1 - SLACK), 1) == min(edges.min() * (1 - SLACK), 1) or edges.min() * (1 - SLACK) <= 1
    assert edges.max() == every.max() or edges.max() * (1 + SLACK) >= 60
    assert len(edges) >= min(SAMPLES, len(every))
    assert chosen.spent_ns == sum(work_ns(one.schedule, NsCosts()) for one in taken)
    order = {one.label: i for i, one in enumerate(candidates)}
    assert [order[one.label] for one in taken] == sorted(order[one.label] for one in taken)


def test_rows_that_are_all_alike_need_fewer() -> None:
    candidates = [candidate(str(i), rows(5)) for i in range(SAMPLES)]
    assert len(budget(rows(5, 5), 0).choose(candidates)) == ALIKE


def test_probes_and_strategies_take_turns() -> None:
    strategies, probes = ([Item(f"{kind}{i}", "", "", Hyper()) for i in range(count)] for kind, count in (("s", 3), ("p", 7)))
    assert "".join(one.label for one in interleave(strategies, probes)) == "s0p0p1s1p2p3s2p4p5p6"
    assert interleave(strategies, []) == strategies


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, inline: None) -> list[Job]:
    """The jobs that a command runs, in order."""
    seen: list[Job] = []

    def launch(job: Job, *rest: object) -> None:
        seen.append(job)
        here(job, *rest)  # type: ignore[arg-type]

    for module in (execution, calibration):
        monkeypatch.setattr(module, "launch", launch)
    return seen


def test_a_bench_whose_plans_need_no_costs_profiles_nothing(experiment, jobs):
    command("bench", experiment(strategies=["psg", "blad"]))
    assert [job.name for job in jobs] == ["ranks-1"] and not any(Path("runs/small-bench-1", name).exists() for name in ("profile", "rates"))


def test_a_bench_whose_plans_need_costs_trains_at_once_and_says_by_which_it_planned(experiment, jobs, capsys):
    """By rates of this device; by a profile where one is asked for by name, or there already."""

    def bench(name: str, **keys: object) -> dict[str, str | None]:
        jobs.clear(), capsys.readouterr()
        command("bench", experiment(name, strategies=["psg", "real-g+"], **keys), "--json")
        return {row["strategy"]: row["planned_with"] for row in json.loads(capsys.readouterr().out)}

    planned = bench("usual")
    assert [job.name for job in jobs] == ["ranks-1"] and planned["psg"] is None
    assert re.fullmatch(r".+ rates, measured in \d\.\d s, roofline by operation", planned["real-g+"] or "")
    command("report", "runs/usual-bench-1", "--out", "page")
    assert f"real-g+ asked, to plan, how long operations take: by {planned['real-g+']}; " in Path("page/report.md").read_text()
    assert bench("sheet", costs="datasheet")["real-g+"] == "NVIDIA H200 datasheet, roofline by operation"


@pytest.mark.slow
def test_a_profile_plans_a_bench_where_it_is_asked_for_or_there(experiment, jobs, capsys):
    for costs, expected in (("fitted", ["probes-1", "ranks-1"]), ("auto", ["ranks-1"])):
        jobs.clear()
        command("bench", experiment(strategies=["real-g+"], costs=costs, seed=0), "--json")
        (row,) = json.loads(capsys.readouterr().out)
        assert [job.name for job in jobs] == expected and row["planned_with"].startswith("fitted on ")


@pytest.mark.slow
def test_a_validation_times_probes_in_turn_with_what_it_replays(experiment, jobs, capsys):
    command("validate", experiment(strategies=["psg", "blad"]), "--json")
    (job,) = jobs
    labels = [one.label for one in job.items]
    at = [labels.index("psg"), labels.index("blad")]
    assert at[0] == 0 and 1 < at[1] < len(labels) - 1  # probes follow each
    assert {one.learning_rate for one in job.items if one.label not in ("psg", "blad")} == {calibration.LEARNING_RATE}
    assert all(one.learning_rate == 0 for one in job.items if one.label in ("psg", "blad"))
    folder = Path("runs/small-validate-1/ranks-1")
    assert {row["op"] for row in json.loads(capsys.readouterr().out)} >= {"TOTAL", "COPY", "BACKWARD"}
    costs = FittedCosts.load(folder / "costs.json")
    assert {fit.op for fit in costs.fits} >= {"H2D", "AGGREGATE", "COPY"}
    assert not list(folder.glob("windows*")) and not (folder / "probes").exists()
    table = pd.read_parquet(folder / "probes.parquet")
    assert (table["ns"] > 0).all()
    assert Noise.load_from(folder) is not None


@pytest.mark.slow
def test_a_profile_of_long_epochs_keeps_to_its_budget(experiment, jobs, capsys):
    """What has to be known is timed all the same, and the command says what it takes."""
    taken = []
    for name, epochs in (("short", 1e-3), ("long", 1e3)):
        command("profile", experiment(name, strategies=["psg"], profile_epochs=epochs))
        taken.append({one.label for one in jobs.pop().items})
        output = " ".join(capsys.readouterr().err.split())
        over = re.search(
            r"profile: 2 passes over what 1 rank has to know take about \d+ epochs, more than profile_epochs: 0.001; fewer", output
        )
        assert (over is not None) == (epochs < 1)
    assert taken[0] < taken[1] and not any("delta" in label for label in taken[0] | taken[1])  # nobody increments


@pytest.mark.parametrize(
    ("noise", "why"),
    [
        (QUIET, ""),
        (replace(QUIET, spread=SPREAD), ""),
        (replace(QUIET, spread=0.23), "passes vary by 23% (more than 10%)"),
        (replace(QUIET, steal=0.031), "the hypervisor took 3.1% of the cores' time (more than 2%)"),
        (replace(QUIET, others=0.5), "other processes used 50% of it (more than 10%)"),
    ],
)
def test_noise_in_words(noise: Noise, why: str) -> None:
    assert noise.why == why and noise.sentence == (f"not to be believed: {why}" if why else "")
    assert (noise.level > 1) == bool(why)
    assert replace(noise, attempt=3).sentence.endswith("the quietest of 3 attempts") == bool(why)
    assert STEAL < OTHERS


BUSY = """
import time


def main(path):
    while time.process_time() < 0.3:
        pass
    return 0


"""
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def test_what_this_process_does_is_no_noise() -> None:
    watch = Watch()
    sum(i * i for i in range(3_000_000))
    noise = watch.noise([])
    assert 0 <= noise.others <= 1 and 0 <= noise.steal <= 1 and noise.spread == 0 and noise.passes == 0


def test_what_ranks_and_their_server_do_is_no_noise(tmp_path: Path) -> None:
    """Ranks are children of a process that outlives them."""
    (tmp_path / "busy_rank.py").write_text(BUSY)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        before = own_seconds()
        wait(start("busy_rank", tmp_path / "job", 2, 1), "busy")
        spent = own_seconds() - before
    assert 0.5 < spent < 60  # 0.3 s a rank, and what a server that starts imports


def test_what_other_cores_do_is_no_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a batch system gives each job cores of its own: user, nice, system, idle, iowait, irq, softirq, steal, guest."""
    cores = [
        "cpu 200 0 100 900 0 0 0 60 9",
        "cpu0 1 2 3 4 5 6 7 8 0",
        "cpu1 100 0 0 900 0 0 0 0 50",
        "cpu10 10 0 20 50 0 0 10 30 0",
        "intr 7",
    ]
    (tmp_path / "stat").write_text("\n".join(cores))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {1, 10})
    assert core_seconds(tmp_path / "stat") == pytest.approx((1120 / TICKS, 140 / TICKS, 30 / TICKS))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {1, 70})  # as in a container that numbers its cores anew
    assert core_seconds(tmp_path / "stat") == pytest.approx((1260 / TICKS, 300 / TICKS, 60 / TICKS))


def test_what_another_process_does_is_noise() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", f"{BUSY}main('')\nprint(flush=True); input()"], **PIPES) as other:
        before = own_seconds()
        assert other.stdout and other.stdout.readline() == b"\n"
        assert own_seconds() - before < 0.2
        other.communicate(b"\n")


@pytest.mark.slow
def test_a_noisy_validation_is_repeated_and_says_so(experiment, inline, monkeypatch, capsys):
    """Three times, the quietest is kept; table, JSON and report say that it is not to be believed."""
    levels = iter([0.5, 0.2, 0.3])
    monkeypatch.setattr(Watch, "noise", lambda self, timed, pinned=0, attempt=1: replace(QUIET, spread=next(levels), attempt=attempt))
    command("validate", experiment(strategies=["psg"], repeats=7, profile_epochs=1e-3), "--json")
    shown = capsys.readouterr()
    sentence = "on 1 rank: not to be believed: passes vary by 20% (more than 10%); the quietest of 3 attempts"
    assert sentence in " ".join(shown.err.split())
    noise_by_op = {row["op"]: row["noise"] for row in json.loads(shown.out)}
    assert noise_by_op["TOTAL"].startswith("not to be believed: passes vary by 20%") and noise_by_op["H2D"] == ""
    command("report", "runs/small-validate-1", "--out", "page")
    assert (
        "On 1 rank: not to be believed: passes vary by 20% (more than 10%); the quietest of 3 attempts."
        in Path("page/report.md").read_text()
    )
    assert not list(Path("runs/small-validate-1/ranks-1").glob("attempt*"))


@pytest.mark.slow
def test_a_quiet_one_is_not(experiment, inline, monkeypatch, capsys):
    levels = iter([0.5, 0.05])
    monkeypatch.setattr(Watch, "noise", lambda self, timed, pinned=0, attempt=1: replace(QUIET, spread=next(levels), attempt=attempt))
    command("validate", experiment(strategies=["psg"], repeats=7, profile_epochs=1e-3), "--json")
    assert all("noise" not in row for row in json.loads(capsys.readouterr().out))
    assert Noise.load_from(Path("runs/small-validate-1/ranks-1")) == replace(QUIET, spread=0.05, attempt=2)


@pytest.mark.parametrize(
    ("cores", "ranks", "threads", "each"), [(4, 2, 1, 2), (4, 2, 2, 2), (4, 2, 3, 0), (4, 1, 1, 0), (2, 2, 1, 1), (9, 4, 1, 2)]
)
def test_ranks_have_cores_of_their_own_where_there_are_enough(monkeypatch, cores, ranks, threads, each):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert cores_per_rank(ranks, threads) == each
