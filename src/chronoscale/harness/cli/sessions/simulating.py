"""Simulation for an experiment that has been read. It needs no torch."""

from __future__ import annotations

from pathlib import Path

from chronoscale.harness.cli.output import print_table, stage
from chronoscale.harness.cli.sessions.session import begin, close
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.publish import tables
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.runs.assumed import conclusion_sentences
from chronoscale.harness.runs.points import endless_sentences, engine_sentences, left_out_sentences, refused_sentences, streamed_sentences
from chronoscale.harness.simulate.assumed import simulate_assumed
from chronoscale.harness.simulate.simulation import assumed_setting
from chronoscale.harness.simulate.simulation import simulate as run_simulation
from chronoscale.real_exec.measurement.host import host_facts


def simulate(experiment: Experiment, file: Path, root: Path, as_json: bool, dask: str | None = None, tornado: bool = False) -> None:
    """Do what `chronoscale simulate` does, with an experiment that has been read: replay every strategy on every number of GPUs, print
    how long each takes, and then what holds under joint assumptions.

    file: the experiment's. root: folder of runs. dask: address of a scheduler whose workers replay. tornado: print each assumption alone.
    """
    experiment, run, _ = begin("simulate", experiment, file, root, host_facts())
    title = f"simulated on {experiment.cluster}"
    with stage("simulating", resumes=True) as on_progress:
        run_simulation(experiment, run, on_progress, dask)
    report = collect([run])
    table = tables.comparison_table(run, report)
    if not as_json:
        print_table(table, title, as_json)
    with stage("drawing assumptions", resumes=True) as on_progress:
        simulate_assumed(assumed_setting(experiment), run, on_progress)
    if as_json or tornado:
        assumptions = tables.assumption_table(collect([run]))
        if as_json:
            print_table(tables.with_conclusions(run, tables.with_assumptions(table, assumptions)), title, as_json)
        elif len(assumptions):
            which = f"what the answers on {max(experiment.gpus)} GPUs rest on"
            print_table(assumptions, f"{which}: the epoch, without what is uncertain, at both ends of an assumption", as_json)
    notes = [left_out_sentences, streamed_sentences, engine_sentences, endless_sentences, refused_sentences]
    close(run, [*conclusion_sentences(run), *(line for sentences in notes for line in sentences(run))])
