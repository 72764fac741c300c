"""Machine: the one at hand, as the interpreter runs schedules on it and as the simulator sees it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection
from dataclasses import replace

import psutil
import torch

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.real_exec.execution.context import NO_GRAPHS
from chronoscale.real_exec.execution.lanes import Threads, make_lanes
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.ranks.attached import attachment
from chronoscale.real_exec.ranks.machines import MEMORY, Machine
from chronoscale.real_exec.ranks.starter import Starter
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import CostModel, FittedCosts
from chronoscale.strategies.schedule import Schedule

RANK_BYTES = 200e6  # of a process that has imported torch and waits, beside what processes share; measured


def gpus() -> int:
    """Count the GPUs that torch can use on this machine, for an experiment's ranks."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def machines() -> tuple[Machine, ...]:
    """Return the machines on which another launcher has started processes of this command; () where it was started alone."""
    attached = attachment()
    return attached.machines if attached else ()


def processes(default: int) -> int:
    """Return how many processes of this command another launcher has started; `default` where it was started without one."""
    return Starter.processes(os.environ) or default


def this_device(device: str) -> torch.device:
    """Return the device that an experiment runs on here. device: its key of that name: "auto", "cpu" or "cuda"."""
    return torch.device("cuda" if device != "cpu" and gpus() else "cpu")


def sharing(experiment: Experiment) -> dict[str, str]:
    """Return the remark in a run's environment that all ranks shared one GPU (`share_gpu`) or one process (`virtual`), so that its times
    compare with no others.

    It is {} where they did not.
    """
    if experiment.virtual:
        return {"virtual": "true"}
    return {"share_gpu": "true"} if experiment.share_gpu and this_device(experiment.device).type == "cuda" else {}


def fit_ranks_to_gpus(experiment: Experiment) -> Experiment:
    """Return the experiment on those of its numbers of ranks for which this machine has a GPU a rank; on as many as there are GPUs where it
    has for none.

    For commands that execute. A warning says what was left out. Unchanged on a CPU, where ranks share a GPU, and where the file itself
    gives both `device: cuda` and `ranks`, which `check_seats` may refuse.
    """
    there = sum(min(int(machine.facts["gpus"]), machine.ranks) for machine in machines()) or gpus()
    names_ranks = "ranks" in experiment.model_fields_set
    fits = max(experiment.ranks) <= there or experiment.share_gpu
    if this_device(experiment.device).type == "cpu" or (names_ranks and experiment.device == "cuda") or fits:
        return experiment
    fitting = tuple(count for count in experiment.ranks if count <= there) or (there,)
    runs = f"runs on {', '.join(map(str, fitting))} rank{'s' * (fitting != (1,))}"
    left = ", ".join(str(count) for count in experiment.ranks if count > there)
    default = "" if names_ranks else f" (ranks: {list(experiment.ranks)} is the default)"
    warning = (
        f"ranks: {there} GPU{'s' * (there > 1)} here, and a rank takes one: {runs}, not on {left}{default}; set device: cpu to run all of "
        "them on the CPU"
    )
    warnings.warn(warning, ChronoscaleWarning, stacklevel=2)
    return experiment.model_copy(update={"ranks": fitting})


def fit_ranks_to_processes(experiment: Experiment) -> Experiment:
    """Return the experiment on those of its numbers of ranks for which another launcher, such as torchrun, has started enough processes.

    Unchanged where the command was started alone. Warns of what is left out. Raises UserError where too few were started for all.
    """
    if (starter := Starter.here()) is None:
        return experiment
    fitting = tuple(count for count in experiment.ranks if count <= starter.ranks)
    if not fitting:
        raise UserError(f"ranks: {min(experiment.ranks)}, and {starter.name} started {starter.ranks} processes; start more")
    left = ", ".join(str(count) for count in experiment.ranks if count > starter.ranks)
    if left:
        warning = f"ranks: {starter.name} started {starter.ranks} processes: runs on {', '.join(map(str, fitting))} ranks, not on {left}"
        warnings.warn(warning, ChronoscaleWarning, stacklevel=2)
    return experiment.model_copy(update={"ranks": fitting})


def check_seats(experiment: Experiment, counts: Collection[int]) -> None:
    """Check, before a command executes anything, that this machine has GPUs, or memory for processes, for the largest of the numbers of
    ranks.

    counts: numbers of ranks. Raises UserError for a GPU that is requested and absent, for CUDA graphs without one, and for too many ranks;
    warns of ranks that share a GPU or cores: their times are not those of ranks with their own. Virtual ranks need no more than one does.
    """
    if experiment.virtual:
        return
    starter = Starter.here()
    ranks, there = max(counts), gpus()
    if starter is not None:
        ranks = starter.local_of(ranks)
    device = this_device(experiment.device).type
    if experiment.launch == "graph" and device == "cpu":
        raise UserError(NO_GRAPHS)
    if experiment.device == "cuda" and not there:
        raise UserError("device: cuda, and there is no GPU that torch can use here; set device: cpu, or leave it out")
    if device == "cuda":
        if experiment.share_gpu and ranks > 1:
            warning = f"ranks: {ranks} ranks share one GPU (share_gpu: true): their times are not those of ranks with a GPU each"
            warnings.warn(warning, ChronoscaleWarning, stacklevel=2)
        elif ranks > there:
            raise UserError(f"ranks: {ranks} ranks, and {there} GPU{'s' * (there > 1)}; run fewer ranks, or set device: cpu")
        return
    need, have = ranks * RANK_BYTES / 1e9, psutil.virtual_memory().available / 1e9
    if need > have:
        raise UserError(f"ranks: {ranks} processes take {need:.1f} GB before they hold any data, {have:.1f} GB are free; run fewer ranks")
    cores = len(os.sched_getaffinity(0))
    if ranks * experiment.threads > cores:
        each, seats = f" of {experiment.threads} threads" * (experiment.threads > 1), f"{cores} core{'s' * (cores > 1)}"
        warning = f"ranks: {ranks} ranks{each} share {seats}: their times are not those of ranks with cores of their own"
        warnings.warn(warning, ChronoscaleWarning, stacklevel=2)


def machine_for(experiment: Experiment, costs: FittedCosts, schedule: Schedule) -> Cluster:
    """Return this machine as a cluster to replay one schedule on, with the threads that ranks run that schedule by.

    For `chronoscale validate`, and to check memory. costs: those fitted here, of which the links are taken.
    """
    return this_machine(experiment, costs, schedule.ranks, Threads.of(schedule, experiment.transfer_thread))


def unmeasured_machine(experiment: Experiment, schedule: Schedule) -> Cluster:
    """Return this machine as a cluster to replay a schedule on before anything is measured: enough to see whether it fits in memory."""
    return machine_for(experiment, FittedCosts(device_name(this_device(experiment.device)), (), {}), schedule)


def this_machine(experiment: Experiment, costs: FittedCosts, ranks: int, threads: Threads | None = None) -> Cluster:
    """Return this machine as a cluster for the simulator, with lanes as ranks here run them and links as fitted.

    costs: of which the links are taken. threads: lanes that have a thread of their own on a CPU, None: no lane has; they share a rank's
    cores, unless copies sleep most of the time (`bus`), and collectives in one machine's memory share them, too. A rank has its GPU's
    memory, its share of a shared GPU's, or of what the host has available; less where the experiment's `memory` says so.
    """
    link = costs.collective or Link(bandwidth=1e9, latency_s=0.0)
    device = this_device(experiment.device)
    gpus_taken = 1 if experiment.share_gpu else ranks
    there = torch.cuda.mem_get_info(device)[1] * gpus_taken if device.type == "cuda" else psutil.virtual_memory().available
    if there_are := [machine for machine in machines() if machine.of(ranks)]:
        there = there if device.type == "cuda" else min(int(machine.facts[MEMORY]) // machine.of(ranks) for machine in there_are) * ranks
    memory = there if experiment.memory is None else min(there, experiment.memory * ranks)
    cluster = presets.local_cpu(ranks, float(memory), link, costs.gather, costs.exchange)
    if (each := max((machine.of(ranks) for machine in machines()), default=ranks)) < ranks:
        hosts = ", ".join(f"{machine.host} ({machine.of(ranks)})" for machine in machines() if machine.of(ranks))
        inside = costs.inside or link
        alike = each * sum(machine.of(ranks) > 0 for machine in machines()) == ranks  # else ranks of the model are on other machines
        cluster = replace(cluster, name=hosts, nodes=-(-ranks // each), gpus_per_node=each, intra=inside, messages=costs.pairs * alike)
        cluster = replace(cluster, origin="fitted on these machines")
    streams = make_lanes(device, threads).streams
    named = replace(cluster.device, name=costs.device, streams=streams)
    if device.type == "cuda":
        return replace(cluster, device=replace(named, on_host=False), host_memory=float(psutil.virtual_memory().available))
    cores = 0.0 if experiment.bus else max(1.0, _cores_of_rank(ranks) / experiment.threads)
    copies = cores > 0 and experiment.network is None and cluster.nodes == 1
    message_cores = 1 / experiment.threads if copies else 0.0  # one core, in the unit of `cores`: all that a rank's threads take together
    return replace(cluster, device=replace(named, cores=cores, message_cores=message_cores))


def _cores_of_rank(ranks: int) -> int:
    """Return how many of its machine's cores a CPU rank has for itself, on the machine where it has fewest."""
    there = [int(machine.facts["cores"]) // machine.of(ranks) for machine in machines() if machine.of(ranks)]
    return min(there, default=len(os.sched_getaffinity(0)) // ranks)


def admit(schedule: Schedule, machine: Cluster, costs: CostModel) -> None:
    """Check that a schedule fits in memory before ranks execute it here, by a replay.

    machine: as of `machine_for` or `unmeasured_machine`. Raises UserError naming rank, peak and task where a rank's memory is too small,
    and where `costs` do not know one of its rows.
    """
    try:
        check(schedule, replay(schedule, machine, costs), machine)
    except UserError as error:
        raise UserError(f"strategy '{schedule.name}' on {schedule.ranks} rank{'s' * (schedule.ranks > 1)}: {error}") from None
