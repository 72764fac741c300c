"""Speed-ups: REAL over its rivals on the grid (Figures 8, 9, 18, 23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from chronoscale.harness.reproduce import grid, notes
from chronoscale.harness.reproduce.study import UNKNOWN, Findings, Study, Told, row
from chronoscale.reports.dots import dots
from chronoscale.reports.drawing import Drawing
from chronoscale.reports.published import Range, published
from chronoscale.reports.ranges import Span, ranges

RIVALS = ("esdg", "distdgl", "blad")
OURS = ("real-g", "real-g+", "real-l")
EXACT = "real-l"  # the one strategy that is also shown with exact maps
CELL = ["dataset", "model", "layers"]

COPIES = (
    "our rivals load the node features with every snapshot, REAL once a group: the rows with host copies free show what that is worth; "
    "the rest is not established"
)
# Why ours differs from what is printed, by figure and rival.
WHY: Mapping[int, Mapping[str, str]] = {
    8: dict.fromkeys(RIVALS, COPIES),
    9: {
        "distdgl": "over a third of our DistDGL's epoch is network latency (Arxiv†, WD-GCN: 1.48 s, 0.93 s without): an all-to-all takes "
        "31 rounds over the network; the rest is not established"
    },
}


def ratios(frame: pd.DataFrame, fast: str, slow: str, variant: str, layers: int | None, column: str = "epoch_s") -> pd.Series[float]:
    """`column` of `slow` over that of `fast`, for every cell that both reached; index (dataset, model, layers)."""
    ran = frame[frame["status"].eq("ran") if column == "epoch_s" else frame["status"].ne("refused")]
    if layers is not None:
        ran = ran[ran["layers"] == layers]
    of = {
        name: ran[ran["strategy"].eq(name) & (ran["variant"].eq(variant) | ~ran["strategy"].str.startswith("real-"))].set_index(CELL)[
            column
        ]
        for name in (fast, slow)
    }
    return (of[slow] / of[fast]).dropna()


def compare(
    frame: pd.DataFrame, printed: Sequence[Range], why: Mapping[str, str], column: str = "epoch_s", variants: Sequence[str] = grid.VARIANTS
) -> pd.DataFrame:
    """A row a printed range and variant of the difference maps; then rivals that the paper has no range for."""
    rows = []
    extra = [Range(strategy="real-g+", over=r.over, layers=r.layers, gpus=r.gpus, low=1) for r in printed if r.strategy == "real-l"]
    for variant in variants:
        for one in [*printed, *extra]:
            if variant == "exact" and one.strategy != EXACT:
                continue
            found = ratios(frame, one.strategy, one.over, variant, one.layers, column)
            if one in extra and not len(found):
                continue
            depth = f", {one.layers} layer{'s' * (one.layers > 1)}" if one.layers else ""
            reason = why.get(one.over, UNKNOWN) if len(found) else notes.ABSENT
            rows.append(
                row(f"{one.strategy} over {one.over}{depth}, {variant} maps", None if one in extra else one, found.tolist(), reason)
            )
    return pd.DataFrame(rows)


def drawing(rows: pd.DataFrame, name: str, title: str, caption: str, unit: str = "times as fast") -> Drawing:
    """Published above ours."""
    spans = [
        (line["what"], *(Span(*(float(line[f"{whose}_{end}"]) for end in ("low", "mean", "high"))) for whose in ("published", "ours")))
        for line in rows.to_dict("records")
    ]
    return ranges(name, title, caption, unit, spans)


def cells(frame: pd.DataFrame, name: str, title: str, unit: str, base: str, caption: str) -> Drawing:
    """Every cell of the grid, normalised to `base`; a cross where a strategy ran out of memory."""
    shown = frame[(frame["variant"].eq("as-published") | ~frame["strategy"].str.startswith("real-")) & frame["status"].ne("refused")]
    keys = list(dict.fromkeys(zip(shown["dataset"], shown["model"], strict=True)))
    panels: dict[str, dict[str, list[float]]] = {}
    for depth, part in shown.groupby("layers"):
        epochs = part.set_index(["strategy", "dataset", "model"])
        known, lost = epochs["epoch_s"].to_dict(), epochs["status"].eq("out of memory").to_dict()
        panels[f"{depth} layer{'s' * (int(str(depth)) > 1)}"] = {
            strategy: [
                np.inf if lost.get((strategy, *key), False) else known.get((base, *key), np.nan) / known.get((strategy, *key), np.nan)
                for key in keys
            ]
            for strategy in dict.fromkeys(part["strategy"])
        }
    return dots(name, title, caption, unit, [f"{dataset}, {model}" for dataset, model in keys], panels)


def run(
    number: int, layers: tuple[int, ...], cluster: str, gpus: tuple[int, ...], datasets: tuple[str, ...], told: Told, quick: bool
) -> Findings:
    """Epochs of all strategies on the grid, replayed; the figure's ranges from them."""
    printed = published("real").figures[number]
    wanted = ("psg", *RIVALS, *OURS)
    frames = [grid.frame(grid.both(wanted, EXACT, quick, layers, cluster, count, datasets), told) for count in gpus]
    frame = pd.concat(frames, ignore_index=True)
    main, why = frames[0], WHY.get(number, {})
    rows = compare(main, printed.ranges, why)
    if number == 8:
        free = grid.frame(
            grid.points((*RIVALS, EXACT), quick, layers, cluster, gpus[0], datasets, variants=("as-published",), copies=False), told
        )
        more = compare(free, [one for one in printed.ranges if one.strategy == EXACT], why, variants=("as-published",))
        rows = pd.concat([rows, more.assign(what=more["what"] + ", host copies free")], ignore_index=True)
    for count, other in zip(gpus[1:], frames[1:], strict=True):
        more = compare(other, [Range(strategy="real-l", over=rival, low=1) for rival in RIVALS], why, variants=("as-published",))
        more[["published_low", "ratio"]] = np.nan
        rows = pd.concat([rows, more.assign(what=more["what"] + f", {count} GPUs")], ignore_index=True)
    base = "esdg" if (main["strategy"].eq("esdg") & main["status"].eq("ran")).any() else "psg"
    said = f"Simulated on {cluster}, {gpus[0]} GPUs, durations specified (datasheet roofline); generated stand-ins of Table 3."
    drawn = (
        drawing(rows, f"real-figure-{number}-ranges", printed.title, f"Speed-ups over the grid, published above ours. {said}"),
        cells(
            main, f"real-figure-{number}-cells", printed.title, f"times as fast as {base}", base, f"As-published difference maps. {said}"
        ),
    )
    return Findings(rows, drawn, {"points": frame}, notes.of(frame, wanted, quick))


def study(number: int, lasts_s: float, layers: tuple[int, ...], cluster: str, gpus: tuple[int, ...], datasets: tuple[str, ...]) -> Study:
    return Study("figure", number, "simulated", lasts_s, partial(run, number, layers, cluster, gpus, datasets))


STUDIES = (
    study(8, 120, (1, 2), "h200", (8,), grid.DATASETS),
    study(9, 60, (1, 2), "h200", (32,), ("arxiv_300", "products_300")),
    study(18, 150, (1, 2), "h20", (8, 16), grid.DATASETS),
    study(23, 60, (3,), "h200", (8,), grid.DATASETS),
)
