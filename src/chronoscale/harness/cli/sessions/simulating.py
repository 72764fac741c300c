"""Simulation for an experiment that has been read. It needs no torch."""

from __future__ import annotations

from pathlib import Path

from chronoscale.harness.cli.output import print_table, stage
from chronoscale.harness.cli.sessions.session import begin, end
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.publish import tables
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.runs.points import engine_sentences, refused_sentences, streamed_sentences
from chronoscale.harness.simulate.simulation import simulate as run_simulation
from chronoscale.real_exec.measurement.host import host_facts


def simulate(experiment: Experiment, file: Path, root: Path, as_json: bool, dask: str | None = None) -> None:
    """Do what `chronoscale simulate` does, with an experiment that has been read: replay every strategy on every number of GPUs, and print
    the assumptions that the answers depend on.

    file: the experiment's. root: folder of runs. dask: address of a scheduler whose workers replay.
    """
    run, _ = begin("simulate", experiment, file, root, host_facts())
    with stage("simulating", resumes=True) as on_progress:
        run_simulation(experiment, run, on_progress, dask)
    report = collect([run])
    table, assumptions = tables.comparison_table(run, report), tables.assumption_table(report)
    if not as_json and len(assumptions):
        which = f"what the answers on {max(experiment.gpus)} GPUs rest on"
        print_table(assumptions, f"{which}: the epoch, without what is uncertain, at both ends of an assumption", as_json)
    shown = tables.with_assumptions(table, assumptions) if as_json else table
    end(
        run,
        shown,
        f"simulated on {experiment.cluster}",
        as_json,
        [*streamed_sentences(run), *engine_sentences(run), *refused_sentences(run)],
    )
