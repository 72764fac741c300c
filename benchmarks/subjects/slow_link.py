"""Over a link of 1 Gb/s and less, FlareDTDG's and MemShare's epochs take less time than those of what they were derived from.

Two machines that are network namespaces, one rank each, their link held to a rate by `tc tbf` (needs root), in one case every packet, of
9000 bytes there, delayed by 1 ms (tests/relay.py): FlareDTDG beside ESDG, which sends the hidden states of all neighbours; MemShare beside
TGL whose memory is spread without sharing. `chronoscale validate` under torchrun executes and replays. `predicted, s`: an epoch as
simulated from what was fitted there. `link, MB/s`: as fitted to messages over it. Each machine has one core of this one, for its rank,
gloo's threads and the network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from core.case import Case, Passes, Setting, Subject

from chronoscale.errors import MachineError
from chronoscale.harness.runs.passes import passes_of, predicted_epoch_ns
from chronoscale.harness.runs.run_folder import Run

TESTS = Path(__file__).parents[2] / "tests"
SNAPSHOTS = {"dataset": "communities_small", "model": {"name": "wd-gcn", "hidden": 64, "inputs": 16}}
EVENTS = {"dataset": "events_small", "model": {"name": "tgn", "hidden": 32}, "training": {"batch_size": 200}}
PAIRS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "flaredtdg": (SNAPSHOTS, ("esdg", "flaredtdg")),
    "memshare": (EVENTS, ("tgl-dist", "memshare")),
}
LINKS = (("1gbit", 0), ("100mbit", 0), ("1gbit", 1))  # rate, and delay in ms


def validated(pair: str, rate: str, delay_s: float, setting: Setting) -> Passes:
    """Execute and replay both strategies of a pair on two machines. delay_s: of every packet, 0: no relay. Raises MachineError where one
    fails.
    """
    sys.path.insert(0, str(TESTS))
    from namespaces import machines  # noqa: PLC0415 (the tests')

    keys, names = PAIRS[pair]
    experiment = {**keys, "strategies": [*names], "ranks": [2], "repeats": setting.repeats, "threads": setting.threads, "device": "cpu"}
    with machines(2, setting.scratch, delay_s or None) as made:
        made.shape(rate)
        made.pin()
        made.home(0).mkdir()
        (made.home(0) / "exp.yaml").write_text(yaml.safe_dump(experiment))
        started = [made.torchrun(node, 1, "validate", "exp.yaml") for node in (0, 1)]
        _wait(started)
    (folder,) = (made.home(0) / "runs").iterdir()
    run = Run(folder)
    costs = json.loads((folder / "ranks-2" / "costs.json").read_text())
    link = {"link, MB/s": costs["pairs"][0]["link"]["bandwidth"] / 1e6}
    predicted = {name: {"predicted, s": (predicted_epoch_ns(run, 2, name) or 0.0) / 1e9} for name in names}
    return {name: [{"seconds": one.trace.span_ns / 1e9} | predicted[name] | link for one in passes_of(run, 2, name)] for name in names}


def _wait(started: list[subprocess.Popen[str]]) -> None:
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise MachineError(" ".join(outputs[0].split())[-500:])


def cases(quick: bool) -> Iterator[Case]:
    """Yield pairs of strategies, with rates and delays of the link."""
    for pair in PAIRS:
        for rate, delay_ms in LINKS[: 1 if quick else None]:
            yield Case({"pair": pair, "link": rate, "delay, ms": delay_ms}, partial(validated, pair, rate, delay_ms / 1e3))


SUBJECT = Subject(cases, repeats=7)
