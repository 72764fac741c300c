"""What torchrun, srun and mpirun say of the processes that they have started."""

import pytest

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.machine import fit_ranks_to_processes
from chronoscale.harness.keys.experiment_files import check
from chronoscale.real_exec.ranks.starter import Starter

MPIRUN = {f"OMPI_COMM_WORLD_{name}": value for name, value in (("RANK", "1"), ("SIZE", "2"), ("LOCAL_RANK", "0"), ("LOCAL_SIZE", "2"))}
MEETING = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SRUN = {"SLURM_STEP_NUM_TASKS": "7", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1,2", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "3", **MEETING}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", **MEETING}
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", **MEETING}
EXPERIMENT = {"dataset": "growth_small", "model": {"name": "wd-gcn", "hidden": 4}, "strategies": ["psg"], "device": "cpu"}


def _task(rank: int, local: int, node: int) -> dict[str, str]:
    """What srun tells a task."""
    return {**SRUN, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_NODEID": str(node)}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (TORCHRUN, ("torchrun", 3, 4, 1, 2)),
        (_task(6, 1, 3), ("srun", 6, 7, 1, 2)),
        (HYDRA, ("mpiexec", 3, 4, 1, 2)),
        ({**_task(1, 0, 1), **TORCHRUN}, ("torchrun", 3, 4, 1, 2)),  # one torchrun a machine, started by srun
        ({**_task(1, 0, 1), **MPIRUN}, ("mpirun", 1, 2, 0, 2)),  # as mpirun does under Slurm
        ({**_task(1, 1, 0), "PMI_RANK": "1", "PMI_SIZE": "7"}, ("srun", 1, 7, 1, 2)),  # as srun --mpi=pmi2 does
        (MPIRUN, None),
        ({**MPIRUN, **MEETING}, ("mpirun", 1, 2, 0, 2)),
    ],
)
def test_a_launcher_is_known_by_its_environment(variables: dict[str, str], expected: tuple[str, int, int, int, int] | None) -> None:
    if expected is None:
        with pytest.raises(UserError):
            Starter.of(variables)
        return
    starter = Starter.of(variables)
    assert starter is not None
    assert (starter.name, starter.rank, starter.ranks, starter.local_rank, starter.local_ranks) == expected


@pytest.mark.parametrize(
    ("variables", "restarts"),
    [
        ({}, False),
        ({"TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RESTART_COUNT": "0"}, False),
        ({"TORCHELASTIC_MAX_RESTARTS": "2", "TORCHELASTIC_RESTART_COUNT": "1"}, True),
        ({"TORCHELASTIC_MAX_RESTARTS": "2", "TORCHELASTIC_RESTART_COUNT": "2"}, False),
    ],
)
def test_torchrun_says_whether_it_starts_again_what_fails(variables: dict[str, str], restarts: bool) -> None:
    starter = Starter.of({**TORCHRUN, **variables})
    assert starter is not None and starter.restarts is restarts


@pytest.mark.parametrize("spoilt", [{"RANK": "x"}, {"RANK": "4"}, {"LOCAL_RANK": ""}, {"MASTER_PORT": "http"}, {"MASTER_ADDR": ""}])
def test_malformed_variables_are_one_line(spoilt: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"^torchrun: ") as error:
        Starter.of({**TORCHRUN, **spoilt})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tasks", "counts"),
    [("2(x2),1,2", [2, 2, 1, 2]), ("1", [1]), ("3", [3]), ("1,2(x3),1", [1, 2, 2, 2, 1]), ("8(x1000000000)", [8, 8]), ("4,4", [4, 4])],
)
def test_a_task_of_srun_knows_the_tasks_of_its_own_machine(tasks: str, counts: list[int]) -> None:
    """Slurm lists those of all machines, and shortens what repeats."""
    every, rank = {"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_STEP_NUM_TASKS": "8000000000"}, 0
    for node, count in enumerate(counts):
        for local in range(count):
            starter = Starter.of({**_task(rank, local, node), **every})
            assert starter is not None and starter.run == "4711/3/0"
            assert (starter.rank, starter.local_rank, starter.local_ranks) == (rank, local, count)
            rank += 1


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"SLURM_NODEID": "4"}, "SLURM_NODEID is 4, and SLURM_STEP_TASKS_PER_NODE lists fewer machines: '2(x2),1,2'"),
        ({"SLURM_NODEID": ""}, "SLURM_NODEID is '', expected a number"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2"}, "SLURM_STEP_TASKS_PER_NODE is '2(x2', expected numbers such as 2(x3),1"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2),"}, "SLURM_STEP_TASKS_PER_NODE is '2(x2),', expected numbers"),
        ({"SLURM_LOCALID": "2"}, "rank 6 of 7, on this machine 2 of 2, cannot be"),
        ({"SLURM_PROCID": "3"}, "ranks have to be numbered machine by machine; start them with --distribution=block"),
    ],
)
def test_malformed_tasks_of_srun_are_one_line(spoilt: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as error:
        Starter.of({**_task(6, 1, 3), **spoilt})
    assert str(error.value).startswith(f"srun: {said}")


def test_a_batch_script_and_its_only_task_are_no_several() -> None:
    """What sbatch sets in its script, and srun in one task."""
    batch = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "2(x2)"}
    assert Starter.of(batch) is None
    assert Starter.of({**batch, "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}) is None


@pytest.mark.parametrize("ranks", ["2", "x", ""])
def test_a_stray_variable_is_no_launcher(ranks: str) -> None:
    """Containers and schedulers set some of them for whatever runs there."""
    assert Starter.of({"WORLD_SIZE": ranks, **MEETING}) is None


def test_ranks_are_those_for_which_processes_were_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(ChronoscaleWarning) as warned:
        assert fit_ranks_to_processes(check({**EXPERIMENT, "ranks": [1, 4, 8]}, "bench")).ranks == (1, 4)
    assert [str(each.message).partition(":")[0] for each in warned] == ["ranks"]
    with pytest.raises(UserError, match="ranks: 8, and torchrun started 4 processes; start more"):
        fit_ranks_to_processes(check({**EXPERIMENT, "ranks": [8]}, "bench"))


def test_no_launcher_is_none_and_so_is_our_own() -> None:
    assert Starter.of({}) is None and Starter.of({**TORCHRUN, "CHRONOSCALE_RANKS": "/tmp/x"}) is None


@pytest.mark.parametrize(("ranks", "here"), [(4, 2), (3, 1), (2, 0)])
def test_a_smaller_job_takes_the_first_ranks(ranks: int, here: int) -> None:
    starter = Starter.of(TORCHRUN)
    assert starter is not None and starter.local_of(ranks) == here
