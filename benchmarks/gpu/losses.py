"""Losses: the same steps on the CPU and on the device, on one rank: every model with every strategy and every form of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.worker import run_job
from gpu.cases import REHEARSED, SEED, Sizes, jobs
from gpu.device import present
from gpu.families import emptied
from gpu.place import Place
from gpu.record import Record, Wrong

CLOSE = 1e-4  # relative difference of a loss
STEPS = 3  # iterations of the first pass that must be as close; later ones are shown


def run(place: Place, record: Record) -> None:
    """Raises as `compare`."""
    present(place)
    compare(record, jobs(emptied(place.work / "losses"), REHEARSED if place.rehearsal else Sizes()), place.device, _losses)


def compare(record: Record, of: Iterable[Job], device: str, losses: Callable[[Job, str], np.ndarray]) -> None:
    """Into `losses` of a record, what `losses` of a job of one item are on the CPU and on the device, float64 [iterations] each.

    Raises Failed where a loss differs by more than CLOSE, or is not finite, and where a schedule could not be executed.
    """
    wrong = Wrong()
    for job in of:
        for item in job.items:  # each a job of its own: what one raises would end all of a job
            name = {"model": job.model.name, "strategy": item.label}

            def fails(why: str, name: dict[str, str] = name) -> None:
                record.add("losses", {**name, "error": why})

            with wrong.kept(f"{job.model.name} {item.label}", fails):
                there, here = (losses(replace(job, items=(item,)), where) for where in (device, "cpu"))
                row = {**name, **_compared(here, there)}
                record.add("losses", row)
                if not row["difference"] <= CLOSE:
                    wrong.append(f"{job.model.name} {item.label}: {row['difference']:.1e}")
        print(f"{job.model.name}: {len(job.items)} schedules", flush=True)
    wrong.raise_any(f"failed or differ by more than {CLOSE:g}", 8)


def _losses(job: Job, device: str) -> np.ndarray:
    """Of the first pass of its only item: float64 [iterations]."""
    placed = replace(job, settings=Settings(seed=SEED, device=device))
    return run_job(placed)[job.items[0].label][0].losses


def _compared(here: np.ndarray, there: np.ndarray) -> dict[str, float]:
    relative = np.abs(there - here) / np.maximum(np.abs(here), 1e-12)
    losses = {"cpu": float(here[0]), "device": float(there[0]), "iterations": len(here)}
    return {**losses, "difference": float(relative[:STEPS].max()), "last": float(relative[-1])}
