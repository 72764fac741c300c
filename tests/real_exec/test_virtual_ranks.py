"""Virtual ranks: every strategy of every family has the losses, scores and models of so many processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import family_jobs
import numpy as np
import pytest
from rank_cases import parameters, run_on_ranks
from virtual_ranks import Numbers, epochs_of, execute, prepare

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.virtual import run_virtual
from chronoscale.strategies import registry
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import MODELS
from chronoscale.strategies.streams.models import STREAM_MODELS

SIZES = family_jobs.REHEARSED._replace(snapshots=16, events=80)
HELD = HeldOut(0.15, 0.2)
CLOSE = {2: 0.0, 4: 1e-4}  # two numbers have one sum, whoever adds them; processes add four in an order of their own
ADAM = 10  # times as far on average: Adam makes a whole step of a gradient that is rounding alone
ORDERS, SWAPPED = ("ap", "auc", "mrr"), 0.05  # scores of an order: rounding swaps what is nearly tied, and some ten edges are scored here
STRATEGIES = [(family, name) for family in ("snapshots", "signals", "streams") for name in registry.of(family)]
EXECUTED = [(family, name) for family, name in STRATEGIES if registry.of(family)[name].executes]
MODELS_OF = {"snapshots": tuple(MODELS), "signals": tuple(FORECASTERS), "streams": tuple(STREAM_MODELS)}
CASES = [(ranks, model, name) for family, name in EXECUTED for model in MODELS_OF[family] for ranks in CLOSE]
FEW = {  # each kind of program once
    *(
        (2, "t-gcn", "real-g+"),
        (2, "evolvegcn-h", "distdgl"),
        (2, "wd-gcn", "flaredtdg"),
        (2, "t-gcn", "dynagraph"),
        (2, "mpnn-lstm", "dynahb"),
    ),
    *((2, "dcrnn", "dist-index"), (2, "tgn", "fast"), (2, "apan", "memshare"), (2, "jodie", "memshare"), (2, "gat-lstm", "esdg")),
}


def label_of(model: str, name: str) -> str:
    return f"{model}--{name}"


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[int, str, str], tuple[Job, Numbers]]:
    """The jobs of all cases that this session asks for, and what came of their passes on real ranks; their epochs are in their folders."""
    asked = {(each["ranks"], each["model"], each["name"]) for each in parameters(request) if "name" in each}
    folder, jobs = tmp_path_factory.mktemp("cases"), dict[tuple[int, str, str], Job]()
    for ranks in {ranks for ranks, _, _ in asked}:
        (data := folder / f"{ranks}-ranks").mkdir()
        only = partial(lambda count, *case: (count, *case) in asked, ranks)
        for job in family_jobs.jobs(data, SIZES, ranks, HELD, only):
            for item in job.items:
                if (ranks, job.model.name, item.label) in asked:
                    out = data / label_of(job.model.name, item.label) / "real"
                    one = replace(job, items=(item,), out=str(out), repeats=2, settings=Settings(seed=family_jobs.SEED, device="cpu"))
                    jobs[ranks, job.model.name, item.label] = prepare(one)
                    one.save(data / f"{label_of(job.model.name, item.label)}.json")
        run_on_ranks("virtual_ranks", data, {ranks: [label_of(model, name) for count, model, name in jobs if count == ranks]})
    return {
        (ranks, model, name): (job, json.loads((folder / f"{ranks}-ranks" / f"{label_of(model, name)}.passes.json").read_text()))
        for (ranks, model, name), job in jobs.items()
    }


@pytest.mark.parametrize(("ranks", "model", "name"), [pytest.param(*case, marks=() if case in FEW else pytest.mark.slow) for case in CASES])
def test_virtual_ranks_are_as_many_processes(
    cases: Mapping[tuple[int, str, str], tuple[Job, Numbers]], ranks: int, model: str, name: str
) -> None:
    """Passes, epochs, scores and the last model; all virtual ranks have the same."""
    if (ranks, model, name) not in cases:
        pytest.skip("the strategy does not take the model")
    real, passes = cases[ranks, model, name]
    job = prepare(replace(real, out=str(Path(real.out).with_name("virtual"))))
    first, *others = run_virtual(lambda virtual: execute(job, virtual), ranks, job.name)
    assert all(each == first for each in others)
    check(first, passes, CLOSE[ranks])
    check(epochs_of(job), epochs_of(real), CLOSE[ranks])


def check(numbers: Numbers, expected: Numbers, close: float) -> None:
    """Whether all numbers are those that are expected, up to a share of the largest of their kind."""
    assert numbers.keys() == expected.keys() and numbers["losses"]
    for key in expected:
        values, ours = determined(key, expected[key]), determined(key, numbers[key])
        if close and key.startswith("model "):
            apart = np.abs(ours - values) > allowed("", close, np.abs(expected[key]).max(initial=0))
            assert apart.sum() <= max(1, len(apart) // 10), f"{key}: {apart.sum()} of {len(apart)} parameters are apart"
            ours, values = np.abs(ours - values).mean(keepdims=True), np.zeros(1)
        np.testing.assert_allclose(ours, values, rtol=0, atol=allowed(key, close, np.abs(expected[key]).max(initial=0)), err_msg=key)


def allowed(key: str, close: float, largest: float) -> float:
    """How far numbers may be apart, of which the largest is known: scores of an order by some swapped pairs, models by Adam's doing."""
    if close and key.rpartition(" ")[2] in ORDERS:
        return SWAPPED
    return close * largest * (ADAM if key.startswith("model ") else 1)


def determined(key: str, values: list[float]) -> np.ndarray:
    """Leave out the bias of attention's keys: a softmax does not depend on it, so that its gradient is rounding alone, and Adam makes whole
    steps of that.
    """
    array = np.asarray(values)
    return array[np.arange(len(array)) // (len(array) // 3) != 1] if key.endswith("queries_keys_values.bias") else array


def test_all_that_executes_is_among_the_cases() -> None:
    assert set(CASES) >= FEW
