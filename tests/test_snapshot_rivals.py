"""Rivals of the trainer of snapshots: they train what ours trains, from the same weights, and theirs compute what they say."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import forked
import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from rivals import pygt  # noqa: E402
from rivals.plain_torch import PlainTorch  # noqa: E402
from rivals.pygt import Pygt, Taken  # noqa: E402
from rivals.snapshots import ROWS, Ours  # noqa: E402
from rivals.windows import apart, normal  # noqa: E402
from setups.data import sequence_of  # noqa: E402
from subjects.snapshot_rivals import HYPER, MODELS, RATE, cut, ours  # noqa: E402
from upstream_equations import Equations  # noqa: E402

from chronoscale.datasets.generate.growth import GrowthGraph  # noqa: E402
from chronoscale.errors import UserError  # noqa: E402
from chronoscale.real_exec.snapshots.model import GcnBlock  # noqa: E402
from chronoscale.strategies.schedule import Op  # noqa: E402
from chronoscale.strategies.snapshots.models import model_shape  # noqa: E402
from chronoscale.strategies.snapshots.variants import TemporalVariant  # noqa: E402

WIDTH, SERIOUS = 8, 1e-3  # a difference that rounding does not make


@pytest.fixture(scope="module")
def sequence():
    return cut(GrowthGraph.rmat(80, 300, 12, 0.2, 1).sequence(), 1, 5)


@pytest.fixture
def package():
    pytest.importorskip("torch_geometric")
    try:
        return pygt.module("temporalgcn")
    except UserError as absent:
        pytest.skip(str(absent))


def test_normalised_edges_are_a_dense_normalisation(sequence):
    snapshot = sequence[3]
    a = torch.eye(80, dtype=torch.float64)
    a[snapshot.dst.astype(int), snapshot.src.astype(int)] = 1
    edges = torch.from_numpy(np.stack([snapshot.src, snapshot.dst]).astype(np.int64))
    for symmetric, columns in ((False, a.sum(0)), (True, a.sum(1))):
        loops, weights = normal(edges, 80, symmetric, torch.float64)
        dense = torch.zeros_like(a).index_put_((loops[1], loops[0]), weights, accumulate=True)
        torch.testing.assert_close(dense, a / a.sum(1, keepdim=True).sqrt() / columns[None].sqrt())


def test_an_epoch_has_a_step_for_every_window(sequence):
    made, windows = ours(sequence, model_shape("t-gcn", WIDTH, WIDTH))
    assert windows.groups == 5 == len(made.epoch()) and len(windows.edges) == 5 + HYPER.group_size


@pytest.mark.slow
def test_a_trainer_in_a_process_of_its_own_is_timed_and_ends():
    rows = [line.split() for line in apart_from_here("time_each").splitlines()]
    assert [(name, code) for name, *_, code in rows] == [("psg", "0"), ("torch", "0")]
    assert all(0 < float(seconds) < 60 for _, *times, _ in rows for seconds in times)


@pytest.mark.parametrize(("model", "rows"), zip(MODELS, (True, False, True), strict=True))
def test_plain_torch_trains_what_ours_trains(sequence, model, rows):
    shape = model_shape(model, WIDTH, WIDTH)
    made, windows = ours(sequence, shape)
    made = Ours(sequence, shape, HYPER, RATE, 0, planner=ROWS) if rows else made
    assert (TemporalVariant.LASTING in made.schedule.variant[made.schedule.tasks(Op.TEMPORAL)]) == (model == "t-gcn")
    plain = PlainTorch(made.model, windows, RATE, ahead=rows)
    first = made.epoch()
    assert apart(plain.epoch(), first) < 1e-5
    assert apart(plain.epoch(), made.epoch()) < 1e-5
    assert apart(made.epoch(), first) > SERIOUS


def test_fewer_snapshots_than_windows_are_refused():
    sequence = GrowthGraph.rmat(80, 300, 12, 0.2, 1).sequence()
    assert len(cut(sequence, 3, 5)) == 9
    for first, groups in ((4, 5), (-1, 2), (0, 0)):
        with pytest.raises(UserError, match=rf"12 snapshots; {groups} windows from snapshot {first} on need {first + groups + 4}"):
            cut(sequence, first, groups)


@pytest.mark.parametrize("model", MODELS)
def test_the_package_computes_its_equations(sequence, model, package):
    made, windows = ours(sequence, model_shape(model, WIDTH, WIDTH))
    rival = Pygt(made.model, windows, RATE)
    equations = Equations(rival, windows, RATE)
    losses = [rival.epoch(), equations.epoch()]
    assert apart(*losses) < 1e-5
    assert apart(losses[0], made.epoch()) > SERIOUS / 10  # not the same mathematics


@pytest.mark.parametrize("model", ["evolvegcn-o", "evolvegcn-h"])
def test_the_package_with_weights_transposed_is_ours_of_a_gru(sequence, model, package):
    made, windows = ours(sequence, replace(model_shape(model, WIDTH, WIDTH), temporal="gru"))
    rivals = [Pygt(made.model, windows, RATE, Taken(once=True, turned=turned)) for turned in (True, False)]
    losses = [rival.epoch() for rival in rivals]
    mine = made.epoch()
    assert apart(losses[0], mine) < 1e-5 < SERIOUS / 10 < apart(losses[1], mine)


def test_both_t_gcns_are_one_function_where_the_reset_gate_is_open(sequence, package):
    made, windows = ours(sequence, model_shape("t-gcn", WIDTH, WIDTH), 0.0)
    before = made.epoch()
    pygt.aligned(made.model)
    rival = Pygt(made.model, windows, 0.0, Taken(once=True))
    pygt.lifted(made.model)
    assert apart(rival.epoch(), made.epoch()) < 1e-5
    block = made.model.block(0)
    assert isinstance(block, GcnBlock)
    with torch.no_grad():
        block.step.cell.bias_ih[:WIDTH] = -pygt.SURE  # the gate shut: nothing of theirs
    assert apart(rival.epoch(), made.epoch()) > SERIOUS < apart(before, made.epoch())


def apart_from_here(function: str, *arguments: str) -> str:
    """What a function of tests/trainers_apart.py prints, in a process that has run nothing yet."""
    return forked.run(["-c", f"import trainers_apart; trainers_apart.{function}()", *arguments], check=True).stdout


def command(*arguments: str, absent: str = "") -> subprocess.CompletedProcess[str]:
    """The benchmark; `absent`: as if that package were not installed."""
    folder = ROOT / "benchmarks"
    lines = ["import runpy, sys, warnings", "warnings.simplefilter('ignore')", *([f"sys.modules[{absent!r}] = None"] if absent else [])]
    lines += [f"sys.argv = [{str(folder)!r}, 'snapshot_rivals', *{arguments!r}]", f"runpy.run_path({str(folder)!r}, run_name='__main__')"]
    return forked.run(["-c", "\n".join(lines)])


def test_without_the_package_one_line_says_what_to_install():
    ended = command("what=losses", "model=t-gcn", "data=enron_monthly", "rivals=pygt", absent="torch_geometric_temporal")
    assert ended.returncode == 2
    assert ended.stderr.startswith("benchmarks: ") and ended.stderr.count("\n") == 1
    assert "pip install torch_geometric torch_geometric_temporal" in ended.stderr


def test_a_dataset_of_events_is_refused():
    with pytest.raises(UserError, match="'events_small' has no snapshots; expected a dataset like enron_monthly"):
        sequence_of("events_small")


@pytest.mark.slow
def test_the_subject_needs_no_package_for_plain_torch():
    """Times, in processes."""
    lines = apart_from_here("bench").splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["rows", "psg", "torch", "ahead"]
