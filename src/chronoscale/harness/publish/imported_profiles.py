"""Traces of torch.profiler, taken as a profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from chronoscale.real_exec.measurement.fit import fit
from chronoscale.real_exec.measurement.profile_samples import copy_samples, fittable_samples, match_rows
from chronoscale.strategies.costs import FittedCosts
from chronoscale.strategies.formats import kineto
from chronoscale.strategies.schedule import Schedule


class ProfiledTraces(NamedTuple):
    """Result of reading torch.profiler's traces, which `chronoscale kineto` prints.

    names: times, a row a name and rank. costs: fitted curves, None where no curve has enough samples. notes: sentences on the samples.
    """

    names: pd.DataFrame
    costs: FittedCosts | None
    notes: list[str]


def read_profiles(paths: Sequence[Path], schedule: Path | None, device: str, out: Path) -> ProfiledTraces:
    """Read traces of torch.profiler, one a rank, and fit cost curves to them, for `chronoscale kineto`.

    schedule: file of what was executed, whose rows are then the samples; None: samples are copies between host and device. device: the name
    that costs get, '' for the GPU's own. Writes to `out` `<name>.parquet`, `<name>-r<repeat>.parquet`, `samples.parquet`, and `costs.json`
    where samples suffice. Raises UserError as `kineto.read` and `profile_samples.match_rows`.
    """
    profiles = [kineto.read(path) for path in paths]
    planned = None if schedule is None else Schedule.load(schedule)
    out.mkdir(parents=True, exist_ok=True)
    frames, sentences = [copy_samples(profiles)] if planned is None else [], []
    for profile in profiles:
        name = profile.path.name.partition(".")[0]
        kineto.as_trace(profile).save(out / f"{name}.parquet")
        if planned is not None:
            joined = match_rows(profile, planned)
            for k, trace in enumerate(joined.traces):
                trace.save(out / f"{name}-r{k}.parquet")
            frames.append(joined.samples)
            repeats = len(joined.traces)
            sentences.append(
                f"{profile.path}: {len(joined.traces[0]):,} rows of rank {profile.rank}, {repeats} repeat{'s' * (repeats > 1)}"
            )
            if joined.missed:
                sentences[-1] += f"; {joined.missed:,} rows not seen as often"
    samples, few = fittable_samples(pd.concat(frames, ignore_index=True))
    if few:
        sentences.append(f"too few samples for a curve: {', '.join(few)}")
    names = pd.concat([kineto.time_by_name(profile).assign(rank=profile.rank) for profile in profiles], ignore_index=True)
    if not len(samples):
        return ProfiledTraces(
            names, None, [*sentences, "no samples for a fit: name the schedule, or profile a program that copies to and from a GPU"]
        )
    samples.to_parquet(out / "samples.parquet")
    costs = fit(samples, device or profiles[0].device or "CPU", {})
    costs.save(out / "costs.json")
    return ProfiledTraces(names, costs, sentences)
