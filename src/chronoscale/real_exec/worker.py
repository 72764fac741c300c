"""Worker: executes a job's schedules on this rank and writes what was measured.

`real_exec.ranks.launch` starts it on every rank; so may `torchrun -m chronoscale.real_exec.worker JOB.json`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist

from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.cuda_graphs import with_cuda_graphs
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import Lanes
from chronoscale.real_exec.execution.nonfinite import require_finite
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.positions import Phase
from chronoscale.real_exec.ranks.rank import leave, serve
from chronoscale.real_exec.ranks.virtual import VirtualRank


def run_job(job: Job, virtual: VirtualRank | None = None) -> dict[str, list[Pass]]:
    """Execute a job's schedules on this rank: `warmup` passes over every item, then `repeats` that are kept.

    Every rank of the job calls it. virtual: which of the virtual ranks of this process it is, whose passes have no times; None: this
    process is the rank.

    Passes are interleaved over the items, and a model goes on training from pass to pass. The last pass of an item has the scores of its
    test data, where it has any. Returned are the passes after the warm-up, by the item's label, and an item's preparation (one pass) under
    `<label>-prepare`; items that share a preparation have it under the first one's label.

    Raises UserError when the process group does not have a schedule's ranks, or a GPU is requested and absent.
    """
    with open_context(job.settings, virtual) as context:
        schedules = {item.label: context.load_schedule(item.schedule) for item in job.items}
        preparations: dict[str, list[Pass]] = {}
        programs: dict[str, Program] = {}
        lanes: dict[str, Lanes] = {}
        for item in job.items:
            preparations[f"{item.label}-prepare"] = run_preparation(item, job.model, context)
            item_context = context.for_item(item)
            lanes[item.label] = item_context.lanes(schedules[item.label])
            programs[item.label] = with_cuda_graphs(
                bind_program(item, schedules[item.label], job.model, item_context), lanes[item.label], item_context
            )
        passes: dict[str, list[Pass]] = {label: [] for label in programs}
        count = job.warmup + job.repeats
        for number in range(count):
            for place, (label, program) in enumerate(programs.items()):
                positions.own_page().set_text(f"{job.name}: pass {number + 1} of {count}, schedule {place + 1} of {len(programs)}")
                result = execute(schedules[label], program, lanes[label], device_name(context.device), f"pass {number}")
                passes[label].append(result)
        positions.own_page().enter(Phase.TESTING)
        for label, program in programs.items():
            last = passes[label].pop()
            scores = require_finite(program.test_scores(), schedules[label].name, "after the last pass")
            passes[label].append(replace(last, scores={**last.scores, **scores}))
    return {label: result[job.warmup :] for label, result in passes.items()} | {
        label: result for label, result in preparations.items() if result
    }


def save_passes(passes: Mapping[str, list[Pass]], out: Path) -> None:
    """Write what a job's ranks measured to the folder `out`; rank 0 calls it. Each file is written completely or not at all.

    passes: an item's label -> its passes. Files: `<label>-r<repeat>.parquet`: a trace a repeat. `<label>-losses.npy`: float64 [repeats,
    iterations]. `<label>-scores.json`: scores by key, a mapping a repeat. `<label>-counts.json` and `<label>-launched.json`: what was
    counted, and how rows were launched, where there is such a thing.
    """
    for label, results in passes.items():
        for repeat, result in enumerate(results):
            draft = out / f".{label}-r{repeat}.parquet"
            result.trace.save(draft)
            os.replace(draft, out / f"{label}-r{repeat}.parquet")
        draft = out / f".{label}-losses.npy"
        np.save(draft, np.stack([result.losses for result in results]))
        os.replace(draft, out / f"{label}-losses.npy")
        records: dict[str, list[dict[str, Any]]] = {
            "scores": [dict(result.scores) for result in results],
            "counts": [dict(result.counts) for result in results if result.counts],
            "launched": [asdict(result.launched) for result in results if result.launched is not None],
        }
        for name in (name for name, each in records.items() if each or name == "scores"):
            draft = out / f".{label}-{name}.json"
            draft.write_text(json.dumps(records[name]))
            os.replace(draft, out / f"{label}-{name}.json")


def main(path: str) -> int:
    """Execute the job file at `path` on this rank, a process that the launcher or torchrun has started; return its exit code
    (`ranks.rank.serve`).
    """
    job = Job.load(Path(path))

    def work() -> None:
        passes = run_job(job)  # ends with a sum over ranks: none leaves while another still computes
        positions.own_page().enter(Phase.SAVING)
        if not dist.is_initialized() or dist.get_rank() == 0:
            save_passes(passes, Path(job.out))

    return serve(job.settings.device, work, job.modules, job.settings.share_gpu)


if __name__ == "__main__":
    leave(main(sys.argv[1]))
