"""Make the table of shares of sent changes that plans of MemShare read, from what the benchmark `sent_share` has measured.

    python benchmarks sent_share what=curve --out curves.json
    python tools/sent_curves.py curves.json > src/chronoscale/strategies/streams/spread/sent_curves.yaml

Several files may be given. It needs the streams themselves, whose nodes and events it writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from subjects.sent_share import STREAMS, stream_of

HEAD = """\
# Shares of the changes of shared nodes' memory that pass alpha (MemShare eq. 19): of every epoch, by alpha, a run a seed. Made by
#   python benchmarks sent_share what=curve --out curves.json
#   python tools/sent_curves.py curves.json
# steps: optimiser steps of an epoch. TGN, both clocks, 10 neighbours, k 0.1, theta 0.1, epochs from an untrained model on.
"""


def curve_lines(stream: str, ranks: int, benchmarks: list[dict[str, Any]]) -> list[str]:
    """Return one stream's curve as lines of YAML. benchmarks: entries of the result, one an alpha, as pytest-benchmark has them."""
    batch, width, rate, epochs = STREAMS[stream]
    events = stream_of(stream)
    figures = {entry["extra_info"]["contestant"].removeprefix("alpha "): entry["extra_info"]["figures"] for entry in benchmarks}
    (steps,) = {int(step) for one in figures.values() for step in one["steps"]}
    lines = [
        f"  - stream: {stream}",
        "    model: tgn",
        f"    nodes: {events.num_nodes}",
        f"    events: {len(events)}",
        f"    steps: {steps}",
        f"    settings: {ranks} ranks, batches of {batch}, width {width}, learning rate {rate:g}",
        "    runs:",
    ]
    for seed in range(len(next(iter(figures.values()))["steps"])):
        for place, (alpha, one) in enumerate(figures.items()):
            shares = ", ".join(f"{one[f'epoch {number}'][seed]:.4f}" for number in range(1, epochs + 1))
            lines.append(f"      {' ' if place else '-'} {alpha}: [{shares}]")
    return lines


def main(files: list[str]) -> None:
    """Print the table of all curves in results of the benchmark."""
    print(HEAD + "curves:")
    entries = [entry for file in files for entry in json.loads(Path(file).read_text())["benchmarks"]]
    entries.sort(key=lambda entry: float(entry["extra_info"]["contestant"].removeprefix("alpha ")))
    for stream in dict.fromkeys(entry["params"]["stream"] for entry in entries):
        of = [entry for entry in entries if entry["params"]["stream"] == stream]
        print("\n".join(curve_lines(stream, of[0]["params"]["ranks"], of)))


if __name__ == "__main__":
    main(sys.argv[1:])
