"""Commands `launch …`. The experiment is read first, so that a job that cannot run is not queued."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.errors import ChronoscaleWarning, UserError, unknown
from chronoscale.harness.cli.commands import Commands
from chronoscale.harness.cli.experiment_argument import read_experiment
from chronoscale.harness.cli.options import File
from chronoscale.harness.cli.output import err
from chronoscale.harness.launching.slurm_script import SlurmScript


def slurm(
    file: File,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    gpus: Annotated[
        int | None, typer.Option("--gpus-per-node", min=1, help="GPUs of a machine, and ranks on it.", show_default=False)
    ] = None,
    tasks: Annotated[
        int | None, typer.Option("--tasks-per-node", min=1, help="Ranks on a machine, where they have no GPUs.", show_default=False)
    ] = None,
    command: Annotated[str, typer.Option(help="What to run: bench, train, or another that takes an experiment.")] = "bench",
    cpus: Annotated[
        int | None,
        typer.Option("--cpus-per-task", min=1, help="Cores of a rank; by default its threads, and one more.", show_default=False),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Time limit, such as 2:00:00.", show_default=False)] = None,
    partition: Annotated[str | None, typer.Option(help="Slurm's name of the machines to take.", show_default=False)] = None,
    account: Annotated[str | None, typer.Option(help="Who pays.", show_default=False)] = None,
    job_name: Annotated[str | None, typer.Option(help="By default the experiment's.", show_default=False)] = None,
    into: Annotated[Path | None, typer.Option(help="File for the script; by default it is printed.", show_default=False)] = None,
    submit: Annotated[bool, typer.Option("--submit", help="Hand it to sbatch, and say the job's number.")] = False,
) -> None:
    """Write the sbatch script that runs a command on several machines under Slurm, a rank a task."""
    if (gpus is None) == (tasks is None):
        raise UserError("expected --gpus-per-node, a rank for each GPU, or --tasks-per-node, ranks on the CPU; one of them")
    _check_takes_experiment(command)
    experiment = read_experiment(file, None)
    on_node = gpus or tasks or 1
    _check_size(experiment.ranks, nodes, on_node)
    if experiment.device == "cuda" and gpus is None:
        raise UserError("device: cuda, and no GPUs; give --gpus-per-node instead of --tasks-per-node")
    given = {"job-name": experiment.name if job_name is None else job_name, "time": time, "partition": partition, "account": account}
    options = {name: value for name, value in given.items() if value is not None}
    words = [sys.executable, "-m", "chronoscale", command, str(file)]
    script = SlurmScript(words, str(Path.cwd()), nodes, on_node, cpus or experiment.threads + 1, gpus or 0, options)
    if into is not None:
        _write(into, script.text())
        err.print(f"written: {into}", highlight=False, markup=False)
    elif not submit:
        typer.echo(script.text(), nl=False)
    if submit:
        number = script.submit()
        typer.echo(f"job {number}; its output: slurm-{number}.out")


def _check_takes_experiment(command: str) -> None:
    """Raise UserError for a command that does not exist, or that no experiment file is handed to."""
    if command not in Commands.entries:
        raise unknown("command", command, Commands.entries)
    if all(parameter.name != "file" for parameter in Commands.entries[command].command(command).params):
        raise UserError(f"--command {command}: takes no experiment file; expected bench, train or the like")


def _check_size(ranks: tuple[int, ...], nodes: int, on_node: int) -> None:
    """Raise UserError where a number of ranks is above that of the job's tasks; warn where tasks would have nothing to do."""
    most, tasks = max(ranks), nodes * on_node
    size = f"{nodes} node{'s' * (nodes > 1)} of {on_node} are {tasks} rank{'s' * (tasks > 1)}"
    if most > tasks:
        raise UserError(f"ranks: {most}, and {size}; take more nodes, or fewer ranks in the experiment")
    if most < tasks:
        warning = f"{size}, and the experiment has at most {most} (ranks: {list(ranks)}): the others would wait"
        warnings.warn(warning, ChronoscaleWarning, stacklevel=2)


def _write(file: Path, text: str) -> None:
    if file.exists() and file.read_text() != text:
        raise UserError(f"--into {file}: is there already, and differs; remove it, or give another name")
    file.write_text(text)
