"""Starter: what torchrun, srun or mpirun, which started this command, says of its processes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from chronoscale.errors import UserError
from chronoscale.real_exec.ranks.membership import FOLDER


@dataclass(frozen=True, slots=True)
class _Variables:
    """Names of the environment variables by which a launcher tells its processes what they are.

    node: index of this machine, where `local_ranks` lists the ranks of all machines. run: together the same in all processes of a run, and
    in no other run.
    """

    rank: str
    ranks: str
    local_rank: str
    local_ranks: str
    node: str = ""
    run: tuple[str, ...] = ()

    def started(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with this environment is one of several; containers and schedulers set some of the variables for any."""
        return self.rank in environment and self.local_rank in environment and environment.get(self.ranks, "1") != "1"


# What starts others is above what may start it: torchrun and mpirun start one process a machine by srun, which leaves its variables.
_LAUNCHERS = {
    "torchrun": _Variables(
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", run=("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    ),
    "mpirun": _Variables(  # Open MPI
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
    ),
    "mpiexec": _Variables("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # Hydra: MPICH, Intel MPI
    "srun": _Variables(
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
        node="SLURM_NODEID",
        run=("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
    ),
}


@dataclass(frozen=True, slots=True)
class Starter:
    """Another launcher that has started this command in several processes: `name`, and which of them this one is.

    rank of `ranks`; local_rank of `local_ranks` on this machine. host, port: where they meet. hosts_store: rank 0 has to listen there; else
    the launcher does. run: tells runs that meet at one place apart. restarts: where one of a machine's processes fails, the launcher starts
    all of that machine again, and those of no other.
    """

    name: str
    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    host: str
    port: int
    hosts_store: bool
    run: str
    restarts: bool = False

    @classmethod
    def here(cls) -> Starter | None:
        """Return the launcher that has started this process in several; None where the command was started alone. Raises as `of`."""
        return cls.of(os.environ)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Starter | None:
        """Read the launcher from environment variables; None for a command started alone, and for a rank of our own launcher.

        Raises UserError, one line, for values that are missing or malformed.
        """
        if environment.get(FOLDER):
            return None
        for name, variables in _LAUNCHERS.items():
            if variables.started(environment):
                rank, ranks, local_rank = (
                    _number(environment, each, name) for each in (variables.rank, variables.ranks, variables.local_rank)
                )
                local_ranks, before = _on_machine(environment, variables, name)
                if not (0 <= rank < ranks and 0 <= local_rank < local_ranks <= ranks):
                    raise UserError(f"{name}: rank {rank} of {ranks}, on this machine {local_rank} of {local_ranks}, cannot be")
                if before is not None and rank != before + local_rank:
                    raise UserError(f"{name}: ranks have to be numbered machine by machine; start them with --distribution=block")
                if not environment.get("MASTER_ADDR"):
                    raise UserError(f"{name}: MASTER_ADDR is not set; set it, and MASTER_PORT, to where the first machine listens")
                run = "/".join(environment.get(each, "0") for each in variables.run) or "0"
                hosts = rank == 0 and environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
                port = _number(environment, "MASTER_PORT", name)
                restarts = name == "torchrun" and _restarts(environment)
                return cls(name, rank, ranks, local_rank, local_ranks, environment["MASTER_ADDR"], port, hosts, run, restarts)
        return None

    @staticmethod
    def processes(environment: Mapping[str, str]) -> int:
        """Return how many processes a launcher has started, also where that is one; 0 without a launcher."""
        starter = Starter.of(environment)
        single = (each for each in _LAUNCHERS.values() if each.rank in environment and environment.get(each.ranks) == "1")
        return starter.ranks if starter else len(list(single)[:1]) * (not environment.get(FOLDER))

    @property
    def on_first(self) -> bool:
        """Whether this process is on the first machine, as rank 0 is."""
        return self.rank == self.local_rank

    def local_of(self, ranks: int) -> int:
        """Return how many of the first `ranks` processes are on this machine, where a launcher numbers them machine by machine."""
        return max(0, min(self.local_ranks, ranks - (self.rank - self.local_rank)))


def _number(environment: Mapping[str, str], variable: str, name: str) -> int:
    text = environment.get(variable, "")
    if not (text.isascii() and text.isdigit()):
        raise UserError(f"{name}: {variable} is '{text}', expected a number")
    return int(text)


def _restarts(environment: Mapping[str, str]) -> bool:
    """Return whether torchrun has restarts left (`--max-restarts`)."""
    names = "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"
    count, limit = (_number({**dict.fromkeys(names, "0"), **environment}, name, "torchrun") for name in names)
    return count < limit


def _on_machine(environment: Mapping[str, str], variables: _Variables, name: str) -> tuple[int, int | None]:
    """Return how many ranks this machine has, and how many are on those before it: None where the launcher does not say.

    Slurm lists the ranks of all machines, `2(x3),1` for three machines of two and one of one.
    """
    if not variables.node:
        return _number(environment, variables.local_ranks, name), None
    node, before, text = _number(environment, variables.node, name), 0, environment.get(variables.local_ranks, "")
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part, re.ASCII)
        if match is None:
            raise UserError(f"{name}: {variables.local_ranks} is '{text}', expected numbers such as 2(x3),1")
        each, machines = int(match[1]), int(match[2] or 1)
        if node < machines:
            return each, before + node * each
        node, before = node - machines, before + machines * each
    raise UserError(
        f"{name}: {variables.node} is {environment[variables.node]}, and {variables.local_ranks} lists fewer machines: '{text}'"
    )
