"""Transfers on a second thread take no less time than in line, on a CPU: why they are in line.

A pass is an epoch of psg or real-type1 on growth_small; `H2D, ms` and others: a task's mean in it. Rival: `transfer_thread`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from core.case import Case, Passes, Setting, Subject
from setups import jobs

from chronoscale.harness.runs.passes import passes_of
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.strategies.schedule import Op

OPS = (Op.H2D, Op.AGGREGATE, Op.INCREMENT, Op.TEMPORAL)


def measure(strategy: str, hidden: int, setting: Setting) -> Passes:
    """Execute a strategy in line and with a thread, a job each."""
    model = {"name": "wd-gcn", "hidden": hidden, "inputs": hidden}
    keys = {"dataset": "growth_small", "model": model, "strategies": [strategy], "ranks": [1], "repeats": setting.repeats, "device": "cpu"}
    passes = {}
    for who, threaded in (("in line", False), ("thread", True)):
        run = jobs.experiment_run(setting.scratch / who, {**keys, "transfer_thread": threaded})
        passes[who] = passes_of(run, 1, strategy)

    def tasks(who: str, one: Pass) -> dict[str, float]:
        trace = one.trace
        return {f"{op.name}, ms": float(trace.duration_ns[trace.op == op].mean()) / 1e6 for op in OPS if (trace.op == op).any()}

    return jobs.figures(passes, tasks)


def cases(quick: bool) -> Iterator[Case]:
    """Yield both strategies."""
    for strategy in ("psg",) if quick else ("psg", "real-type1"):
        yield Case({"strategy": strategy}, partial(measure, strategy, 4 if quick else 32))


SUBJECT = Subject(cases, 15)
