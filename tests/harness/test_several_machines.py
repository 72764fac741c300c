"""Commands on several machines, as the first one's process sees them: their cluster, and runs and profiles of other machines."""

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import command

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.cli.sessions import execution_session
from chronoscale.harness.execute import attendance, machine, profiles, replaying
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs.run_folder import MACHINES, Run
from chronoscale.real_exec.ranks.machines import MEMORY, Machine
from chronoscale.real_exec.ranks.starter import Starter
from chronoscale.strategies.cluster import Link, PairLink
from chronoscale.strategies.costs import FittedCosts

SetMachines = Callable[..., None]
LINK, INSIDE, FASTER, BETWEEN = Link(1e8, 1e-3), Link(5e9, 1e-5), Link(9e9, 1e-5), Link(2e8, 1e-4)
COSTS = FittedCosts("here", (), {}, LINK, pairs=(PairLink(0, 1, BETWEEN), PairLink(0, 0, FASTER), PairLink(1, 1, INSIDE)))
EXPERIMENT = {"dataset": "growth_small", "model": {"name": "wd-gcn", "hidden": 4}, "strategies": ["psg"], "device": "cpu"}


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> SetMachines:
    """A function: this process leads a command on these machines, (host, ranks, gigabytes of memory, GPUs) each."""

    def these(*given: tuple[str, int, int, int]) -> None:
        first = [sum(ranks for _, ranks, _, _ in given[:number]) for number in range(len(given))]
        there = tuple(
            Machine(host, begin, ranks, {MEMORY: str(memory * 10**9), "gpus": str(gpus), "cores": str(2 * memory)})
            for begin, (host, ranks, memory, gpus) in zip(first, given, strict=True)
        )
        for module in (machine, profiles, replaying, execution_session):
            monkeypatch.setattr(module, "machines", lambda: there)

    return these


def test_the_cluster_is_that_of_the_machines(on: SetMachines) -> None:
    on(("a", 2, 8, 0), ("b", 2, 4, 0))
    cluster = machine.this_machine(check({**EXPERIMENT, "ranks": [4]}, "x"), COSTS, 4)
    assert (cluster.name, cluster.nodes, cluster.gpus_per_node, cluster.origin) == ("a (2), b (2)", 2, 2, "fitted on these machines")
    assert (cluster.intra, cluster.inter) == (INSIDE, LINK) and cluster.device.memory == 2e9  # the smaller machine's, a rank
    assert cluster.device.cores == 4.0 and not cluster.device.message_cores and cluster.messages == COSTS.pairs
    fewer = machine.this_machine(check({**EXPERIMENT, "ranks": [2]}, "x"), COSTS, 2)
    assert (fewer.nodes, fewer.gpus_per_node, fewer.name, fewer.intra) == (1, 2, "local-cpu", LINK) and fewer.device.memory == 4e9
    assert fewer.device.cores == 8.0 and fewer.device.message_cores == 1.0 and fewer.messages == ()
    slow = machine.this_machine(check({**EXPERIMENT, "ranks": [2], "network": "1GB"}, "x"), COSTS, 2)
    team = machine.this_machine(check({**EXPERIMENT, "ranks": [2], "threads": 4}, "x"), COSTS, 2)
    assert not slow.device.message_cores and (team.device.cores, team.device.message_cores) == (2.0, 0.25)
    odd = machine.this_machine(check({**EXPERIMENT, "ranks": [3]}, "x"), COSTS, 3)
    assert (odd.nodes, odd.gpus_per_node, odd.messages) == (2, 2, ())


def test_a_link_inside_machines_that_was_not_measured_is_that_between_them(on: SetMachines) -> None:
    on(("a", 1, 8, 0), ("b", 1, 8, 0))
    cluster = machine.this_machine(check({**EXPERIMENT, "ranks": [2]}, "x"), FittedCosts("here", (), {}, LINK), 2)
    assert (cluster.nodes, cluster.gpus_per_node, cluster.intra) == (2, 1, LINK)


def test_gpus_are_counted_machine_by_machine(on: SetMachines, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of a machine than it has ranks."""
    on(("a", 2, 8, 4), ("b", 2, 8, 1))
    monkeypatch.setattr(machine, "gpus", lambda: 4)
    with pytest.warns(ChronoscaleWarning, match="3 GPUs here"):
        fitted = machine.fit_ranks_to_gpus(check({**EXPERIMENT, "device": "auto", "ranks": [2, 3, 4]}, "x"))
    assert fitted.ranks == (2, 3)


def test_machines_of_other_sizes_are_warned_of(on: SetMachines, tmp_path: Path) -> None:
    for given, warned in (((("a", 2, 8, 0), ("b", 2, 8, 0)), 0), ((("a", 2, 8, 0), ("b", 1, 8, 0)), 1)):
        on(*given)
        with warnings.catch_warnings(record=True) as caught, pytest.raises(Exception, match="nothing was executed"):
            warnings.simplefilter("always")
            replaying.replay_executed(check({**EXPERIMENT, "ranks": [4]}, "x"), Run(tmp_path))
        assert sum("different numbers of ranks" in str(each.message) for each in caught) == warned


@pytest.mark.parametrize("elastic", [False, True])
def test_a_run_goes_on_on_other_machines_and_says_so(on: SetMachines, experiment, lose, capsys, elastic: bool) -> None:
    """As where a job's machines are others after it was queued again."""
    file, options = experiment(strategies=["psg"], epochs=3, ranks=[1]), ["--elastic", "1:1"] * elastic
    on(("a", 1, 8, 0), ("b", 1, 8, 0))
    lose(1)
    command("train", file, *options, expect=1)
    (folder,) = Path("runs").iterdir()
    assert Run(folder).machines == {"machines": "a (1), b (1)"} and (folder / MACHINES).exists()
    on(("c", 1, 8, 0), ("b", 1, 8, 0))
    capsys.readouterr()
    command("train", file, *options)
    assert "what was done on a (1), b (1) goes on on c (1), b (1)" in " ".join(capsys.readouterr().err.split())
    assert [*Path("runs").iterdir()] == [folder] and Run(folder).machines == {"machines": "c (1), b (1)"}


@pytest.mark.slow
def test_a_profile_of_other_machines_serves_no_other(on: SetMachines, experiment, inline) -> None:
    settings = check({**EXPERIMENT, "ranks": [1], "repeats": 2}, "x")
    on(("a", 1, 8, 0), ("b", 1, 8, 0))
    command("profile", experiment(**{key: value for key, value in settings.model_dump(mode="json").items() if key in ("repeats", "ranks")}))
    (folder,) = Path("runs").iterdir()
    assert profiles._made_on(Run(folder), machine.this_device("cpu"))
    on(("a", 1, 8, 0), ("c", 1, 8, 0))
    assert not profiles._made_on(Run(folder), machine.this_device("cpu"))


def test_who_attends_leaves_the_failure_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that sees another process fail ends the first, before it has said what is wrong."""
    monkeypatch.setattr(attendance, "remove_at_sigterm", lambda: None)  # it is this process's for good
    monkeypatch.setattr(attendance, "attach", lambda starter, facts: SimpleNamespace(attend=lambda run, on_cut: 2))
    assert attendance.attend(Starter("torchrun", 1, 2, 1, 2, "x", 1, False, "run")) == 0


@pytest.mark.parametrize(("local", "code", "expected"), [(0, 1, 1), (0, 2, 2), (0, 0, 0), (0, 130, 0), (1, 1, 0)])
def test_who_attends_fails_as_the_first_where_that_starts_it_again(
    monkeypatch: pytest.MonkeyPatch, local: int, code: int, expected: int
) -> None:
    """torchrun starts again a machine on which a process fails, and no other; not on the first machine, which has one, nor after Ctrl-C."""
    monkeypatch.setattr(attendance, "remove_at_sigterm", lambda: None)  # it is this process's for good
    monkeypatch.setattr(attendance, "attach", lambda starter, facts: SimpleNamespace(attend=lambda run, on_cut: code))
    assert attendance.attend(Starter("torchrun", 1, 2, local, local + 1, "x", 1, False, "run", restarts=True)) == expected
