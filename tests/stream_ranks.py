"""One rank of several that train on a prepared stream, case after case: `main(folder)`.

Two epochs each, of batches that are as large together as one rank's of `GLOBAL` events. Every rank leaves what it ends with.
"""

from pathlib import Path

import numpy as np
from rank_cases import serve_cases
from stream_case import MODELS, choice, hyper, planned, program

from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.streams.evaluation import evaluate

GLOBAL = 8
LOADING = ("tgl", "etc", "taser", "simple", "fast", "fast-even", "fast-cached")
MERGED = ("tgl-unique", "fast-merged")


def found(folder, model, context, name="tgl-unique"):
    given, chosen = hyper(model, GLOBAL // context.ranks), choice(model, layers=1 + (model in ("tgn", "tgat")))
    schedule = planned(folder, chosen, given, name, ranks=context.ranks)
    made = program(folder, schedule, chosen, given, context)
    passes = [execute(schedule, made, CpuLanes(False), "cpu") for _ in range(2)]
    ends = {f"parameter {name}": value.detach().numpy() for name, value in made.learner.model.named_parameters()}
    ends |= {name: value.numpy().copy() for name, value in made.state.tables().items()} if made.material.shape.memory else {}
    scores = {
        f"score {key}": np.array(value)
        for key, value in (*passes[-1].scores.items(), *((f"test {k}", v) for k, v in evaluate(made).items()))
    }
    return {"losses": np.concatenate([one.losses for one in passes]), **scores, **ends}


CASES = {  # model and strategy by label
    **{model: (model, "tgl-unique") for model in MODELS},
    **{f"{name},loading": ("tgn", name) for name in (*LOADING, *MERGED)},
}


def run(folder, rank, ranks, labels):
    """The cases of these labels on this rank; a file of what each gave."""
    with open_context(Settings(device="cpu")) as context:
        for label in labels:
            model, name = CASES[label]
            np.savez(folder / f"{label}-{ranks}-{rank}.npz", **found(folder / "prepared", model, context, name))


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)
